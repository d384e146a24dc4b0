"""A changed module and the right one, run side by side on the inputs of an exercise's trials."""

import random
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.authoring import values
from grader.authoring.process_limits import Endless, at_most
from grader.authoring.recorder import Recorder
from grader.core.errors import GraderFault
from grader.core.records import Exercise
from grader.judging.draw import Draw
from grader.judging.marks import Trial

KEPT = 512 << 20  # bytes of the right module's values that are kept
ENDLESS = "does not end"
ENDED = "no more values"
Input = tuple[Trial, int]


@dataclass(frozen=True, slots=True)
class Raised:
    """The exception that ended a script."""

    text: str

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


class SideBySide:
    """The right module, and what its trials yield, kept for every module that it is held to."""

    def __init__(
        self, exercise: Exercise, right: ModuleType, trials: Sequence[Trial], seconds: float
    ) -> None:
        self._exercise = exercise
        self._right = Recorder(exercise, right)
        self._trials = tuple(trials)
        self._seconds = seconds  # of the processor, for one input
        self._kept: dict[tuple[str, int], list[Any]] = {}
        self._bytes = 0

    def inputs(self, names: Collection[str], count: int) -> list[Input]:
        """So many inputs for code behind these names, as many of each trial."""
        trials = [t for t in self._trials if set(t.of) & set(names)]
        return [(trials[n % len(trials)], n // len(trials)) for n in range(count)] if trials else []

    def smallest(self, changed: ModuleType, inputs: Sequence[Input]) -> TrialValues | None:
        """The input with the fewest numbers on which the module differs, if there is any."""
        recorder = Recorder(self._exercise, changed)
        found: TrialValues | None = None
        for trial, number in inputs:
            told = self._told(recorder, trial, number)
            if told and (found is None or told.elements < found.elements):
                found = told
            if told and told.why == ENDLESS:
                break  # each of its inputs would take as long
        return found

    def first(self, changed: ModuleType, inputs: Sequence[Input]) -> TrialValues | None:
        """The first of these inputs on which the module differs, if there is any."""
        recorder = Recorder(self._exercise, changed)
        found = (self._told(recorder, trial, number) for trial, number in inputs)
        return next((told for told in found if told), None)

    def _told(self, recorder: Recorder, trial: Trial, number: int) -> TrialValues | None:
        right = self._values(trial, number)
        recorder.clear()
        why = ""
        try:
            with at_most(self._seconds), _quietly(self._seed(trial, number)):
                why = self._compared(recorder, trial, number, right)
        except Endless:
            why = ENDLESS
        if not why:
            return None
        return TrialValues(
            trial=trial.id, number=number, calls=recorder.text(), elements=recorder.elements,
            why=why,
        )  # fmt: skip

    def _compared(self, recorder: Recorder, trial: Trial, number: int, right: list[Any]) -> str:
        """The first difference between the values of the right module and those of this one."""
        got = _yielded(trial, recorder, self._draw(trial, number))
        for place, one in enumerate(right):
            other = next(got, ENDED)
            if values.difference(one, other):
                near = self._near(trial, number, place)
                if why := values.difference(one, other, near, values.largest(right)):
                    return f"value {place}: {why}"
        return "" if next(got, ENDED) == ENDED else "more values"

    def _values(self, trial: Trial, number: int) -> list[Any]:
        """What the right module yields; kept while there is room."""
        key = trial.id, number
        if key not in self._kept:
            found = self._run(trial, number, self._draw(trial, number))
            self._bytes += values.size(found)
            if self._bytes > KEPT:
                return found
            self._kept[key] = found
        return self._kept[key]

    def _near(self, trial: Trial, number: int, place: int) -> Any:
        """The value at a place that the right module yields for inputs moved by the last digit."""
        moved = self._run(trial, number, _Moved("trial", *self._names(trial, number)))
        return moved[place] if place < len(moved) else None

    def _run(self, trial: Trial, number: int, draw: Draw) -> list[Any]:
        try:
            with at_most(self._seconds), _quietly(self._seed(trial, number)):
                found = list(_yielded(trial, self._right, draw))
        except Endless:
            raise self._fault(trial, number, f"takes more than {self._seconds:g} s") from None
        if found and isinstance(found[-1], Raised):
            raise self._fault(trial, number, str(found[-1]))
        if not found:
            raise self._fault(trial, number, "yields nothing")
        return found

    def _fault(self, trial: Trial, number: int, what: str) -> GraderFault:
        where = f"{self._exercise.slug}: trial {trial.id}, draw {number}"
        return GraderFault(f"{where}, {what} on the right answer. Mend the trial.")

    def _draw(self, trial: Trial, number: int) -> Draw:
        return Draw("trial", *self._names(trial, number))

    def _names(self, trial: Trial, number: int) -> tuple[str, ...]:
        return self._exercise.slug, trial.id, str(number)

    def _seed(self, trial: Trial, number: int) -> int:
        return self._draw(trial, number).integer(0, 1 << 31)


def _yielded(trial: Trial, student: Recorder, draw: Draw) -> Iterator[Any]:
    """What a script yields, kept; at its end the exception that it lets out, if it does."""
    try:
        for value in trial.script(student, draw):
            yield values.kept(value)
    except Exception as error:  # whatever a changed answer raises tells it apart
        yield Raised(f"{type(error).__name__}: {error}")


@contextmanager
def _quietly(seed: int) -> Iterator[None]:
    """Without warnings, and with the same global random numbers for both modules."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


class _Moved(Draw):
    """The same draws, every number of float32 and float64 moved by its last digit."""

    def __init__(self, seed: str, *names: str) -> None:
        super().__init__(seed, *names)
        self._signs = torch.Generator().manual_seed(0)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
        return self._moved(super().normal(*shape, dtype=dtype, scale=scale))

    def logits(self, *shape: int, bound: float, dtype: torch.dtype = torch.float32) -> Tensor:
        return self._moved(super().logits(*shape, bound=bound, dtype=dtype))

    def scores(self, *shape: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        found = super().scores(*shape, dtype=dtype)
        return {name: self._moved(x) for name, x in found.items()}

    def _moved(self, x: Tensor) -> Tensor:
        unit = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}.get(x.dtype)
        if unit is None:
            return x
        signs = torch.randint(0, 2, x.shape, generator=self._signs) * 2 - 1
        return x * (1 + 2 * unit * signs.to(x.dtype))
