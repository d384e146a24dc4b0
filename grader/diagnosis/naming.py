"""Names the mistake behind failed checks: one of the catalogue, or two at once.

The failed cases run again, with the same inputs, on every mistake of the exercise, in this trusted
process. A mistake is named only if it fits everything: its answer is close to the student's and far
from the right one, or raises the same error, in every failed check that calls it and on fresh
inputs, and it passes what the student passed. Where a match may be chance (a shape, a NaN
everywhere, an exception), it must fail the very checks that the student failed. An error about
sizes that do not fit each other shows nothing at all. No match, no guess.
"""

import re
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

from torch import Tensor

from grader.core.records import Verdict
from grader.diagnosis import likeness
from grader.diagnosis.failure_signs import (
    find_blamed_names,
    is_fault_like_that_of_mistake,
    is_nan_of_precision,
    is_of_precision,
    shows_nothing_of_mistake,
)
from grader.diagnosis.like_cases import LikeCase, LikeCases
from grader.diagnosis.mistake_catalogue import MistakeCatalogue, list_failed_checks
from grader.diagnosis.name_trials import NameTrials
from grader.diagnosis.student_runs import StudentRuns
from grader.judging.case import LastCall
from grader.judging.judge import CheckFailure, Judge
from grader.judging.marks import Mistake
from grader.judging.student_calls import StudentObject

MAX_PASSED_CASES = 1  # cases of each check that passed, which a mistake must pass too
MAX_COMPARED_CASES = 3  # the same, where a match may be chance
MAX_FULLY_RUN_MISTAKES = 12  # mistakes for which it is worth running all their checks
MAX_NAMED_MISTAKES = 2  # mistakes that are named together
_RAISED = re.compile(r": raise [A-Z]")  # the line at which the student's function ended


def name_mistake(
    failure: CheckFailure,
    judge: Judge,
    known: MistakeCatalogue,
    only: frozenset[str] = frozenset(),
) -> tuple[Mistake, ...]:
    """Name the mistake that a failure shows, or two that cannot be told apart, or none.

    only  the checks that `judge` has run, with the checks they need; empty if it has run all
    """
    found = find_mistakes(failure, judge, known, only)
    return tuple(found) if len(found) <= MAX_NAMED_MISTAKES else ()


def find_mistakes(
    failure: CheckFailure, judge: Judge, known: MistakeCatalogue,
    only: frozenset[str] = frozenset(), without: frozenset[str] = frozenset(),
    trials: NameTrials | None = None, runs: StudentRuns | None = None,
) -> list[Mistake]:  # fmt: skip
    """Return every mistake that fits everything that the student's function gave.

    without  names in the answer whose mistakes are not tried
    trials   further inputs that a mistake must fit; None if the answer itself is a known mistake
    runs     the cases that ran on the student's answer
    """
    if shows_nothing_of_mistake(failure):
        return []
    near = [m for m in known.mistakes if m.of in find_blamed_names(failure, judge) - without]
    cases = LikeCases(failure, runs or StudentRuns(judge))
    for some in split_mistakes_by_likelihood(near, judge):
        found = [m for m in some if has_judged_answer(failure.asked, m, known)]
        if fit := keep_fitting(found, cases, judge, known, only, trials=trials):
            return fit
    return []


def split_mistakes_by_likelihood(
    mistakes: list[Mistake], judge: Judge
) -> tuple[list[Mistake], list[Mistake]]:
    """Return the mistakes whose check failed, and those whose check was not asked or is blocked."""
    verdicts = {m.caught_by: judge.verdict(m.caught_by) for m in mistakes}
    failed = [m for m in mistakes if verdicts[m.caught_by] is Verdict.FAILED]
    rest = [m for m in mistakes if verdicts[m.caught_by] not in (Verdict.FAILED, Verdict.PASSED)]
    return failed, rest


def keep_fitting(
    found: list[Mistake], cases: LikeCases, judge: Judge, known: MistakeCatalogue,
    only: frozenset[str] = frozenset(), fully_run: int = MAX_FULLY_RUN_MISTAKES,
    trials: NameTrials | None = None,
) -> list[Mistake]:  # fmt: skip
    """Keep the mistakes that fit a failure, cases like it, and all else that the student gave.

    fully_run  at most so many mistakes run all their checks, where that tells them apart
    trials     further inputs that a mistake must fit
    """
    failure = cases.failure
    found = _keep_fitting_like_cases(found, cases, judge, known, trials)
    fitting = [m for m in found if _fits_other_failures(m, failure, judge, known)]
    found = fitting or [
        m for m in found if _fits_other_failures(m, failure, judge, known, any_precision=False)
    ]
    found = [m for m in found if _does_mistake_pass_what_passed(m, judge, known)]
    # What trials do not tell apart, checks will hardly do either.
    told_apart = 1 if trials is None else MAX_NAMED_MISTAKES
    sure = _is_surely_alike(found, failure, judge, trials)
    if len(found) > fully_run or (len(found) <= told_apart and sure):
        return found if sure else []
    if not sure and trials is not None and is_nan_of_precision(failure):
        # A NaN is alike whatever led to it: a trial must show the answer wrong.
        found = [m for m in found if trials.find_first_wrong(m)]
    same = [m for m in found if _does_mistake_give_same_verdicts(m, judge, known, only, trials)]
    return same or (found if sure else [])


