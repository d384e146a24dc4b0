"""Which of the groups are worth a person's time: those with the most unusual text in common."""

from collections.abc import Sequence
from heapq import merge
from itertools import islice
from statistics import median

from grader.classroom.similar.fingerprint_index import Index, Pair, pairs
from grader.classroom.similar.similar_groups import by_unusual, grouped

LITTLE = 50.0  # unusual text of about ten tokens, which may be chance in any exercise


def ranked(index: Index, of_class: Sequence[bool], most: int) -> list[tuple[float, list[Pair]]]:
    """Groups of similar answers to one exercise, and how far each stands out, the furthest first.

    What counts is how many times as much unusual text they have in common as an answer to this
    exercise usually has with the one nearest to it: those to a short exercise are all alike.
    """
    twins = sorted(_twins(index, of_class), key=by_unusual)
    likely = list(merge(twins, pairs(index, of_class), key=by_unusual))
    usual = _usual(likely, of_class) + LITTLE
    groups = islice(grouped(likely, index.unusual, of_class), most)
    return sorted(
        ((_among_them(index, group) / usual, group) for group in groups),
        key=lambda found: (-found[0], found[1]),
    )


def _twins(index: Index, of_class: Sequence[bool]) -> list[Pair]:
    """Answers of this class that several handed in as they are, each as a pair with itself."""
    return [
        Pair(number, number, unusual)
        for number, (unusual, files) in enumerate(zip(index.unusual, index.files, strict=True))
        if files > 1 and of_class[number]
    ]


def _among_them(index: Index, group: Sequence[Pair]) -> float:
    """How unusual it is, to all others, what the pair at the top of a group has in common."""
    members = {number for pair in group for number in pair[:2]}
    return index.among(sorted(members), min(group, key=by_unusual))


def _usual(likely: Sequence[Pair], of_class: Sequence[bool]) -> float:
    """What an answer of the class usually has in common with the one that is nearest to it."""
    nearest = [0.0] * len(of_class)
    for first, second, unusual in likely:
        nearest[first] = max(nearest[first], unusual)
        nearest[second] = max(nearest[second], unusual)
    ours = [most for most, mine in zip(nearest, of_class, strict=True) if mine]
    return median(ours or [0.0])
