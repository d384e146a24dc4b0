"""Describes answers that are not graded, and gives the verdicts of their checks."""

import traceback
from collections.abc import Mapping
from pathlib import Path

from grader.core.errors import GraderFault
from grader.core.records import CheckResult, Exercise, Submission, Verdict
from grader.judging import recorded_cases, suite_runner
from grader.judging.judge import NEEDS_CUDA
from grader.judging.marks import Check
from grader.submission.line_names import find_submission_line, name_submission_line
from grader.worker.parent import requirements
from grader.worker.parent.faults import LoadFailed, NurseryFailed
from grader.worker.parent.harmless_text import clean_worker_text

MAX_FAULT_CHARACTERS = 500  # characters about a fault of ours


def describe_grading_fault(error: Exception) -> str:
    """Return the sentence about a fault of the grader."""
    if isinstance(error, (GraderFault, NurseryFailed)):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return clean_worker_text(f"{type(error).__name__}: {error} ({where})"[:MAX_FAULT_CHARACTERS])


def describe_ungraded_import(
    failed: LoadFailed, answer: Submission, problems: Mapping[str, str]
) -> str:
    error = failed.problem
    at = name_ungraded_line(answer, error.line)
    what = f"{error.kind}: {error.message}" if error.message else error.kind
    if error.kind == "EOFError":
        return f"The file waits for somebody to type something{at}: leave that out."
    if error.message in problems.values():
        asks = 'put that under `if __name__ == "__main__":`'
        return f"{error.message} What calls it runs with the file: {asks}."
    if error.kind in ("ModuleNotFoundError", "ImportError"):
        return f"The file cannot be imported: {error.message}{at}. numpy and torch are at hand."
    return f"The file cannot be imported: {what}{at}."


def name_ungraded_line(answer: Submission, number: int | None) -> str:
    """Return a line of an answer in brackets, to follow a sentence; empty if it is unknown."""
    line = clean_worker_text(find_submission_line(answer.source, number))
    if number is None or not line:
        return ""
    return f" (line {name_submission_line(answer.lines, number)}: {line})"


def list_ungraded_checks(
    exercise: Exercise, why: str, *, on_cuda: bool, line: int = 0
) -> tuple[CheckResult, ...]:
    """Return the checks of a file that cannot be graded: they keep their points, and earn none."""
    if lacking := requirements.find_unmet_worker_requirement(
        requirements.list_worker_requirements(exercise, on_cuda=on_cuda)
    ):
        return list_ungradable_checks(exercise, lacking)
    tape = recorded_cases.load_judging_tape(exercise.slug)
    left_out = {} if tape is None else tape.left_out
    return tuple(
        _build_ungraded_check(check, Verdict.NOT_RUN, recorded_cases.CASE_LEFT_OUT)
        if check.id in left_out
        else _build_ungraded_check(check, Verdict.NOT_RUN, NEEDS_CUDA)
        if check.cuda and not on_cuda
        else _build_ungraded_check(check, Verdict.BLOCKED, why, line)
        for check in suite_runner.list_suite_checks(exercise)
    )


def list_ungradable_checks(exercise: Exercise, needs: str) -> tuple[CheckResult, ...]:
    """Return all checks of an exercise as not run, because of what it `needs` here."""
    return tuple(
        _build_ungraded_check(c, Verdict.NOT_RUN, needs)
        for c in suite_runner.list_suite_checks(exercise)
    )


def _build_ungraded_check(check: Check, verdict: Verdict, why: str, line: int = 0) -> CheckResult:
    return CheckResult(
        id=check.id, says=check.says, points=check.points, verdict=verdict, why=why, line=line
    )