def _keep_fitting_like_cases(
    found: list[Mistake], cases: LikeCases, judge: Judge, known: MistakeCatalogue,
    trials: NameTrials | None,
) -> list[Mistake]:  # fmt: skip
    """Keep the mistakes that fit the small inputs of trials, and cases like the failed one."""
    like_it: Iterable[LikeCase] = cases
    if trials is not None:
        rest = [m for m in found if not trials.find_first_wrong(m)]
        for like in cases.list_failing(1) if rest else ():  # where the answer passes all trials
            same = keep_same_fault(like, rest, judge, known, any_words=True)
            found = [m for m in found if m not in rest or m in same]
        found = trials.keep_fitting(found)
        if all(map(trials.find_first_wrong, found)):
            like_it = cases.without_fresh()
    for like in like_it if found else ():
        found = keep_same_fault(like, found, judge, known, any_words=trials is not None)
        if not found:
            break
    return found


def _is_surely_alike(
    found: Sequence[Mistake], failure: CheckFailure, judge: Judge, trials: NameTrials | None
) -> bool:
    """Return whether nothing but one of these mistakes can have led to such numbers."""
    if any(
        likeness.is_distinctive_mistake(f.fault.differs)
        for f in judge.failures
        if not f.calls.isdisjoint(failure.calls)
    ):
        return True
    return trials is not None and bool(found) and all(map(trials.tell_apart, found))


def _does_mistake_give_same_verdicts(
    mistake: Mistake, judge: Judge, known: MistakeCatalogue, only: frozenset[str],
    trials: NameTrials | None,
) -> bool:  # fmt: skip
    """Return whether a mistake fails the checks that the student failed, and passes the others.

    With `trials`, which also show where it is right, only some cases of the checks run.
    """
    names = known.names(mistake)
    if trials is None:
        failed = list_failed_checks(names, judge)
        return known.fails(mistake, failed, only or judge.list_checks(names))
    return all(
        known.fault(mistake, judge, f.case) is not None
        for f in judge.failures
        if is_of_precision(f) and not f.calls.isdisjoint(names)
    ) and _does_mistake_pass_what_passed(
        mistake, judge, known, MAX_COMPARED_CASES, MAX_PASSED_CASES
    )


def _fits_other_failures(
    mistake: Mistake, failure: CheckFailure, judge: Judge, known: MistakeCatalogue, *,
    any_precision: bool = True,
) -> bool:  # fmt: skip
    """Return whether a mistake gives the student's faults in all other failed checks calling it.

    Where the student's call raises and the mistake is right, the answer may have another mistake,
    unless the failure to be explained is an exception itself. How half precision and float64 are
    treated is a habit of its own: unless `any_precision`, a mistake that was found in float32 need
    not share it.
    """
    others = (
        other
        for other in judge.failures
        if other is not failure
        and not other.calls.isdisjoint(known.names(mistake))
        and (any_precision or is_of_precision(failure) or not is_of_precision(other))
    )
    beside = not failure.fault.kind
    for other in others:
        fault = known.fault(mistake, judge, other.case)
        if not is_fault_like_that_of_mistake(other.fault, fault) and not (
            beside and other.fault.kind and fault is None
        ):
            return False
    return True


def _does_mistake_pass_what_passed(
    mistake: Mistake, judge: Judge, known: MistakeCatalogue, most: int = MAX_PASSED_CASES,
    known_to_pass: int = 0,
) -> bool:  # fmt: skip
    """Return whether a mistake passes cases of the checks that the student passed.

    most           how many cases of a check count; the first `known_to_pass` need not run
    """
    for name in known.names(mistake):
        passed = {case.name for case in judge.list_passed_cases(name, known_to_pass)}
        for case in judge.list_passed_cases(name, most):
            if case.name not in passed and known.fault(mistake, judge, case) is not None:
                return False
    return True


def has_judged_answer(asked: LastCall | None, mistake: Mistake, known: MistakeCatalogue) -> bool:
    """Return whether a mistake answers the last call as the student did: a quick first filter."""
    if asked is None or any(isinstance(x, StudentObject) for x in asked.args):
        return True
    function = getattr(known.module(mistake), asked.name, None)
    if function is None:
        return False
    try:
        answer = function(*_copy_judged_arguments(asked.args), **asked.kwargs)
    except Exception:  # whatever a wrong answer raises; the student's came back
        return False
    return likeness.are_judged_answers_alike(answer, asked.value)


def _copy_judged_arguments(values: Sequence[Any]) -> list[Any]:
    """Copy the arguments; an object that occurs twice is copied once."""
    made = {id(x): x.detach().clone() if isinstance(x, Tensor) else deepcopy(x) for x in values}
    return [made[id(x)] for x in values]


def keep_same_fault(
    like: LikeCase, mistakes: list[Mistake], judge: Judge, known: MistakeCatalogue, *,
    any_words: bool = False,
) -> list[Mistake]:  # fmt: skip
    """Keep the mistakes that fail in a case as the student's answer fails.

    any_words  whether the message of an error that the student's own `raise` wrote does not count
    """
    faults = [(m, known.fault(m, judge, like.case, *like.again)) for m in mistakes]
    if any_words and like.fault is not None and _RAISED.search(str(like.fault)):
        return [m for m, fault in faults if is_fault_like_that_of_mistake(like.fault, fault)]
    return [m for m, fault in faults if likeness.are_judged_faults_alike(like.fault, fault)]
