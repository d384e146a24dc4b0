"""Never answers: loops in its first call, to hold the grading run up for ever.

exercise: ex01_softmax
call_seconds: 1
"""


def softmax_numpy(x, axis=-1):
    while True:
        pass
