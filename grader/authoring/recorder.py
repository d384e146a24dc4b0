"""A module whose calls from outside are written down: what was called, on how many numbers."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np
import torch

from grader.core.records import Exercise
from grader.judging import describe

_KNOWN = (
    torch.Tensor, np.ndarray, np.generic, torch.dtype, torch.device,
    str, int, float, bool, list, tuple, dict, type(None),
)  # fmt: skip
SHOWN = 6  # calls, of which the last is the one that matters


class Recorder:
    """The names of an exercise, as attributes. Classes are subclasses of the module's own."""

    def __init__(self, exercise: Exercise, module: ModuleType) -> None:
        self._module = module
        self._depth = 0
        self.calls: list[str] = []
        self.elements = 0  # in all arguments
        for name in exercise.names:
            thing = getattr(module, name, None)
            if isinstance(thing, type):
                setattr(self, name, self._subclass(thing))
            elif callable(thing):
                setattr(self, name, self._recorded(thing, name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def clear(self) -> None:
        """Forget the calls."""
        self.calls, self.elements, self._depth = [], 0, 0

    def text(self) -> str:
        """The last calls, in their order."""
        left_out = len(self.calls) - SHOWN
        front = [f"({left_out} calls)"] if left_out > 0 else []
        return "; ".join([*front, *self.calls[-SHOWN:]])

    def _subclass(self, kind: type) -> type:
        methods = {
            name: self._recorded(thing, f"{kind.__name__}.{name}", 1)
            for name, thing in vars(kind).items()
            if callable(thing) and not name.startswith("_")
        }
        made = self._recorded(getattr(kind, "__init__"), kind.__name__, 1)  # noqa: B009
        if issubclass(kind, torch.nn.Module):
            methods["__call__"] = self._recorded(kind.__call__, f"{kind.__name__}()", 1)
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        return type(kind)(kind.__name__, (kind,), {**methods, **names, "__init__": made})

    def _recorded(self, call: Callable[..., Any], name: str, skipped: int = 0) -> Any:
        """A function that is recorded, without its first arguments that are `skipped`."""

        @wraps(call)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            if self._depth == 0:
                self.calls.append(_text(name, args[skipped:], kwargs))
                self.elements += elements([args[skipped:], kwargs])
            self._depth += 1
            try:
                return call(*args, **kwargs)
            finally:
                self._depth -= 1

        return recorded


def elements(value: Any) -> int:
    """How many numbers the arguments of a call hold."""
    match value:
        case torch.Tensor():
            return value.numel()
        case np.ndarray():
            return int(value.size)
        case list() | tuple():
            return sum(elements(item) for item in value)
        case dict():
            return sum(elements(item) for item in value.values())
    return 1


def _text(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return describe.call(name, [_plain(x) for x in args], {k: _plain(x) for k, x in kwargs.items()})


def _plain(value: Any) -> Any:
    return value if isinstance(value, _KNOWN) else _Object(type(value).__name__)


class _Object:
    """An object among arguments."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __str__(self) -> str:
        return f"<{self._kind}>"
