"""Which operators of PyTorch run in a worker: those on a list; the others are refused.

Names are read off an answer before it is run (`grader/submission`). An operator is refused besides
in PyTorch's dispatcher, where all ways to it end: once, before there is a worker, so that a call of
an operator that is let through takes no longer than it would.
"""

import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torch

from .builtin_names import NotAllowed

# For every kind of tensor that the CPU or CUDA computes with, and for `torch.vmap`.
KEYS = (
    *("CPU", "CUDA", "AutogradCPU", "AutogradCUDA", "AutogradOther", "AutogradNestedTensor"),
    *("SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA", "MkldnnCPU", "QuantizedCPU"),
    *("NestedTensorCPU", "NestedTensorCUDA", "FuncTorchBatched"),
)
# Of PyTorch's own machinery: they compute nothing.
_MACHINERY = frozenset({"prim", "profiler", "c10d", "_c10d_functional", "rpc"})
_BEFORE = re.compile(r"(?:native|special|unsafe|sym)_")
_BEHIND = re.compile(r"_(?:backward(?:_(?:data|input|weights))?|copy|out|forward)$")
_IN_PLACE = re.compile(r"__i(and|or|xor|lshift|rshift)__")
_refused: set[str] = set()
_kept: dict[str, torch.library.Library] = {}  # what a library has registered ends with it


def close(open_: Iterable[str], without: Iterable[str]) -> None:
    """Refuse every operator that is not what one of these names, or a tensor's method, stands for.

    without  methods that do not count
    """
    methods = {name for name in dir(torch.Tensor) if not name.startswith("_")}
    families = {family(name) for name in (*open_, *methods)} - {family(name) for name in without}
    for full in torch._C._dispatch_get_all_op_names():
        space, _, name = full.partition("::")
        base = name.partition(".")[0]
        if space not in _MACHINERY and not (space == "aten" and family(base) in families):
            refuse(full, f"torch's {base} is not on the list of what an answer may use")


def let_autocast_be_anywhere() -> None:
    """Let `torch.autocast(x.device.type, enabled=False)` be written of a tensor on `meta` too.

    Where an answer computes is seen by asking it there; PyTorch knows no autocast of that device.
    """
    begin = torch.autocast.__init__

    def on_cpu(self: torch.autocast, device_type: str, *args: Any, **kwargs: Any) -> None:
        begin(self, "cpu" if device_type == "meta" else device_type, *args, **kwargs)

    torch.autocast.__init__ = on_cpu  # type: ignore[method-assign]


def family(name: str) -> str:
    """What an operator belongs to: "softmax" for `_softmax_backward_data`, "add" for `add_`."""
    name = _IN_PLACE.sub(r"\1", name).strip("_")
    name = _BEHIND.sub("", _BEFORE.sub("", name, count=1))
    return name.strip("_")


def refuse(full: str, why: str) -> None:
    """Have an operator ("aten::_softmax", "aten::softmax.int") raise a sentence for all tensors."""
    if full in _refused:
        return
    _refused.add(full)
    space, _, name = full.partition("::")
    if space not in _kept:
        _kept[space] = torch.library.Library(space, "IMPL")  # type: ignore[no-untyped-call]
    refusal = raises(why)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced is the point
        for key in KEYS:
            _kept[space].impl(name, refusal, key)  # type: ignore[no-untyped-call]


def raises(why: str) -> Callable[..., NoReturn]:
    """A function that takes anything and raises a sentence."""

    def refused(*_: object, **__: object) -> NoReturn:
        raise NotAllowed(why)

    return refused
