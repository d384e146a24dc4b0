"""Timing ends when more rounds would not change the points, and not before."""

import numpy as np
import pytest

from grader.core.scoring import MARGIN
from grader.timing.speed import MIN_SETS, measure_speed
from grader.timing.statistics import round_speed_points
from grader.timing.stopping import LOOK_ROUNDS, LUCK_OF_SETS, _compute_student_t_quantile
from tests.timing.contests import made_up
from tests.timing.rounds import rounds

ZERO, REFERENCE = 8.0, 1.0


def graded(x: float, *, points: int, noise: float = 0.02, seed: int = 0, stops: bool = True):
    """Grade an answer at x, whose sets have a luck of their own; return also the rounds."""

    def one_set(number):
        luck = np.random.default_rng((seed, number)).normal(scale=LUCK_OF_SETS, size=3)
        student = ZERO * (MARGIN * REFERENCE / ZERO) ** x
        made = rounds(
            40, seed=1000 * seed + number, typical=(ZERO, REFERENCE, student), noise=(noise,) * 3
        )
        return made * np.exp(luck)

    contest = made_up(one_set, points=points, stops=stops)
    return measure_speed(contest), len(contest.rows)


@pytest.mark.parametrize(
    "chance, degrees, value",
    [
        (0.025, 3, 3.182),
        (0.0005, 3, 12.924),
        (0.025, 10, 2.228),
        (0.0005, 23, 3.768),
        (0.025, 120, 1.980),
    ],
)
def test_the_quantiles_are_those_of_any_table_of_t(chance, degrees, value):
    assert _compute_student_t_quantile(chance, degrees) == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize("x", [-0.2, 0.0, 0.5, 1.0, 1.1])
def test_what_lies_far_from_a_border_ends_at_the_first_look(x):
    speed, seen = graded(x, points=2)
    assert (speed.verdict, speed.earned) == ("scored", round_speed_points(min(1, max(0, x)), 2))
    assert seen == LOOK_ROUNDS


@pytest.mark.parametrize("x", [0.25, 0.75])
def test_what_lies_at_a_border_runs_on(x):
    assert graded(x, points=2)[1] >= 40 * MIN_SETS


@pytest.mark.parametrize("noise", [0.02, 0.3], ids=["quiet", "busy"])
def test_points_are_those_of_all_rounds(noise):
    alike = saved = 0
    for seed, x in enumerate(np.linspace(0, 1, 200)):
        (early, few), (late, many) = (
            graded(x, points=2, noise=noise, seed=seed, stops=stops) for stops in (True, False)
        )
        alike += (early.verdict, early.earned) == (late.verdict, late.earned)
        saved += many - few
    assert alike >= 199
    assert saved > 200 * LOOK_ROUNDS


def test_a_zero_that_is_perhaps_too_near_is_looked_at_for_longer():
    def near(ratio):
        contest = made_up(lambda n: rounds(40, seed=n, typical=(ratio, 1.0, 0.9)), points=2)
        return measure_speed(contest).verdict, len(contest.rows)

    assert near(1.2) == ("not_run", LOOK_ROUNDS)
    assert near(1.8) == ("scored", LOOK_ROUNDS)
    assert near(1.5)[1] >= 40 * MIN_SETS


def test_what_may_be_faster_than_physics_is_measured_in_full():
    contest = made_up(lambda n: rounds(40, seed=n), work=2.4e9, points=2)
    assert measure_speed(contest).verdict == "failed"
    assert contest.sets == MIN_SETS
