"""Compares two answers: finds the passages in common with copydetect."""

import io
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from grader.classroom.similar.compared_answers import ComparedAnswer
from grader.classroom.similar.fingerprints import GAP, MIN_PASSAGE_TOKENS

if TYPE_CHECKING:
    from copydetect import CodeFingerprint

Array = np.ndarray[Any, np.dtype[Any]]
_FIRST_GAP_LETTER, _GAP_LETTER_COUNT = 0xF0000, 0x1FFFE  # letters that no token has


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimilarSide:
    """One of two answers, and the part of its tokens that the other answer has too."""

    answer: ComparedAnswer
    common: Array  # (tokens,) of bool: whether each token is in common
    share: float

    def passages(self) -> dict[int, list[tuple[int, int]]]:
        """Return, by source line, the (start, end) columns of common text; both count from 0."""
        begins = [0, *(m.end() for m in re.finditer("\n", self.answer.source))]
        found: dict[int, list[tuple[int, int]]] = {}
        last = -1
        for token in np.flatnonzero(self.common).tolist():
            start, end = self.answer.tokens.places[token].tolist()
            line = bisect_right(begins, start) - 1
            before = found.setdefault(line, [])
            if before and last == token - 1:
                start = before.pop()[0] + begins[line]
            before.append((start - begins[line], end - begins[line]))
            last = token
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLikeness:
    """Two answers that have passages in common."""

    first: SimilarSide
    second: SimilarSide

    @property
    def tokens(self) -> int:
        """Return the number of common tokens, in the answer with fewer of them."""
        return int(min(self.first.common.sum(), self.second.common.sum()))

    @property
    def lines(self) -> int:
        """Return the number of lines with common tokens, in the answer with fewer such lines."""
        return min(len(self.first.passages()), len(self.second.passages()))


def hash_answer_fingerprints(letters: str, number: int) -> Array:
    """Return the hashes of an answer's fingerprints, each once, int64."""
    hashes = _make_fingerprint(letters, number).hashes
    return np.fromiter(hashes, dtype=np.int64, count=len(hashes))


def compare_similar_answers(first: ComparedAnswer, second: ComparedAnswer) -> AnswerLikeness:
    """Compare two answers, and mark their common tokens."""
    from copydetect import compare_files

    both = [_cached_fingerprint(answer.tokens.letters, answer.number) for answer in (first, second)]
    _, _, slices = compare_files(*both)
    return AnswerLikeness(
        first=_mark_similar_tokens(first, slices[0]), second=_mark_similar_tokens(second, slices[1])
    )


def _mark_similar_tokens(answer: ComparedAnswer, slices: Sequence[Sequence[int]]) -> SimilarSide:
    common = np.zeros(len(answer.tokens.letters), dtype=bool)
    for start, end in zip(*slices, strict=True):
        common[int(start) : int(end)] = True
    return SimilarSide(answer=answer, common=common, share=int(common.sum()) / answer.tokens.count)


def _make_fingerprint(letters: str, number: int) -> "CodeFingerprint":
    """Fingerprint every passage of an answer; a window wider than 1 would skip some by chance.

    Each letter is a token already. copydetect's own filter is off: it makes names of libraries
    alike, and counts keywords by the letter. A gap gets a letter that only this answer has, so
    that no passage spans the gap.
    """
    from copydetect import CodeFingerprint

    text = letters.replace(GAP, chr(_FIRST_GAP_LETTER + number % _GAP_LETTER_COUNT))
    return CodeFingerprint(f"{number}", MIN_PASSAGE_TOKENS, 1, filter=False, fp=io.StringIO(text))


_cached_fingerprint = lru_cache(maxsize=16)(_make_fingerprint)
