"""Calls one function of an answer on small inputs of our own, to find out what holds for it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.core.diagnosis_records import Fact
from grader.core.records import DeclaredFunction, Exercise
from grader.diagnosis.time_limit import is_diagnosis_time_left
from grader.judging.case import CURRENT_CASE, Case, StudentFault
from grader.judging.contract import count_required_parameters, list_judged_parameters
from grader.judging.student import Student
from grader.judging.tolerance import as_judged_numbers
from grader.worker.parent.faults import AnswerRaised, WorkerFault

CLOSE = 1e-3  # numbers of about one that differ by less are taken for equal
MAX_CALLS = 150  # of one function, each on inputs of a few numbers

Array = np.ndarray[Any, np.dtype[Any]]


class ProbingEnded(Exception):
    """Raised where a function hangs or has been called enough: nothing more is asked."""


class ProbedFunction:
    """A function that takes tensors (or arrays, or lists of rows) and returns weights or a mixture.

    family  "softmax" (scores to weights), "masked" (scores and a mask to weights), "attention"
    """

    def __init__(self, student: Student, function: DeclaredFunction, family: str) -> None:
        self.family = family
        self.parameters = list_judged_parameters(function.signature)
        self._student, self._name = student, function.name
        wanted = [str(shape) for shape in function.returns.values()]
        self.kind = wanted[0].partition(" ")[0]
        self._weights = next((i for i, w in enumerate(wanted) if w.endswith("Lq Lk")), None)
        self._calls = 0
        self._linear: bool | None = None  # whether the output is a mixture of the values

    def __call__(self, *given: Any, **options: Any) -> Array:
        """Return the first answer to a call, as float64; raise a `StudentFault` if it fails."""
        return self._numbers(self._answer(*given, **options)[0], given[0])

    def output_and_weights(self, *given: Tensor) -> tuple[Array, Array] | None:
        """Return output (..., Lq, Dv) and weights (..., Lq, Lk); None if no weights come back."""
        if self._weights is None:
            return None
        answer = self._answer(*given)
        return self._numbers(answer[0], given[0]), self._numbers(answer[self._weights], given[0])

    def continue_text(
        self, q: Tensor, k: Tensor, v: Tensor, first: int
    ) -> tuple[Array, list[list[Array]]]:
        """Return the outputs for a text given in two chunks, and the past after each chunk.

        A call of the function returns an output and a past, which the next call is given.
        """
        outputs, pasts, past = [], [], None
        for part in (slice(None, first), slice(first, None)):
            given = [x[..., part, :] for x in (q, k, v)]
            output, past = self._answer(*given, **({} if past is None else {"past": past}))
            outputs.append(self._numbers(output, q))
            pasts.append([self._numbers(x, q) for x in past])
        return np.concatenate(outputs, -2), pasts

    def weigh(self, scores: Tensor, keep: Tensor | None = None) -> Array:
        """Return the weights of scores (n, n), whichever way the function takes scores.

        An attention gets the scores as queries, with the identity for keys; if it returns no
        weights, the identity for values makes its output the weights.
        """
        if self.family == "softmax":
            return self(scores)
        if self.family == "masked":
            return self(scores, torch.ones_like(scores, dtype=torch.bool) if keep is None else keep)
        if not self._is_mixture():
            raise StudentFault("the weights cannot be read from the output")
        n = scores.shape[-1]
        one = torch.eye(n, dtype=scores.dtype)[None, None]
        q = (scores * math.sqrt(n))[None, None]
        given = (q, one, one) if keep is None else (q, one, one, keep)
        weights: Array = self._numbers(self._answer(*given)[self._weights or 0], q)[0, 0]
        return weights

    def _is_mixture(self) -> bool:
        """Return whether weights come back, or twice the values give twice the output."""
        if self._weights is None and self._linear is None:
            q = torch.tensor([[0.5, -1.0], [1.0, 0.25]])[None, None]
            one, two = self(q, q, q), self(q, q, 2 * q)
            self._linear = bool(np.allclose(two, 2 * one, rtol=1e-4, atol=1e-6))
        return self._weights is not None or bool(self._linear)

    def _answer(self, *given: Any, **options: Any) -> list[Any]:
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise ProbingEnded
        named = {name: self._converted(x) for name, x in options.items()}
        answer = call_probed_function(
            self._student, self._name, [self._converted(x) for x in given], named
        )
        return list(answer) if isinstance(answer, tuple) else [answer]

    def _converted(self, x: Any) -> Any:
        """Return an input as the function takes it: a tensor, an array, or rows."""
        if not isinstance(x, Tensor) or self.kind in ("tensor", "bool"):
            return x.clone() if isinstance(x, Tensor) else x
        if self.kind == "array":
            return x.numpy().copy()
        if math.prod(x.shape[:-2]) != 1 or x.dtype.itemsize == 2:
            raise StudentFault("rows have neither batch nor half precision")
        return x.reshape(x.shape[-2:]).tolist()

    def _numbers(self, answer: Any, like: Tensor) -> Array:
        if isinstance(answer, list):  # rows
            numbers = np.array(answer, float)
            return numbers.reshape(*like.shape[:-2], *numbers.shape)
        return as_judged_numbers(answer).astype(np.float64)


def call_probed_function(
    student: Student, name: str, args: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Call a function as a case of its own; raise `StudentFault`, or `ProbingEnded` if it hangs."""
    with begin_probing_case(student):
        return getattr(student, name)(*args, **options)


