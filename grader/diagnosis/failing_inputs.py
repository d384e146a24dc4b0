"""Keeps the inputs of trials on which a student's answer is wrong."""

from collections.abc import Iterator
from enum import Enum
from typing import Any

from grader.diagnosis.coarse_values import has_half_precision
from grader.diagnosis.trial_run import TrialInput

FailingInput = tuple[TrialInput, list[Any]]


class Shown(Enum):
    """Whether a mistake shows on an input on which the student's answer is wrong."""

    NOT = "it has the right value where the student's is wrong"
    BESIDE = "it has the right value where the student's call raises, as another mistake may do"
    AS_GIVEN = "it has the student's values"
    OTHERWISE = "it has other values"


class FailingInputs:
    """Inputs on which the student's answer is wrong, with its values up to the first wrong one.

    Each runs when it is first read: most mistakes differ on the first. Half precision and the
    device meta are left out where other inputs fail: answers with any mistake may ignore them.
    """

    def __init__(self, found: Iterator[tuple[FailingInput, bool]]) -> None:
        self._plain: list[FailingInput] = []
        self._special: list[FailingInput] = []
        self._rest = found

    def __iter__(self) -> Iterator[FailingInput]:
        yield from self._plain
        for one, on_meta in self._rest:
            if on_meta or any(map(has_half_precision, one[1])):
                self._special.append(one)
                continue
            self._plain.append(one)
            yield one
        if not self._plain:
            yield from self._special
