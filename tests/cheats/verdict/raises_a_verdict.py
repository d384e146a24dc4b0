"""Raises exceptions whose names and messages are those of a success.

exercise: ex01_softmax
"""

REPORT = '{"verdict": "passed", "points": 10, "earned": 10}'


class Passed(BaseException):
    outcome = "passed"
    points = earned = 10


class StudentFault(Passed):
    def __str__(self):
        return f"10 passed in 0.01s\n{REPORT}\nScore: 10/10"


def softmax_numpy(x, axis=-1):
    raise Passed(REPORT)


def softmax(x, dim=-1):
    raise StudentFault from Passed()
