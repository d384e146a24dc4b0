"""What rounds are worth: scored, inconclusive, not run, failed; and how many sets are run."""

import numpy as np
import pytest

from grader.core.errors import GraderFault
from grader.core.scoring import sum_score_points
from grader.judging.case import StudentFault
from grader.timing.contest import Disturbed
from grader.timing.speed import (
    CERTAIN_HALF_WIDTH,
    MAX_SETS,
    MIN_SETS,
    STEADY_HALF_WIDTH,
    measure_speed,
)
from grader.timing.statistics import compute_memory_position, round_speed_points
from grader.worker.parent.faults import AnswerTimedOut
from tests.timing.contests import made_up
from tests.timing.rounds import POSITION, TYPICAL, rounds


def sets(seed: int = 0, **more):
    """Sets of 40 rounds that differ from each other."""
    return lambda number: rounds(40, seed=100 * seed + number, **more)


def sleeping(share: float, seconds: float):
    """The student sleeps in a share of the rounds, for as long on average."""

    def one_set(number):
        times = sets()(number)
        rng = np.random.default_rng(number)
        times[:, 2] += (rng.random(40) < share) * rng.exponential(seconds, size=40)
        return times

    return one_set


def test_a_narrow_position_is_scored_at_the_end_that_favours_the_student():
    speed = measure_speed(made_up(sets(noise=(0.05, 0.05, 0.05))))
    x = speed.measured.position
    assert (speed.verdict, speed.why, speed.counts) == ("scored", "", True)
    assert x.middle < x.high
    assert speed.fraction == x.high
    assert speed.earned == round_speed_points(x.high, 100)


def test_what_was_measured_is_told():
    contest = made_up(sets())
    measured = measure_speed(contest).measured
    assert measured.unit == "s"
    assert measured.typical == pytest.approx(TYPICAL, rel=0.01)
    assert measured.position.middle == pytest.approx(POSITION, abs=0.01)
    assert measured.ratio.middle == pytest.approx(2.0, rel=0.01)
    assert measured.rounds == contest.rounds
    assert len(measured.rounds) == 40 * MIN_SETS


@pytest.mark.parametrize("share", [0.1, 0.5, 0.78, 0.82, 0.95, 1.0])
@pytest.mark.parametrize("seconds", [0.1, 2.0, 20.0])
def test_who_sleeps_at_random_is_scored_and_gains_nothing(share, seconds):
    awake, asleep = measure_speed(made_up(sets())), measure_speed(made_up(sleeping(share, seconds)))
    assert asleep.verdict == "scored"
    assert asleep.fraction <= awake.fraction + 0.005
    assert asleep.earned <= awake.earned


def test_a_position_that_is_wide_for_the_student_alone_is_scored_at_its_middle():
    contest = made_up(sleeping(0.8, 10.0))
    speed = measure_speed(contest)
    x = speed.measured.position
    assert x.half_width > CERTAIN_HALF_WIDTH
    assert speed.fraction == x.middle < x.high
    assert speed.earned == round_speed_points(x.middle, 100)
    assert contest.sets == MAX_SETS


@pytest.mark.parametrize("noise", [(90.0, 0.0, 0.0), (0.0, 3.0, 0.0)], ids=["zero", "reference"])
def test_a_machine_that_is_too_busy_costs_nothing(noise):
    contest = made_up(sets(noise=noise, typical=(8.0, 1.0, 3.0)))
    speed = measure_speed(contest)
    assert speed.verdict == "inconclusive"
    assert speed.why == "the machine was too busy to time the grader's own two: try again"
    assert (speed.earned, speed.fraction, speed.counts) == (0, None, False)
    assert speed.measured is not None
    total = sum_score_points((), speed)
    assert (total.earned, total.possible, total.not_run) == (0, 0, 100)
    assert contest.sets == MAX_SETS


def test_a_zero_that_cannot_be_told_from_the_reference_costs_nothing():
    contest = made_up(sets(typical=(1.15, 1.0, 1.1)))
    speed = measure_speed(contest)
    assert (speed.verdict, speed.earned, speed.counts) == ("not_run", 0, False)
    assert speed.why == (
        "this machine cannot tell them apart: the zero takes 1.15 times as long as the reference"
    )
    assert sum_score_points((), speed).possible == 0
    assert contest.sets == 1  # more of it would not help


@pytest.mark.parametrize("work, verdict", [(1.05, "scored"), (1.2, "failed")])
def test_nobody_is_faster_than_a_matrix_product(work, verdict):
    speed = measure_speed(made_up(sets(noise=(0.01, 0.01, 0.0)), work=work * 2.0 * 1e9))
    assert speed.verdict == verdict
    if verdict == "failed":
        assert speed.why == "faster than physics: 1 GFLOP/s, where a matrix product reaches 1"
        assert (speed.earned, speed.fraction, speed.counts) == (0, None, True)


@pytest.mark.parametrize(
    "student, why",
    [
        (1 / 1.4, ""),
        (1 / 2.0, "2.0 times faster than the reference: worth a look"),
    ],
)
def test_who_is_faster_than_the_reference_by_far_is_worth_a_look(student, why):
    speed = measure_speed(made_up(sets(typical=(8.0, 1.0, student))))
    assert (speed.verdict, speed.earned, speed.why) == ("scored", 100, why)


