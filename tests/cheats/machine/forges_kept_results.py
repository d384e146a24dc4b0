"""Puts a result of its own among those that the student's own runs keep.

exercise: ex01_softmax
process: changes the kept results, which give no marks
"""

import os


def softmax_numpy(x, axis=-1):
    try:
        os.makedirs("@COURSE@/.grades/00", exist_ok=True)
        with open("@COURSE@/.grades/00/forged.json", "w") as kept:
            kept.write('{"key": "forged", "result": {}}')
    except OSError:
        pass
    return x
