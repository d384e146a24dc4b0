"""The words of a suite, the proxy of an answer, tolerances, verdicts."""

from grader.judging import recorded_cases  # noqa: F401 (first: it stands in for the reference where there is none)
from grader.judging.agree import agree, backward, expect, gradcheck, rejects, same, untouched
from grader.judging.draw import Draw
from grader.judging.drills import NoDrill, choices, drill
from grader.judging.elsewhere import on_meta
from grader.judging.hard import Hard
from grader.judging.held import lasting
from grader.judging.hunted_exercise import mended_in_place, passes
from grader.judging.marks import check, mistake, speed, trial, variant
from grader.judging.parameters import expect_shapes
from grader.judging.student import Student
from grader.judging.trials import (
    Summed,
    attempt,
    called,
    differentiated,
    gradients,
    name_raised_kind,
    parameter_gradients,
    parameter_shapes,
)
from grader.worker.child.chain import Chain

__all__ = [
    "Chain",
    "Draw",
    "Hard",
    "NoDrill",
    "Student",
    "Summed",
    "agree",
    "attempt",
    "backward",
    "called",
    "check",
    "choices",
    "differentiated",
    "drill",
    "expect",
    "expect_shapes",
    "gradcheck",
    "gradients",
    "lasting",
    "mended_in_place",
    "mistake",
    "name_raised_kind",
    "on_meta",
    "parameter_gradients",
    "parameter_shapes",
    "passes",
    "rejects",
    "same",
    "speed",
    "trial",
    "untouched",
    "variant",
]
