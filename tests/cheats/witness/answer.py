"""The right answer to the witness's exercise."""


def twice_numpy(x):
    return 2 * x


def twice(x, times=2):
    if times == 0:
        raise ValueError(f"times is {times}")
    return times * x
