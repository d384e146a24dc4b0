"""Decides by computing whether the mistake that a report names is the one that an answer makes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice, zip_longest
from types import ModuleType
from typing import Any

from grader.authoring.feedback_answers import WrongAnswer
from grader.authoring.side_by_side import Input, RaisedValue, SideBySide, TrialValues
from grader.core.records import Exercise
from grader.diagnosis.coarse_values import (
    compare_numbers_coarsely,
    has_half_precision,
    has_infinity_or_nan,
    is_single_precision,
)
from grader.diagnosis.copied_values import Numbers
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.judging.marks import Mistake, Trial
from grader.judging.trials import RAISES
from grader.worker.parent.in_process import load_text_without_wall

INPUT_SECONDS = 10.0  # of the processor, for one input of a trial
SCREENED_INPUTS = 3  # on which a pair is tried before it is compared on all
MAX_SHARE_UNEXPLAINED = 0.1  # of the inputs on which the answer is wrong, for a name that is near


class Truth(Enum):
    """How far a named mistake is the one that an answer makes."""

    TRUE = "wrong where the answer is, with its numbers, and right where the answer is"
    NEAR = "has nearly always the answer's numbers where the answer is wrong, or is wrong elsewhere"
    FALSE = "has other numbers where the answer is wrong"
    UNKNOWN = "no trial calls it"


@dataclass(frozen=True, slots=True)
class _AnswerRun:
    """An answer, the inputs for some names, and those of them on which it is wrong.

    Inputs with half precision, or on the device meta, count only if no others fail: an
    answer with any mistake may also compute in half precision, or ignore the device.
    """

    source: str
    names: frozenset[str]
    side: SideBySide
    inputs: Sequence[Input]
    failing: Mapping[Input, TrialValues]
    of_all: Sequence[Input]  # special ones too


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
        """Compare an answer with a copy in which these mistakes' functions replace its own.

        ids  the id of one mistake, or the ids of two that are made at once

        Only trials that call one of these functions run. If an answer has two mistakes, one id
        is also true if it fits the answer with either mistake alone, where that source is known,
        or else if it fits the answer together with another mistake of the catalogue. A false name
        comes with the smallest input on which it differs.
        """
        mistake = self._find(ids)
        names = set(self._known.names(mistake)) if mistake else set[str]()
        if mistake is None or not any(names & set(trial.of) for trial in self._trials):
            return Truth.UNKNOWN, None
        sources = (answer.source, *(answer.parts if len(ids) == 1 else ()))
        runs = [self._run(source, names) for source in sources]
        found = [self._compare(run, mistake) for run in runs]
        kinds = [one for one, _ in found]
        if Truth.TRUE in kinds:
            return Truth.TRUE, None
        alone = answer.mistakes > 1 and len(ids) == 1 and not answer.parts
        if alone and self._has_partner(runs[0], mistake):
            return Truth.TRUE, None
        if Truth.NEAR in kinds:
            return Truth.NEAR, None
        told = [values for _, values in found if values is not None]
        return Truth.FALSE, min(told, key=lambda values: values.elements)

    def _find(self, ids: Sequence[str]) -> Mistake | None:
        """Return a mistake, or a pair as one; None if the two cannot be bound together."""
        one, *more = (self._mistakes[id] for id in ids)
        for other in more:
            return self._known.pair(one, other) or self._known.pair(other, one)
        return one

    def _has_partner(self, run: _AnswerRun, mistake: Mistake) -> bool:
        """Return whether an answer is this mistake and another at once, and not the other alone."""
        some = dict(islice(run.failing.items(), SCREENED_INPUTS))
        for other in self._known.mistakes:
            if other.of != mistake.of or other.id == mistake.id:
                continue
            pair = self._find((mistake.id, other.id))
            if pair is None or self._list_unexplained(run, self._bind(run, pair), some):
                continue
            if self._is_same(run, pair) > self._is_same(run, other):
                return True
        return False

    def _is_same(self, run: _AnswerRun, mistake: Mistake) -> int:
        """Return 2 if a mistake is the answer to the last digit, 1 if coarsely, 0 if it is not."""
        if run.side.first_difference(self._bind(run, mistake), run.of_all) is None:
            return 2
        return int(self._compare(run, mistake)[0] is Truth.TRUE)

    def _run(self, source: str, names: Collection[str]) -> _AnswerRun:
        """Run an answer on the inputs of the trials that call these names."""
        wrong = self._load(source)
        side = SideBySide(self._exercise, wrong, self._trials, INPUT_SECONDS, known_right=False)
        inputs = side.choose_inputs(names, self._inputs)
        failing = self._right.list_differences(wrong, inputs)
        plain = {one: told for one, told in failing.items() if not self._is_special(one, told)}
        kept = [one for one in inputs if not self._is_special(one, failing.get(one))]
        return _AnswerRun(
            source, frozenset(names), side, kept if plain else inputs, plain or failing, inputs
        )

    def _bind(self, run: _AnswerRun, mistake: Mistake) -> ModuleType:
        """Return the answer's module with a mistake in the place of its own functions."""
        named = self._load(run.source)
        for name in run.names:
            setattr(named, name, getattr(self._known.module(mistake), name))
        return named

    def _compare(self, run: _AnswerRun, mistake: Mistake) -> tuple[Truth, TrialValues | None]:
        named = self._bind(run, mistake)
        differs = run.side.first_difference(named, run.of_all)
        if differs is None:
            return Truth.TRUE, None
        if not run.failing:  # the answer is right in what the mistake gets wrong
            return Truth.FALSE, differs
        unexplained = self._list_unexplained(run, named, run.failing)
        if len(unexplained) > MAX_SHARE_UNEXPLAINED * len(run.failing):
            least = min(unexplained, key=lambda told: told.elements)
            count = f"{len(unexplained)} of {len(run.failing)}"
            share = f"on {count} inputs on which the answer is wrong"
            return Truth.FALSE, replace(least, why=f"{least.why}; {share}")
        if unexplained:
            return Truth.NEAR, None
        beside = self._find_wrong_beside(run, named)
        if beside is not None and len(run.names) > 1:  # one of two functions is not wrong at all
            return Truth.FALSE, beside
        return Truth.TRUE if beside is None else Truth.NEAR, None

    def _find_wrong_beside(self, run: _AnswerRun, named: ModuleType) -> TrialValues | None:
        """Return an input on which the answer is right and the named mistake is wrong.

        In float32 a small difference may be rounding: the mistake is written in another way.
        """
        other = SideBySide(self._exercise, named, self._trials, INPUT_SECONDS, known_right=False)
        inputs = [one for one in run.inputs if one not in run.failing]
        for one, told in self._right.list_differences(named, inputs).items():
            values = [list(side.right_values(*one)) for side in (run.side, other)]
            pairs = list(zip_longest(*(found[told.place : told.place + 1] for found in values)))
            if any(compare_numbers_coarsely(*pair) for pair in pairs):
                return told
            if not all(is_single_precision(ours) for ours, _ in pairs):
                return told
        return None

    def _list_unexplained(
        self, run: _AnswerRun, named: ModuleType, failing: Mapping[Input, TrialValues]
    ) -> list[TrialValues]:
        """Return the failing inputs on which the named mistake gives other values than the answer.

        Values are compared up to the first wrong one of the trial; the rest may follow from it.
        Where the answer raises and the named mistake is right, or only one of them has infinity or
        NaN, the answer may have another mistake besides; but of a mistake that has the answer's
        values nowhere, nothing shows.
        """
        other = SideBySide(self._exercise, named, self._trials, INPUT_SECONDS, known_right=False)
        found, beside = list[TrialValues](), list[TrialValues]()
        for one, told in failing.items():
            pairs = zip_longest(run.side.right_values(*one), other.right_values(*one))
            for place, (ours, theirs) in enumerate(islice(pairs, told.place + 1)):
                if why := compare_numbers_coarsely(ours, theirs):
                    differs = replace(told, why=f"value {place}: {why}")
                    kind = beside if self._may_be_beside(one, place, ours, theirs) else found
                    kind.append(differs)
                    break
        return beside if len(beside) == len(failing) else found

    def _may_be_beside(self, one: Input, place: int, ours: Any, theirs: Any) -> bool:
        if isinstance(ours, RaisedValue | str) and str(ours).startswith(RAISES):
            right = next(islice(self._right.right_values(*one), place, None), None)
            return not compare_numbers_coarsely(right, theirs)
        return has_infinity_or_nan(ours) != has_infinity_or_nan(theirs)

    def _is_special(self, one: Input, told: TrialValues | None) -> bool:
        """Return whether an input has half precision, or fails only on the device meta."""
        right = self._right.right_values(*one)
        place = None if told is None else next(islice(right, told.place, None), None)
        on_meta = isinstance(place, Numbers) and place.device == "meta"
        return on_meta or any(map(has_half_precision, right))

    def _load(self, source: str) -> ModuleType:
        return load_text_without_wall(source, self._exercise.slug, self._exercise.prelude)
