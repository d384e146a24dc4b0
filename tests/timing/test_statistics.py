"""What rounds say: positions and points by hand, and how sure one may be of them."""

from functools import partial

import numpy as np
import pytest

from grader.timing import statistics
from grader.timing.statistics import (
    BLOCK_ROUNDS,
    compute_memory_position,
    compute_speed_position,
    estimate_speed_position,
    round_speed_points,
)
from tests.timing.rounds import POSITION, TYPICAL, rounds


@pytest.mark.parametrize(
    "student, x",
    [
        (8.0, 0.0),  # the zero itself
        (100.0, 0.0),  # slower than it
        (1.2, 1.0),  # 1.2 times the reference
        (1.0, 1.0),  # the reference itself
        (0.1, 1.0),  # faster than it
        ((8.0 * 1.2) ** 0.5, 0.5),  # half the way, in factors
        (2.0, 1.386294 / 1.897120),  # ln(4) / ln(8 / 1.2)
    ],
)
def test_a_position_lies_between_the_zero_and_1_2_times_the_reference(student, x):
    assert compute_speed_position(8.0, 1.0, student) == pytest.approx(x, abs=1e-6)


@pytest.mark.parametrize(
    "student, x", [(260, 0.0), (300, 0.0), (12, 1.0), (10, 1.0), (1, 1.0), (136, 0.5), (198, 0.25)]
)
def test_a_position_of_bytes_is_one_of_differences(student, x):
    assert compute_memory_position(260, 10, student) == pytest.approx(x)


@pytest.mark.parametrize("zero", [1.2, 1.0, 0.1])
def test_a_position_is_one_also_where_the_zero_is_no_slower(zero):
    assert 0 <= compute_speed_position(zero, 1.0, 1.1) <= 1


@pytest.mark.parametrize(
    "fraction, worth, whole",
    [
        *[(0.0, 3, 0), (0.16, 3, 0), (0.17, 3, 1), (0.49, 3, 1), (0.5, 3, 2), (0.83, 3, 2)],
        *[(0.84, 3, 3), (1.0, 3, 3), (0.24, 2, 0), (0.25, 2, 1), (0.5, 1, 1), (0.5, 5, 3)],
    ],
)
def test_points_are_whole_and_halves_are_rounded_up(fraction, worth, whole):
    assert round_speed_points(fraction, worth) == whole


def test_the_typical_times_are_those_of_the_undisturbed_rounds():
    times = np.tile(TYPICAL, (20, 1))
    times[::4] *= 10  # a disturbance that all three share ...
    times[1::4, 2] *= 10  # ... and one that only the student meets
    found = estimate_speed_position(times)
    assert found.quantiles == pytest.approx(TYPICAL)
    assert found.ratio.middle == pytest.approx(2.0)
    assert found.range.middle == pytest.approx(8.0)
    assert found.x.middle == pytest.approx(POSITION)


def test_a_fifth_of_the_rounds_is_enough():
    times = np.tile(TYPICAL, (20, 1))
    times[5:] *= 10
    assert estimate_speed_position(times).quantiles == pytest.approx(TYPICAL)
    times[3:] *= 10
    assert estimate_speed_position(times).quantiles[0] > 2 * TYPICAL[0]


def test_the_middle_is_that_of_all_rounds_and_lies_in_its_interval():
    found = estimate_speed_position(rounds(60))
    for interval in (found.x, found.ratio, found.range):
        assert interval.low <= interval.middle <= interval.high
        assert interval.low < interval.high
    assert found.x.middle == compute_speed_position(*found.quantiles)
    assert found.ratio.middle == found.quantiles[2] / found.quantiles[1]


def _covers(interval, truth: float) -> bool:
    return bool(interval.low <= truth <= interval.high)


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    found = [
        estimate_speed_position(rounds(120, seed=seed, noise=(0.1, 0.1, 0.1)), seed=seed)
        for seed in range(100)
    ]
    assert sum(_covers(f.x, POSITION) for f in found) >= 88
    assert sum(_covers(f.ratio, TYPICAL[2] / TYPICAL[1]) for f in found) >= 88
    assert sum(_covers(f.range, TYPICAL[0] / TYPICAL[1]) for f in found) >= 88


def _width(times) -> float:
    return estimate_speed_position(times).ratio.half_width


def test_an_interval_is_no_wider_than_it_must_be():
    few, many = (
        np.mean([_width(rounds(count, seed=seed)) for seed in range(10)]) for count in (40, 640)
    )
    assert 2.5 < few / many < 6.5  # the square root of 16, more or less


def _in_spells(seed: int, *, shuffled: bool) -> np.ndarray:
    """The student is disturbed in two of three spells, each of two blocks."""
    times = rounds(120, seed=seed)
    spell = np.arange(120) // (2 * BLOCK_ROUNDS) % 3 > 0
    if shuffled:
        spell = np.random.default_rng(seed).permutation(spell)
    times[:, 2] *= 1 + 0.3 * spell
    return times


def test_a_disturbance_that_lasts_makes_an_interval_wider_than_one_that_does_not():
    in_spells, at_random = (
        np.mean([_width(_in_spells(seed, shuffled=shuffled)) for seed in range(10)])
        for shuffled in (False, True)
    )
    assert in_spells > 2 * at_random


def test_what_the_student_does_raises_no_doubt():
    quiet = rounds(60)
    noisy = quiet.copy()
    noisy[:, 2] *= 1 + 5 * np.random.default_rng(1).random(60)
    assert (
        estimate_speed_position(noisy).x.half_width
        > 10 * estimate_speed_position(quiet).x.half_width
    )
    assert estimate_speed_position(noisy).doubt == estimate_speed_position(quiet).doubt


@pytest.mark.parametrize("noise", [(0.3, 0.01, 0.01), (0.01, 0.3, 0.01)], ids=["zero", "reference"])
def test_what_the_zero_and_the_reference_do_raises_doubt(noise):
    assert (
        estimate_speed_position(rounds(60, noise=noise)).doubt
        > 3 * estimate_speed_position(rounds(60)).doubt
    )


def test_doubt_is_about_half_the_width_of_x_near_the_reference():
    near = 8.0 * (1.2 / 8.0) ** 0.9  # x = 0.9
    found = estimate_speed_position(rounds(120, noise=(0.0, 0.1, 0.0), typical=(8.0, 1.0, near)))
    assert found.x.half_width == pytest.approx(0.9 * found.doubt, rel=0.1)


def test_parties_that_cannot_be_told_apart_leave_nothing_but_doubt():
    assert estimate_speed_position(rounds(60, typical=(1.1, 1.0, 1.0))).doubt == np.inf


def test_the_same_rounds_say_the_same():
    say = partial(estimate_speed_position, rounds(60))
    assert say() == say()
    assert say(seed=1) != say(seed=2)


def test_quantiles_of_rounds_are_numpys_to_the_last_bit():
    rng = np.random.default_rng(0)
    for count in range(1, 130):
        times = rng.lognormal(size=(7, count, 3))
        found = statistics._compute_quantile_of_rounds(times)
        assert np.array_equal(found, np.quantile(times, statistics.QUANTILE, axis=1))
