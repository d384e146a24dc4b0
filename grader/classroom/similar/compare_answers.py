"""What two answers have in common, as copydetect finds it."""

import io
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from grader.classroom.similar.compared_answers import ComparedAnswer
from grader.classroom.similar.fingerprints import GAP, SHORTEST

if TYPE_CHECKING:
    from copydetect import CodeFingerprint

Array = np.ndarray[Any, np.dtype[Any]]
_PRIVATE, _MANY = 0xF0000, 0x1FFFE  # letters that no token has


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """One of two answers, and what of it is in the other."""

    answer: ComparedAnswer
    common: Array  # whether each token is
    share: float

    def passages(self) -> dict[int, list[tuple[int, int]]]:
        """By line of the source, counted from 0, from where to where something is common."""
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
class Alike:
    """Two answers that have something in common."""

    first: Side
    second: Side

    @property
    def tokens(self) -> int:
        """How many tokens are common, in the one that has fewer of them."""
        return int(min(self.first.common.sum(), self.second.common.sum()))

    @property
    def lines(self) -> int:
        """On how many lines something is common, in the one that has fewer of them."""
        return min(len(self.first.passages()), len(self.second.passages()))


def prints(letters: str, number: int) -> Array:
    """The fingerprints of an answer by its number, each once."""
    hashes = _fingerprint(letters, number).hashes
    return np.fromiter(hashes, dtype=np.int64, count=len(hashes))


def compare(first: ComparedAnswer, second: ComparedAnswer) -> Alike:
    """What two answers have in common."""
    from copydetect import compare_files

    both = [_remembered(answer.tokens.letters, answer.number) for answer in (first, second)]
    _, _, slices = compare_files(*both)
    return Alike(first=_side(first, slices[0]), second=_side(second, slices[1]))


def _side(answer: ComparedAnswer, slices: Sequence[Sequence[int]]) -> Side:
    common = np.zeros(len(answer.tokens.letters), dtype=bool)
    for start, end in zip(*slices, strict=True):
        common[int(start) : int(end)] = True
    return Side(answer=answer, common=common, share=int(common.sum()) / answer.tokens.count)


def _fingerprint(letters: str, number: int) -> "CodeFingerprint":
    """Every passage of an answer: none is left out by chance, as a wider window would do.

    The letters are tokens already: copydetect's own filter makes names of libraries alike, and
    counts keywords by the letter. A gap gets a letter that only this answer has, so that no passage
    reaches over it.
    """
    from copydetect import CodeFingerprint

    text = letters.replace(GAP, chr(_PRIVATE + number % _MANY))
    return CodeFingerprint(f"{number}", SHORTEST, 1, filter=False, fp=io.StringIO(text))


_remembered = lru_cache(maxsize=16)(_fingerprint)
