"""What the submission of an exercise may not call, refused in the worker.

The list of an exercise is read off the source before it is run, which says where and how to mend
it. This is for those who write around that list: an operator is refused in PyTorch's dispatcher,
where all ways to it end, and a function that is made of allowed operators under its own name.
"""

import importlib
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torch

_KEYS = ("CPU", "CUDA", "AutogradCPU", "AutogradCUDA", "SparseCPU")
_kept: list[torch.library.Library] = []  # what a library has registered ends with it


class NotAllowed(RuntimeError):
    """The submission called something that is not allowed in its exercise."""


def refuse(names: Iterable[str]) -> None:
    """Refuse operators ("aten::_softmax") and functions or classes by their full name."""
    for name in names:
        kind, _, operator = name.rpartition("::")
        if kind:
            _refuse_operator(operator)
        else:
            _refuse_name(name)


def _refuse_operator(name: str) -> None:
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:  # this torch does not have it
        return
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    _kept.append(library)
    refusal = _refusal(f"torch's {name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced is the point
        for overload in packet.overloads():
            full = name if overload == "default" else f"{name}.{overload}"
            for key in _KEYS:
                library.impl(full, refusal, key)  # type: ignore[no-untyped-call]


def _refuse_name(name: str) -> None:
    front, _, last = name.rpartition(".")
    try:
        place = importlib.import_module(front)
    except ImportError:
        return
    if hasattr(place, last):
        setattr(place, last, _refusal(name))


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refused(*_: Any, **__: Any) -> NoReturn:
        raise NotAllowed(f"{name} is not allowed in this exercise")

    return refused
