"""Decides when rounds are enough: as soon as more of them would not change the points.

The rounds are looked at after every `LOOK_ROUNDS`. A look computes an interval for x and for the
ratio of the zero's time to the reference's, and the rounds end when all values in these intervals
give the same verdict. Many looks have many chances of an error, so all looks share one
(`ERROR_CHANCE`): up to round n of N, at most n/N of it is spent. This is alpha spending with the
uniform function (Lan and DeMets, Biometrika 70, 1983); the chances of single looks are added, which
errs on the safe side.

Rounds of one set of processes share that set's luck, for instance where its memory lies. Their
times cannot show this luck, so every interval is widened by it (`LUCK_OF_SETS`, measured by
`make bench-stopping`).
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from grader.core.scoring import MARGIN
from grader.timing.statistics import (
    BLOCK_ROUNDS,
    QUANTILE,
    Times,
    resample_time_quantiles,
    round_speed_points,
)

LOOK_ROUNDS = 20
ERROR_CHANCE = 0.01  # of a verdict that all rounds would not have given
LUCK_OF_SETS = 0.02  # standard deviation of the logarithm of a party's time from set to set
MEMORY_HALF_WIDTH = 0.05  # of x, by which peaks of fresh processes may differ


@dataclass(slots=True, kw_only=True)
class StoppingRule:
    """Decides after how many rounds of one contest the points are settled."""

    points: int
    min_ratio: float  # of the zero's time to the reference's, from which the two are told apart
    max_rounds: int
    looked: int = 0  # rounds that the last look saw
    settled: bool = False

    def settles(self, times: Times, sets: int) -> bool:
        """Return whether times of shape (rounds, 3) from so many sets settle the points.

        The answer is no until `LOOK_ROUNDS` rounds have been added since the last look.
        """
        self.settled = self._looks_settled(times, sets)
        return self.settled

    def _looks_settled(self, times: Times, sets: int) -> bool:
        fresh = len(times) - self.looked
        if fresh < LOOK_ROUNDS or len(times) % BLOCK_ROUNDS:
            return False
        self.looked = len(times)
        chance = ERROR_CHANCE * min(1.0, fresh / self.max_rounds)
        low, high = _bound_timing_ratio(times, chance / 2, sets)
        if high < self.min_ratio:
            return True
        if low < self.min_ratio:
            return False
        ends = _bound_timing_position(times, chance / 2, sets)
        return len({round_speed_points(x, self.points) for x in ends}) == 1


def can_stop_memory_timing(fraction: float, points: int) -> bool:
    """Return whether x + `MEMORY_HALF_WIDTH` and x - `MEMORY_HALF_WIDTH` give the same points."""
    ends = fraction - MEMORY_HALF_WIDTH, fraction + MEMORY_HALF_WIDTH
    return len({round_speed_points(min(1.0, max(0.0, x)), points) for x in ends}) == 1


def _bound_timing_ratio(times: Times, chance: float, sets: int) -> tuple[float, float]:
    """Return an interval for the zero's time over the reference's, with the same chance."""
    logs = np.log(resample_time_quantiles(times)[:, :2]) @ [1, -1]
    zero, reference, _ = np.quantile(times, QUANTILE, axis=0)
    half = _compute_timing_half_width(logs, chance, len(times), LUCK_OF_SETS * math.sqrt(2 / sets))
    middle = math.log(zero / reference)
    return math.exp(middle - half), math.exp(middle + half)


def _bound_timing_position(times: Times, chance: float, sets: int) -> tuple[float, float]:
    """Return an interval for x, which misses on either side with this chance."""
    zero, reference, student = np.quantile(times, QUANTILE, axis=0)
    scale = math.log(zero / (MARGIN * reference))
    middle = math.log(zero / student) / scale
    logs = np.log(resample_time_quantiles(times))
    resampled = (logs[:, 0] - logs[:, 2]) / (logs[:, 0] - logs[:, 1] - math.log(MARGIN))
    # How x moves with the logarithm of each party's time: (1 - x), x and 1 over the scale.
    luck = LUCK_OF_SETS * math.hypot(1 - middle, middle, 1) / scale / math.sqrt(sets)
    half = _compute_timing_half_width(resampled, chance, len(times), luck)
    return min(1.0, max(0.0, middle - half)), min(1.0, max(0.0, middle + half))


def _compute_timing_half_width(resampled: Times, chance: float, rounds: int, luck: float) -> float:
    """Return half the width of an interval that misses on either side with this chance."""
    blocks = rounds // BLOCK_ROUNDS
    deviation = float(np.std(resampled)) * math.sqrt(blocks / (blocks - 1))
    drawn = _compute_student_t_quantile(chance, blocks - 1) * deviation
    return math.hypot(drawn, NormalDist().inv_cdf(1 - chance) * luck)


def _compute_student_t_quantile(chance: float, degrees: int) -> float:
    """Return the value that Student's t exceeds with the probability `chance`.

    t is sqrt(degrees) * tan(a), for an angle a of density proportional to cos(a) ** (degrees - 1).
    """
    angles = np.linspace(0, math.pi / 2, 20_001)
    tails = np.cumsum(np.cos(angles[::-1]) ** (degrees - 1))
    angle = np.interp(chance, tails / tails[-1] / 2, angles[::-1])
    return math.sqrt(degrees) * math.tan(angle)
