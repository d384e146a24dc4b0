"""Decides by computing whether the mistake that a report names is the one that an answer makes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import islice, zip_longest
from types import ModuleType

from grader.authoring.feedback_answers import WrongAnswer
from grader.authoring.side_by_side import Input, SideBySide, TrialValues
from grader.core.records import Exercise
from grader.judging.coarse_values import compare_numbers_coarsely, has_half_precision
from grader.judging.copied_values import Numbers
from grader.judging.marks import Mistake, Trial
from grader.judging.mistake_catalogue import MistakeCatalogue
from grader.worker.in_process import load_text_without_wall

INPUT_SECONDS = 10.0  # of the processor, for one input of a trial
MAX_SHARE_UNEXPLAINED = 0.1  # of the inputs on which the answer is wrong, for a name that is near


class Truth(Enum):
    """How far a named mistake is the one that an answer makes."""

    TRUE = "wrong where the answer is, with its numbers, and right where the answer is"
    NEAR = "has nearly always the answer's numbers where the answer is wrong, or is wrong elsewhere"
    FALSE = "has other numbers where the answer is wrong"
    UNKNOWN = "no trial calls it"


class NameTruth:
    """The trials of an exercise, on which a named mistake and an answer are compared."""

    def __init__(self, exercise: Exercise, trials: Sequence[Trial], inputs: int) -> None:
        self._exercise, self._trials, self._inputs = exercise, trials, inputs
        self._known = MistakeCatalogue(exercise)
        self._mistakes = {m.id: m for m in self._known.mistakes}
        right = self._load(exercise.solution.read_text(encoding="utf-8"))
        self._right = SideBySide(exercise, right, trials, INPUT_SECONDS)

    def judge_name(
        self, answer: WrongAnswer, ids: Sequence[str]
    ) -> tuple[Truth, TrialValues | None]:
        """Compare an answer with itself, the functions of these mistakes put in place of its own.

        ids  of one mistake, or of two that are made at once

        Only trials that call the names of these mistakes run. Of an answer with two mistakes one
        may also be true of either alone, where that is known. With a false name comes the smallest
        input on which it differs.
        """
        mistake = self._find(ids)
        names = set(self._known.names(mistake)) if mistake else set[str]()
        if mistake is None or not any(names & set(trial.of) for trial in self._trials):
            return Truth.UNKNOWN, None
        sources = (answer.source, *(answer.parts if len(ids) == 1 else ()))
        found = [self._compare(source, mistake, names) for source in sources]
        for truth in (Truth.TRUE, Truth.NEAR):
            if any(one == truth for one, _ in found):
                return truth, None
        told = [values for _, values in found if values is not None]
        return Truth.FALSE, min(told, key=lambda values: values.elements)

    def _find(self, ids: Sequence[str]) -> Mistake | None:
        """Return a mistake, or a pair as one; None if the two cannot be bound together."""
        one, *more = (self._mistakes[id] for id in ids)
        for other in more:
            return self._known.pair(one, other) or self._known.pair(other, one)
        return one

    def _compare(
        self, source: str, mistake: Mistake, names: Collection[str]
    ) -> tuple[Truth, TrialValues | None]:
        wrong, named = self._load(source), self._load(source)
        for name in names:
            setattr(named, name, getattr(self._known.module(mistake), name))
        side = SideBySide(self._exercise, wrong, self._trials, INPUT_SECONDS, known_right=False)
        inputs = side.choose_inputs(names, self._inputs)
        differs = side.first_difference(named, inputs)
        if differs is None:
            return Truth.TRUE, None
        failing = self._right.list_differences(wrong, inputs)
        if not failing:  # the answer is right in what the mistake gets wrong
            return Truth.FALSE, differs
        # Half precision that is not raised and devices that are ignored go with any mistake.
        if plain := [one for one, told in failing.items() if not self._is_special(one, told)]:
            inputs = [one for one in inputs if not self._is_special(one, failing.get(one))]
            failing = {one: failing[one] for one in plain}
        unexplained = self._list_unexplained(side, named, failing)
        if len(unexplained) > MAX_SHARE_UNEXPLAINED * len(failing):
            least = min(unexplained, key=lambda told: told.elements)
            share = f"on {len(unexplained)} of {len(failing)} inputs on which the answer is wrong"
            return Truth.FALSE, replace(least, why=f"{least.why}; {share}")
        if unexplained:
            return Truth.NEAR, None
        beside = side.first_difference(named, [one for one in inputs if one not in failing])
        if beside is not None and len(names) > 1:  # one of two functions is not wrong at all
            return Truth.FALSE, beside
        return Truth.TRUE if beside is None else Truth.NEAR, None

    def _list_unexplained(
        self, side: SideBySide, named: ModuleType, failing: Mapping[Input, TrialValues]
    ) -> list[TrialValues]:
        """Return the failing inputs on which a mistake has other numbers than the answer.

        They are compared up to the first value of the trial that is wrong; the rest may follow
        from it.
        """
        other = SideBySide(self._exercise, named, self._trials, INPUT_SECONDS, known_right=False)
        found = []
        for one, told in failing.items():
            pairs = zip_longest(side.right_values(*one), other.right_values(*one))
            for place, (ours, theirs) in enumerate(islice(pairs, told.place + 1)):
                if why := compare_numbers_coarsely(ours, theirs):
                    found.append(replace(told, why=f"value {place}: {why}"))
                    break
        return found

    def _is_special(self, one: Input, told: TrialValues | None) -> bool:
        """Return whether an input has half precision, or fails only on the device meta."""
        right = self._right.right_values(*one)
        place = None if told is None else next(islice(right, told.place, None), None)
        on_meta = isinstance(place, Numbers) and place.device == "meta"
        return on_meta or any(map(has_half_precision, right))

    def _load(self, source: str) -> ModuleType:
        return load_text_without_wall(source, self._exercise.slug, self._exercise.prelude)
