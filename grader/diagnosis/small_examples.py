"""Finds, for a wrong function, the smallest call that still goes wrong, to be done by hand."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.core.diagnosis_records import Diagnosis, SmallExample
from grader.core.records import CheckResult, DeclaredFunction, Exercise
from grader.diagnosis.probed_function import CLOSE, ProbingEnded, call_probed_function
from grader.diagnosis.small_inputs import (
    NoSmallInputs,
    SmallInputs,
    iterate_input_groups,
    plan_small_inputs,
)
from grader.judging.case import StudentFault
from grader.judging.draw import Draw
from grader.judging.judge import CheckFailure
from grader.judging.student import Student
from grader.judging.tolerance import as_judged_numbers, compute_rounding_tolerance

MAX_EXAMPLE_CALLS = 150  # of one failing check, each on a few numbers
DRAWS = 2  # of each size
NOISE = 1e-12  # of the largest number: what rounding in float64 leaves of a 0
TIMES = 4  # the tolerance of half precision, within which right answers may differ
HALVES = frozenset(("float16", "bfloat16"))
MAX_WRITTEN = 200  # characters of one value


def add_small_examples(
    exercise: Exercise, checks: Sequence[CheckResult], failures: Mapping[str, CheckFailure],
    student: Student, right: Student | None,
) -> tuple[CheckResult, ...]:  # fmt: skip
    """Return the checks, with the smallest wrong call of each failed function, each once."""
    told: set[SmallExample] = set()
    searched: set[tuple[str, ...]] = set()

    def with_example(check: CheckResult) -> CheckResult:
        failure = failures.get(check.id)
        if failure is None or right is None:
            return check
        found = _find_example(exercise, failure, student, right, searched)
        if found is None or found in told:
            return check
        told.add(found)
        return replace(check, diagnosis=replace(check.diagnosis or Diagnosis(), example=found))

    return tuple(map(with_example, checks))


def _find_example(
    exercise: Exercise, failure: CheckFailure, student: Student, right: Student,
    searched: set[tuple[str, ...]],
) -> SmallExample | None:  # fmt: skip
    """Search once for each function and the options with which it failed."""
    differs, asked = failure.fault.differs, failure.asked
    if differs is None or asked is None or differs.subject.startswith("gradient"):
        return None
    function = exercise.functions.get(asked.name)
    if function is None or not differs.call.startswith(f"{asked.name}("):
        return None
    try:
        plan = plan_small_inputs(function, asked.args, asked.kwargs)
        dtypes = [str(getattr(x, "dtype", "")) for x in plan.bound.values()]
        key = (function.name, *plan.bound, *dtypes)
        if key in searched:
            return None
        searched.add(key)
        return _Search(function, plan, student, right).find()
    except (NoSmallInputs, ProbingEnded):
        return None


class _Search:
    """The search for one function: first among large inputs of a group, then from the smallest."""

    def __init__(
        self, function: DeclaredFunction, plan: SmallInputs, student: Student, right: Student
    ) -> None:
        self._function, self._plan = function, plan
        self._student, self._right = student, right
        self._calls = 0

    def find(self) -> SmallExample | None:
        for names, dtype, factor in iterate_input_groups(self._plan):
            sizes = self._plan.list_sizes(names)
            if any(self._try(names, sizes[-1], dtype, factor)):
                tries = (self._try(names, small, dtype, factor) for small in sizes)
                return next(example for each in tries for example in each)
        return None

    def _try(
        self, names: Sequence[str], sizes: Mapping[str, Any], dtype: torch.dtype, factor: float
    ) -> Iterator[SmallExample]:
        for number in range(DRAWS):
            draw = Draw("example", self._function.name, str(sizes), str(number))
            given = self._plan.draw(names, sizes, dtype, factor, draw)
            if (found := self._compare(given)) is not None:
                yield found

    def _compare(self, given: Mapping[str, Any]) -> SmallExample | None:
        self._calls += 1
        if self._calls > MAX_EXAMPLE_CALLS:
            raise ProbingEnded
        try:
            wanted, got = (self._call(one, given) for one in (self._right, self._student))
        except StudentFault:
            return None
        close = _allow_roundings(wanted)
        parts = zip(_list_answer_arrays(got), _list_answer_arrays(wanted), strict=False)
        for name, (n, (one, right)) in zip(self._function.returns, enumerate(parts), strict=False):
            if one is not None and right is not None and _is_wrong(one, right, close):
                return _write_example(given, name, one, self._compute_exact(given, n, right))
        return None

    def _compute_exact(self, given: Mapping[str, Any], number: int, right: Any) -> Any:
        """Return one part of the right answer to float32 inputs, without what rounding left."""
        wide = {
            name: x.double() if isinstance(x, Tensor) and x.dtype == torch.float32
            else x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype == np.float32
            else x
            for name, x in given.items()
        }  # fmt: skip
        try:
            exact = _list_answer_arrays(self._call(self._right, wide))[number]
        except StudentFault:
            return right
        if exact is None or exact.dtype.kind != "f" or exact.shape != right.shape:
            return right
        return np.where(np.abs(exact) < NOISE * np.abs(exact).max(initial=0.0), 0.0, exact)

    def _call(self, student: Student, given: Mapping[str, Any]) -> Any:
        """Call with copies of the inputs: the required ones by place, the others by name."""
        copied = {n: x.clone() if isinstance(x, Tensor) else deepcopy(x) for n, x in given.items()}
        needed = [copied.pop(name) for name in list(copied)[: self._plan.required]]
        return call_probed_function(student, self._function.name, needed, copied)


def _list_answer_arrays(answer: Any) -> list[Any]:
    """Return the values of an answer as arrays; None for what has no numbers."""
    found: list[Any] = []
    for x in answer if isinstance(answer, tuple) else (answer,):
        match x:
            case Tensor() | np.ndarray():
                found.append(as_judged_numbers(x))
            case list() | int() | float():
                found.append(np.array(x))
            case _:
                found.append(None)
    return found


def _allow_roundings(answer: Any) -> float:
    """Return the relative error that may be rounding; an example shows a larger one."""
    parts = answer if isinstance(answer, tuple) else (answer,)
    dtypes = {str(getattr(x, "dtype", "")).removeprefix("torch.") for x in parts}
    return max([CLOSE, *(TIMES * compute_rounding_tolerance(n, 1.0) for n in HALVES & dtypes)])


def _is_wrong(got: Any, right: Any, close: float) -> bool:
    if got.shape != right.shape or not right.size:
        return False
    got, right = got.astype(float), right.astype(float)
    if not np.isfinite(right).all():
        return False
    return not np.abs(got - right).max() <= close * max(1.0, float(np.abs(right).max()))


def _write_example(
    given: Mapping[str, Any], name: str, got: Any, right: Any
) -> SmallExample | None:
    inputs = tuple((n, _write_input(x)) for n, x in given.items())
    written_got, written_right = map(_write_numbers, (got, right))
    found = SmallExample(inputs=inputs, name=name, got=written_got, right=written_right)
    written = [text for _, text in inputs] + [found.got, found.right]
    return found if max(map(len, written)) <= MAX_WRITTEN and found.got != found.right else None


def _write_input(x: Any) -> str:
    if isinstance(x, list):
        return _write_numbers(np.array(x))
    if not isinstance(x, Tensor | np.ndarray):
        return str(x).removeprefix("torch.")
    dtype = str(x.dtype).removeprefix("torch.")
    written = _write_numbers(as_judged_numbers(x))
    return written if dtype in ("float32", "bool", "int64") else f"{written} ({dtype})"


def _write_numbers(x: Any) -> str:
    """Write an array as nested lists: whole numbers as such, others with four digits."""
    if x.ndim:
        return f"[{', '.join(map(_write_numbers, x))}]"
    if x.dtype == bool:
        return str(bool(x))
    return f"{float(x):.4g}".removeprefix("-") if float(x) == 0 else f"{float(x):.4g}"
