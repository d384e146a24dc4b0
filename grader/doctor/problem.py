"""What is wrong, and what to do about it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from grader.core.records import Exercise

# It stops grading; it takes away what this machine could do; it is worth knowing.
Kind = Literal["stops", "limits", "note"]
KINDS: tuple[Kind, ...] = ("stops", "limits", "note")


@dataclass(frozen=True, slots=True)
class Problem:
    """A sentence, and its cure; the Chinese of both is found by the English."""

    kind: Kind
    says: str
    cure: str


Problems = Iterator[Problem]


def kernels(exercises: Iterable[Exercise]) -> str:
    """The exercises that are written in CUDA C++, by name; "" if there is none."""
    return " and ".join(e.slug for e in exercises if e.language == "cuda")
