"""The built-in names that an answer may use, and guards for names that it makes at run time.

The reader (`grader/submission`) checks the names in the text of an answer. This module checks names
that only running shows: the second argument of `getattr`, `setattr` and `delattr`.
"""

import builtins
import dataclasses
import enum
from collections.abc import Callable, Iterable
from types import GenericAlias, ModuleType
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
TRITON_FIELDS = frozenset({"__self__", "__func__"})  # of a dataclass that Triton makes late
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
    kind = dataclasses.Field
    kept = vars(kind)["name"]

    def keep(field: Any, name: Any) -> None:
        if name is not None and not (type(name) is str and name.isidentifier()):
            raise NotAllowed("a field of a dataclass has a name that is none")
        kept.__set__(field, name)

    def refuse(cls: type, **_: object) -> None:
        raise NotAllowed("a class of yours cannot be a kind of `dataclasses.Field`")

    kind.name = property(kept.__get__, keep)  # type: ignore[assignment, misc]
    kind.__init_subclass__ = classmethod(refuse)  # type: ignore[arg-type, assignment]
    process = dataclasses._process_class  # type: ignore[attr-defined]
    find = dataclasses._get_field  # type: ignore[attr-defined]

    def found(*args: Any) -> Any:  # `isinstance` says of any object what its `__class__` does
        return _require_field(find(*args))

    def checked(cls: type, *args: Any, **kwargs: Any) -> Any:
        for base in cls.__mro__:
            fields = vars(base).get("__dataclass_fields__", {})
            written = vars(base).get("__annotations__", {})
            told = [*fields, *(_require_field(field).name for field in fields.values()), *written]
            known = type(written) is dict and all(type(n) is str and n.isidentifier() for n in told)
            if not known:
                raise NotAllowed("a field of a dataclass has a name that is none")
            _refuse_hidden_names(name for name in told if name not in TRITON_FIELDS)
        return process(cls, *args, **kwargs)

    dataclasses._get_field = found  # type: ignore[attr-defined]
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


def _require_field(thing: Any) -> Any:
    if type(thing) is not dataclasses.Field:
        raise NotAllowed("a field of a dataclass is an object of another kind")
    return thing


class _OneArgument(type):
    """What `OneArgumentType` is to an answer: `type`, as the reader allows it."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) != 1 or kwargs:
            raise NotAllowed("type takes one argument here: write a class with `class`")
        kind = type(args[0])
        return OneArgumentType if issubclass(kind, type) else kind

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, type)

    def __subclasscheck__(cls, kind: type) -> bool:
        return kind is OneArgumentType or issubclass(kind, type)

    def __eq__(cls, other: object) -> bool:
        return other is type or other is OneArgumentType

    def __hash__(cls) -> int:
        return hash(type)


class OneArgumentType(metaclass=_OneArgument):
    """Stands for `type` in an answer; it makes no class, and gives out none that makes classes."""

    __module__, __qualname__ = "builtins", "type"

    def __class_getitem__(cls, item: Any) -> Any:
        return GenericAlias(cls, item)


OneArgumentType.__name__ = "type"


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
            if issubclass(type(thing), ModuleType) and real is not getattr:
                raise NotAllowed(f"{name!r} of a module is not yours to change")
            found = real(thing, name, *rest)
            if issubclass(type(found), ModuleType):  # whoever keeps it
                raise NotAllowed(f"{name!r} is a module: import it")
            return found

        return with_a_look

    for name in ("getattr", "setattr", "delattr"):
        found[name] = guarded(getattr(builtins, name))
    found["type"] = OneArgumentType
    return found | {"__import__": __import__, "__build_class__": builtins.__build_class__}
