"""The words that a suite is written in."""

from grader.judging import stored  # noqa: F401 (first: it stands in for the reference where there is none)
from grader.judging.agree import agree, backward, expect, gradcheck, rejects, same, untouched
from grader.judging.another import passes
from grader.judging.check import check, mistake, speed, variant
from grader.judging.draw import Draw
from grader.judging.drills import NoDrill, choices, drill
from grader.judging.student import Student
from grader.worker.child.chain import Chain

__all__ = [
    "Chain",
    "Draw",
    "NoDrill",
    "Student",
    "agree",
    "backward",
    "check",
    "choices",
    "drill",
    "expect",
    "gradcheck",
    "mistake",
    "passes",
    "rejects",
    "same",
    "speed",
    "untouched",
    "variant",
]
