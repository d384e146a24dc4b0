"""The built-in names that an answer may use, and guards for names that it makes at run time.

The reader (`grader/submission`) checks the names in the text of an answer. This module checks names
that only running shows: the second argument of `getattr`, `setattr` and `delattr`.
"""

import builtins
import dataclasses
import enum
from collections.abc import Callable, Iterable
from dataclasses import Field
from types import ModuleType
from typing import Any

_EXCEPTION_NAMES = (
    n for n, x in vars(builtins).items() if isinstance(x, type) and issubclass(x, BaseException)
)
BUILTINS = frozenset(
    {
        *("abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "callable", "chr"),
        *("classmethod", "complex", "delattr", "dict", "dir", "divmod", "enumerate", "filter"),
        *("float", "format", "frozenset", "getattr", "hasattr", "hash", "hex", "id", "int"),
        *("isinstance", "issubclass", "iter", "len", "list", "map", "max", "min"),
        *("next", "object", "oct", "ord", "pow", "print", "property", "range", "repr"),
        *("reversed", "round", "set", "setattr", "slice", "sorted", "staticmethod", "str", "sum"),
        *("super", "tuple", "type", "zip", "input"),
        *("Ellipsis", "False", "None", "NotImplemented", "True", "__debug__"),
        *_EXCEPTION_NAMES,
    }
)  # fmt: skip
# Of frames, tracebacks, generators and coroutines: each reaches code by other ways than its name.
FRAME_NAMES = frozenset(
    {
        *("tb_frame", "tb_next", "tb_lasti", "tb_lineno", "gi_frame", "gi_code", "gi_yieldfrom"),
        *("cr_frame", "cr_code", "cr_await", "cr_origin", "ag_frame", "ag_code", "ag_await"),
        *("ctypes", "cffi", "from_address", "restype", "argtypes"),  # of NumPy's: to any memory
        *("f_back", "f_builtins", "f_code", "f_globals", "f_locals", "f_trace"),
    }
)
# Of torch.nn.Module: an attribute of its objects has whatever name is put into one of these.
MODULE_TABLES = frozenset({"_buffers", "_modules", "_parameters"})
# Between two underscores on each side: what a class may define, and any object may be asked for.
ORDINARY_DUNDERS = frozenset(
    f"__{name}__"
    for name in (
        *("abs", "add", "and", "bool", "bytes", "call", "ceil", "complex", "contains", "copy"),
        *("deepcopy", "delitem", "divmod", "doc", "enter", "eq", "exit", "float"),
        *("floor", "floordiv", "format", "ge", "getitem", "gt", "hash", "iadd", "iand"),
        *("ifloordiv", "ilshift", "imatmul", "imod", "imul", "index", "init", "int", "invert"),
        *("ior", "ipow", "irshift", "isub", "iter", "itruediv", "ixor", "le", "len"),
        *("length_hint", "lshift", "lt", "matmul", "missing", "mod", "module", "mul", "name"),
        *("ne", "neg", "new", "next", "or", "pos", "post_init", "pow", "qualname", "radd", "rand"),
        *("rdivmod", "repr", "reversed", "rfloordiv", "rlshift", "rmatmul", "rmod", "rmul"),
        *("ror", "round", "rpow", "rrshift", "rshift", "rsub", "rtruediv", "rxor"),
        *("setitem", "slots", "str", "sub", "truediv", "trunc", "xor", "class", "all", "version"),
        *("author", "annotations", "file", "date", "license", "credits", "email", "status"),
        *("get", "set", "delete", "init_subclass", "class_getitem", "array"),
        *("copyright", "maintainer", "contact", "docformat", "constants", "array_priority"),
        *("dir", "sizeof"),
    )
)


class NotAllowed(RuntimeError):
    """Raised when the submission uses something that is not allowed in its exercise."""


def is_dunder(name: str) -> bool:
    """Return whether a name has two underscores on each side."""
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def guard_worker_classes() -> None:
    """Have `dataclasses` and `enum` refuse names of members that an answer may not write."""
    _guard_worker_dataclasses()
    _guard_worker_enums()


def _guard_worker_dataclasses() -> None:
    """Have `dataclasses`, which makes code of field names, refuse those that are no identifiers."""
    process = dataclasses._process_class  # type: ignore[attr-defined]

    def checked(cls: type, *args: Any, **kwargs: Any) -> Any:
        for base in cls.__mro__:
            fields = vars(base).get("__dataclass_fields__", {})
            written = vars(base).get("__annotations__", {})
            kept = [x for x in (*fields.values(), *vars(base).values()) if isinstance(x, Field)]
            if type(written) is not dict or any(type(x) is not Field for x in kept):
                raise NotAllowed("a field of a dataclass is of a class of its own")
            told = [*fields, *(f.name for f in fields.values()), *written]
            if not all(type(name) is str and name.isidentifier() for name in told):
                raise NotAllowed("a field of a dataclass has a name that is none")
            _refuse_hidden_names(told)
        return process(cls, *args, **kwargs)

    dataclasses._process_class = checked  # type: ignore[attr-defined]


def _guard_worker_enums() -> None:
    create = enum.EnumType._create_  # type: ignore[attr-defined]

    def checked(cls: type, class_name: str, names: Any, **kwargs: Any) -> Any:
        if type(names) is not str:
            found = list(names.items() if type(names) is dict else names)
            names = [n if type(n) is str else tuple(n) for n in found]
            _refuse_hidden_names(n if type(n) is str else n[0] for n in names)
        return create(cls, class_name, names, **kwargs)

    enum.EnumType._create_ = checked  # type: ignore[attr-defined]


def _refuse_hidden_names(names: Iterable[str]) -> None:
    for name in names:
        if type(name) is not str or (is_dunder(name) and name not in ORDINARY_DUNDERS):
            raise NotAllowed(f"{name!r} is not on the list of what an answer may use")


class _TypeOfAnswers(type):
    """What `type` is in an answer: it tells the type of an object, and makes none.

    The type of a class is not told, because a call of that makes classes too.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) != 1 or kwargs or isinstance(args[0], type):
            raise NotAllowed("type takes one object that is no class here")
        return type(args[0])

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, type)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, type)

    def __getitem__(cls, _: Any) -> type:
        return cls


def list_worker_builtins(own: str) -> dict[str, Any]:
    """Return the built-in names for an answer; `own` is the name of its module.

    `__import__` is Python's own: libraries written in C find it here when they import modules.
    """
    found = {name: getattr(builtins, name) for name in BUILTINS if hasattr(builtins, name)}

    def look(thing: Any, name: Any) -> None:
        if type(name) is not str:
            raise TypeError("attribute name must be string")
        mine = type(thing).__module__ == own or getattr(thing, "__module__", None) == own
        foreign = (
            name.startswith("_") and name not in ORDINARY_DUNDERS and (is_dunder(name) or not mine)
        )
        if foreign or name in (*FRAME_NAMES, *MODULE_TABLES, "__class__"):
            raise NotAllowed(f"{name!r} cannot be looked up by a name in a string: write .{name}")

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def with_a_look(thing: Any, name: Any, *rest: Any) -> Any:
            look(thing, name)
            of_module = isinstance(thing, ModuleType)
            if of_module and real is not getattr:
                raise NotAllowed(f"{name!r} of a module is not yours to change")
            found = real(thing, name, *rest)
            if isinstance(found, ModuleType):
                raise NotAllowed(f"{name!r} is a module: import it")
            return found

        return with_a_look

    found["type"] = _TypeOfAnswers("type", (), {})
    for name in ("getattr", "setattr", "delattr"):
        found[name] = guarded(getattr(builtins, name))
    return found | {"__import__": __import__, "__build_class__": builtins.__build_class__}
