"""The tokens of an answer as arrays, and what of them was not given to everybody."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from grader.submission.reader_client import ask

SHORTEST = 12  # tokens of a passage that can be found: one or two statements
GAP = "\n"  # stands where something was cut out
Places = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokens:
    """The letters of a source's tokens, and from where to where each reaches in it."""

    letters: str
    places: Places  # (tokens, 2)

    @property
    def count(self) -> int:
        return len(self.letters) - self.letters.count(GAP)


def tokens(source: str, language: str = "python") -> Tokens:
    """The tokens of Python, or of what should have been Python; or of CUDA C++.

    Raises `Unread` for a text that the reader gives up.
    """
    found = ask("letters", source, language=language)
    return Tokens(letters=found["letters"], places=_array(found["places"]))


def own(answer: Tokens, given: Tokens) -> Tokens:
    """What of an answer was not given: a gap stands where that was, or what is too short.

    copydetect takes single fingerprints out, which leaves those that reach from the skeleton into
    an answer, and so parts of the skeleton in what two answers have in common.
    """
    shared = _passages(given.letters)
    covered = np.zeros(len(answer.letters) + 2, dtype=bool)
    covered[[0, -1]] = True
    for start, passage in enumerate(_in_order(answer.letters), 1):
        if passage in shared:
            covered[start : start + SHORTEST] = True
    edges = np.flatnonzero(np.diff(covered)).reshape(-1, 2).tolist()
    runs = [(start, end) for start, end in edges if end - start >= SHORTEST]
    places: list[tuple[int, int]] = []
    for start, end in runs:
        places += [(0, 0)] * bool(places)
        places += answer.places[start:end].tolist()
    letters = GAP.join(answer.letters[start:end] for start, end in runs)
    return Tokens(letters=letters, places=_array(places))


def _array(places: Sequence[Sequence[int]]) -> Places:
    return np.array(places, dtype=np.int32).reshape(-1, 2)


def _in_order(letters: str) -> Iterator[str]:
    for start in range(len(letters) - SHORTEST + 1):
        yield letters[start : start + SHORTEST]


@cache
def _passages(letters: str) -> frozenset[str]:
    return frozenset(_in_order(letters))
