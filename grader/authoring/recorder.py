"""Records the calls of a module from outside: their text and the numbers in their arguments."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from grader.core.records import Exercise
from grader.judging import describe

_SHOWN_TYPES = (
    torch.Tensor, np.ndarray, np.generic, torch.dtype, torch.device,
    str, int, float, bool, list, tuple, dict, type(None),
)  # fmt: skip
SHOWN_CALLS = 6  # the last call is the one that matters


class CallRecorder:
    """The functions of a module, and subclasses of its classes, that record their calls."""

    def __init__(self, exercise: Exercise, module: ModuleType) -> None:
        self._module = module
        self._depth = 0
        self.calls: list[str] = []
        self.elements = 0  # in all arguments
        for name in exercise.names:
            thing = getattr(module, name, None)
            if isinstance(thing, type):
                setattr(self, name, self._record_class(thing))
            elif callable(thing):
                setattr(self, name, self._record_function(thing, name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def clear(self) -> None:
        """Forget the calls."""
        self.calls, self.elements, self._depth = [], 0, 0

    def last_calls(self) -> str:
        """Return the text of the last calls in order."""
        left_out = len(self.calls) - SHOWN_CALLS
        front = [f"({left_out} calls)"] if left_out > 0 else []
        return "; ".join([*front, *self.calls[-SHOWN_CALLS:]])

    def _record_class(self, kind: type) -> type:
        methods = {
            name: self._record_function(thing, f"{kind.__name__}.{name}", 1)
            for name, thing in vars(kind).items()
            if isinstance(thing, FunctionType) and not name.startswith("_")
        }
        made = self._record_function(getattr(kind, "__init__"), kind.__name__, 1)  # noqa: B009
        if issubclass(kind, torch.nn.Module):
            methods["__call__"] = self._record_function(kind.__call__, f"{kind.__name__}()", 1)
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        return type(kind)(kind.__name__, (kind,), {**methods, **names, "__init__": made})

    def _record_function(self, call: Callable[..., Any], name: str, skipped: int = 0) -> Any:
        """Return a function that records its calls, without the first `skipped` arguments."""

        @wraps(call)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            if self._depth == 0:
                self.calls.append(_describe_mutant_call(name, args[skipped:], kwargs))
                self.elements += count_recorded_elements([args[skipped:], kwargs])
            self._depth += 1
            try:
                return call(*args, **kwargs)
            finally:
                self._depth -= 1

        return recorded


def count_recorded_elements(value: Any) -> int:
    """Count the numbers in the arguments of a call."""
    match value:
        case torch.Tensor():
            return value.numel()
        case np.ndarray():
            return int(value.size)
        case list() | tuple():
            return sum(count_recorded_elements(item) for item in value)
        case dict():
            return sum(count_recorded_elements(item) for item in value.values())
    return 1


def _describe_mutant_call(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return describe.describe_call(
        name,
        [_hide_mutant_object(x) for x in args],
        {k: _hide_mutant_object(x) for k, x in kwargs.items()},
    )


def _hide_mutant_object(value: Any) -> Any:
    return value if isinstance(value, _SHOWN_TYPES) else _Object(type(value).__name__)


class _Object:
    """The stand-in for an object among arguments."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __str__(self) -> str:
        return f"<{self._kind}>"
