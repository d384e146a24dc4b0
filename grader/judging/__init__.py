"""The words that a suite is written in."""

from grader.judging.agree import agree, backward, expect, gradcheck, rejects, same, untouched
from grader.judging.check import check, mistake, speed, variant
from grader.judging.draw import Draw
from grader.judging.student import Student
from grader.worker.child.chain import Chain

__all__ = [
    "Chain",
    "Draw",
    "Student",
    "agree",
    "backward",
    "check",
    "expect",
    "gradcheck",
    "mistake",
    "rejects",
    "same",
    "speed",
    "untouched",
    "variant",
]
