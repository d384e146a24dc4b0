"""Names the mistakes of an answer: for each failed check one, or two that are made at once.

Two are looked for where no single mistake fits everything. The likeliest pairs come first:
mistakes that each fit a failed check by themselves, then one of these with any other, then any two.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, permutations, product

from grader.diagnosis import naming, time_limit
from grader.diagnosis.like_cases import LikeCase, LikeCases
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.diagnosis.name_trials import NameTrials
from grader.diagnosis.student_runs import StudentRuns
from grader.diagnosis.time_limit import OutOfTime, limit_diagnosis_time
from grader.judging.judge import CheckFailure, Judge
from grader.judging.marks import Mistake

MAX_PAIRS_RUN = 100  # pairs that an input of a trial, or a failed case, runs on
MAX_PAIRS_ASKED = 1_000  # pairs that answer the student's last call once more
MAX_VERIFIED_PAIRS = 6  # pairs that are tried on everything
MAX_FULLY_RUN_PAIRS = 2  # pairs whose checks all run, where a match may be chance
MAX_CASES_ALONE = 2  # failed cases in which one of two mistakes may show alone
MAX_MISTAKES_ALONE = 12  # mistakes that run on these: of each likelihood, the first
MAX_PAIRED_ALONE = 4  # mistakes that may show alone and are paired with every other one
MAX_INPUTS_ALONE = 3  # inputs of trials in which it may
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
    failures = sorted(judge.failures, key=naming.is_of_precision)
    seconds = math.inf if mend is None else time_limit.SINGLE_SECONDS
    with limit_diagnosis_time(seconds):
        fitting = _find_single_mistakes(failures, judge, known, runs, trials)
    for failure in failures:
        found = fitting[failure.check]
        if found and len(found) <= naming.MAX_NAMED_MISTAKES:
            yield failure, Named(tuple(found))
    other = [f for f in failures if not fitting[f.check]]
    cases = [LikeCases(f, runs) for f in other if not naming.shows_nothing_of_mistake(f)]
    pair: tuple[Mistake, ...] = ()
    pair_first = mend is not None and any(
        _may_be_one_of_two(like.failure, judge, known, trials)
        for like in cases[:MAX_FAILURES_TRIED]
    )
    if pair_first:
        with suppress(OutOfTime), limit_diagnosis_time(time_limit.PAIR_SECONDS):
            pair = _name_mistake_pair(cases[:MAX_FAILURES_TRIED], judge, known, trials)
    if mend is not None and not pair:
        mended = mend(other, trials)
        cases = [like for like in cases if like.failure.check not in mended]
    if not pair_first:
        pair = _name_mistake_pair(cases[:MAX_FAILURES_TRIED], judge, known, trials)
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
            if naming.is_of_precision(failure) or failure.fault.kind:  # it may be another's
                first = _take_first_case_to_name(failure)
                mine = naming.keep_same_fault(first, mine, judge, known, any_words=True)
            if not naming.shows_nothing_of_mistake(failure):
                asked |= naming.find_blamed_names(failure, judge)
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
    if naming.is_of_precision(failure):
        bound = [known.pair(*order) for order in permutations(pair, 2)]
        made = [both for both in bound if both is not None]
        if not naming.keep_same_fault(_take_first_case_to_name(failure), made, judge, known):
            return Named()
    return Named(mine, together=len(mine) > 1)


def _may_be_one_of_two(
    failure: CheckFailure, judge: Judge, known: MistakeCatalogue, trials: NameTrials
) -> bool:
    """Return whether a mistake gives the first wrong values by itself, whatever else it does."""
    blamed = naming.find_blamed_names(failure, judge)
    return any(trials.count_explained(m, 1) for m in known.mistakes if m.of in blamed)


def _name_mistake_pair(
    cases: list[LikeCases], judge: Judge, known: MistakeCatalogue, trials: NameTrials
) -> tuple[Mistake, ...]:
    """Name two mistakes, the more basic first, that fit everything together and not alone.

    If several pairs fit, name only the mistake that is in all of them, or none.
    """
    left = _Left()
    alone = {
        like.failure.check: _list_mistakes_that_explain_alone(like, judge, known, trials)
        for like in cases
    }
    for like in cases:
        failure = like.failure
        every = list(chain(*naming.split_mistakes_by_likelihood(known.mistakes, judge)))
        mine = alone[failure.check]
        others = [m for check, found in alone.items() if check != failure.check for m in found]
        near = [m for m in every if m.of in naming.find_blamed_names(failure, judge)]
        some = mine + others
        likeliest = mine[:MAX_PAIRED_ALONE] + others[:MAX_PAIRED_ALONE]
        for pairs in (product(mine, some), product(likeliest, every), permutations(near, 2)):
            found = _find_mistake_pairs_that_fit(
                like, _order_mistake_pairs_both_ways(pairs), judge, known, trials, left, mine
            )
            common = set.intersection(*found) if found else set()
            if common:
                return tuple(m for m in known.mistakes if m.id in common)
            if found:
                return ()
    return ()


@dataclass(slots=True)
class _Left:
    """What may still be spent on the pairs of one answer."""

    asked: int = MAX_PAIRS_ASKED
    run: int = MAX_PAIRS_RUN


def _take_first_case_to_name(failure: CheckFailure) -> LikeCase:
    return LikeCase(failure.case, (), failure.fault)


def _list_mistakes_that_explain_alone(
    cases: LikeCases, judge: Judge, known: MistakeCatalogue, trials: NameTrials
) -> list[Mistake]:
    """Return the mistakes that explain at least one of the student's wrong values by themselves.

    On the plainest inputs one of two mistakes often has no effect: with one token a wrong scale
    changes nothing. The mistakes explain the first wrong input of the trials, or else the next one
    that any explains; those that explain the most inputs come first. If no input of a trial is
    wrong, the failed cases are asked, first about the mistakes that the failed check detects.
    """
    blamed = naming.find_blamed_names(cases.failure, judge)
    near = [m for m in known.mistakes if m.of in blamed]
    likely, rest = naming.split_mistakes_by_likelihood(near, judge)
    for inputs in range(1, 1 + MAX_INPUTS_ALONE):
        if fit := [m for m in (*likely, *rest) if trials.count_explained(m, inputs)]:
            return sorted(fit, key=lambda m: -trials.count_explained(m, MAX_INPUTS_ALONE))
    if any(map(trials.find_first_wrong, near)):
        return []
    own = [m for m in likely if m.caught_by == cases.failure.check]
    for some in (own, [m for m in likely if m not in own], rest):
        some = some[:MAX_MISTAKES_ALONE]
        for like in cases.list_failing(MAX_CASES_ALONE):
            if fit := naming.keep_same_fault(like, some, judge, known):
                return fit
    return []


def _order_mistake_pairs_both_ways(
    pairs: Iterable[tuple[Mistake, Mistake]],
) -> Iterator[tuple[Mistake, Mistake]]:
    """Yield every pair once in each order: either mistake may be the one that calls the other."""
    seen = set()
    for pair in chain.from_iterable(((one, other), (other, one)) for one, other in pairs):
        key = pair[0].id, pair[1].id
        if key[0] != key[1] and key not in seen:
            seen.add(key)
            yield pair


def _find_mistake_pairs_that_fit(
    cases: LikeCases, pairs: Iterable[tuple[Mistake, Mistake]], judge: Judge,
    known: MistakeCatalogue, trials: NameTrials, left: _Left, alone: list[Mistake],
) -> list[set[str]]:  # fmt: skip
    """Return the pairs that fit everything, each as the names of its mistakes.

    alone  mistakes that give the fault by themselves: their partners show on other inputs
    """
    found: dict[str, set[str]] = {}
    failure, made = cases.failure, []
    hard = {m.id: trials.find_unexplained(m) for m in alone}
    [plainest] = cases.list_failing(1)
    for one, other in pairs:
        if left.asked <= 0 or left.run <= 0:
            break
        if {one.id, other.id} in found.values():  # in the other order
            continue
        hardest = hard.get(one.id) or hard.get(other.id)
        if not trials.may_be_both(one, other, hardest):
            continue
        pair = known.pair(one, other)
        if pair is None or failure.calls.isdisjoint(known.names(pair)):
            continue
        left.asked -= 1
        if not naming.has_judged_answer(failure.asked, pair, known):
            continue
        left.run -= 1
        hardest = hardest or trials.find_first_wrong(pair)
        if hardest and one.of == other.of and not trials.explains(pair, hardest):
            continue
        if naming.keep_same_fault(plainest, [pair], judge, known):
            found[pair.id] = {one.id, other.id}
            made.append(pair)
    kept = naming.keep_fitting(
        made[:MAX_VERIFIED_PAIRS], cases, judge, known, fully_run=MAX_FULLY_RUN_PAIRS, trials=trials
    )
    # Whatever was not verified may fit too: only what it shares with the others is told.
    return [found[pair.id] for pair in (*kept, *made[MAX_VERIFIED_PAIRS:])] if kept else []
