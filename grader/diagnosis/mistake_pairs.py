"""Binds two mistakes of the catalogue together, so that an answer makes both at once.

Nothing is copied: a mistake is mostly a right function of the catalogue with one thing changed.
Where mistake A calls such a function, the pair lets it call mistake B instead; two classes that
change different methods become one class that inherits from both, and so do two classes that are
passed to the right function; mistakes of two names are each bound to their own.
"""

import inspect
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from grader.judging.marks import Mistake

_MADE_BY_PYTHON = {"__module__", "__doc__", "__qualname__", "__mark__", "__dict__", "__weakref__"}


class SamePart(Exception):
    """Raised by a pair whose mistakes change the same part: they cannot be made at once."""


def combine_mistakes(one: Mistake, other: Mistake) -> Any:
    """Return an answer that makes two mistakes of one name; None if they cannot be combined."""
    first, second = one.answer, other.answer
    if inspect.isclass(first) and inspect.isclass(second):
        return _combine_mistake_classes(first, second)
    if isinstance(first, FunctionType) and isinstance(second, FunctionType):
        base = _find_replaced_base(first, second)
        return base and _combine_mistake_functions(first, second, base)
    return None


def _combine_mistake_classes(one: type, other: type) -> type | None:
    """Return a class with the changed methods of both, if `one` lets those of `other` run."""
    mine = _list_methods_mistake_changes(one, other)
    theirs = _list_methods_mistake_changes(other, one)
    if not mine or not theirs:
        return None
    if any(not _does_mistake_call_super(mine[name]) for name in mine.keys() & theirs.keys()):
        return None
    try:
        return type(f"{one.__name__}_and_{other.__name__}", (one, other), {})
    except TypeError:  # no order of their bases fits both
        return None


def _list_methods_mistake_changes(one: type, other: type) -> dict[str, Any]:
    """Return what `one` and its bases define that are not also bases of `other`."""
    own = [base for base in one.__mro__ if base not in other.__mro__]
    return {
        name: value
        for base in reversed(own)
        for name, value in vars(base).items()
        if name not in _MADE_BY_PYTHON
    }


def _does_mistake_call_super(method: Any) -> bool:
    return isinstance(method, FunctionType) and "super" in method.__code__.co_names


@cache
def _find_replaced_base(one: FunctionType, other: FunctionType) -> str | None:
    """Return the name of a right function that `one` calls and `other` can replace; None if none.

    A function of the catalogue counts as the right one if its first parameters are `other`'s.
    """
    wanted = _read_signature_of_mistake(other).parameters.keys()
    for name in one.__code__.co_names:
        base = one.__globals__.get(name)
        if isinstance(base, FunctionType) and base is not other and not hasattr(base, "__mark__"):
            given = list(_read_signature_of_mistake(base).parameters)
            if given[: len(wanted)] == list(wanted):
                return name
    return None


@cache
def _read_signature_of_mistake(function: FunctionType) -> inspect.Signature:
    """Return a function's signature, read once: each takes part in a hundred pairs."""
    return inspect.signature(function)


def _combine_mistake_functions(one: FunctionType, other: FunctionType, base: str) -> FunctionType:
    """Let `one` call `other` where it calls the right function; both must call it otherwise."""
    right = one.__globals__[base]
    takes, wanted = _read_signature_of_mistake(right), _read_signature_of_mistake(other)

    def changed_too(*args: Any, **kwargs: Any) -> Any:
        given = takes.bind(*args, **kwargs).arguments
        rest = {k: value for k, value in given.items() if k not in wanted.parameters}
        inner = (
            _replace_right_function(right, other, _pass_on_values_of_outer_mistake(right, rest))
            if rest
            else other
        )
        mine = {k: value for k, value in given.items() if k in wanted.parameters}
        passed = inspect.BoundArguments(wanted, OrderedDict(mine))
        return inner(*passed.args, **passed.kwargs)

    return _replace_right_function(right, one, changed_too)


def _pass_on_values_of_outer_mistake(
    right: FunctionType, rest: dict[str, Any]
) -> Callable[..., Any]:
    """Return the right function with what the outer mistake passes besides."""
    takes = _read_signature_of_mistake(right)

    def called(*args: Any, **kwargs: Any) -> Any:
        given = takes.bind(*args, **kwargs)
        for name, value in rest.items():
            twice = name in given.arguments
            given.arguments[name] = (
                _join_values_of_two_mistakes(value, given.arguments[name]) if twice else value
            )
        return right(*given.args, **given.kwargs)

    return called


def _join_values_of_two_mistakes(one: Any, other: Any) -> Any:
    """Join two classes that mistakes pass for one parameter; raise `SamePart` if that cannot be.

    Two `**options` become one, with the options of both.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        twice = one.keys() & other.keys()
        return {
            **other,
            **one,
            **{name: _join_values_of_two_mistakes(one[name], other[name]) for name in twice},
        }
    if not inspect.isclass(one) or not inspect.isclass(other):
        raise SamePart
    if issubclass(one, other) or issubclass(other, one):
        return one if issubclass(one, other) else other
    both = _combine_mistake_classes(one, other) or _combine_mistake_classes(other, one)
    if both is None:
        raise SamePart
    return both


def _replace_right_function(
    right: FunctionType, function: FunctionType, value: Any
) -> FunctionType:
    """Return a copy of a function in which each global name of `right` stands for `value`.

    The same right function may have one name in a mistake and another in a copy of a mistake.
    """
    names = {name for name, known in function.__globals__.items() if known is right}
    made = FunctionType(
        function.__code__, {**function.__globals__, **dict.fromkeys(names, value)},
        function.__name__, function.__defaults__, function.__closure__,
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    return made
