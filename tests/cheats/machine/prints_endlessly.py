"""Prints without end, through Python and past it, to fill the disk or the log.

exercise: ex01_softmax
call_seconds: 2
"""

import os
import sys

LINE = "all checks passed\n" * 10_000


def softmax_numpy(x, axis=-1):
    while True:
        print(LINE)
        try:
            os.write(1, LINE.encode())
            sys.__stderr__.write(LINE)
        except (OSError, AttributeError):
            pass
