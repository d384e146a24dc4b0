"""Reads the tokens of an answer, and cuts out the skeleton that everybody was given."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from grader.submission.reader_client import ask_submission_reader

MIN_PASSAGE_TOKENS = 12  # of a passage that a comparison finds: one or two statements
GAP = "\n"  # the letter in place of cut-out tokens
Places = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnswerTokens:
    """A source's tokens: one letter each, and its start and end in the source."""

    letters: str
    places: Places  # (tokens, 2)

    @property
    def count(self) -> int:
        return len(self.letters) - self.letters.count(GAP)


def read_fingerprint_tokens(source: str, language: str = "python") -> AnswerTokens:
    """Read the tokens of Python, also of broken Python, or of CUDA C++.

    Raises `UnreadableContent` if the reader gives up on the text.
    """
    found = ask_submission_reader("letters", source, language=language)
    return AnswerTokens(letters=found["letters"], places=_build_fingerprint_places(found["places"]))


def remove_given_fingerprints(answer: AnswerTokens, given: AnswerTokens) -> AnswerTokens:
    """Replace by gaps the given passages of an answer, and pieces too short between them.

    copydetect removes single fingerprints only: fingerprints that span the skeleton and an answer
    would stay, and so would parts of the skeleton in two answers' common passages.
    """
    shared = _collect_fingerprint_passages(given.letters)
    covered = np.zeros(len(answer.letters) + 2, dtype=bool)
    covered[[0, -1]] = True
    for start, passage in enumerate(_slide_fingerprint_passages(answer.letters), 1):
        if passage in shared:
            covered[start : start + MIN_PASSAGE_TOKENS] = True
    edges = np.flatnonzero(np.diff(covered)).reshape(-1, 2).tolist()
    runs = [(start, end) for start, end in edges if end - start >= MIN_PASSAGE_TOKENS]
    places: list[tuple[int, int]] = []
    for start, end in runs:
        places += [(0, 0)] * bool(places)
        places += answer.places[start:end].tolist()
    letters = GAP.join(answer.letters[start:end] for start, end in runs)
    return AnswerTokens(letters=letters, places=_build_fingerprint_places(places))


def _build_fingerprint_places(places: Sequence[Sequence[int]]) -> Places:
    return np.array(places, dtype=np.int32).reshape(-1, 2)


def _slide_fingerprint_passages(letters: str) -> Iterator[str]:
    for start in range(len(letters) - MIN_PASSAGE_TOKENS + 1):
        yield letters[start : start + MIN_PASSAGE_TOKENS]


@cache
def _collect_fingerprint_passages(letters: str) -> frozenset[str]:
    return frozenset(_slide_fingerprint_passages(letters))
