"""Reads memory that it does not have: a segmentation fault.

exercise: ex01_softmax
"""

import numpy as np


def softmax_numpy(x, axis=-1):
    return np.lib.stride_tricks.as_strided(x, (1 << 20,), (1 << 40,)).copy()
