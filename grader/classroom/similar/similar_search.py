"""Looks for answers that are alike, one exercise after the other."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from grader.classroom.similar.compare_answers import Alike, compare, prints
from grader.classroom.similar.compared_answers import ComparedAnswer, answers, skeleton, writers
from grader.classroom.similar.fingerprint_index import Pair, indexed
from grader.classroom.similar.fingerprints import tokens
from grader.classroom.similar.rank import ranked
from grader.core.records import Exercise

SHOWN = 5  # pairs of a group
LOOKED_AT = 20  # groups, for each that is wanted: the rest has still less that is unusual

_UNKNOWN = (
    "its skeleton is not known here, so what everybody was given counts. "
    "Put the untouched file into exercises/."
)


class NoCopydetect(Exception):
    """The library is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTerms:
    """What is listed."""

    least: int = 40  # tokens that two answers must have in common
    most: int = 50  # groups, a pair being the smallest


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Answers to one exercise that are alike."""

    slug: str
    pairs: tuple[Alike, ...]  # at most `SHOWN`, those with the most unusual agreement
    everybody: tuple[str, ...]  # in it, also those of whom no pair is shown
    unusual: float  # how unusual it is what they have in common; to sort by, no measure of guilt


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search has found."""

    groups: tuple[Group, ...]  # the most unusual first
    answers: int  # that were compared
    notes: tuple[str, ...]  # a sentence each on what could not be read


def search(
    submissions: Path,
    also: Sequence[Path],
    exercises: Sequence[Exercise],
    terms: SearchTerms,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> Found:
    """The answers of a class that are alike, or like one that was added to it.

    Raises `collect.NoClass` for a folder without answers, `NoCopydetect` without the library.
    """
    _check_copydetect()
    people, notes = writers(submissions, also)
    groups: list[Group] = []
    count = 0
    for number, exercise in enumerate(exercises):
        progress(exercise.slug, number / len(exercises))
        given = skeleton(exercise)
        if not given:
            notes.append(f"{exercise.slug}: {_UNKNOWN}")
        found, problems = answers(people, exercise, tokens(given, exercise.language))
        notes += problems
        count += len(found)
        groups += _groups(exercise.slug, found, terms)
        groups = sorted(groups, key=lambda group: -group.unusual)[: terms.most]
    return Found(groups=tuple(groups), answers=count, notes=tuple(dict.fromkeys(notes)))


def _check_copydetect() -> None:
    try:
        import copydetect  # noqa: F401
    except ImportError:
        raise NoCopydetect from None


def _groups(slug: str, found: Sequence[ComparedAnswer], terms: SearchTerms) -> list[Group]:
    """The groups of one exercise, as many as may be shown of all."""
    same = _same(found)
    if not same:
        return []
    hashes = [prints(copies[0].tokens.letters, number) for number, copies in enumerate(same)]
    index = indexed(hashes, [len(copies) for copies in same])
    of_class = [copies[0].writer.of_class for copies in same]
    groups = (
        _group(slug, numbers, same, unusual, terms)
        for unusual, numbers in ranked(index, of_class, LOOKED_AT * terms.most)
    )
    return list(islice((group for group in groups if group.pairs), terms.most))


def _same(found: Iterable[ComparedAnswer]) -> list[list[ComparedAnswer]]:
    """Answers that are one and the same, together; those of this class first."""
    same: dict[str, list[ComparedAnswer]] = {}
    for answer in found:
        same.setdefault(answer.tokens.letters, []).append(answer)
    return list(same.values())


def _group(
    slug: str,
    numbers: Sequence[Pair],
    same: Sequence[Sequence[ComparedAnswer]],
    unusual: float,
    terms: SearchTerms,
) -> Group:
    found: list[Alike] = []
    everybody: dict[str, None] = {}
    for first, second in _answers(numbers, same):
        if len(found) < SHOWN:
            alike = compare(first, second)
            if alike.tokens < terms.least:
                continue
            found.append(alike)
        everybody |= dict.fromkeys((first.writer.who, second.writer.who))
    return Group(slug=slug, pairs=tuple(found), everybody=tuple(everybody), unusual=unusual)


def _answers(
    numbers: Iterable[Pair], same: Sequence[Sequence[ComparedAnswer]]
) -> Iterator[tuple[ComparedAnswer, ComparedAnswer]]:
    """The answers that are meant by numbers.

    Of one that several of this class handed in only the first is paired with another: that theirs
    are the same is told by pairs of its own.
    """
    for pair in numbers:
        first, *copies = same[pair.first]
        others = same[pair.second]
        if pair.first != pair.second:
            copies = [others[0]] if others[0].writer.of_class else list(others)
        yield from ((first, copy) for copy in copies)
