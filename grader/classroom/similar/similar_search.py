"""Searches for similar answers, one exercise after the other."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from grader.classroom.similar.compare_answers import (
    AnswerLikeness,
    compare_similar_answers,
    hash_answer_fingerprints,
)
from grader.classroom.similar.compared_answers import (
    ComparedAnswer,
    find_similar_writers,
    read_compared_answers,
    read_compared_skeleton,
)
from grader.classroom.similar.fingerprint_index import FingerprintPair, build_fingerprint_index
from grader.classroom.similar.fingerprints import read_fingerprint_tokens
from grader.classroom.similar.rank import rank_similar_groups
from grader.core.records import Exercise

MAX_GROUP_PAIRS = 5  # shown
RANKED_PER_SHOWN = 20  # groups ranked for each one listed: later ones agree on less

_UNKNOWN_SKELETON = (
    "its skeleton is not known here, so what everybody was given counts. "
    "Put the untouched file into exercises/."
)


class NoCopydetect(Exception):
    """Raised if the library copydetect is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTerms:
    """The limits of the list."""

    least: int = 40  # tokens that two answers must have in common
    most: int = 50  # groups, a pair being the smallest


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarGroup:
    """Similar answers to one exercise."""

    slug: str
    pairs: tuple[
        AnswerLikeness, ...
    ]  # at most `MAX_GROUP_PAIRS`, those with the most unusual agreement
    everybody: tuple[str, ...]  # all writers in the group, also those without a shown pair
    unusual: float  # how unusual the common text is; for sorting, no measure of guilt


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarAnswers:
    """The result of a search."""

    groups: tuple[SimilarGroup, ...]  # the most unusual first
    answers: int  # the number of answers compared
    notes: tuple[str, ...]  # a sentence for each unreadable entry or answer


def find_similar_answers(
    submissions: Path,
    also: Sequence[Path],
    exercises: Sequence[Exercise],
    terms: SearchTerms,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> SimilarAnswers:
    """Search a class for answers similar to each other, or to an answer added to the class.

    Raises `gather_answers.NoClassFound` if a folder has no answers, `NoCopydetect` without the
    library.
    """
    _require_similar_copydetect()
    people, notes = find_similar_writers(submissions, also)
    groups: list[SimilarGroup] = []
    count = 0
    for number, exercise in enumerate(exercises):
        progress(exercise.slug, number / len(exercises))
        given = read_compared_skeleton(exercise)
        if not given:
            notes.append(f"{exercise.slug}: {_UNKNOWN_SKELETON}")
        found, problems = read_compared_answers(
            people, exercise, read_fingerprint_tokens(given, exercise.language)
        )
        notes += problems
        count += len(found)
        groups += _find_similar_groups(exercise.slug, found, terms)
        groups = sorted(groups, key=lambda group: -group.unusual)[: terms.most]
    return SimilarAnswers(groups=tuple(groups), answers=count, notes=tuple(dict.fromkeys(notes)))


def _require_similar_copydetect() -> None:
    try:
        import copydetect  # noqa: F401
    except ImportError:
        raise NoCopydetect from None


def _find_similar_groups(
    slug: str, found: Sequence[ComparedAnswer], terms: SearchTerms
) -> list[SimilarGroup]:
    """Return the groups of one exercise, at most as many as the whole list may show."""
    same = _collect_identical_answers(found)
    if not same:
        return []
    hashes = [
        hash_answer_fingerprints(copies[0].tokens.letters, number)
        for number, copies in enumerate(same)
    ]
    index = build_fingerprint_index(hashes, [len(copies) for copies in same])
    of_class = [copies[0].writer.of_class for copies in same]
    groups = (
        _compare_similar_group(slug, numbers, same, unusual, terms)
        for unusual, numbers in rank_similar_groups(index, of_class, RANKED_PER_SHOWN * terms.most)
    )
    return list(islice((group for group in groups if group.pairs), terms.most))


def _collect_identical_answers(found: Iterable[ComparedAnswer]) -> list[list[ComparedAnswer]]:
    """Collect answers with the same tokens into lists, in the order of `found`."""
    same: dict[str, list[ComparedAnswer]] = {}
    for answer in found:
        same.setdefault(answer.tokens.letters, []).append(answer)
    return list(same.values())


def _compare_similar_group(
    slug: str,
    numbers: Sequence[FingerprintPair],
    same: Sequence[Sequence[ComparedAnswer]],
    unusual: float,
    terms: SearchTerms,
) -> SimilarGroup:
    found: list[AnswerLikeness] = []
    everybody: dict[str, None] = {}
    for first, second in _list_similar_answer_pairs(numbers, same):
        if len(found) < MAX_GROUP_PAIRS:
            alike = compare_similar_answers(first, second)
            if alike.tokens < terms.least:
                continue
            found.append(alike)
        everybody |= dict.fromkeys((first.writer.who, second.writer.who))
    return SimilarGroup(slug=slug, pairs=tuple(found), everybody=tuple(everybody), unusual=unusual)


def _list_similar_answer_pairs(
    numbers: Iterable[FingerprintPair], same: Sequence[Sequence[ComparedAnswer]]
) -> Iterator[tuple[ComparedAnswer, ComparedAnswer]]:
    """Yield the two answers of each pair of numbers.

    If several students of this class handed in the same answer, only its first copy is paired with
    other answers: pairs among the copies show that they are the same.
    """
    for pair in numbers:
        first, *copies = same[pair.first]
        others = same[pair.second]
        if pair.first != pair.second:
            copies = [others[0]] if others[0].writer.of_class else list(others)
        yield from ((first, copy) for copy in copies)
