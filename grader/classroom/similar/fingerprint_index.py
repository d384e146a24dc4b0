"""Which answers may be alike: those with fingerprints in common that few others have.

An inverted index, from each fingerprint to the answers that have it, so that no two answers are
compared that have nothing unusual in common. A fingerprint counts for more the fewer files have it
(the logarithm of one in how many), and for nothing when it is in a large share of all answers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

FEW, SHARE = 20, 0.2  # what more answers than both have says nothing: so many, this share of all
MOST_PAIRS = 100_000  # of an exercise; the most unusual are kept
MOST_PRINTS = 20_000  # of an answer; one with more is no answer to an exercise of ours
Array = np.ndarray[Any, np.dtype[Any]]


class Pair(NamedTuple):
    """Two answers by their numbers, and how unusual it is what they have in common."""

    first: int
    second: int
    unusual: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Index:
    """The fingerprints of all answers to one exercise, both ways."""

    files: Array  # of each answer, how many handed it in
    prints: Sequence[Array]  # of each answer, the numbers of its fingerprints
    answers: Array  # of each fingerprint in turn, the answers that have it
    counts: Array  # of each fingerprint, how many these are
    holders: Array  # and how many handed it in
    weights: Array  # and how unusual it is

    @property
    def unusual(self) -> list[float]:
        """How unusual each answer is as a whole."""
        return [round(float(self.weights[numbers].sum()), 6) for numbers in self.prints]

    def among(self, members: Sequence[int], pair: Pair) -> float:
        """How unusual it is what a pair has in common, if the members of its group have it too."""
        common = np.intersect1d(self.prints[pair.first], self.prints[pair.second])
        inside = sum(self.files[n] * np.isin(common, self.prints[n]) for n in members)
        others = self.holders[common] - inside
        weights = np.log((self.files.sum() + 1) / (others + 2)) * (self.weights[common] > 0)
        return float(np.round(weights.sum(), 6))


def indexed(prints: Sequence[Array], files: Sequence[int]) -> Index:
    """The index of answers with their fingerprints; `files` says how many handed in each."""
    kept = [np.sort(hashes)[:MOST_PRINTS] for hashes in prints]
    owner = np.repeat(np.arange(len(kept)), [len(hashes) for hashes in kept])
    _, number, counts = np.unique(np.concatenate(kept), return_inverse=True, return_counts=True)
    holders = np.bincount(number, weights=np.array(files)[owner])
    weights = np.log((sum(files) + 1) / holders)
    weights[counts > max(FEW, SHARE * len(kept))] = 0
    return Index(
        files=np.array(files),
        prints=np.split(number, np.cumsum([len(hashes) for hashes in kept])[:-1]),
        answers=owner[np.argsort(number, kind="stable")],
        counts=counts, holders=holders, weights=weights,
    )  # fmt: skip


def pairs(index: Index, of_class: Sequence[bool]) -> list[Pair]:
    """Pairs of which at least one is of this class, the most unusual agreement first."""
    kept: list[Array] = []
    held = 0
    for found in _rows(index, np.array(of_class)):
        kept.append(found)
        held += len(found)
        if held > 4 * MOST_PAIRS:
            kept = [_best(np.concatenate(kept))]
            held = MOST_PAIRS
    best = _best(np.concatenate(kept)) if kept else np.empty((0, 3))
    return [Pair(int(i), int(j), unusual) for i, j, unusual in best.tolist()]


def _rows(index: Index, of_class: Array) -> Iterator[Array]:
    """For each answer those after it that have something with it in common, as (i, j, unusual)."""
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
        # Hashes, and so the order of a sum, are others in every process.
        sums = np.round(unusual[others], 6)
        yield np.column_stack([np.full(len(others), i), others, sums])


def _best(found: Array) -> Array:
    order = np.lexsort((found[:, 1], found[:, 0], -found[:, 2]))
    best: Array = found[order[:MOST_PAIRS]]
    return best
