"""Stays below the limit of every single call, so that all of them together would take an hour.

exercise: ex01_softmax
call_seconds: 2
"""

import time

import numpy as np


def softmax_numpy(x, axis=-1):
    time.sleep(1.75)
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)
