"""Ranks groups of similar answers: those with the most unusual text in common come first."""

from collections.abc import Sequence
from heapq import merge
from itertools import islice
from statistics import median

from grader.classroom.similar.fingerprint_index import (
    FingerprintIndex,
    FingerprintPair,
    find_similar_pairs,
)
from grader.classroom.similar.similar_groups import build_similar_sort_key, group_similar_pairs

CHANCE_AGREEMENT = 50.0  # unusual text of about ten tokens, which may agree by chance


def rank_similar_groups(
    index: FingerprintIndex, of_class: Sequence[bool], most: int
) -> list[tuple[float, list[FingerprintPair]]]:
    """Return the groups of similar answers to one exercise with their scores, the highest first.

    The score is the amount of the group's common unusual text, divided by the usual amount that an
    answer to this exercise has in common with its nearest one. So it allows for short exercises, to
    which all answers are alike.
    """
    twins = sorted(_find_similar_twins(index, of_class), key=build_similar_sort_key)
    likely = list(merge(twins, find_similar_pairs(index, of_class), key=build_similar_sort_key))
    usual = _compute_fingerprint_median(likely, of_class) + CHANCE_AGREEMENT
    groups = islice(group_similar_pairs(likely, index.unusual, of_class), most)
    return sorted(
        ((_score_similar_group(index, group) / usual, group) for group in groups),
        key=lambda found: (-found[0], found[1]),
    )


def _find_similar_twins(index: FingerprintIndex, of_class: Sequence[bool]) -> list[FingerprintPair]:
    """Return each answer that several students of this class handed in, as a pair with itself."""
    return [
        FingerprintPair(number, number, unusual)
        for number, (unusual, files) in enumerate(zip(index.unusual, index.files, strict=True))
        if files > 1 and of_class[number]
    ]


def _score_similar_group(index: FingerprintIndex, group: Sequence[FingerprintPair]) -> float:
    """Return how unusual the common text of a group's top pair is to all other answers."""
    members = {number for pair in group for number in pair[:2]}
    return index.unusual_among(sorted(members), min(group, key=build_similar_sort_key))


def _compute_fingerprint_median(
    likely: Sequence[FingerprintPair], of_class: Sequence[bool]
) -> float:
    """Return the median, over this class, of an answer's agreement with its nearest answer."""
    nearest = [0.0] * len(of_class)
    for first, second, unusual in likely:
        nearest[first] = max(nearest[first], unusual)
        nearest[second] = max(nearest[second], unusual)
    ours = [most for most, mine in zip(nearest, of_class, strict=True) if mine]
    return median(ours or [0.0])
