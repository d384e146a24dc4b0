"""Builds small inputs for a function, of the kinds and shapes that its manifest declares.

The smallest come first. Numbers are whole and near zero, so that a person can do them by hand.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.core.records import DeclaredFunction
from grader.judging.contract import count_required_parameters, list_judged_parameters
from grader.judging.describe import name_dtype
from grader.judging.draw import Draw
from grader.judging.tolerance import as_judged_numbers

LARGEST_SIZE = 3
FEW_LETTERS = 3  # with more of them sizes go to 2
LEADING = ((), (2,), (1, 2))  # what stands in the place of "..." before other letters
WHOLE_SHAPES = ((1,), (2,), (3,), (1, 2), (2, 2), (2, 3), (2, 2, 2))  # of "..." alone
# What whole numbers up to 2 are multiplied by, the plainest first. With 64 the scores of a few
# queries and keys are below 3e4, as far as most exercises promise; a softmax takes more.
FACTORS = 1.0, 64.0, 1000.0
_SHARES = {
    1: torch.tensor([1.0]),
    2: torch.tensor([0.25, 0.75]),
    3: torch.tensor([0.5, 0.25, 0.25]),
}
_KEPT = (int, float, str, torch.dtype, torch.device, type(None))


class NoSmallInputs(Exception):
    """Raised where an argument is no number, text, tensor, array or list of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallInputs:
    """How the inputs of one function are drawn: its arguments as one failing call had them."""

    function: DeclaredFunction
    bound: Mapping[str, Any]  # the arguments of the failing call, by name
    required: int  # so many of the first ones have no default

    def list_options(self) -> list[tuple[str, ...]]:
        """Return which arguments to give: the required ones, all but masks, masks, all."""
        names = list(self.bound)
        masks = [n for n in names if _is_boolean_input(self.bound[n])]
        plain = [n for n in names if n not in masks]
        needed = names[: self.required]
        return list(
            dict.fromkeys(tuple(dict.fromkeys([*needed, *x])) for x in ([], plain, masks, names))
        )

    def list_sizes(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the sizes of letters, whole numbers and "...", those of few numbers first.

        There are as many queries as keys, fewer or more, as in the failing call.
        """
        words = [w for n in names for w in self._shape(n)]
        letters = list(dict.fromkeys(w for w in words if w != "..."))
        counts = [n for n in names if self._is_count(n)]
        most = LARGEST_SIZE if len(letters) + len(counts) <= FEW_LETTERS else 2
        leading = ((),) if "..." not in words else LEADING if letters else WHOLE_SHAPES
        found = [
            {**dict(zip([*letters, *counts], sizes, strict=True)), "...": lead}
            for lead in leading
            for sizes in itertools.product(range(1, most + 1), repeat=len(letters) + len(counts))
        ]
        lengths = self._find_lengths()
        if len(lengths) == 2 and lengths.keys() <= set(letters):
            order = _compare_lengths(lengths)
            found = [sizes for sizes in found if _compare_lengths(sizes) == order]
        return sorted(found, key=lambda sizes: (len(sizes["..."]), self._count(names, sizes)))

    def draw(
        self, names: Sequence[str], sizes: Mapping[str, Any], dtype: torch.dtype, factor: float,
        draw: Draw,
    ) -> dict[str, Any]:  # fmt: skip
        """Draw the arguments of these names, floats of a dtype and as multiples of a factor."""
        made: dict[str, Any] = {}
        for name in names:
            like = self.bound[name]
            if self._is_count(name):
                made[name] = sizes[name]
            elif isinstance(like, _KEPT):
                made[name] = like
            else:
                shape = [size for w in self._shape(name) for size in _as_sizes(sizes[w])]
                draw_one = _draw_weights if name == "weights" else _draw_like
                made[name] = draw_one(like, shape, dtype, factor, draw)
        return made

    def _find_lengths(self) -> dict[str, int]:
        """Return how many queries and keys the failing call has, as far as its arguments say."""
        found: dict[str, int] = {}
        for name, like in self.bound.items():
            words = self.function.shapes.get(name, "").split()
            sizes = tuple(getattr(like, "shape", ()))
            for word, size in zip(reversed(words), reversed(sizes), strict=False):
                if word in ("Lq", "Lk"):
                    found[word] = size
        return found

    def _shape(self, name: str) -> list[str]:
        """Return the letters of an argument's shape; those of a mask are queries and keys."""
        like = self.bound[name]
        if isinstance(like, _KEPT):
            return []
        if name in self.function.shapes:
            return self.function.shapes[name].split()
        declared = " ".join(self.function.shapes.values()).split()
        if _is_boolean_input(like) and {"Lq", "Lk"} <= set(declared):
            return ["Lq", "Lk"]
        raise NoSmallInputs(name)

    def _count(self, names: Sequence[str], sizes: Mapping[str, Any]) -> int:
        numbers: int = sum(
            math.prod(size for w in self._shape(n) for size in _as_sizes(sizes[w])) for n in names
        )
        return numbers + sum(int(sizes[n]) for n in names if self._is_count(n))

    def _is_count(self, name: str) -> bool:
        """Return whether an argument is a number of things, and not an axis, which is kept."""
        needed = name in list(self.bound)[: self.required]
        return type(self.bound[name]) is int and (needed or abs(self.bound[name]) > 1)


def plan_small_inputs(
    function: DeclaredFunction, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> SmallInputs:
    """Plan inputs like those of a call; raise `NoSmallInputs` where an argument cannot be drawn."""
    names = list_judged_parameters(function.signature)
    required = count_required_parameters(function.signature)
    if len(args) > len(names) or "*" in function.signature or len(args) < min(required, 1):
        raise NoSmallInputs(function.name)
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    bound = {n: given[n] for n in names if _is_known_argument(given.get(n))}
    if any(n not in bound for n in names[:required]):
        raise NoSmallInputs(function.name)
    return SmallInputs(function=function, bound=bound, required=required)


def list_input_dtypes(plan: SmallInputs) -> list[torch.dtype]:
    """Return float32, and the dtype of the failing call if that is another floating one."""
    found = [torch.float32]
    for x in plan.bound.values():
        dtype = getattr(torch, name_dtype(getattr(x, "dtype", "")), None)
        if isinstance(dtype, torch.dtype) and dtype.is_floating_point and dtype not in found:
            found.append(dtype)
    return found


def _compare_lengths(sizes: Mapping[str, Any]) -> int:
    queries, keys = int(sizes["Lq"]), int(sizes["Lk"])
    return (queries > keys) - (queries < keys)


def _is_known_argument(x: Any) -> bool:
    """Return whether an argument can be kept, or drawn; None is left out."""
    rows = isinstance(x, list) and all(isinstance(row, list) for row in x)
    return x is not None and (rows or isinstance(x, (*_KEPT, Tensor, np.ndarray)))


def _is_boolean_input(x: Any) -> bool:
    if isinstance(x, list):
        return any(type(entry) is bool for row in x for entry in row)
    return name_dtype(getattr(x, "dtype", "")) == "bool"


def _as_sizes(size: Any) -> tuple[int, ...]:
    return size if isinstance(size, tuple) else (size,)


def _draw_like(
    like: Any, shape: Sequence[int], dtype: torch.dtype, factor: float, draw: Draw
) -> Any:
    """Draw an argument of the kind of another: whole numbers, or a mask with a key in each row."""
    if _is_boolean_input(like):
        made = draw.integers(0, 1, *shape).bool()
        given = np.asarray(like if isinstance(like, list) else as_judged_numbers(like))
        if shape and given.any(-1).all():
            made = draw.keep(*shape)
    else:
        wholes = draw.integers(-2, 2, *shape)
        is_float = isinstance(like, list) or "float" in str(like.dtype)
        made = (wholes * factor).to(dtype) if is_float else wholes.abs()
    if isinstance(like, np.ndarray):
        return made.numpy()
    return made.tolist() if isinstance(like, list) else made


def _draw_weights(
    like: Any, shape: Sequence[int], dtype: torch.dtype, factor: float, draw: Draw
) -> Any:
    """Draw rows that a softmax may give; their sums are 1, whatever the factor."""
    rows = _SHARES[shape[-1]].repeat(*shape[:-1], 1).to(dtype)
    made = rows.roll(draw.integer(0, 2), -1)
    return made.numpy() if isinstance(like, np.ndarray) else made


def iterate_input_groups(plan: SmallInputs) -> Iterator[tuple[tuple[str, ...], torch.dtype, float]]:
    """Yield arguments, dtype and factor, the plainest first."""
    for names in plan.list_options():
        for dtype in list_input_dtypes(plan):
            for factor in FACTORS:
                yield names, dtype, factor
