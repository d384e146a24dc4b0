"""Combines choices so that any few of them meet: a covering array.

Most faults of software show under one choice or under a few together: in the systems of Kuhn,
Wallace and Gallo ("Software Fault Interactions and Implications for Software Testing", IEEE
Transactions on Software Engineering 30(6), 2004) under at most three in nine of ten. To try each
three of eight options together takes some tens of calls, where all products would be thousands.

The rows are built one after another, as in AETG (Cohen, Dalal, Fredman and Patton, "The AETG
System", IEEE Transactions on Software Engineering 23(7), 1997), but without chance: the same
choices always give the same rows.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, product

Meeting = tuple[tuple[int, int], ...]  # which choice of which factor, by factor, ascending


@lru_cache(maxsize=64)
def build_covering_array(levels: tuple[int, ...], strength: int) -> tuple[tuple[int, ...], ...]:
    """Return rows of one choice for each factor, in which any choices of few factors meet.

    levels    how many choices each factor has
    strength  of how many factors any choices meet in some row: 2 for each pair
    returns   rows of numbers from 0 up, below `levels`
    """
    strength = min(strength, len(levels))
    left: dict[Meeting, None] = {
        tuple(zip(factors, choices, strict=True)): None
        for factors in combinations(range(len(levels)), strength)
        for choices in product(*(range(levels[f]) for f in factors))
    }
    rows: list[tuple[int, ...]] = []
    while left:
        row = dict(next(iter(left)))
        for factor in sorted(set(range(len(levels))) - set(row), key=lambda f: -levels[f]):
            # Of choices that are equally good the next one in turn, so that all come equally often.
            turn = [(len(rows) + c) % levels[factor] for c in range(levels[factor])]
            row[factor] = max(
                turn, key=lambda c: _count_new_meetings(left, row, (factor, c), strength)
            )
        rows.append(tuple(row[f] for f in range(len(levels))))
        for met in combinations(enumerate(rows[-1]), strength):
            left.pop(met, None)
    return tuple(rows)


def _count_new_meetings(
    left: dict[Meeting, None], row: dict[int, int], new: tuple[int, int], strength: int
) -> int:
    """Count what has not met before, and meets in a row that gets one more choice."""
    others: Sequence[tuple[int, int]] = sorted(row.items())
    return sum(tuple(sorted((*some, new))) in left for some in combinations(others, strength - 1))
