"""Matches a regular expression that takes longer than the universe, inside C, where no signal
handler of Python's runs.

exercise: ex01_softmax
call_seconds: 1
"""

import re


def softmax_numpy(x, axis=-1):
    re.fullmatch("(a+)+b", "a" * 80)
    return x
