"""Finds pairs of answers with common fingerprints that few other answers have.

An inverted index lists, for each fingerprint, the answers that have it: answers without unusual
fingerprints in common are never compared. A fingerprint's weight is the logarithm of the number of
all files divided by the number that have it, and 0 if a large share of all answers has it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

# A fingerprint in more answers than both bounds, a number and a share of all, counts nothing.
COMMON_ANSWERS, COMMON_SHARE = 20, 0.2
MAX_PAIRS = 100_000  # of an exercise; the most unusual are kept
MAX_FINGERPRINTS_PER_ANSWER = 20_000  # of an answer; no true answer has more
Array = np.ndarray[Any, np.dtype[Any]]


class FingerprintPair(NamedTuple):
    """The numbers of two answers, and how unusual their common fingerprints are."""

    first: int
    second: int
    unusual: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FingerprintIndex:
    """The fingerprints of all answers to one exercise, by answer and by fingerprint."""

    files: Array  # of each answer, how many students handed it in
    prints: Sequence[Array]  # of each answer, the numbers of its fingerprints
    answers: Array  # of each fingerprint in turn, the answers that have it
    counts: Array  # of each fingerprint, the number of answers that have it
    holders: Array  # of each fingerprint, the number of files that have it
    weights: Array  # of each fingerprint, how unusual it is

    @property
    def unusual(self) -> list[float]:
        """Return how unusual each answer is: the sum of its fingerprints' weights."""
        return [round(float(self.weights[numbers].sum()), 6) for numbers in self.prints]

    def unusual_among(self, members: Sequence[int], pair: FingerprintPair) -> float:
        """Return a pair's common weight if only files outside the pair's group count as others."""
        common = np.intersect1d(self.prints[pair.first], self.prints[pair.second])
        inside = sum(self.files[n] * np.isin(common, self.prints[n]) for n in members)
        others = self.holders[common] - inside
        weights = np.log((self.files.sum() + 1) / (others + 2)) * (self.weights[common] > 0)
        return float(np.round(weights.sum(), 6))


def build_fingerprint_index(prints: Sequence[Array], files: Sequence[int]) -> FingerprintIndex:
    """Index answers by their fingerprints; `files` is the number of files of each answer."""
    kept = [np.sort(hashes)[:MAX_FINGERPRINTS_PER_ANSWER] for hashes in prints]
    owner = np.repeat(np.arange(len(kept)), [len(hashes) for hashes in kept])
    _, number, counts = np.unique(np.concatenate(kept), return_inverse=True, return_counts=True)
    holders = np.bincount(number, weights=np.array(files)[owner])
    weights = np.log((sum(files) + 1) / holders)
    weights[counts > max(COMMON_ANSWERS, COMMON_SHARE * len(kept))] = 0
    return FingerprintIndex(
        files=np.array(files),
        prints=np.split(number, np.cumsum([len(hashes) for hashes in kept])[:-1]),
        answers=owner[np.argsort(number, kind="stable")],
        counts=counts, holders=holders, weights=weights,
    )  # fmt: skip


def find_similar_pairs(index: FingerprintIndex, of_class: Sequence[bool]) -> list[FingerprintPair]:
    """Return the pairs with an answer of this class, the most unusual agreement first."""
    kept: list[Array] = []
    held = 0
    for found in _score_similar_pairs(index, np.array(of_class)):
        kept.append(found)
        held += len(found)
        if held > 4 * MAX_PAIRS:
            kept = [_keep_unusual_similar_rows(np.concatenate(kept))]
            held = MAX_PAIRS
    best = _keep_unusual_similar_rows(np.concatenate(kept)) if kept else np.empty((0, 3))
    return [FingerprintPair(int(i), int(j), unusual) for i, j, unusual in best.tolist()]


def _score_similar_pairs(index: FingerprintIndex, of_class: Array) -> Iterator[Array]:
    """Yield for each answer its pairs with later answers, as rows (i, j, unusual)."""
    starts = np.cumsum(index.counts) - index.counts
    shared = (index.counts > 1) & (index.weights > 0)
    for i, numbers in enumerate(index.prints):
        numbers = numbers[shared[numbers]]
        counts = index.counts[numbers]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        holders = index.answers[np.repeat(starts[numbers], counts) + within]
        weights = np.repeat(index.weights[numbers], counts)
        unusual = np.bincount(holders, weights=weights, minlength=len(of_class))
        unusual[: i + 1] = 0
        if not of_class[i]:
            unusual[~of_class] = 0
        others = np.flatnonzero(unusual)
        # Hashes, and so the order of summation, differ in every process: round.
        sums = np.round(unusual[others], 6)
        yield np.column_stack([np.full(len(others), i), others, sums])


def _keep_unusual_similar_rows(found: Array) -> Array:
    order = np.lexsort((found[:, 1], found[:, 0], -found[:, 2]))
    best: Array = found[order[:MAX_PAIRS]]
    return best
