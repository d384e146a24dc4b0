"""Compares answers: `agree`, `same`, `expect`, `rejects`, `untouched`, `backward`, `gradcheck`.

Only the first fault is raised, in this order: type, shape, dtype, device, finite, values. Shapes
never broadcast and NaN never agrees.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.core.errors import GraderFault
from grader.judging import describe
from grader.judging.case import Differs, Rule, StudentFault, current_case, fault
from grader.judging.tolerance import Difference, as_numbers, difference, difference_beyond
from grader.worker.child.executor import VALUE_ERROR_MARK
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
    """Pass if `got` is right; raise the `StudentFault` that says where it is not.

    expected   an `Expected`; or a tensor or array, which sets the shape and the values, with the
               floor of the dtype of `got` as the allowance; or a tuple of these for a tuple
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
    name, call = current_case().origin(got)
    subject = says or name
    if not isinstance(expected, Expected):
        assert isinstance(expected, Tensor | np.ndarray)
        _check_is_float(got, as_numbers(expected), subject, call)
        expected = _expected_from_values(got, expected)
    _check_form(got, expected.plain, subject, call)
    numbers = as_numbers(got)  # type: ignore[arg-type]
    applied: list[Rule] = []
    if within is None:
        found = difference(numbers, expected, applied)
    else:
        found = difference_beyond(numbers, expected.exact, within, applied)
    current_case().rules += [(subject, rule) for rule in applied]
    if found is not None:
        problem = fault(*_fault_lines(numbers, expected.exact, found, subject, call))
        problem.differs = Differs(
            got=numbers, exact=expected.exact, wrong=found.where, subject=subject, call=call
        )
        raise problem


def same(got: Any, expected: Any, says: str | None = None) -> None:
    """Pass if `got` equals `expected` to the last bit: type, shape, dtype and every value."""
    name, call = current_case().origin(got)
    subject = says or name
    if not isinstance(expected, Tensor | np.ndarray):
        if type(got) is not type(expected) or got != expected:
            raise fault(f"{subject} is {describe.value(got)}, but should be {expected!r}", call)
        return
    _check_form(got, expected, subject, call)
    numbers, right = as_numbers(got), as_numbers(expected)
    wrong = ~((numbers == right) | (numbers != numbers) & (right != right))
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0])
        sentence = _entry_sentence(subject, place, numbers, right)
        problem = fault(sentence, call, f"{wrong.sum()} of {wrong.size} entries differ.")
        problem.differs = Differs(got=numbers, exact=right, wrong=wrong, subject=subject, call=call)
        raise problem


def expect(condition: bool, otherwise: str) -> None:
    """Pass if the condition holds; `otherwise` is the sentence the student reads."""
    if not condition:
        raise fault(otherwise, current_case().last_call)


def rejects(call: Callable[[], Any], *numbers: int) -> None:
    """Pass if the call raises a ValueError whose message names each of `numbers`.

    It may name other numbers as well, such as whole shapes, but no more than `MAX_FOREIGN_NUMBERS`
    that stand in no call: draw one of `numbers` from a wide range, and no list of guesses has it.
    """
    try:
        call()
    except StudentFault as error:
        if error.kind != "ValueError" and not error.kind.endswith(VALUE_ERROR_MARK):
            if not error.kind:
                raise
            wanted = f"raised {error.kind}, but should raise ValueError"
            raise fault(wanted, current_case().last_call, f"Its message: {error.detail}") from None
        missing = [n for n in numbers if not re.search(rf"(?<!\d){n}(?!\d)", error.detail)]
        if missing:
            names = " and ".join(str(n) for n in missing)
            problem = f"the ValueError does not name {names}: {error.detail!r}"
            raise fault(problem, current_case().last_call) from None
        called = {n for text in current_case().calls for n in _numbers_in(text)}
        foreign = _numbers_in(error.detail) - called - {abs(n) for n in numbers}
        if len(foreign) > MAX_FOREIGN_NUMBERS:
            names = " and ".join(str(n) for n in numbers)
            problem = f"the ValueError lists {len(foreign)} numbers that stand in no call"
            raise fault(f"{problem}: name {names}", current_case().last_call) from None
        return
    names = " and ".join(str(n) for n in numbers)
    raise fault(
        f"no error, but should be a ValueError that names {names}", current_case().last_call
    )


def _numbers_in(text: str) -> set[int]:
    """Return the whole numbers in a text, without their signs and without those of dtypes."""
    return {int(n) for n in re.findall(r"\d{1,18}", _DTYPE.sub("", text))}


def untouched(call: Callable[[], Any]) -> Any:
    """Return the call's answer; fail if the call changes an array or tensor given to it."""
    with inputs_left_alone():
        return call()


@contextmanager
def inputs_left_alone() -> Iterator[None]:
    """Pass if the calls made within change no array and no tensor given to them."""
    case = current_case()
    case.modified.clear()
    yield
    if case.modified:
        names = ", ".join(dict.fromkeys(case.modified))
        raise fault(f"{names} was changed in place, but should be left as it was", case.last_call)


