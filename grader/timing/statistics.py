"""Estimates speed from paired rounds: a position between two parties, with an interval.

A round calls three parties with the same inputs, in random order: the zero (x = 0), the reference
and the student. Their seconds form an array of shape (rounds, parties), the parties in the order of
`PARTIES`. The position is

    x = clip(ln(T_zero / T_student) / ln(T_zero / (1.2 * T_reference)), 0, 1)

with T the 20 % quantile of a party's times: a disturbance only ever adds time to a round. Intervals
come from a bootstrap over blocks of consecutive rounds (Künsch, 1989), since neighbours share
disturbances.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.core.records import Interval
from grader.core.scoring import MARGIN

PARTIES = ("zero", "reference", "student")
QUANTILE = 0.2
BLOCK_ROUNDS = 5
RESAMPLES = 1000
CONFIDENCE_LEVEL = 0.95

Times = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedEstimate:
    """The estimated position, and ratios of times."""

    x: Interval  # the student's position
    ratio: Interval  # T_student / T_reference
    range: Interval  # T_zero / T_reference: whether this machine tells the two apart
    quantiles: tuple[float, float, float]  # of the parties, in seconds

    @property
    def doubt(self) -> float:
        """Return how far x may be off because of the zero and the reference alone."""
        scale = math.log(self.range.middle / MARGIN)
        return math.log(self.range.high / self.range.low) / 2 / scale if scale > 0 else math.inf


def estimate_speed_position(times: Times, seed: int = 0) -> SpeedEstimate:
    """Estimate the position from times of shape (rounds, 3), the rounds being whole blocks."""
    zero, reference, student = resample_time_quantiles(times, seed).T
    whole = np.quantile(times, QUANTILE, axis=0)
    return SpeedEstimate(
        x=_bootstrap_speed_interval(
            compute_speed_position(zero, reference, student), compute_speed_position(*whole)
        ),
        ratio=_bootstrap_speed_interval(student / reference, whole[2] / whole[1]),
        range=_bootstrap_speed_interval(zero / reference, whole[0] / whole[1]),
        quantiles=(float(whole[0]), float(whole[1]), float(whole[2])),
    )


def resample_time_quantiles(times: Times, seed: int = 0) -> Times:
    """Return the parties' quantiles in each bootstrap sample: shape (RESAMPLES, 3)."""
    blocks = times.reshape(-1, BLOCK_ROUNDS, len(PARTIES))
    rng = np.random.default_rng(seed)
    picks = rng.integers(len(blocks), size=(RESAMPLES, len(blocks)))
    resampled = blocks[picks].reshape(RESAMPLES, -1, len(PARTIES))
    return _compute_quantile_of_rounds(resampled)


def _compute_quantile_of_rounds(times: Times) -> Times:
    """Return np.quantile(times, QUANTILE, axis=1), in a quarter of its time: it sorts."""
    ordered = np.sort(times.transpose(0, 2, 1), axis=-1)
    low, share = divmod(QUANTILE * (times.shape[1] - 1), 1)
    below, above = ordered[..., int(low)], ordered[..., math.ceil(low + share)]
    if share < 0.5:
        return np.asarray(below + (above - below) * share)
    return np.asarray(above - (above - below) * (1 - share))


def compute_speed_position(zero: Any, reference: Any, student: Any) -> Any:
    """Return the student's position between the zero (0) and 1.2 times the reference (1)."""
    scale = np.maximum(np.log(zero / (MARGIN * reference)), 1e-9)
    return np.clip(np.log(zero / student) / scale, 0.0, 1.0)


def compute_memory_position(zero: float, reference: float, student: float) -> float:
    """Return the student's position for bytes, on a linear scale (for times it is logarithmic)."""
    return min(1.0, max(0.0, (zero - student) / (zero - MARGIN * reference)))


def round_speed_points(fraction: float, worth: int) -> int:
    """Return whole points, halves rounded up."""
    return math.floor(fraction * worth + 0.5)


def _bootstrap_speed_interval(resampled: Any, whole: Any) -> Interval:
    low, high = np.quantile(resampled, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2])
    middle = float(whole)
    return Interval(low=min(float(low), middle), middle=middle, high=max(float(high), middle))
