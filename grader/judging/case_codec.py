"""Packs the values of stored cases as JSON and tensors, for a safetensors file.

Plain values stay as they are; any other value is a list that begins with its kind. A tensor is
named by the digest of its content, so that equal tensors are stored once.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reference.expected import NUDGES, Errors, Expected

Json = Any


class CannotPack(Exception):
    """Raised for a value of a kind that cannot be stored; the message is the kind."""


def pack_case_value(value: Any, tensors: dict[str, Tensor]) -> Json:
    """Pack a value as JSON; add the tensors in the value to `tensors`, by digest."""
    match value:
        case None | bool() | str():
            return value
        case np.generic():
            return ["scalar", _store_case_tensor(torch.from_numpy(np.array(value)), tensors)]
        case int() | float():
            return value
        case torch.dtype():
            return ["dtype", str(value).removeprefix("torch.")]
        case Expected():
            parts = [
                pack_case_value(part, tensors) for part in (*value[:-1], value.nudged(max(NUDGES)))
            ]
            return ["expected", *parts]
        case Tensor():
            strides = [] if value.is_contiguous() or 0 in value.stride() else [value.stride()]
            return ["tensor", _store_case_tensor(value, tensors), *strides]
        case np.ndarray():
            return [
                "array",
                _store_case_tensor(torch.from_numpy(np.array(value, order="C")), tensors),
            ]
        case tuple() | list():
            kind = "tuple" if isinstance(value, tuple) else "list"
            return [kind, *(pack_case_value(item, tensors) for item in value)]
        case dict():
            return ["dict", *([key, pack_case_value(item, tensors)] for key, item in value.items())]
    raise CannotPack(type(value).__name__)


def _store_case_tensor(value: Tensor, tensors: dict[str, Tensor]) -> str:
    plain = value.detach().cpu().clone(memory_format=torch.contiguous_format)
    content = plain.reshape(-1).view(torch.uint8).numpy().tobytes()
    form = f"{plain.dtype} {tuple(plain.shape)} ".encode()
    digest = hashlib.blake2b(form + content, digest_size=8).hexdigest()
    tensors.setdefault(digest, plain)
    return digest


def unpack_case_value(packed: Json, tensors: Mapping[str, Tensor]) -> Any:
    """Unpack a value, with fresh tensors: whoever gets them may write into them."""
    if not isinstance(packed, list):
        return packed
    kind, *parts = packed
    match kind:
        case "tensor":
            return _restore_case_strides(tensors[parts[0]], *parts[1:])
        case "array":
            return tensors[parts[0]].numpy().copy()
        case "scalar":
            return tensors[parts[0]].numpy()[()]
        case "dtype":
            return getattr(torch, parts[0])
        case "expected":
            exact, plain, magnitude, gradient, nudged = (
                unpack_case_value(part, tensors) for part in parts
            )
            return Expected(exact, plain, magnitude, gradient, partial(_recall, Errors(*nudged)))
        case "tuple":
            return tuple(unpack_case_value(part, tensors) for part in parts)
        case "list":
            return [unpack_case_value(part, tensors) for part in parts]
        case "dict":
            return {key: unpack_case_value(part, tensors) for key, part in parts}
    raise CannotPack(kind)


def _recall(stored: Errors, count: int) -> Errors:
    """Return the errors that are stored of the most yardsticks."""
    return stored


def _restore_case_strides(value: Tensor, strides: list[int] | None = None) -> Tensor:
    if strides is None:
        return value.clone()
    return torch.empty_strided(value.shape, strides, dtype=value.dtype).copy_(value)


def outline_case_call(value: Any) -> str:
    """Write the form of a call's arguments: kinds, shapes and whole numbers, but no floats."""
    match value:
        case Tensor() | np.ndarray():
            return f"{str(value.dtype).removeprefix('torch.')}{tuple(value.shape)}"
        case None | bool() | str() | torch.dtype():
            return repr(value)
        case np.generic():
            return "scalar"
        case int():
            return repr(value)
        case float():
            return "float"
        case tuple() | list():
            return f"({', '.join(outline_case_call(item) for item in value)})"
        case dict():
            return (
                f"({', '.join(f'{key}={outline_case_call(item)}' for key, item in value.items())})"
            )
    return "..."


def digest_case_call(what: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return a short digest of the form of a call."""
    text = f"{what} {outline_case_call(args)} {outline_case_call(dict(kwargs))}"
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def sample_case_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[float]:
    """Return a few numbers of every argument, by which a call is recognized."""
    return [
        float(f"{x:.6g}")
        for value in (*args, *kwargs.values())
        for x in _sample_case_numbers(value)
    ]


def _sample_case_numbers(value: Any) -> list[float]:
    if isinstance(value, Tensor):
        flat: Any = value.detach().reshape(-1)
    elif isinstance(value, np.ndarray):
        flat = value.reshape(-1)
    else:
        flat = list(_sample_nested_case_numbers(value))
    places = (0, len(flat) // 2, len(flat) - 1) if len(flat) else ()
    return [float(flat[place]) for place in places]


def _sample_nested_case_numbers(value: Any) -> Iterator[float]:
    """Yield three numbers of each array, and each float, in nested lists, tuples and dicts."""
    match value:
        case Tensor() | np.ndarray():
            yield from _sample_case_numbers(value)
        case float():
            yield value
        case tuple() | list():
            for item in value:
                yield from _sample_nested_case_numbers(item)
        case dict():
            yield from _sample_nested_case_numbers(list(value.values()))


def are_case_samples_alike(some: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether two calls have the same numbers, up to the rounding of another machine."""
    return len(some) == len(others) and all(
        math.isclose(a, b, rel_tol=1e-2, abs_tol=1e-4) or (a != a and b != b)
        for a, b in zip(some, others, strict=True)
    )
