"""Runs the trials of a suite, to see whether an answer really makes a mistake before it is named.

The checks ask what an exercise wants to know; trials call the same functions on whatever inputs
are allowed. A mistake that gave the student's faults in all checks by chance, or that differs from
the student's mistake in a rare case (a row without keys, say), is noticed here.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from grader.diagnosis.coarse_values import compare_numbers_coarsely, has_half_precision
from grader.diagnosis.failing_inputs import FailingInput, FailingInputs, Shown
from grader.diagnosis.likeness import MIN_DISTINCT
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.diagnosis.trial_run import (
    TrialInput,
    WantedInput,
    find_difference,
    has_last_of,
    has_raised,
    is_left_out,
    iterate_trial,
    run_trial,
)
from grader.judging.judge import Judge
from grader.judging.marks import Mistake, Trial
from grader.judging.student import Student
from grader.worker.parent.client import ObjectHandle

TRIAL_INPUTS = 48  # on which the student's answer runs
PAIR_FACTOR = 3  # times as many for two mistakes at once, which are one pair of thousands
INPUTS_TO_FAIL = 6  # after which a trial on which the answer is never wrong runs no more
COMPARED_INPUTS = 16  # of those on which it is wrong: a mistake runs on them too
MAX_INPUTS_BESIDE = 3  # where the answer's call raises and a mistake that explains none is right
_ON_META = f"an object of type {ObjectHandle.__name__}"  # it has no numbers that could cross


_RIGHT = frozenset({Shown.NOT, Shown.BESIDE})


class NameTrials:
    """The trials of one answer; each input runs once on the right answer and the student's."""

    def __init__(self, judge: Judge, known: MistakeCatalogue) -> None:
        self._judge, self._known = judge, known
        self._failing: dict[tuple[tuple[str, ...], int], FailingInputs] = {}
        self._wrong: dict[TrialInput, tuple[FailingInput, bool] | None] = {}
        self._wanted: dict[TrialInput, list[Any]] = {}
        self._shown: dict[tuple[str, TrialInput], Shown] = {}

    @property
    def leaves_out_meta(self) -> bool:
        """Whether calls with tensors on the device meta are left out."""
        return self._known.leaves_out_meta

    @property
    def right(self) -> Student | None:
        """A student who makes no mistake; None if there is no solution."""
        return self._known.right

    def keep_fitting(self, mistakes: Sequence[Mistake]) -> list[Mistake]:
        """Keep the mistakes with the student's values where they are wrong, and right elsewhere."""
        fit = (m for m in mistakes if self.find_unexplained(m) is None)
        return [m for m in fit if self._is_right_elsewhere(m)]

    def find_unexplained(self, mistake: Mistake) -> TrialInput | None:
        """Return the first input on which a mistake has other values than the student's answer.

        Where the student's call raises and the mistake is right, the answer may have another
        mistake; but of one that has the student's values on none of the first such inputs, nothing
        shows.
        """
        beside: list[TrialInput] = []
        explained = False
        for one, came in self._list_failing_inputs(mistake):
            match self._compare(mistake, one, came):
                case Shown.AS_GIVEN:
                    explained = True
                case Shown.BESIDE:
                    beside.append(one)
                    if not explained and len(beside) == MAX_INPUTS_BESIDE:
                        break
                case Shown.NOT | Shown.OTHERWISE:
                    return one
        return None if explained or not beside else beside[0]

    def find_first_wrong(self, mistake: Mistake) -> TrialInput | None:
        """Return the first input on which the answer is wrong, of those that a mistake is asked."""
        return next((one for one, _ in self._list_failing_inputs(mistake)), None)

    def explains(self, mistake: Mistake, one: TrialInput) -> bool:
        """Return whether a mistake has the student's values on an input on which they are wrong.

        An input that does not count for this mistake is no evidence against it: a pair is tried on
        more inputs, and among more inputs half precision may not count.
        """
        failing = self._list_failing_inputs(mistake)
        came = next((came for key, came in failing if key == one), None)
        return came is None or self._gives(mistake, one, came)

    def _is_right_elsewhere(self, mistake: Mistake) -> bool:
        """Return whether a mistake gives right values where the answer ran and gives right values.

        Half precision is a habit of its own: it is left out if the answer is wrong on any input.
        """
        names, student = frozenset(self._known.names(mistake)), self._known.student(mistake)
        fails = self.find_first_wrong(mistake) is not None
        ran = (one for one, wrong in self._wrong.items() if wrong is None)
        right = (one for one in ran if not names.isdisjoint(one[0].of))
        told = (
            one for one in right if not (fails and any(map(has_half_precision, self._wanted[one])))
        )
        for one in islice(told, COMPARED_INPUTS):
            wanted = self._wanted[one]
            theirs = run_trial(self._judge, student, *one, wanted, len(wanted))
            if find_difference(wanted, theirs) is not None:
                return False
        return True

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
        failing = islice(self._list_failing_inputs(mistake), most)
        return sum(self._gives(mistake, one, came) for one, came in failing)

    def may_be_both(self, one: Mistake, other: Mistake, hardest: TrialInput | None) -> bool:
        """Return whether two mistakes at once may give the student's wrong values on two inputs.

        Where one of them makes no difference, the other must give the student's values by itself.
        (Pairs in which one mistake hides the other, or brings it out, are not found.)

        hardest  an input whose wrong values one of the two does not explain by itself
        """
        found = (islice(self._list_failing_inputs(m), 2 - bool(hardest)) for m in (one, other))
        keys = [key for some in found for key, _ in some] + ([hardest] if hardest else [])
        return all(self._may_both_give(one, other, key) for key in dict.fromkeys(keys))

    def _may_both_give(self, one: Mistake, other: Mistake, key: TrialInput) -> bool:
        found = self._wrong[key]
        assert found is not None
        shown = {
            self._compare(m, key, found[0][1]) if m.of in key[0].of else Shown.NOT
            for m in (one, other)
        }
        return shown.isdisjoint(_RIGHT) or Shown.AS_GIVEN in shown

    def _gives(self, mistake: Mistake, one: TrialInput, came: list[Any]) -> bool:
        return self._compare(mistake, one, came) is Shown.AS_GIVEN

    def _compare(self, mistake: Mistake, one: TrialInput, came: list[Any]) -> "Shown":
        """Compare a mistake's values up to the student's first wrong one.

        The rest may follow from it.
        """
        if (mistake.id, one) not in self._shown:
            theirs = run_trial(
                self._judge, self._known.student(mistake), *one, like=came, most=len(came)
            )
            place = find_difference(came, theirs)
            right = self._wanted.get(one, []) if place == len(came) - 1 else []
            self._shown[mistake.id, one] = (
                Shown.AS_GIVEN if place is None
                else Shown.OTHERWISE if len(theirs) < len(came) or not has_last_of(theirs, right)
                else Shown.BESIDE if has_raised(came) else Shown.NOT
            )  # fmt: skip
        return self._shown[mistake.id, one]

    def list_wanted(self, names: Collection[str], most: int) -> list[WantedInput]:
        """Run the student's answer on the first inputs that call these names, and the right one."""
        trials, found = self._list_trials(frozenset(names)), list[WantedInput]()
        if self._judge.is_replayed or self._known.right is None or not trials:
            return found
        for n in range(most):
            one = trials[n % len(trials)], n // len(trials)
            wrong = self._find_wrong(one)
            if wrong:
                self._wanted[one] = []
                deque(self._run_right(one), maxlen=0)  # what no comparison has needed as well
            found.append(WantedInput(one, self._wanted[one], len(wrong[0][1]) if wrong else 0))
        return found

    def _list_failing_inputs(self, mistake: Mistake) -> "FailingInputs":
        names = self._known.names(mistake)
        times = PAIR_FACTOR if self._known.is_pair(mistake) else 1
        if (names, times) not in self._failing:
            found = self._iterate_failing_inputs(names, times)
            self._failing[names, times] = FailingInputs(islice(found, times * COMPARED_INPUTS))
        return self._failing[names, times]

    def _iterate_failing_inputs(
        self, names: Collection[str], times: int
    ) -> Iterator[tuple[FailingInput, bool]]:
        """Yield inputs on which the answer is wrong, and whether the wrong value is on meta.

        times  the factor for how many inputs run, and for how many run before a trial in which none
               is wrong is given up
        """
        trials = self._list_trials(frozenset(names))
        if self._judge.is_replayed or self._known.right is None:
            return
        failing = dict.fromkeys(trials, 0)
        for n in range(times * TRIAL_INPUTS if trials else 0):
            trial, number = trials[n % len(trials)], n // len(trials)
            if number >= times * INPUTS_TO_FAIL and not failing[trial]:
                continue
            if (found := self._find_wrong((trial, number))) is not None:
                failing[trial] += 1
                yield found

    def _find_wrong(self, one: TrialInput) -> tuple[FailingInput, bool] | None:
        """Return the student's values up to the first wrong one; None if none is wrong."""
        if one not in self._wrong:
            wanted = self._wanted[one] = []
            came = run_trial(self._judge, self._judge.student, *one, self._run_right(one))
            place = find_difference(wanted, came)
            self._wrong[one] = None if place is None else (
                (one, came[: place + 1]), [*wanted, None][place] == _ON_META
            )  # fmt: skip
        return self._wrong[one]

    def _run_right(self, one: TrialInput) -> Iterator[Any]:
        """Yield the right values, each when it is asked for, and keep it."""
        right, kept = self._known.right, self._wanted[one]
        assert right is not None
        for value in iterate_trial(self._judge, right, *one):
            if not is_left_out(value):
                kept.append(value)
            yield value

    def _list_trials(self, names: frozenset[str]) -> list[Trial]:
        """Return the trials that call these names, and no other that is wrong by itself."""
        alone = [f.calls for f in self._judge.failures if f.calls.isdisjoint(names)]
        others = frozenset[str]().union(*alone)
        return [
            trial
            for trial in self._known.trials
            if not names.isdisjoint(trial.of) and others.isdisjoint(set(trial.of) - names)
        ]
