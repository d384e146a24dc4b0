"""Runs a changed module and the right one side by side on the inputs of trials."""

import random
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.authoring.process_limits import EndlessCode, limit_seconds_of_proof
from grader.authoring.reached_lines import record_reached_lines
from grader.authoring.recorder import CallRecorder
from grader.core.errors import GraderFault
from grader.core.records import Exercise
from grader.diagnosis import copied_values as values
from grader.judging.draw import DealtDraw, Draw
from grader.judging.marks import Trial

LARGEST_KEPT_BYTES = 512 << 20  # of the right module's values
DOES_NOT_END = "does not end"
NO_MORE_VALUES = "no more values"
Input = tuple[Trial, int]


@dataclass(frozen=True, slots=True)
class RaisedValue:
    """The exception that ended a trial's script; equal to another of its type."""

    kind: str
    text: str = field(compare=False)

    def __str__(self) -> str:
        return f"raises {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialValues:
    """An input on which two modules differ."""

    trial: str
    number: int  # of the draw
    calls: str
    elements: int  # in the arguments of the calls
    why: str
    place: int = 0  # among the values of the trial; 0 if the code does not end


class SideBySide:
    """The right module and its values, with which changed modules are compared."""

    def __init__(
        self, exercise: Exercise, right: ModuleType, trials: Sequence[Trial], seconds: float, *,
        known_right: bool = True,
    ) -> None:  # fmt: skip
        """Take `right` as the module that others are compared with.

        seconds      the processor time allowed for one input
        known_right  False if `right` is a wrong module: an exception that it raises counts as a
                     value, not as a fault of the trial
        """
        self._exercise = exercise
        self._right = CallRecorder(exercise, right)
        self._trials = tuple(trials)
        self._seconds, self._known_right = seconds, known_right
        self._kept: dict[tuple[str, int], list[Any]] = {}
        self._lines: dict[Input, frozenset[int]] = {}
        self._bytes = 0

    def choose_inputs(self, names: Collection[str], count: int) -> list[Input]:
        """Return `count` inputs of the trials that call these names, equally many of each trial."""
        trials = [t for t in self._trials if set(t.of) & set(names)]
        return [(trials[n % len(trials)], n // len(trials)) for n in range(count)] if trials else []

    def list_reaching(self, inputs: Sequence[Input], lines: Collection[int]) -> list[Input]:
        """Return the inputs on which the right module, loaded from a text, runs a line of these."""
        return [key for key in inputs if not self._reached_lines(*key).isdisjoint(lines)]

    def least_difference(self, changed: ModuleType, inputs: Sequence[Input]) -> TrialValues | None:
        """Return the input with the fewest numbers on which a module differs; None if none does."""
        recorder = CallRecorder(self._exercise, changed)
        found: TrialValues | None = None
        for trial, number in inputs:
            told = self._compare_input(recorder, trial, number)
            if told and (found is None or told.elements < found.elements):
                found = told
            if told and told.why == DOES_NOT_END:
                break  # each other input would take as long
        return found

    def first_difference(self, changed: ModuleType, inputs: Sequence[Input]) -> TrialValues | None:
        """Return the first of these inputs on which a module differs; None if none does."""
        recorder = CallRecorder(self._exercise, changed)
        found = (self._compare_input(recorder, trial, number) for trial, number in inputs)
        return next((told for told in found if told), None)

    def list_differences(
        self, changed: ModuleType, inputs: Sequence[Input]
    ) -> dict[Input, TrialValues]:
        """Return the inputs on which a module differs, with what differs there."""
        recorder = CallRecorder(self._exercise, changed)
        found = {(trial, n): self._compare_input(recorder, trial, n) for trial, n in inputs}
        return {key: told for key, told in found.items() if told}

    def _compare_input(
        self, recorder: CallRecorder, trial: Trial, number: int
    ) -> TrialValues | None:
        right = self.right_values(trial, number)
        recorder.clear()
        place, why = 0, ""
        try:
            with (
                limit_seconds_of_proof(self._seconds),
                _set_seeds_for_mutant(self._global_seed(trial, number)),
            ):
                place, why = self._compare_yields(recorder, trial, number, right)
        except EndlessCode:
            why = DOES_NOT_END
        if not why:
            return None
        return TrialValues(
            trial=trial.id, number=number, calls=recorder.last_calls(), elements=recorder.elements,
            why=why, place=place,
        )  # fmt: skip

    def _compare_yields(
        self, recorder: CallRecorder, trial: Trial, number: int, right: list[Any]
    ) -> tuple[int, str]:
        """Return the place of the first value that differs from the right module's, and how.

        The text is "" if no value differs.
        """
        got = _run_mutant_trial(trial, recorder, self._make_draw(trial, number))
        for place, one in enumerate(right):
            other = next(got, NO_MORE_VALUES)
            if values.compare_copied_values(one, other):
                near = self._moved_value(trial, number, place)
                if why := values.compare_copied_values(
                    one, other, near, values.find_largest_copied_number(right)
                ):
                    return place, f"value {place}: {why}"
        more = next(got, NO_MORE_VALUES) != NO_MORE_VALUES
        return len(right), "more values" if more else ""

    def right_values(self, trial: Trial, number: int) -> list[Any]:
        """Return the right module's values for an input; keep them while there is room."""
        key = trial.id, number
        if key not in self._kept:
            found = self._run_right(trial, number, self._make_draw(trial, number))
            self._bytes += values.count_copied_bytes(found)
            if self._bytes > LARGEST_KEPT_BYTES:
                return found
            self._kept[key] = found
        return self._kept[key]

    def _reached_lines(self, trial: Trial, number: int) -> frozenset[int]:
        key = trial, number
        if key not in self._lines:
            with record_reached_lines(f"<{self._exercise.slug}>") as lines:
                self._run_right(trial, number, self._make_draw(trial, number))
            self._lines[key] = frozenset(lines)
        return self._lines[key]

    def _moved_value(self, trial: Trial, number: int, place: int) -> Any:
        """Return the right module's value at a place if inputs are moved by their last digit."""
        moved = self._run_right(
            trial, number, _Moved("trial", self._exercise.slug, trial.id, number=number)
        )
        return moved[place] if place < len(moved) else None

    def _run_right(self, trial: Trial, number: int, draw: Draw) -> list[Any]:
        try:
            with (
                limit_seconds_of_proof(self._seconds),
                _set_seeds_for_mutant(self._global_seed(trial, number)),
            ):
                found = list(_run_mutant_trial(trial, self._right, draw))
        except EndlessCode:
            if not self._known_right:
                return [RaisedValue(DOES_NOT_END, DOES_NOT_END)]
            raise self._trial_fault(trial, number, f"takes more than {self._seconds:g} s") from None
        if not self._known_right:
            return found
        if found and isinstance(found[-1], RaisedValue):
            raise self._trial_fault(trial, number, str(found[-1]))
        if not found:
            raise self._trial_fault(trial, number, "yields nothing")
        return found

    def _trial_fault(self, trial: Trial, number: int, what: str) -> GraderFault:
        where = f"{self._exercise.slug}: trial {trial.id}, draw {number}"
        return GraderFault(f"{where}, {what} on the right answer. Mend the trial.")

    def _make_draw(self, trial: Trial, number: int) -> Draw:
        return DealtDraw("trial", self._exercise.slug, trial.id, number=number)

    def _global_seed(self, trial: Trial, number: int) -> int:
        return self._make_draw(trial, number).integer(0, 1 << 31)


def _run_mutant_trial(trial: Trial, student: CallRecorder, draw: Draw) -> Iterator[Any]:
    """Yield copies of a script's values; last the exception that the script raises, if any."""
    try:
        for value in trial.script(student, draw):
            yield values.copy_value(value)
    except Exception as error:  # an exception is a difference too
        name = type(error).__name__
        yield RaisedValue(name, f"{name}: {error}")


@contextmanager
def _set_seeds_for_mutant(seed: int) -> Iterator[None]:
    """Set the global random seeds and silence warnings, the same for both modules."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


class _Moved(DealtDraw):
    """A `DealtDraw` whose float32 and float64 numbers are moved by their last digit."""

    def __init__(self, seed: str, *names: str, number: int) -> None:
        super().__init__(seed, *names, number=number)
        self._signs = torch.Generator().manual_seed(0)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
        return self._move_last_digit(super().normal(*shape, dtype=dtype, scale=scale))

    def logits(self, *shape: int, bound: float, dtype: torch.dtype = torch.float32) -> Tensor:
        return self._move_last_digit(super().logits(*shape, bound=bound, dtype=dtype))

    def scores(self, *shape: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        found = super().scores(*shape, dtype=dtype)
        return {name: self._move_last_digit(x) for name, x in found.items()}

    def _move_last_digit(self, x: Tensor) -> Tensor:
        unit = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}.get(x.dtype)
        if unit is None:
            return x
        signs = torch.randint(0, 2, x.shape, generator=self._signs) * 2 - 1
        return x * (1 + 2 * unit * signs.to(x.dtype))
