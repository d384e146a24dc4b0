"""Runs the trials of a suite, to see whether an answer makes the mistake that it may be named by.

The checks ask what an exercise wants to know; trials call the same functions on whatever inputs
are allowed. A mistake that gave the student's faults in all checks by chance, or that differs from
the student's in a rare case (a row without keys, say), is seen here.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import islice, zip_longest
from typing import Any

from grader.judging.case import find_case
from grader.judging.coarse_values import compare_numbers_coarsely, has_half_precision
from grader.judging.copied_values import copy_mutant_value
from grader.judging.judge import Judge
from grader.judging.likeness import MIN_DISTINCT
from grader.judging.marks import Check, CheckCase, Mistake, Trial
from grader.judging.mistake_catalogue import MistakeCatalogue, OutOfTime
from grader.judging.student import Student
from grader.worker.client import ObjectHandle

TRIAL_INPUTS = 48  # on which the student's answer runs
PAIR_FACTOR = 3  # times as many for two mistakes at once, which are one pair of thousands
INPUTS_TO_FAIL = 6  # after which a trial on which the answer is never wrong runs no more
COMPARED_INPUTS = 16  # of those on which it is wrong: a mistake runs on them too
TrialInput = tuple[Trial, int]  # and the number of the draw
FailingInput = tuple[TrialInput, list[Any]]
_ON_META = f"an object of type {ObjectHandle.__name__}"  # it has no numbers that could cross
_TRIAL_CHECK = Check(id="trial", says="", points=0, needs=(), cuda=False)


class _FailingInputs:
    """Inputs on which the student's answer is wrong, with its values up to there.

    Each runs when it is first read: most mistakes differ on the first. Half precision and the
    device meta are left out where other inputs fail, because how they are treated is another habit.
    """

    def __init__(self, found: Iterator[tuple[FailingInput, bool]]) -> None:
        self._plain: list[FailingInput] = []
        self._special: list[FailingInput] = []
        self._rest = found

    def __iter__(self) -> Iterator[FailingInput]:
        yield from self._plain
        for one, on_meta in self._rest:
            if on_meta or any(map(has_half_precision, one[1])):
                self._special.append(one)
                continue
            self._plain.append(one)
            yield one
        if not self._plain:
            yield from self._special


class NameTrials:
    """The trials of one answer; each input runs once on the right answer and the student's."""

    def __init__(self, judge: Judge, known: MistakeCatalogue) -> None:
        self._judge, self._known = judge, known
        self._failing: dict[tuple[tuple[str, ...], int], _FailingInputs] = {}
        self._explained: dict[tuple[str, int], int] = {}

    def keep_fitting(self, mistakes: Sequence[Mistake]) -> list[Mistake]:
        """Keep the mistakes with the student's values on all inputs that are wrong."""
        return [m for m in mistakes if self.find_unexplained(m) is None]

    def find_unexplained(self, mistake: Mistake) -> TrialInput | None:
        """Return the first input on which a mistake has other values than the student's answer."""
        failing = self._list_failing_inputs(mistake)
        return next((one for one, came in failing if not self._gives(mistake, one, came)), None)

    def explains(self, mistake: Mistake, one: TrialInput) -> bool:
        """Return whether a mistake has the student's values on an input on which they are wrong.

        An input that does not count for this mistake (a pair has more, so that half precision may
        not) speaks against none.
        """
        failing = self._list_failing_inputs(mistake)
        came = next((came for key, came in failing if key == one), None)
        return came is None or self._gives(mistake, one, came)

    def tell_apart(self, mistake: Mistake) -> bool:
        """Return whether a match is no chance: the answer is wrong on inputs in many ways."""
        found: list[Any] = []
        for _, (*_, wrong) in self._list_failing_inputs(mistake):
            if all(compare_numbers_coarsely(wrong, other) for other in found):
                found.append(wrong)
            if len(found) >= MIN_DISTINCT:
                return True
        return False

    def count_explained(self, mistake: Mistake, most: int) -> int:
        """Return how many of the first `most` wrong inputs a mistake of the catalogue explains."""
        if (mistake.id, most) not in self._explained:
            failing = islice(self._list_failing_inputs(mistake), most)
            count = sum(self._gives(mistake, one, came) for one, came in failing)
            self._explained[mistake.id, most] = count
        return self._explained[mistake.id, most]

    def _gives(self, mistake: Mistake, one: TrialInput, came: list[Any]) -> bool:
        """Compare a mistake's values up to the student's first wrong one.

        The rest may follow from it.
        """
        theirs = self._run(self._known.student(mistake), *one)
        pairs = islice(zip_longest(came, theirs), len(came))
        return not any(compare_numbers_coarsely(ours, their) for ours, their in pairs)

    def _list_failing_inputs(self, mistake: Mistake) -> "_FailingInputs":
        names = self._known.names(mistake)
        times = PAIR_FACTOR if self._known.is_pair(mistake) else 1
        if (names, times) not in self._failing:
            found = self._iterate_failing_inputs(names, times)
            self._failing[names, times] = _FailingInputs(islice(found, times * COMPARED_INPUTS))
        return self._failing[names, times]

    def _iterate_failing_inputs(
        self, names: Collection[str], times: int
    ) -> Iterator[tuple[FailingInput, bool]]:
        """Yield inputs on which the answer is wrong, and whether the wrong value is on meta.

        times  as many inputs run, and as many before a trial without a wrong one is given up
        """
        trials, right = self._list_trials(frozenset(names)), self._known.right
        if self._judge.is_replayed or right is None:
            return
        failing = dict.fromkeys(trials, 0)
        for n in range(times * TRIAL_INPUTS if trials else 0):
            trial, number = trials[n % len(trials)], n // len(trials)
            if number >= times * INPUTS_TO_FAIL and not failing[trial]:
                continue
            wanted = self._run(right, trial, number)
            came = self._run(self._judge.student, trial, number)
            for place, (one, other) in enumerate(zip_longest(wanted, came)):
                if compare_numbers_coarsely(one, other):
                    failing[trial] += 1
                    yield ((trial, number), came[: place + 1]), one == _ON_META
                    break

    def _list_trials(self, names: frozenset[str]) -> list[Trial]:
        """Return the trials that call these names, and no other that is wrong by itself."""
        alone = [f.calls for f in self._judge.failures if f.calls.isdisjoint(names)]
        others = frozenset[str]().union(*alone)
        return [
            trial
            for trial in self._known.trials
            if not names.isdisjoint(trial.of) and others.isdisjoint(set(trial.of) - names)
        ]

    def _run(self, student: Student, trial: Trial, number: int) -> list[Any]:
        """Return copies of a trial's values; last the kind of the exception that ends it."""
        if time.process_time() > self._known.until:
            raise OutOfTime
        found: list[Any] = []
        collect = partial(_collect_values, trial, found)
        case = CheckCase(name=f"trial {trial.id}", check=_TRIAL_CHECK, function=collect, params={})
        try:
            if fault := self._judge.ask(student, case, str(number)):
                found.append(f"raises {fault.kind or type(fault).__name__}")
        except Exception as error:  # a script may ask what only a module in this process can do
            found.append(f"raises {type(error).__name__}")
        return found


def _collect_values(trial: Trial, found: list[Any], student: Any, draw: Any) -> None:
    find_case().takes_any_form = True  # of two mistakes one is often of the values
    found.extend(copy_mutant_value(value) for value in trial.script(student, draw))