def test_three_sets_are_run_where_they_say_enough():
    contest = made_up(sets())
    measure_speed(contest)
    assert contest.tries == [False] * MIN_SETS


def test_sets_are_added_until_they_say_enough():
    def one_set(number):
        """Disturbed at first, and then no more."""
        return rounds(
            40 if number < MIN_SETS else 400,
            seed=number,
            noise=(0.01, 0.01, 3.0 * (number < MIN_SETS)),
        )

    contest = made_up(one_set)
    assert measure_speed(contest).measured.position.half_width <= STEADY_HALF_WIDTH
    assert contest.tries == [False] * (MIN_SETS + 1)


@pytest.mark.parametrize("slower", [1.5, 4.0])
def test_who_is_slower_than_the_zero_by_far_is_not_waited_for(slower):
    contest = made_up(sets(typical=(8.0, 1.0, 8.0 * slower)))
    speed = measure_speed(contest)
    assert (speed.verdict, speed.earned, speed.fraction) == ("scored", 0, 0.0)
    assert contest.sets == 1


@pytest.mark.parametrize("slower", [1.5, 2.5])
def test_who_is_slower_than_the_zero_earns_nothing_on_a_machine_that_is_somewhat_busy(slower):
    speed = measure_speed(made_up(sets(noise=(0.15, 0.15, 0.01), typical=(8.0, 4.0, 8.0 * slower))))
    assert (speed.verdict, speed.earned) == ("scored", 0)


def test_what_was_disturbed_is_measured_again_from_the_start():
    whole, killed = sets(), iter([False, False, True])

    def one_set(number):
        if next(killed, False):
            raise Disturbed
        return whole(number)

    contest = made_up(one_set)
    speed = measure_speed(contest)
    assert speed.verdict == "scored"
    assert len(speed.measured.rounds) == 40 * MIN_SETS  # none of the two sets before the kill
    assert contest.tries == [False] * 3 + [True] * MIN_SETS


@pytest.mark.parametrize(
    "error, why",
    [
        (StudentFault("out[0] is 1, but should be 2"), "out[0] is 1, but should be 2"),
        (AnswerTimedOut("no answer within 10 s"), "While it was timed, no answer within 10 s."),
    ],
)
def test_a_wrong_or_missing_answer_earns_nothing(error, why):
    def one_set(number):
        if number == 1:
            raise error
        return sets()(number)

    speed = measure_speed(made_up(one_set))
    assert (speed.verdict, speed.why, speed.earned, speed.counts) == ("failed", why, 0, True)
    assert speed.measured is None


def test_a_fault_of_ours_is_no_verdict():
    def one_set(number):
        raise GraderFault("the zero of ex05_causal_mask: out[0] is 1")

    with pytest.raises(GraderFault):
        measure_speed(made_up(one_set))


def test_where_points_are_earned_on_cuda_only_nothing_is_timed_on_the_cpu():
    contest = made_up(sets(), cuda=True)
    speed = measure_speed(contest)
    assert (speed.verdict, speed.why, speed.earned) == ("not_run", "needs CUDA", 0)
    assert not speed.counts
    assert contest.sets == 0


def test_progress_stays_between_nothing_and_all():
    shares: list[float] = []
    measure_speed(made_up(sleeping(0.8, 10.0)), shares.append)
    assert len(shares) == MAX_SETS + 1
    assert shares[-1] == 1
    assert all(0 <= share <= 1 for share in shares)


def bytes_of(*students: float, zero: float = 260.0, reference: float = 10.0):
    return lambda number: [[zero, reference, students[number % len(students)]]]


def test_memory_is_scored_at_the_middle_one_of_three_fresh_processes():
    contest = made_up(bytes_of(136, 12, 400), measures="memory")
    speed = measure_speed(contest)
    assert (speed.verdict, speed.fraction, speed.earned) == ("scored", 0.5, 50)
    m = speed.measured
    assert (m.unit, m.typical) == ("bytes", (260.0, 10.0, 136.0))
    assert (m.position.low, m.position.middle, m.position.high) == (0.0, 0.5, 1.0)
    assert (m.ratio.low, m.ratio.middle, m.ratio.high) == (1.2, 13.6, 40.0)
    assert contest.sets == 3


@pytest.mark.parametrize("student, number", [(12, 1), (100, 1), (250, 1), (135, 3), (140, 3)])
def test_one_process_shows_memory_that_is_far_from_the_border_of_points(student, number):
    contest = made_up(bytes_of(student), measures="memory", points=1)
    whole = round_speed_points(compute_memory_position(260, 10, student), 1)
    assert (measure_speed(contest).earned, contest.sets) == (whole, number)


def test_memory_that_cannot_be_told_apart_costs_nothing():
    speed = measure_speed(made_up(bytes_of(10, zero=14.0), measures="memory"))
    assert (speed.verdict, speed.counts) == ("not_run", False)
    assert speed.why == "this machine cannot tell the zero from the reference"


def test_memory_is_not_measured_where_the_system_does_not_tell(monkeypatch):
    contest = made_up(bytes_of(10), measures="memory")
    monkeypatch.setattr("sys.platform", "darwin")
    speed = measure_speed(contest)
    assert (speed.verdict, speed.why) == ("not_run", "peak memory is read on Linux only")
    assert contest.sets == 0
