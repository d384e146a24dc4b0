"""Compares answers: `agree`, `same`, `expect`, `rejects`, `untouched`, `backward`, `gradcheck`.

Only the first fault is raised, in this order: type, shape, dtype, device, finite, values. Shapes
never broadcast and NaN never agrees.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.core.errors import GraderFault
from grader.judging import describe
from grader.judging.case import Rule, StudentFault, ValueDifference, fail_check, find_case
from grader.judging.tolerance import Difference, as_judged_numbers, judge_numbers, judge_within
from grader.worker.child.raised import VALUE_ERROR_MARK
from grader.worker.child.upstream import sum_weighted_answer
from reference.expected import Array, Expected, f64, largest

Answer = Tensor | Array
MAX_FOREIGN_NUMBERS = 16  # in the message of an error, that stand in no call of the case
_DTYPE = re.compile(r"(?:float|int|complex)\d+")


def agree(
    got: Answer | Sequence[Any],
    expected: Expected | Answer | Sequence[Any],
    says: str | None = None,
    *,
    within: float | None = None,
) -> None:
    """Pass if `got` is right; raise a `StudentFault` that says where `got` is wrong.

    expected   an `Expected`; or a tensor or array, which sets the shape and the values (the error
               allowed is then the floor of `got`'s dtype); or a tuple of these, if `got` is one
    says       what `got` is, unless a call returned `got` itself
    within     the largest error allowed, in place of the floor (for an array only)
    """
    __tracebackhide__ = True  # in a student's debugger
    if isinstance(expected, tuple) and not isinstance(expected, Expected):
        if not isinstance(got, tuple | list) or len(got) != len(expected):
            raise GraderFault("agree was given answers and expected values of different structure")
        for one, right in zip(got, expected, strict=True):
            agree(one, right, says, within=within)
        return
    name, call = find_case().origin(got)
    subject = says or name
    if not isinstance(expected, Expected):
        assert isinstance(expected, Tensor | np.ndarray)
        _judge_float_dtype(got, as_judged_numbers(expected), subject, call)
        expected = _build_judged_expectation(got, expected)
    _judge_form(got, expected.plain, subject, call)
    numbers = as_judged_numbers(got)  # type: ignore[arg-type]
    kept = find_case().rules
    applied: list[Rule] | None = None if kept is None else []
    if within is None:
        found = judge_numbers(numbers, expected, applied)
    else:
        found = judge_within(numbers, expected.exact, within, applied)
    if kept is not None and applied is not None:
        kept += [(subject, rule) for rule in applied]
    if found is not None:
        problem = fail_check(*_describe_fault(numbers, expected.exact, found, subject, call))
        problem.differs = ValueDifference(
            got=numbers, exact=expected.exact, wrong=found.where, subject=subject, call=call
        )
        raise problem


def same(got: Any, expected: Any, says: str | None = None) -> None:
    """Pass if `got` equals `expected` to the last bit: type, shape, dtype and every value."""
    name, call = find_case().origin(got)
    subject = says or name
    if not isinstance(expected, Tensor | np.ndarray):
        if type(got) is not type(expected) or got != expected:
            raise fail_check(
                f"{subject} is {describe.describe_value(got)}, but should be {expected!r}", call
            )
        return
    _judge_form(got, expected, subject, call)
    numbers, right = as_judged_numbers(got), as_judged_numbers(expected)
    wrong = ~((numbers == right) | (numbers != numbers) & (right != right))
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0])
        sentence = _describe_entry(subject, place, numbers, right)
        problem = fail_check(sentence, call, f"{wrong.sum()} of {wrong.size} entries differ.")
        problem.differs = ValueDifference(
            got=numbers, exact=right, wrong=wrong, subject=subject, call=call
        )
        raise problem


def expect(condition: bool, otherwise: str) -> None:
    """Pass if the condition holds; `otherwise` is the sentence the student reads."""
    if not condition:
        raise fail_check(otherwise, find_case().last_call)


def rejects(call: Callable[[], Any], *numbers: int) -> None:
    """Pass if the call raises a ValueError whose message names each of `numbers`.

    It may name other numbers as well, such as whole shapes, but no more than `MAX_FOREIGN_NUMBERS`
    that stand in no call. Draw one of `numbers` from a wide range, so that an answer that lists
    guesses does not list it.
    """
    try:
        came = call()
    except StudentFault as error:
        if error.kind != "ValueError" and not error.kind.endswith(VALUE_ERROR_MARK):
            if not error.kind:
                raise
            wanted = f"raised {error.kind}, but should raise ValueError"
            raise fail_check(
                wanted, find_case().last_call, f"Its message: {error.detail}"
            ) from None
        missing = [n for n in numbers if not re.search(rf"(?<!\d){n}(?!\d)", error.detail)]
        if missing:
            names = " and ".join(str(n) for n in missing)
            problem = f"the ValueError does not name {names}: {error.detail!r}"
            raise fail_check(problem, find_case().last_call) from None
        foreign = _read_judged_numbers(error.detail) - {abs(n) for n in numbers}
        if len(foreign) > MAX_FOREIGN_NUMBERS:  # the texts of all calls take long to read
            foreign -= {n for text in find_case().calls for n in _read_judged_numbers(text)}
        if len(foreign) > MAX_FOREIGN_NUMBERS:
            names = " and ".join(str(n) for n in numbers)
            problem = f"the ValueError lists {len(foreign)} numbers that stand in no call"
            raise fail_check(f"{problem}: name {names}", find_case().last_call) from None
        return
    names = " and ".join(str(n) for n in numbers)
    fault = fail_check(
        f"no error, but should be a ValueError that names {names}", find_case().last_call
    )
    fault.came = came
    raise fault


def _read_judged_numbers(text: str) -> set[int]:
    """Return the whole numbers in a text, without their signs and without those of dtypes."""
    return {int(n) for n in re.findall(r"\d{1,18}", _DTYPE.sub("", text))}


def untouched(call: Callable[[], Any]) -> Any:
    """Return the call's answer; fail if the call changes an array or tensor given to it."""
    with inputs_left_alone():
        return call()


@contextmanager
def inputs_left_alone() -> Iterator[None]:
    """Pass if the calls made within change no array and no tensor given to them."""
    case = find_case()
    case.modified.clear()
    yield
    if case.modified:
        names = ", ".join(dict.fromkeys(case.modified))
        raise fail_check(
            f"the call changed {names} in place, but should leave its inputs alone", case.last_call
        )


def backward(output: Tensor, *inputs: Tensor, upstream: Tensor) -> tuple[Tensor, ...]:
    """Return the gradients of `inputs` for the gradient `upstream` of a student's `output`.

    An `upstream` that is one number, expanded, reaches the submission expanded, as after a sum.
    """
    name, call = find_case().origin(output)
    if not output.requires_grad:
        raise fail_check(f"no gradient flows through {name}: its graph was cut on the way", call)
    if output.shape != upstream.shape:
        shapes = f"{tuple(output.shape)}, but should be {tuple(upstream.shape)}"
        raise fail_check(f"{name}.shape is {shapes}", call)
    if not output.is_floating_point():
        dtype = describe.describe_value(output)
        raise fail_check(f"{name} is {dtype}, through which no real gradient flows", call)
    total = sum_weighted_answer(output, upstream.to(output.dtype))
    grads = torch.autograd.grad(total, inputs, allow_unused=True, retain_graph=True)
    for number, (x, g) in enumerate(zip(inputs, grads, strict=True), 1):
        given = find_case().name_learning(x, number)
        if g is None:
            what = f"{given} ({describe.describe_value(x)})"
            raise fail_check(f"no gradient reaches {what}: its graph was cut on the way", call)
        find_case().returned(g, f"gradient of {given}", call)
    return grads


def gradcheck(function: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Pass if the gradients that flow through `function` are those of finite differences.

    inputs   small float64 tensors that require a gradient
    """
    output = function(*inputs)
    upstream = torch.linspace(0.5, 1.5, output.numel(), dtype=output.dtype).reshape(output.shape)
    upstream = upstream.to(output.device)
    grads = backward(output, *inputs, upstream=upstream)
    for i, (x, got) in enumerate(zip(inputs, grads, strict=True)):
        slopes = torch.zeros_like(x, requires_grad=False)
        for place in np.ndindex(*x.shape):
            moved = [_shift_judged_entry(x, place, step) for step in (1e-6, -1e-6)]
            up, down = (function(*inputs[:i], at, *inputs[i + 1 :]).detach() for at in moved)
            for moved_output in (up, down):
                _judge_form(moved_output, output.detach(), "out", find_case().last_call)
            slopes[place] = ((up - down) * upstream).sum() / 2e-6
        says = f"gradient of {find_case().name_learning(x, i + 1)} (by finite differences)"
        agree(got, slopes, says, within=1e-6 * max(1.0, largest(slopes)))


def _shift_judged_entry(x: Tensor, place: tuple[int, ...], step: float) -> Tensor:
    x = x.detach().clone()
    x[place] += step
    return x


def _build_judged_expectation(got: Any, values: Answer) -> Expected:
    """Build an `Expected` from values alone, with the type, dtype and device of `got`."""
    numbers = as_judged_numbers(values)
    if not isinstance(got, Tensor | np.ndarray):
        return Expected(numbers, values, largest(values))
    if isinstance(got, Tensor):
        plain: Answer = torch.as_tensor(numbers).to(got.device, got.dtype)
    else:
        plain = numbers.astype(got.dtype)
    if numbers.dtype.kind == "f":
        numbers = f64(numbers)
    return Expected(numbers, plain, largest(values))


def _judge_form(got: Any, plain: Answer, subject: str, call: str) -> None:
    """Raise a `StudentFault` unless `got` has the type, shape, dtype and device of `plain`."""
    kind = Tensor if isinstance(plain, Tensor) else np.ndarray
    if not isinstance(got, kind):
        wanted = describe.describe_kind(plain)
        raise fail_check(
            f"{subject} is {describe.describe_kind(got)}, but should be {wanted}", call
        )
    if tuple(got.shape) != tuple(plain.shape):
        raise fail_check(
            _describe_contrast(f"{subject}.shape", tuple(got.shape), tuple(plain.shape)), call
        )
    if got.dtype != plain.dtype:
        raise fail_check(
            _describe_contrast(
                f"{subject}.dtype", describe.describe_dtype(got), describe.describe_dtype(plain)
            ),
            call,
        )
    if isinstance(got, Tensor) and isinstance(plain, Tensor) and got.device != plain.device:
        raise fail_check(_describe_contrast(f"{subject}.device", got.device, plain.device), call)


def _judge_float_dtype(got: Any, exact: Array, subject: str, call: str) -> None:
    """Raise a `StudentFault` if the exact values are floats and `got` has no floating dtype."""
    if isinstance(got, Tensor | np.ndarray) and exact.dtype.kind == "f":
        dtype = describe.describe_dtype(got)
        if "float" not in dtype:
            raise fail_check(
                _describe_contrast(f"{subject}.dtype", dtype, "a floating-point type"), call
            )


def _describe_fault(
    numbers: Array, exact: Array, found: Difference, subject: str, call: str
) -> list[str]:
    problem = _describe_entry(subject, found.index, numbers, exact)
    summary = f"{found.wrong} of {found.total} entries differ"
    if found.wrong == 0:
        summary = "Every entry is close, but together they are not"
    if not found.measure:
        return [problem, call, summary + "."]
    if not math.isfinite(float(numbers[found.index])) and found.measure == "largest error":
        return [problem, call, summary + "."]
    measured = "{} {}, allowed {}".format(found.measure, *_round_apart(found.error, found.allowed))
    return [problem, call, f"{summary}; {measured}."]


def _round_apart(one: float, other: float) -> tuple[str, str]:
    """Write two numbers with two digits, or as many as show that they are not equal."""
    for digits in range(2, 17):
        told = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if told[0] != told[1]:
            break
    return told


def _describe_entry(subject: str, place: Sequence[Any], numbers: Array, right: Array) -> str:
    at = subject + describe.describe_index(place)
    index = tuple(int(i) for i in place)
    return _describe_contrast(at, *describe.describe_numbers(numbers[index], right[index]))


def _describe_contrast(what: str, is_: object, should: object) -> str:
    return f"{what} is {is_}, but should be {should}"
