"""Copies the values that a trial yields, and compares them with those of another module."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grader.judging.tolerance import compute_rounding_tolerance
from grader.judging.trials import Summed

FLOAT_DTYPES = ("float16", "bfloat16", "float32", "float64")
# An answer rounds at every step, and `floor` is the largest error of one step. Two answers that do
# the same in another order differ by a few such errors.
ROUNDING_STEPS = 4
# Times the change of the output if every input is moved by its last digit.
SENSITIVITY_FACTOR = 8


@dataclass(frozen=True, slots=True)
class Numbers:
    """A tensor, an array, or a NumPy number."""

    kind: str  # the name of its type
    dtype: str
    device: str
    grad: bool  # whether it requires a gradient
    data: torch.Tensor  # a tensor of the device meta has no numbers

    def __str__(self) -> str:
        gradient = " that requires a gradient" if self.grad else ""
        place = "" if self.device == "cpu" else f" on {self.device}"
        return f"{self.kind} {self.dtype} {tuple(self.data.shape)}{place}{gradient}"


@dataclass(frozen=True, slots=True)
class Items:
    """A list, a tuple or a dict."""

    kind: str
    keys: tuple[str, ...]
    items: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.kind} of {len(self.items)}"


def copy_value(value: Any) -> Any:
    """Copy a value, so that later changes do not reach the copy; name an object by its type."""
    name = type(value).__name__
    match value:
        case torch.Tensor():
            dtype = str(value.dtype).removeprefix("torch.")
            data = value.detach().cpu() if value.device.type == "cuda" else value.detach()
            return Numbers(name, dtype, str(value.device), value.requires_grad, data.clone())
        case np.ndarray() | np.generic() if value.dtype.kind in "biuf":
            data = torch.from_numpy(np.array(value))
            return Numbers(name, str(value.dtype), "cpu", False, data)
        case list() | tuple():
            return Items(name, (), tuple(copy_value(item) for item in value))
        case dict():
            keys = tuple(str(key) for key in value)
            return Items(name, keys, tuple(copy_value(item) for item in value.values()))
        case None | bool() | int() | float() | str():
            return value
        case torch.dtype() | torch.device() | torch.Size():
            return str(value)
    return f"an object of type {name}"


def find_largest_copied_number(values: Any) -> float:
    """Return the largest absolute finite number in copied values."""
    found = 0.0
    for numbers in _find_copied_floats(values):
        finite = numbers.data[torch.isfinite(numbers.data)]
        if finite.numel():
            found = max(found, float(finite.abs().max()))
    return found


def count_copied_bytes(values: Any) -> int:
    """Return the size of copied values in bytes."""
    return sum(x.data.numel() * x.data.element_size() for x in _find_copied_floats(values))


def compare_copied_values(
    right: Any, got: Any, near: Any = None, scale: float = 0.0, parts: float = 0.0
) -> str:
    """Describe how two copied values differ beyond rounding; return "" if they do not.

    near   the right module's value if each input changes in its last digit
    scale  the largest number of the whole call
    parts  the size of the rounded numbers that add up to `right`; 0 if it is no such sum
    """
    if type(right) is not type(got):
        return f"{_describe_copied_value(got)}, not {_describe_copied_value(right)}"
    match right:
        case Numbers():
            return _compare_copied_numbers(right, got, near, scale, parts)
        case Items():
            return _compare_copied_items(right, got, near, scale)
        case float():
            numbers = (
                _convert_copied_float(right),
                _convert_copied_float(got),
                _convert_copied_float(near),
            )
            return _compare_copied_numbers(*numbers, scale, parts)
    return (
        ""
        if right == got
        else f"{_describe_copied_value(got)}, not {_describe_copied_value(right)}"
    )


def _compare_copied_items(right: Items, got: Items, near: Any, scale: float) -> str:
    if (right.kind, right.keys, len(right.items)) != (got.kind, got.keys, len(got.items)):
        return f"{got}, not {right}"
    alike = isinstance(near, Items) and len(near.items) == len(right.items)
    others = near.items if alike else [None] * len(right.items)
    parts = 1.0 if right.kind == Summed.__name__ else 0.0
    for i, (a, b, c) in enumerate(zip(right.items, got.items, others, strict=True)):
        if why := compare_copied_values(a, b, c, scale, parts):
            return f"[{i}]: {why}"
    return ""


def _compare_copied_numbers(
    right: Numbers, got: Numbers, near: Any, scale: float, parts: float
) -> str:
    if str(right) != str(got):
        return f"{got}, not {right}"
    if right.device == "meta" or torch.equal(right.data, got.data):
        return ""
    if right.dtype not in FLOAT_DTYPES:
        return f"{int((right.data != got.data).sum())} entries differ"
    a, b = right.data.double(), got.data.double()
    finite = torch.isfinite(a)
    same = torch.where(torch.isnan(a), torch.isnan(b), a == b) | finite & torch.isfinite(b)
    if not same.all():
        place = tuple(torch.nonzero(~same)[0].tolist())
        return f"{list(place)} is {float(b[place])}, not {float(a[place])}"
    error = float((a - b)[finite].abs().max()) if finite.any() else 0.0
    allowed = _compute_copied_tolerance(right, near, scale, parts)
    return f"differs by {error:.3g}, beyond {allowed:.3g}" if error > allowed else ""


def _compute_copied_tolerance(right: Numbers, near: Any, scale: float, parts: float) -> float:
    step = compute_rounding_tolerance(right.dtype, max(parts, find_largest_copied_number(right)))
    if right.dtype in ("float16", "bfloat16"):  # computed in float32 and rounded once, or in parts
        return (ROUNDING_STEPS if parts else 1) * step + compute_rounding_tolerance(
            "float32", scale
        )
    allowed = ROUNDING_STEPS * step
    if isinstance(near, Numbers) and near.data.shape == right.data.shape:
        moved = (right.data.double() - near.data.double()).abs()
        moved = moved[torch.isfinite(moved)]
        allowed += SENSITIVITY_FACTOR * float(moved.max()) if moved.numel() else 0.0
    return allowed


def _convert_copied_float(value: Any) -> Any:
    if not isinstance(value, float):
        return None
    return Numbers("float", "float64", "cpu", False, torch.tensor(value, dtype=torch.float64))


def _find_copied_floats(values: Any) -> Iterator[Numbers]:
    match values:
        case Numbers() if values.dtype in FLOAT_DTYPES and values.device != "meta":
            yield values
        case Items():
            for item in values.items:
                yield from _find_copied_floats(item)
        case list():
            for item in values:
                yield from _find_copied_floats(item)


def _describe_copied_value(value: Any) -> str:
    plain = value is None or isinstance(value, bool | int | float | str)
    return repr(value) if plain else str(value)
