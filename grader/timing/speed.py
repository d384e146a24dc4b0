"""Judges the rounds of a contest: the verdict on an exercise's speed.

The contest ends as soon as its points are settled, and is extended while x (see `statistics`) is
uncertain. The verdict is inconclusive only if the times of the zero and the reference, which the
student cannot touch, are uncertain. If only the student's times are, the middle of x counts.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from grader.core.records import Interval, Speed, SpeedMeasurement
from grader.judging.case import StudentFault
from grader.judging.judge import NEEDS_CUDA
from grader.judging.marks import SpeedCase
from grader.timing import device
from grader.timing.contest import Contest, Disturbed
from grader.timing.race import MAX_ROUNDS, Plan
from grader.timing.statistics import (
    SpeedEstimate,
    compute_memory_position,
    estimate_speed_position,
    round_speed_points,
)
from grader.timing.stopping import StoppingRule, can_stop_memory_timing
from grader.worker.parent.faults import WorkerFault

Progress = Callable[[float], None]

MIN_SETS = 3  # of fresh processes, unless the points are settled before
MAX_SETS = 6  # while x is uncertain
CERTAIN_HALF_WIDTH = 0.05  # half the width of an interval of x
STEADY_HALF_WIDTH = 0.025  # of x, from which no more rounds are run
MIN_ZERO_RATIO = 1.5  # T_zero / T_reference
MAX_MATRIX_PRODUCT_RATIO = 1.1  # times the matrix product
REVIEWED_SPEEDUP = 1.5  # times faster than the reference
MEMORY_SETS = 3


def skip_speed_timing(case: SpeedCase, why: str) -> Speed:
    """Return the verdict on an answer that was not measured."""
    return Speed(says=case.says, verdict="not_run", points=case.points, why=why)


def fail_speed_timing(case: SpeedCase, why: str) -> Speed:
    """Return the verdict on an answer that earns nothing for speed."""
    return Speed(says=case.says, verdict="failed", points=case.points, why=why)


def measure_speed(contest: Contest, progress: Progress = lambda _: None) -> Speed:
    """Run the contest and judge it; `progress` takes the share that is done."""
    if contest.case.cuda and contest.device == "cpu":
        return skip_speed_timing(contest.case, NEEDS_CUDA)
    try:
        found = _run_speed_contest(contest, progress)
    except Disturbed:
        found = _run_speed_contest(replace(contest, rows=[], sets=0, again=True), progress)
    progress(1.0)
    return found


def _run_speed_contest(contest: Contest, progress: Progress) -> Speed:
    try:
        if contest.case.measures == "memory":
            return _meter_memory_contest(contest, progress)
        return _time_speed_contest(contest, progress)
    except StudentFault as fault:
        return fail_speed_timing(contest.case, str(fault))
    except WorkerFault as fault:
        return fail_speed_timing(contest.case, f"While it was timed, {fault}.")


def _time_speed_contest(contest: Contest, progress: Progress) -> Speed:
    rule = StoppingRule(
        points=contest.case.points, min_ratio=MIN_ZERO_RATIO, max_rounds=MAX_SETS * MAX_ROUNDS
    )
    for number in range(MAX_SETS):
        enough = partial(rule.settles, sets=number + 1)
        contest.run_a_set(Plan(), _show_timing_progress(progress, number, MIN_SETS), enough)
        found = estimate_speed_position(contest.times)
        if rule.settled and _is_speed_possible(contest, found):
            break
        if number + 1 >= MIN_SETS and (
            _is_timing_steady(found) or found.range.high < MIN_ZERO_RATIO
        ):
            break
        if found.doubt <= CERTAIN_HALF_WIDTH and found.ratio.low > 2 * found.range.high:
            break  # slower than the zero by far
    verdict, why = _decide_speed_verdict(contest, found, settled=rule.settled)
    fraction = found.x.high if found.x.half_width <= CERTAIN_HALF_WIDTH else found.x.middle
    scored = verdict == "scored"
    return Speed(
        says=contest.case.says,
        verdict=verdict,
        points=contest.case.points,
        why=why,
        earned=round_speed_points(fraction, contest.case.points) if scored else 0,
        fraction=fraction if scored else None,
        measured=SpeedMeasurement(
            unit="s",
            typical=found.quantiles,
            position=found.x,
            ratio=found.ratio,
            rounds=contest.rounds,
            device=device.read_timing_device_state(contest.device)
            | contest.notes
            | _time_share_of_product(contest, found),
        ),
    )


def _decide_speed_verdict(
    contest: Contest, found: SpeedEstimate, *, settled: bool
) -> tuple[str, str]:
    """Return the verdict, and the reason or a remark."""
    flops = contest.work / found.quantiles[-1]
    faster = 1 / found.ratio.middle
    if not _is_speed_possible(contest, found):
        return "failed", (
            f"faster than physics: {flops / 1e9:.0f} GFLOP/s, where a matrix product reaches "
            f"{contest.flops / 1e9:.0f}"
        )
    if found.range.middle < MIN_ZERO_RATIO:
        return "not_run", (
            "this machine cannot tell them apart: the zero takes "
            f"{found.range.middle:.2f} times as long as the reference"
        )
    if found.doubt > CERTAIN_HALF_WIDTH and not settled:
        return "inconclusive", "the machine was too busy to time the grader's own two: try again"
    if faster > REVIEWED_SPEEDUP:
        return "scored", f"{faster:.1f} times faster than the reference: worth a look"
    return "scored", ""


def _is_speed_possible(contest: Contest, found: SpeedEstimate) -> bool:
    """Return False if the answer computes faster than any right answer can, by a margin."""
    return contest.work / found.quantiles[-1] <= MAX_MATRIX_PRODUCT_RATIO * contest.flops


def _show_timing_progress(progress: Progress, number: int, whole: int) -> Progress:
    """Return a function that reports the progress of set `number` as part of all `whole` sets."""
    return lambda done: progress(min(1.0, (number + done) / whole))


def _time_share_of_product(contest: Contest, found: SpeedEstimate) -> dict[str, str | float]:
    """Return the answer's speed as a share of a matrix product's on this device."""
    if not contest.work:
        return {}
    share = contest.work / found.quantiles[-1] / contest.flops
    return {"share of a matrix product's speed": round(share, 3)}


def _is_timing_steady(found: SpeedEstimate) -> bool:
    return found.doubt <= CERTAIN_HALF_WIDTH and found.x.half_width <= STEADY_HALF_WIDTH


def _meter_memory_contest(contest: Contest, progress: Progress) -> Speed:
    case = contest.case
    if sys.platform != "linux":
        return skip_speed_timing(case, "peak memory is read on Linux only")
    for number in range(MEMORY_SETS):
        one = Plan(rounds=1, warm_up=False)
        contest.run_a_set(one, _show_timing_progress(progress, number, MEMORY_SETS))
        zero, reference, student = np.median(contest.times, axis=0)
        position = compute_memory_position(zero, reference, student)
        if zero >= MIN_ZERO_RATIO * reference and can_stop_memory_timing(position, case.points):
            break
    if zero < MIN_ZERO_RATIO * reference:
        return skip_speed_timing(case, "this machine cannot tell the zero from the reference")
    most, least = contest.times[:, 2].max(), contest.times[:, 2].min()
    fraction = compute_memory_position(zero, reference, student)
    return Speed(
        says=case.says,
        verdict="scored",
        points=case.points,
        earned=round_speed_points(fraction, case.points),
        fraction=fraction,
        measured=SpeedMeasurement(
            unit="bytes",
            typical=(float(zero), float(reference), float(student)),
            position=Interval(
                low=compute_memory_position(zero, reference, most),
                middle=fraction,
                high=compute_memory_position(zero, reference, least),
            ),
            ratio=Interval(
                low=float(least / reference),
                middle=float(student / reference),
                high=float(most / reference),
            ),
            rounds=contest.rounds,
        ),
    )
