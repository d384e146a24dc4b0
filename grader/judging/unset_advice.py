"""Finds the cure where an answer uses what nothing has set or returned."""

import re
from difflib import get_close_matches

from grader.judging.raised_exception import RaisedException

_LIKE = 0.75  # how like two names are, as `difflib` counts
_MODULES = {
    "math": "import math", "np": "import numpy as np", "torch": "import torch",
    "nn": "from torch import nn", "F": "import torch.nn.functional as F",
}  # fmt: skip
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
    if raised.mentions(rf"""["']{name}["']|^\s*def\s+{name}\b|^\s+{name}\s*[:=][^,]*$"""):
        return ""  # a buffer, a property, or an attribute of the class
    # Names of one length are rather those of two things: q_weight and k_weight.
    if like := get_close_matches(name, [n for n in known if len(n) != len(name)], 1, _LIKE):
        return f"Nothing sets self.{name}, but something sets self.{like[0]}."
    return f"Nothing sets self.{name}: set it in __init__."


def advise_on_unset_name(raised: RaisedException, found: re.Match[str]) -> str:
    """Say which name is meant: an attribute, one that is spelt otherwise, or another function's."""
    name = found[1]
    if not re.search(rf"(?<![\w.]){name}\b", raised.line) or not raised.start:
        return ""
    if name in raised.list_set_attributes():
        return f"Nothing sets {name}, but something sets self.{name}."
    lines = [n for n, each in raised.settings if each == name][:_MAX_SETTINGS]
    if number := next(filter(raised.find_def, lines), 0):
        at = raised.name_line(number)
        return f"Nothing in this function sets {name}; line {at} does, but in another function."
    own = raised.parameters | {each for _, each in raised.own_settings}
    # Names of one length are rather those of two things, unless letters have changed places.
    near = [n for n in own if len(n) != len(name) or sorted(n) == sorted(name)]
    if name in own:
        return ""
    if like := get_close_matches(name, near, 1, _LIKE):
        return f"Nothing sets {name}, but something sets {like[0]}."
    if name in _MODULES:
        return f"Nothing imports {name}: write `{_MODULES[name]}` above the functions."
    if raised.mentions(rf"^[^#]*\b(?:{_BINDS}[^#]*\b{name}\b|{name}\s*(?:[-+*/@&|]?=[^=]|:))"):
        return ""  # in a class, in a loop, or where it ended
    return f"Nothing sets {name}: give it a value before this line."


def advise_on_unset_local(raised: RaisedException, found: re.Match[str]) -> str:
    """Say where the function sets a name that this call has not set yet."""
    name = found[1]
    own = [n for n, each in raised.own_settings if each == name]
    if not own:
        return ""
    if before := [n for n in own if n < raised.number]:
        return f"Line {raised.name_line(before[-1])} sets {name}, but this call did not run it."
    if raised.number in own:
        return f"This line sets {name} itself, and no line before it does."
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
        and any(re.search(rf"(?:[^\w\s.]|\breturn\b).*\b{name}\(", line) for line in code)
    ]
    return f"No line of {names[0]} returns a value." if len(names) == 1 else ""
