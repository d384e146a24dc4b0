"""Keeps PyTorch from importing torch._dynamo, its compiler, where nothing is compiled.

At the first operator on the device `meta`, or under a dispatch mode, PyTorch imports the compiler
for a second or two, only to tell it to leave a function alone.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

_NAME = "torch._dynamo"


class _DeferredDynamo(ModuleType):
    """Stands for torch._dynamo until more is asked of it than to take note of a function."""

    def disable(self, function: Callable[..., Any], *_: object, **__: object) -> Callable[..., Any]:
        """Return a function as it is: without a compiler there is none to keep away from it."""
        return function

    allow_in_graph = disable

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # what walks through all modules asks it
            raise AttributeError(f"module {_NAME!r} has no attribute {name!r}")
        if sys.modules.get(_NAME) is self:
            del sys.modules[_NAME]
            del torch._dynamo
        return getattr(importlib.import_module(_NAME), name)


def defer_dynamo_import() -> None:
    """Import torch._dynamo only when something is asked of it that needs the compiler."""
    if _NAME not in sys.modules:
        sys.modules[_NAME] = torch._dynamo = _DeferredDynamo(_NAME)
