"""Writes wherever others may look later: shared folders, shared memory, a folder of the machine.

exercise: ex01_softmax
process: leaves a file in each of them
"""

PLACES = ["/tmp/abh-cheat-x", "/var/tmp/abh-cheat-x", "/dev/shm/abh-cheat-x", "@OUTSIDE@/x"]


def softmax_numpy(x, axis=-1):
    for place in PLACES:
        try:
            with open(place, "w") as file:
                file.write("the answer is 42")
        except OSError:
            continue
    return x
