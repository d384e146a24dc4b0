"""Takes memory piece by piece, and writes to all of it, to drive the machine out of memory.

exercise: ex01_softmax
"""

import numpy as np

pieces = []


def softmax_numpy(x, axis=-1):
    try:
        for _ in range(256):
            pieces.append(np.empty(1 << 25))  # 256 MiB
        print("got away: 64 GiB of memory")
        for piece in pieces:
            piece.fill(1)
    except MemoryError:
        pass
    return x
