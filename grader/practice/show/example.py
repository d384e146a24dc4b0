"""Runs an exercise's example: the named steps of the reference, and what a student has for them.

A suite's `show.py` has three functions, and imports nothing of ours but the reference:

    inputs(sentence) -> {name: tensor}           what the example is computed from
    steps(**inputs) -> {name: (letters, value)}  every step of the reference, in order, in PyTorch
    asked(student, **inputs) -> {name: call}     what the student's functions say of these steps;
                                                 of a list of calls the first that is written
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.core.records import Exercise
from grader.judging import suite_imports
from grader.judging.case import CURRENT_CASE, Case, StudentFault
from grader.judging.student import Student
from grader.practice.show.sentence import CannotShow, ShownSentence
from grader.practice.show.trace import Array, GradientFlow, ShownStep, Trace, convert_shown_numbers

Ask = Callable[[], Any]
Inputs = Mapping[str, Tensor]


def has_example_to_show(exercise: Exercise) -> bool:
    """Return whether an exercise has an example to show."""
    return (exercise.folder / "show.py").is_file()


def trace_example_to_show(
    exercise: Exercise, sentence: ShownSentence, student: Student | None, head: int | None = None
) -> Trace:
    """Run every step of the example; beside it the student's steps, if there is a student."""
    if not has_example_to_show(exercise):
        raise CannotShow(f"There is nothing to show of {exercise.slug}.")
    example = suite_imports.import_judging_suite(exercise, "show")
    inputs = {name: x.clone().requires_grad_() for name, x in example.inputs(sentence).items()}
    steps = example.steps(**inputs)
    target = "output" if "output" in steps else "weights"
    rows = min(steps[target][1].shape[-2], len(sentence))  # padding is not asked about
    row = (rows - 1) // 2  # one in the middle has a past and a future
    asked = {} if student is None else example.asked(student, **inputs)
    answers = {
        name: _find_answer_to_show(_show_calls_in_sequence(asked[name]), name == target)
        for name in asked
    }
    found = Trace(
        title=exercise.slug, functions=tuple(exercise.names), tokens=sentence.tokens,
        embedding=sentence.embedding,
        steps=tuple(
            replace(_show_step_beside_answer(n, letters, x, answers.get(n)), given=n in inputs)
            for n, (letters, x) in steps.items()
        ),
        head=head, row=row, target=target,
    )  # fmt: skip
    check_head_to_show(found)
    return _show_gradient_flows(found, steps[target][1], inputs, target, answers.get(target))


def check_head_to_show(found: Trace) -> None:
    """Raise `CannotShow` unless the requested head exists."""
    if found.head is not None and not 0 <= found.head < found.heads:
        if found.heads == 1:
            raise CannotShow(f"There is no head {found.head}: there is head 0 alone.")
        raise CannotShow(f"There is no head {found.head}: the heads are 0 to {found.heads - 1}.")


class _Answer:
    """The result of a student's call: a value and the call, or sentences about its failure."""

    def __init__(self) -> None:
        self.value: Any = None
        self.call = ""
        self.problems: list[str] = []


def _show_calls_in_sequence(calls: Ask | Sequence[Ask]) -> Sequence[Ask]:
    return [calls] if callable(calls) else calls


def _find_answer_to_show(calls: Sequence[Ask], with_graph: bool) -> _Answer:
    """Return the answer of the first of `calls` whose function is written."""
    answer = _Answer()
    for ask in calls:
        CURRENT_CASE.set(Case())
        try:
            with torch.set_grad_enabled(with_graph):
                answer.value = ask()
            answer.call = CURRENT_CASE.get().last_call
            break
        except StudentFault as fault:
            answer.problems.append(str(fault))
            if fault.kind != "NotImplementedError":
                break
    return answer


def _show_step_beside_answer(
    name: str, letters: str, value: Tensor, answer: _Answer | None
) -> ShownStep:
    reference = convert_shown_numbers(value)
    if answer is None:
        return ShownStep(name=name, letters=letters, reference=reference)
    problem = "\n".join(answer.problems)
    if answer.value is None:
        return ShownStep(name=name, letters=letters, reference=reference, problem=problem)
    try:
        yours = convert_shown_numbers(answer.value)
    except TypeError as error:
        problem = f"{error}  [{answer.call}]"
        return ShownStep(name=name, letters=letters, reference=reference, problem=problem)
    if yours.shape != reference.shape:
        wrong = f"{name}.shape is {yours.shape}, but should be {reference.shape}  [{answer.call}]"
        return ShownStep(name=name, letters=letters, reference=reference, problem=wrong,
                         misshapen=True, call=answer.call)  # fmt: skip
    return ShownStep(name=name, letters=letters, reference=reference, yours=yours, problem=problem,
                call=answer.call)  # fmt: skip


def _show_gradient_flows(
    found: Trace, value: Tensor, inputs: Inputs, target: str, answer: _Answer | None
) -> Trace:
    """Return the trace with the gradients of `value`, and of the answer to the step `target`."""
    head = found.head or 0
    reference = _measure_shown_gradients(value, inputs, head, found.row)
    yours: dict[str, Array] = {}
    problems: list[str] = []
    fits = any(step.name == target and step.yours is not None for step in found.steps)
    if answer is not None and fits and isinstance(answer.value, Tensor):
        try:
            yours = _measure_shown_gradients(answer.value, inputs, head, found.row)
        except StudentFault as fault:
            problems.append(str(fault))
    elif fits:
        problems.append("Only PyTorch keeps gradients: they are shown of the reference only.")
    flows = tuple(
        GradientFlow(name=name, reference=norms, yours=yours.get(name))
        for name, norms in reference.items()
    )
    return replace(found, flows=flows, problems=tuple(problems))


def _measure_shown_gradients(
    value: Tensor, inputs: Inputs, head: int, row: int
) -> dict[str, Array]:
    """Return, for each input, how strongly a row of `value` depends on each token, as norms.

    The row is a vector: its derivatives with respect to the vector of one token are a matrix. The
    norm is the root of the sum of their squares.
    """
    rows = value.reshape(-1, *value.shape[-2:])
    vector = rows[min(head, len(rows) - 1), row]
    squares = {name: np.zeros(x.shape[-2]) for name, x in inputs.items()}
    if not vector.requires_grad:
        return squares
    for entry in vector:
        found = torch.autograd.grad(
            entry, list(inputs.values()), retain_graph=True, allow_unused=True
        )
        for name, gradient in zip(inputs, found, strict=True):
            if gradient is not None:
                per_token = gradient.double().reshape(-1, *gradient.shape[-2:])
                squares[name] += per_token.square().sum((0, 2)).numpy()
    return {name: np.sqrt(total) for name, total in squares.items()}