@contextmanager
def begin_probing_case(student: Student) -> Iterator[None]:
    """Begin a case that belongs to no check.

    Raises `ProbingEnded` if no time is left, or if a call in the case hangs or ends the worker.
    """
    if not is_diagnosis_time_left():
        raise ProbingEnded
    CURRENT_CASE.set(Case())
    student.begin_case()
    try:
        yield
    except StudentFault as fault:
        cause = fault.__context__
        if isinstance(cause, WorkerFault) and not isinstance(cause, AnswerRaised):
            raise ProbingEnded from None  # it hangs, or has died
        raise


def name_probed_family(function: DeclaredFunction) -> str:
    """Return the family of a function; "" if it is of none."""
    names = list_judged_parameters(function.signature)
    required = count_required_parameters(function.signature)
    returns = [str(shape) for shape in function.returns.values()]
    if not returns or returns[0].partition(" ")[0] not in ("tensor", "array", "rows"):
        return ""
    if names[:3] == ("q", "k", "v") and required == 3:
        return "attention"
    weights = next(iter(function.returns)) == "weights" or function.name.endswith("softmax")
    if not weights or not function.shapes:
        return ""
    if names[:2] == ("scores", "keep") and required == 2:
        return "masked"
    return "softmax" if required == 1 else ""


def find_probed_function(exercise: Exercise, call: str) -> tuple[DeclaredFunction, str] | None:
    """Return the function that a call's text names, and its family; None for any other call."""
    function = exercise.functions.get(call.partition("(")[0])
    family = name_probed_family(function) if function is not None else ""
    return (function, family) if function is not None and family else None


def fact(key: str, /, **values: float) -> Fact:
    return Fact(key=key, values={name: float(x) for name, x in values.items()})


def distance(one: Array, other: Array) -> float:
    """Return the largest difference; NaN (never larger than a number) if it cannot be told."""
    if one.shape != other.shape or not (np.isfinite(one).all() and np.isfinite(other).all()):
        return math.nan
    return float(np.abs(one - other).max(initial=0.0))


def is_right(f: ProbedFunction, right: ProbedFunction, *given: Any) -> bool:
    """Return whether a call gives the right answer; an exception is a wrong one."""
    wanted = right(*given)
    try:
        return distance(f(*given), wanted) <= CLOSE
    except StudentFault:
        return False
