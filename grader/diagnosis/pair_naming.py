"""Finds two mistakes that an answer makes at once, where no single one fits everything.

The likeliest pairs come first: mistakes that each fit a failed check by themselves, then one of
these with any other, then any two.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, permutations, product

from grader.diagnosis import failure_signs, naming
from grader.diagnosis.like_cases import LikeCases
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.diagnosis.name_trials import NameTrials
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


def may_be_one_of_two(
    failure: CheckFailure, judge: Judge, known: MistakeCatalogue, trials: NameTrials
) -> bool:
    """Return whether a mistake gives the first wrong values by itself, whatever else it does."""
    blamed = failure_signs.find_blamed_names(failure, judge)
    return any(trials.count_explained(m, 1) for m in known.mistakes if m.of in blamed)


def name_mistake_pair(
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
        near = [m for m in every if m.of in failure_signs.find_blamed_names(failure, judge)]
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


def _list_mistakes_that_explain_alone(
    cases: LikeCases, judge: Judge, known: MistakeCatalogue, trials: NameTrials
) -> list[Mistake]:
    """Return the mistakes that explain at least one of the student's wrong values by themselves.

    On the plainest inputs one of two mistakes often has no effect: with one token a wrong scale
    changes nothing. The mistakes explain the first wrong input of the trials, or else the next one
    that any explains; those that explain the most inputs come first. If no input of a trial is
    wrong, the failed cases are asked, first about the mistakes that the failed check detects.
    """
    blamed = failure_signs.find_blamed_names(cases.failure, judge)
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
