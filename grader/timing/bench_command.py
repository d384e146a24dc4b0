"""Times answers without running their checks: `grader bench`."""

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

from grader.core.records import Exercise, Speed
from grader.judging import suite_runner
from grader.judging.marks import SpeedCase
from grader.submission import admission, answer_file
from grader.submission.admission import NotGraded
from grader.timing.contest import Contest
from grader.timing.speed import fail_speed_timing, measure_speed, skip_speed_timing
from grader.worker.parent import requirements
from grader.worker.parent.faults import UnmetRequirement
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.walls import Wall, hide_grader_from_workers


def benchmark_all_exercises(
    exercises: Sequence[Exercise], place: Path, *, seed: str | None, device: str, wall: Wall,
    progress: Callable[[str, float], None],
) -> dict[str, Speed]:  # fmt: skip
    """Return, by slug, the verdict on each answer's speed; only timed answers are verified."""
    hide_grader_from_workers()
    torch.set_num_threads(1)
    secret = seed or secrets.token_hex(8)
    cases = [
        (e, case) for e in exercises if (case := suite_runner.find_suite_speed_case(e)) is not None
    ]
    found: dict[str, Speed] = {}
    with Nursery(wall) as nursery:
        for number, (exercise, case) in enumerate(cases):
            found[exercise.slug] = _benchmark_exercise(
                exercise, case, place, nursery, secret, device,
                partial(_show_benchmark_progress, progress, exercise.slug, number, len(cases)),
            )  # fmt: skip
    return found


def _show_benchmark_progress(
    progress: Callable[[str, float], None], slug: str, number: int, whole: int, done: float
) -> None:
    progress(f"timing {slug}", (number + done) / whole)


def _benchmark_exercise(
    exercise: Exercise, case: SpeedCase, place: Path, nursery: Nursery, secret: str, device: str,
    progress: Callable[[float], None],
) -> Speed:  # fmt: skip
    try:
        answer = admission.read_begun_submission(
            answer_file.locate_submission(place, exercise.slug), exercise
        )
        admission.admit_submission(answer, exercise, nursery.wall)
    except NotGraded as problem:
        nothing = problem.state in ("not_started", "missing")
        return (skip_speed_timing if nothing else fail_speed_timing)(case, str(problem))
    except UnmetRequirement as needs:
        return skip_speed_timing(case, str(needs))
    if lacking := requirements.find_unmet_worker_requirement(
        requirements.list_worker_requirements(exercise, on_cuda=device.startswith("cuda"))
    ):
        return skip_speed_timing(case, lacking)
    contest = Contest(
        exercise=exercise, case=case, answer=answer, nursery=nursery,
        seed=(secret, exercise.slug),
        device=device if case.cuda else "cpu",
    )  # fmt: skip
    return measure_speed(contest, progress)
