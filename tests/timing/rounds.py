"""Rounds that nobody ran, as a contest would have recorded them."""

import numpy as np

TYPICAL = (8.0, 1.0, 2.0)  # seconds of the zero, the reference and the student
POSITION = np.log(8 / 2) / np.log(8 / 1.2)  # of that student


def rounds(count: int = 60, *, seed: int = 0, typical=TYPICAL, noise=(0.01, 0.01, 0.01)):
    """Times of shape (count, 3). What disturbs a round makes it longer: by `noise` on average."""
    rng = np.random.default_rng(seed)
    return np.array(typical) * (1 + np.array(noise) * rng.exponential(size=(count, 3)))


def as_rows(times) -> list[dict[str, float]]:
    """The same as a race records it."""
    return [
        dict(zip(("zero", "reference", "student"), map(float, row), strict=True)) for row in times
    ]
