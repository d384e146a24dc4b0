"""Writes values and calls for messages: `softmax(float32 (2, 4), dim=0)`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

MAX_CALL_CHARACTERS = 300
MAX_WRITTEN_ENTRIES = 4  # of a matrix; a larger one is written as its shape


def describe_call(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Write a call, with the dtypes and shapes of its arguments."""
    parts = [describe_value(x) for x in args] + [
        f"{key}={describe_value(x)}" for key, x in kwargs.items()
    ]
    text = f"{name}({', '.join(parts)})"
    return text if len(text) <= MAX_CALL_CHARACTERS else text[: MAX_CALL_CHARACTERS - 4] + "...)"


def describe_value(x: Any) -> str:
    """Write a value as an argument of a call."""
    match x:
        case torch.Tensor():
            place = "" if x.device.type == "cpu" else f" on {x.device.type}"
            return f"{describe_dtype(x)} {tuple(x.shape)}{place}"
        case np.ndarray() | np.generic():
            return f"{describe_dtype(x)} {x.shape}"
        case torch.dtype():
            return name_dtype(x)
        case list() if _is_large_judged_matrix(x):
            return f"rows ({len(x)}, {len(x[0])})"
        case list():
            return f"[{', '.join(describe_value(item) for item in x)}]"
        case tuple():
            return f"({', '.join(describe_value(item) for item in x)})"
        case dict():
            return "{...}"
        case torch.device():
            return repr(str(x))
        case None | bool() | int() | float() | str():
            return repr(x)
    return str(x)


def _is_large_judged_matrix(x: list[Any]) -> bool:
    """Return whether a list is a matrix of numbers too large to be written out."""
    rows = bool(x) and all(isinstance(row, list) and len(row) == len(x[0]) for row in x)
    numbers = rows and all(isinstance(entry, (int, float)) for row in x for entry in row)
    return numbers and len(x) * len(x[0]) > MAX_WRITTEN_ENTRIES


def describe_kind(x: Any) -> str:
    """Name the kind of a value, with an article: 'a tensor', 'a tuple of 2'."""
    match x:
        case None:
            return "None"
        case torch.Tensor():
            return "a tensor"
        case np.ndarray() | np.generic():
            return "an array"
        case tuple() | list():
            return f"a {type(x).__name__} of {len(x)}"
        case bool() | float() | dict():
            return f"a {type(x).__name__}"
        case int():
            return "an int"
        case str():
            return "a string"
    return f"an object of type {getattr(x, 'type', type(x).__name__)}"


def describe_dtype(x: Any) -> str:
    return name_dtype(x.dtype)


def name_dtype(d: Any) -> str:
    return str(d).removeprefix("torch.")


def describe_numbers(one: Any, other: Any) -> tuple[str, str]:
    """Write two different numbers with as many digits as show the difference."""
    if isinstance(one, bool | np.bool_):
        return str(bool(one)), str(bool(other))
    short = f"{float(one):.8g}", f"{float(other):.8g}"
    return short if short[0] != short[1] else (f"{float(one):.17g}", f"{float(other):.17g}")


def describe_index(place: Sequence[Any]) -> str:
    return f"[{', '.join(str(int(i)) for i in place)}]" if len(place) else ""