def backward(output: Tensor, *inputs: Tensor, upstream: Tensor) -> tuple[Tensor, ...]:
    """Return the gradients of `inputs` for the gradient `upstream` of a student's `output`."""
    name, call = current_case().origin(output)
    if not output.requires_grad:
        raise fault(f"no gradient flows through {name}: its graph was cut on the way", call)
    if output.shape != upstream.shape:
        shapes = f"{tuple(output.shape)}, but should be {tuple(upstream.shape)}"
        raise fault(f"{name}.shape is {shapes}", call)
    if not output.is_floating_point():
        dtype = describe.value(output)
        raise fault(f"{name} is {dtype}, through which no real gradient flows", call)
    total = (output * upstream.to(output.dtype)).sum()  # its gradient for output is upstream
    grads = torch.autograd.grad(total, inputs, allow_unused=True, retain_graph=True)
    for i, (x, g) in enumerate(zip(inputs, grads, strict=True)):
        if g is None:
            what = f"input {i + 1} ({describe.value(x)})"
            raise fault(f"no gradient reaches {what}: its graph was cut on the way", call)
        current_case().returned(g, f"gradient of input {i + 1}", call)
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
            moved = [_shift_entry(x, place, step) for step in (1e-6, -1e-6)]
            up, down = (function(*inputs[:i], at, *inputs[i + 1 :]).detach() for at in moved)
            for moved_output in (up, down):
                _check_form(moved_output, output.detach(), "out", current_case().last_call)
            slopes[place] = ((up - down) * upstream).sum() / 2e-6
        says = f"gradient of input {i + 1} (by finite differences)"
        agree(got, slopes, says, within=1e-6 * max(1.0, largest(slopes)))


def _shift_entry(x: Tensor, place: tuple[int, ...], step: float) -> Tensor:
    x = x.detach().clone()
    x[place] += step
    return x


def _expected_from_values(got: Any, values: Answer) -> Expected:
    """Build an `Expected` from values alone, with the type, dtype and device of `got`."""
    numbers = as_numbers(values)
    if not isinstance(got, Tensor | np.ndarray):
        return Expected(numbers, values, largest(values))
    if isinstance(got, Tensor):
        plain: Answer = torch.as_tensor(numbers).to(got.device, got.dtype)
    else:
        plain = numbers.astype(got.dtype)
    if numbers.dtype.kind == "f":
        numbers = f64(numbers)
    return Expected(numbers, plain, largest(values))


def _check_form(got: Any, plain: Answer, subject: str, call: str) -> None:
    """Raise a `StudentFault` unless `got` has the type, shape, dtype and device of `plain`."""
    kind = Tensor if isinstance(plain, Tensor) else np.ndarray
    if not isinstance(got, kind):
        wanted = describe.kind(plain)
        raise fault(f"{subject} is {describe.kind(got)}, but should be {wanted}", call)
    if tuple(got.shape) != tuple(plain.shape):
        raise fault(
            _contrast_sentence(f"{subject}.shape", tuple(got.shape), tuple(plain.shape)), call
        )
    if got.dtype != plain.dtype:
        raise fault(
            _contrast_sentence(f"{subject}.dtype", describe.dtype(got), describe.dtype(plain)), call
        )
    if isinstance(got, Tensor) and isinstance(plain, Tensor) and got.device != plain.device:
        raise fault(_contrast_sentence(f"{subject}.device", got.device, plain.device), call)


def _check_is_float(got: Any, exact: Array, subject: str, call: str) -> None:
    """Raise a `StudentFault` if the exact values are floats and `got` has no floating dtype."""
    if isinstance(got, Tensor | np.ndarray) and exact.dtype.kind == "f":
        dtype = describe.dtype(got)
        if "float" not in dtype:
            raise fault(
                _contrast_sentence(f"{subject}.dtype", dtype, "a floating-point type"), call
            )


def _fault_lines(
    numbers: Array, exact: Array, found: Difference, subject: str, call: str
) -> list[str]:
    problem = _entry_sentence(subject, found.index, numbers, exact)
    summary = f"{found.wrong} of {found.total} entries differ"
    if found.wrong == 0:
        summary = "Every entry is close, but together they are not"
    if not found.measure:
        return [problem, call, summary + "."]
    measured = f"{found.measure} {found.error:.2g}, allowed {found.allowed:.2g}"
    return [problem, call, f"{summary}; {measured}."]


def _entry_sentence(subject: str, place: Sequence[Any], numbers: Array, right: Array) -> str:
    at = subject + describe.index(place)
    index = tuple(int(i) for i in place)
    return _contrast_sentence(at, *describe.numbers(numbers[index], right[index]))


def _contrast_sentence(what: str, is_: object, should: object) -> str:
    return f"{what} is {is_}, but should be {should}"
