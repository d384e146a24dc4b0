"""Finds the cure where an answer uses what nothing has set or returned."""

import math
import re
from collections.abc import Iterable
from difflib import get_close_matches

import numpy
import torch

from grader.judging.raised_exception import RaisedException

_LIKE = 0.75  # how like two names are, as `difflib` counts
_MODULES = {
    "math": "import math", "np": "import numpy as np", "torch": "import torch",
    "nn": "from torch import nn", "F": "import torch.nn.functional as F",
}  # fmt: skip
_OTHERS_NAMES = {"true": "True", "false": "False", "none": "None", "null": "None"}
_BINDS = r"(?:def|class|as|for|import|del|global|except|case)\b"
_MAX_SETTINGS = 20  # lines that set one name, of which the function is looked for


def advise_on_unset_attribute(raised: RaisedException, found: re.Match[str]) -> str:
    """Say that nothing in the answer sets an attribute of `self`, or which name is like it."""
    owner, name = found.groups()
    # A check reads attributes too; then no line of the answer has raised.
    read = not raised.number or re.search(rf"\bself\.{name}\b", raised.line)
    known = raised.list_set_attributes(owner)
    if not read or name in known or not raised.mentions(rf"^\s*class\s+{owner}\b"):
        return ""
    if raised.has_property(name):
        return f"{name} is a property: an attribute that it uses is not there."
    if raised.mentions(rf"""["']{name}["']|^\s*def\s+{name}\b|^\s+{name}\s*[:=][^,]*$"""):
        return ""  # a buffer, a property, or an attribute of the class
    if like := _find_like_name(name, known):
        return f"Nothing sets self.{name}, but something sets self.{like}."
    if name in raised.list_set_attributes():
        return f"Nothing in {owner} sets self.{name}; another class does."
    return f"Nothing sets self.{name}: set it in __init__."


def _find_like_name(name: str, known: Iterable[str]) -> str:
    """Return the name that is spelt most like another; "" if none is.

    Names of one length are rather those of two things (q_weight and k_weight), unless letters have
    changed places.
    """
    near = [n for n in known if len(n) != len(name) or sorted(n) == sorted(name)]
    return next(iter(get_close_matches(name, near, 1, _LIKE)), "")


def advise_on_unset_name(raised: RaisedException, found: re.Match[str]) -> str:
    """Say which name is meant: an attribute, one that is spelt otherwise, or another function's."""
    name = found[1]
    if not re.search(rf"(?<![\w.]){name}\b", raised.line) or not raised.start:
        return ""
    if name in raised.list_set_attributes():
        return f"Nothing sets {name}, but something sets self.{name}."
    if raised.binds_inside(name):
        return ""
    lines = [n for n, each in raised.settings if each == name][:_MAX_SETTINGS]
    lines.sort(key=lambda number: abs(number - raised.number))
    if number := next(filter(raised.find_def, lines), 0):
        at = raised.name_line(number)
        return f"Nothing in this function sets {name}; line {at} does, but in another function."
    own = raised.parameters | {each for _, each in raised.own_settings}
    if name in own:
        return ""
    if like := _find_like_name(name, own):
        return f"Nothing sets {name}, but something sets {like}."
    if name in _MODULES:
        return f"{name} is not imported here: write `{_MODULES[name]}` above the functions."
    if meant := _find_meant_name(raised, name):
        return f"Nothing sets {name}: is {meant} meant?"
    if raised.mentions(rf"^[^#]*\b(?:{_BINDS}[^#]*\b{name}\b|{name}\s*(?:[-+*/@&|]?=[^=]|:))"):
        return ""  # in a class, in a loop, or where it ended
    return f"Nothing sets {name}: give it a value before this line."


def _find_meant_name(raised: RaisedException, name: str) -> str:
    """Return a name of Python's, or of a module that the answer uses; "" if there is none."""
    if name in _OTHERS_NAMES:
        return _OTHERS_NAMES[name]
    modules = {"math": math, "torch": torch, "nn": torch.nn, "np": numpy}
    known = (part for part, module in modules.items() if name in vars(module))
    return next((f"{p}.{name}" for p in known if raised.mentions(rf"\b{p}\.\w")), "")


def advise_on_unset_local(raised: RaisedException, found: re.Match[str]) -> str:
    """Say where the function sets a name that this call has not set yet."""
    name = found[1]
    own = [n for n, each in raised.own_settings if each == name]
    if not own:
        return ""
    before = range(raised.start, raised.number)
    deleted = rf"\s*del\b.*\b{name}\b"
    if gone := [n for n in before if re.match(deleted, raised.read_line(n))]:
        return f"Line {raised.name_line(gone[-1])} deletes {name}."
    if set_before := [n for n in own if n in before]:
        return f"Line {raised.name_line(set_before[-1])} sets {name}, but did not in this call."
    if raised.number in own:
        return f"This line sets {name} itself, and no line of this function before it does."
    return f"Line {raised.name_line(own[0])} sets {name}, but comes after this one."


def advise_on_missing_return(raised: RaisedException, found: re.Match[str]) -> str:
    """Name the only function of the answer that has no `return` and whose result is used."""
    code = [
        line.partition("#")[0] for line in map(raised.read_line, range(1, len(raised.lines) + 1))
    ]
    names = [
        name
        for name in raised.list_functions_without_return()
        if not name.startswith("__")
        and name not in raised.parameters
        and any(re.search(rf"(?:[^\w\s.]|\breturn\b).*\b{name}\(", line) for line in code)
    ]
    return f"No line of {names[0]} returns a value." if len(names) == 1 else ""
