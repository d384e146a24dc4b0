"""Tells mistakes apart that act alike, by the numbers that the answer's text holds.

Whether hidden scores become -1e4 or -1e9 shows in no weight: both are 0.
"""

import re
from collections.abc import Sequence

from grader.judging.marks import Mistake

# Numbers that people choose: fills of hidden scores, and what keeps a denominator from 0.
LARGE, SMALL = 1e3, 1e-3
_NUMBER = re.compile(r"(?<![\w.])\d[\d,_]*\.?\d*(?:[eE][-+]?\d+)?")
_NEGATIVE = re.compile(r"-\d[\d,_]*\.?\d*(?:[eE][-+]?\d+)?")


def keep_mistakes_of_written_numbers(mistakes: Sequence[Mistake], source: str) -> list[Mistake]:
    """Leave out mistakes that name a number which is not written, if another's is."""
    written = _read_numbers(_NUMBER, source)
    named = {m.id: _list_chosen_numbers(m.says) for m in mistakes}
    if not any(numbers & written for numbers in named.values()):
        return list(mistakes)
    return [m for m in mistakes if not named[m.id] or named[m.id] & written]


def _list_chosen_numbers(says: str) -> set[float]:
    fills = {number for number in _read_numbers(_NEGATIVE, says) if number >= LARGE}
    return fills | {number for number in _read_numbers(_NUMBER, says) if 0 < number <= SMALL}


def _read_numbers(pattern: re.Pattern[str], text: str) -> set[float]:
    """Return the numbers of a text, without their signs."""
    drop = str.maketrans("", "", "-,_")
    split = (number.lower().partition("e") for number in pattern.findall(text))
    return {float(digits.translate(drop) + e + power) for digits, e, power in split}
