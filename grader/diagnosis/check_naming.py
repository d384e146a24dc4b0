"""Names the mistakes behind failed checks: for each check one, or two that are made at once."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations

from grader.diagnosis import failure_signs, naming, pair_naming, time_limit
from grader.diagnosis.like_cases import LikeCase, LikeCases
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.diagnosis.name_trials import NameTrials
from grader.diagnosis.student_runs import StudentRuns
from grader.diagnosis.time_limit import OutOfTime, limit_diagnosis_time
from grader.diagnosis.written_numbers import keep_mistakes_of_written_numbers
from grader.judging.judge import CheckFailure, Judge
from grader.judging.marks import Mistake
from grader.judging.student_file import find_file_of_student

MAX_FAILURES_TRIED = 3  # failed checks from which a pair is looked for

Mend = Callable[[Sequence[CheckFailure], NameTrials], Collection[str]]


@dataclass(frozen=True, slots=True)
class Named:
    """The mistakes that a failed check shows."""

    mistakes: tuple[Mistake, ...] = ()
    together: bool = False  # whether the answer makes both; else one, which cannot be told


def name_mistakes_behind_failures(
    judge: Judge, known: MistakeCatalogue, runs: StudentRuns | None = None,
    mend: Mend | None = None,
) -> dict[str, Named]:  # fmt: skip
    """Return what each failed check shows, by the check's name: an empty `Named` if time runs out.

    mend  is given the failures that no mistake explains, and returns the checks that something
          else explains: no pair of mistakes is looked for there. If one mistake explains the first
          wrong input, a pair is looked for before `mend` is called, for `PAIR_SECONDS`
    """
    named = {failure.check: Named() for failure in judge.failures}
    if not known.mistakes:  # as in a sealed bundle
        return named
    known.leaves_out_meta = not any(map(_is_of_device, judge.failures))
    try:
        for failure, found in _name_mistakes_of_each_failure(
            judge, known, runs or StudentRuns(judge), mend
        ):
            named[failure.check] = found
    except OutOfTime:
        pass  # what is named until here fits everything
    finally:
        known.leaves_out_meta = False
    return named


def _is_of_device(failure: CheckFailure) -> bool:
    return "meta" in failure.last_call or "meta" in str(failure.fault)


def _name_mistakes_of_each_failure(
    judge: Judge, known: MistakeCatalogue, runs: StudentRuns, mend: Mend | None
) -> Iterator[tuple[CheckFailure, Named]]:
    """Yield what failed checks show, as it is found."""
    trials = NameTrials(judge, known)
    failures = sorted(judge.failures, key=failure_signs.is_of_precision)
    seconds = math.inf if mend is None else time_limit.SINGLE_SECONDS
    with limit_diagnosis_time(seconds):
        fitting = _find_single_mistakes(failures, judge, known, runs, trials)
    answer = find_file_of_student(judge.student)
    for failure in failures:
        found = fitting[failure.check]
        if answer is not None:
            found = keep_mistakes_of_written_numbers(found, answer.source)
        if found and len(found) <= naming.MAX_NAMED_MISTAKES:
            yield failure, Named(tuple(found))
    other = [f for f in failures if not fitting[f.check]]
    cases = [LikeCases(f, runs) for f in other if not failure_signs.shows_nothing_of_mistake(f)]
    pair: tuple[Mistake, ...] = ()
    pair_first = mend is not None and any(
        pair_naming.may_be_one_of_two(like.failure, judge, known, trials)
        for like in cases[:MAX_FAILURES_TRIED]
    )
    if pair_first:
        with suppress(OutOfTime), limit_diagnosis_time(time_limit.PAIR_SECONDS):
            pair = pair_naming.name_mistake_pair(cases[:MAX_FAILURES_TRIED], judge, known, trials)
    if mend is not None and not pair:
        mended = mend(other, trials)
        cases = [like for like in cases if like.failure.check not in mended]
    if not pair_first:
        pair = pair_naming.name_mistake_pair(cases[:MAX_FAILURES_TRIED], judge, known, trials)
    if pair:
        yield from _share_mistake_pair_among_checks(pair, cases, judge, known)


def _find_single_mistakes(
    failures: Sequence[CheckFailure], judge: Judge, known: MistakeCatalogue, runs: StudentRuns,
    trials: NameTrials,
) -> dict[str, list[Mistake]]:  # fmt: skip
    """Return by failed check the mistakes that each fit everything, those found in time."""
    found: dict[str, list[Mistake]] = {failure.check: [] for failure in failures}
    fitting, asked = list[Mistake](), frozenset[str]()
    with suppress(OutOfTime):
        for failure in failures:
            # A mistake fits everything or is refused: each is asked at the first failure with it.
            fitting += naming.find_mistakes(
                failure, judge, known, without=asked, trials=trials, runs=runs
            )
            mine = [m for m in fitting if m.of in failure.calls]
            if failure_signs.is_of_precision(failure) or failure.fault.kind:  # it may be another's
                first = _take_first_case_to_name(failure)
                mine = naming.keep_same_fault(first, mine, judge, known, any_words=True)
            if not failure_signs.shows_nothing_of_mistake(failure):
                asked |= failure_signs.find_blamed_names(failure, judge)
            found[failure.check] = mine
    return found


def _share_mistake_pair_among_checks(
    pair: tuple[Mistake, ...], cases: list[LikeCases], judge: Judge, known: MistakeCatalogue
) -> Iterator[tuple[CheckFailure, Named]]:
    """Yield what each failed check shows of a pair.

    A check stops at the first fault: a wrong dtype hides wrong values. So if one of the two
    would be told at no check, both are told.
    """
    shares = [
        (like.failure, _find_pair_mistakes_behind_check(pair, like, judge, known)) for like in cases
    ]
    told = {m.id for _, share in shares for m in share.mistakes}
    for failure, share in shares:
        mine = tuple(m for m in pair if m.of in failure.calls)
        if share.mistakes and not all(m.id in told for m in mine):
            share = Named(mine, together=True)
        yield failure, share


def _find_pair_mistakes_behind_check(
    pair: tuple[Mistake, ...], cases: LikeCases, judge: Judge, known: MistakeCatalogue
) -> Named:
    """Return which mistakes of a pair explain a failed check: only one if that is enough.

    None explains a failed check of half precision or float64 which the pair, found in float32, does
    not explain.
    """
    failure = cases.failure
    mine = tuple(m for m in pair if m.of in failure.calls)
    alone = naming.keep_same_fault(_take_first_case_to_name(failure), list(mine), judge, known)
    for like in cases if alone else ():
        alone = naming.keep_same_fault(like, alone, judge, known)
    if len(alone) == 1:
        return Named(tuple(alone))
    if len(pair) == 1:  # the other of the two, which cannot be told, shows here
        return Named()
    if failure_signs.is_of_precision(failure):
        bound = [known.pair(*order) for order in permutations(pair, 2)]
        made = [both for both in bound if both is not None]
        if not naming.keep_same_fault(_take_first_case_to_name(failure), made, judge, known):
            return Named()
    return Named(mine, together=len(mine) > 1)


def _take_first_case_to_name(failure: CheckFailure) -> LikeCase:
    return LikeCase(failure.case, (), failure.fault)
