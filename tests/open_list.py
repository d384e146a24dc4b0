"""Runs answers as they are written, as if the list of what they may use had let them through.

What stands behind the list (walls, the wire, limits, judging) must hold without it. An answer that
does not parse, or lacks a name, is told so as ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from grader.submission import admission
from grader.submission.admission import AdmittedSubmission, NotGraded

_ADMIT = admission.admit_submission


def admit(answer: Any, exercise: Any, *rest: Any, **options: Any) -> AdmittedSubmission:
    """`admission.admit_submission`, but what is not allowed stays as it is."""
    try:
        found = _ADMIT(answer, exercise, *rest, **options)
    except NotGraded as problem:
        if problem.state != "refused":
            raise
        found = AdmittedSubmission(runs=answer, problems={}, line_of=lambda _: 0)
    if exercise.language != "python":
        return found
    problems = {n: why for n, why in found.problems.items() if not why.startswith("Line ")}
    return replace(found, runs=answer, problems=problems)


@contextmanager
def opened(*, open_: bool = True) -> Iterator[None]:
    """Whether the list lets everything through."""
    with patch.object(admission, "admit_submission", admit if open_ else _ADMIT):
        yield
