"""Calls itself without end, after raising the interpreter's limit, until memory runs out.

exercise: ex01_softmax
"""

import sys

sys.setrecursionlimit(2**31 - 1)


def softmax_numpy(x, axis=-1):
    return softmax_numpy(x, axis)
