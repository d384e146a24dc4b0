"""Records one computation step by step: the reference's, and somebody's beside it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, np.dtype[Any]]

TOLERANCE = 1e-4  # of the largest value; single precision is far below, a mistake far above
PADDING = "<pad>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """One named step: the reference's value and yours, or why yours is not known."""

    name: str
    letters: str  # of its shape: "B H Lq Lk"
    reference: Array
    yours: Array | None = None
    problem: str = ""  # why there is nothing of yours, or what is wrong with its form
    given: bool = False  # what the example begins with
    misshapen: bool = False  # yours has another shape, and is not kept
    call: str = ""  # the call that gave yours

    @property
    def difference(self) -> Array | None:
        """Return yours minus the reference; equal values, infinities too, differ by 0."""
        if self.yours is None:
            return None
        ours, theirs = self.reference.astype(float), self.yours.astype(float)
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        with np.errstate(all="ignore"):
            return np.where(same, 0.0, theirs - ours)

    @property
    def largest(self) -> float:
        """Return the largest absolute difference; infinite where yours is no number."""
        if self.difference is None or not self.difference.size:
            return 0.0
        return float(np.nan_to_num(np.abs(self.difference), nan=np.inf, posinf=np.inf).max())

    @property
    def differs(self) -> bool:
        size = np.abs(self.reference.astype(float))
        return self.misshapen or self.largest > TOLERANCE * max(
            1.0, float(size[np.isfinite(size)].max(initial=0.0))
        )

    @property
    def tables(self) -> int:
        """Return how many tables (one per head) the array of this step holds."""
        return int(np.prod(self.reference.shape[:-2]))

    @property
    def is_mask(self) -> bool:
        return self.reference.dtype == bool

    def table(self, values: Array | None, head: int) -> Array | None:
        """Return one head's table (rows, columns) of `values`; of fewer heads, the last one's."""
        if values is None:
            return None
        tables = values.reshape(-1, *values.shape[-2:])
        return np.asarray(tables[min(head, len(tables) - 1)])


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientFlow:
    """The dependence of one output on each token of one input: norms, one per token."""

    name: str
    reference: Array  # (L,)
    yours: Array | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All that is shown of one exercise or function."""

    title: str
    tokens: tuple[str, ...]
    steps: tuple[ShownStep, ...]
    functions: tuple[str, ...] = ()  # and classes of the exercise
    embedding: str = ""
    head: int | None = None  # the one that was asked for
    row: int = 0  # the place in `target` whose gradients are shown
    target: str = "output"  # the step whose gradients are shown
    flows: tuple[GradientFlow, ...] = ()
    problems: tuple[str, ...] = field(default=())  # sentences about what could not be shown

    @property
    def grids(self) -> tuple[ShownStep, ...]:
        """Return the steps that are tables of tokens: masks and weights."""
        return tuple(s for s in self.steps if s.is_mask or s.name == "weights")

    @property
    def heads(self) -> int:
        return max((step.tables for step in self.grids), default=1)

    @property
    def first_wrong(self) -> ShownStep | None:
        return next((step for step in self.steps if step.differs), None)

    def columns(self, step: ShownStep) -> tuple[str, ...]:
        """Return the labels of a table's keys: the tokens, and padding after them."""
        return self._token_labels(step.reference.shape[-1])

    def rows(self, step: ShownStep) -> tuple[str, ...]:
        """Return the labels of a table's queries: the last tokens; `*` if one mask serves all."""
        count, keys = step.reference.shape[-2:]
        if step.is_mask and count == 1 < keys:
            return ("*",)
        return self._token_labels(max(count, keys))[-count:]

    def _token_labels(self, count: int) -> tuple[str, ...]:
        return (*self.tokens, *[PADDING] * (count - len(self.tokens)))[:count]


def convert_shown_numbers(value: Any) -> Array:
    """Convert numbers to float64, or keep bool; raise TypeError if `value` holds no numbers."""
    if isinstance(value, torch.Tensor) and not value.is_complex() and value.dtype != torch.bool:
        return np.asarray(value.detach().cpu().double().numpy())
    numbers = np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value)
    if numbers.dtype.kind not in "biuf":
        raise TypeError(f"{numbers.dtype} is no type of numbers that can be shown")
    return numbers if numbers.dtype == bool else numbers.astype(np.float64)
