"""Refuses every operator of PyTorch that is not on the list for answers.

The reader (`grader/submission`) checks the names in an answer first. This module refuses operators
in PyTorch's dispatcher, through which every way to an operator leads. It does so once, before there
is a worker, so that calls of allowed operators take no longer; an operator that PyTorch defines
later, when a module of its own is first needed, is refused as soon as it is defined.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Set
from typing import Any, NoReturn

import torch

from .builtin_names import NotAllowed

# Dispatch keys of every kind of tensor on the CPU or CUDA, and of `torch.vmap`.
DISPATCH_KEYS = (
    *("CPU", "CUDA", "AutogradCPU", "AutogradCUDA", "AutogradOther", "AutogradNestedTensor"),
    *("SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA", "MkldnnCPU", "QuantizedCPU"),
    *("NestedTensorCPU", "NestedTensorCUDA", "FuncTorchBatched"),
)
# Namespaces of PyTorch's own machinery: their operators compute nothing.
_MACHINERY_SPACES = frozenset({"prim", "profiler", "c10d", "_c10d_functional", "rpc"})
_NAME_PREFIX = re.compile(r"(?:native|special|unsafe|sym)_")
_NAME_SUFFIX = re.compile(r"_(?:backward(?:_(?:data|input|weights))?|copy|out|forward)$")
_IN_PLACE_METHOD = re.compile(r"__i(and|or|xor|lshift|rshift)__")
_refused_operators: set[str] = set()
_libraries: dict[str, torch.library.Library] = {}  # kept, since a library's kernels end with it


def refuse_unlisted_worker_operators(open_: Iterable[str], without: Iterable[str]) -> None:
    """Allow only operators of the same family as an `open_` name or a tensor's method.

    A family is an operator with its variants, such as `add` and `add_`.

    without  methods whose families are refused all the same
    """
    methods = {name for name in dir(torch.Tensor) if not name.startswith("_")}
    families = {find_worker_operator_family(name) for name in (*open_, *methods)} - {
        find_worker_operator_family(name) for name in without
    }
    for full in torch._C._dispatch_get_all_op_names():
        _refuse_worker_operator_outside(families, full)
    define = torch.library.Library.define

    def define_and_refuse(
        library: torch.library.Library, schema: str, *args: Any, **kw: Any
    ) -> Any:
        result = define(library, schema, *args, **kw)  # type: ignore[no-untyped-call]
        name = schema.partition("(")[0].strip()
        _refuse_worker_operator_outside(families, f"{library.ns}::{name}")
        return result

    torch.library.Library.define = define_and_refuse  # type: ignore[assignment, method-assign]


def _refuse_worker_operator_outside(families: Set[str], full: str) -> None:
    space, _, name = full.partition("::")
    base = name.partition(".")[0]
    listed = space == "aten" and find_worker_operator_family(base) in families
    if space not in _MACHINERY_SPACES and not listed:
        refuse_worker_operator(full, f"torch's {base} is not on the list of what an answer may use")


def allow_autocast_in_worker() -> None:
    """Let `torch.autocast(x.device.type, enabled=False)` work for a tensor on `meta` too.

    A check of an answer's device calls it on `meta`, and PyTorch has no autocast for that device.
    """
    begin = torch.autocast.__init__

    def on_cpu(self: torch.autocast, device_type: str, *args: Any, **kwargs: Any) -> None:
        begin(self, "cpu" if device_type == "meta" else device_type, *args, **kwargs)

    torch.autocast.__init__ = on_cpu  # type: ignore[method-assign]


def find_worker_operator_family(name: str) -> str:
    """Return an operator's family: "softmax" of `_softmax_backward_data`, "add" of `add_`."""
    name = _IN_PLACE_METHOD.sub(r"\1", name).strip("_")
    name = _NAME_SUFFIX.sub("", _NAME_PREFIX.sub("", name, count=1))
    return name.strip("_")


def refuse_worker_operator(full: str, why: str) -> None:
    """Have an operator ("aten::_softmax", "aten::softmax.int") raise `why` for all tensors."""
    if full in _refused_operators:
        return
    _refused_operators.add(full)
    space, _, name = full.partition("::")
    if space not in _libraries:
        _libraries[space] = torch.library.Library(space, "IMPL")  # type: ignore[no-untyped-call]
    refusal = make_worker_refusal(why)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that a kernel is replaced
        for key in DISPATCH_KEYS:
            _libraries[space].impl(name, refusal, key)  # type: ignore[no-untyped-call]


def make_worker_refusal(why: str) -> Callable[..., NoReturn]:
    """Return a function that takes any arguments and raises `NotAllowed` with `why`."""

    def refused(*_: object, **__: object) -> NoReturn:
        raise NotAllowed(why)

    return refused
