"""A problem of this machine, and its cure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from grader.core.records import Exercise

# It stops grading; it takes away what this machine could do; it is worth knowing.
ProblemKind = Literal["stops", "limits", "note"]
KINDS: tuple[ProblemKind, ...] = ("stops", "limits", "note")


@dataclass(frozen=True, slots=True)
class Problem:
    """A sentence and its cure in English, by which the Chinese is found."""

    kind: ProblemKind
    says: str
    cure: str


Problems = Iterator[Problem]


def name_cuda_for_doctor(exercises: Iterable[Exercise]) -> str:
    """Return the names of the exercises that are written in CUDA C++; "" if there is none."""
    return " and ".join(e.slug for e in exercises if e.language == "cuda")
