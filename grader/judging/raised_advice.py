"""Finds the cure for an exception in an answer, where the line and the message leave no doubt.

A rule has a kind of exception, a pattern for its message, and a function that returns a sentence,
or "" if the lines of the answer do not show the cause.
"""

import re
from collections.abc import Callable

import torch

from grader.judging.raised_exception import RaisedException
from grader.judging.unset_advice import (
    advise_on_missing_return,
    advise_on_unset_attribute,
    advise_on_unset_local,
    advise_on_unset_name,
)

_REDUCTION = re.compile(
    r"(\b(?:np|numpy|torch)\b)?\.(sum|mean|max|min|amax|amin|logsumexp|prod|var|std|norm)\("
)
_AXIS = re.compile(r"\b(?:axis|dim)\b|(?<![\w.])-?\d|^\w+$")
_RESTORES_AXIS = re.compile(r"None|newaxis|unsqueeze|expand_dims|reshape|view|keepdim")
_MAX_CALL = 200  # characters of a call that are read
_PAIRS = ("max", "min", "sort", "topk", "median", "mode", "kthvalue", "cummax", "cummin")


Advise = Callable[[RaisedException, re.Match[str]], str]


def advise_on_exception(raised: RaisedException) -> str:
    """Return a sentence with the cure of an exception; "" if its cause is not certain."""
    for kind, pattern, advise in _RULES:
        if not raised.number and advise is not advise_on_unset_attribute:
            continue  # which needs no line of the answer
        found = re.search(pattern, raised.message) if re.fullmatch(kind, raised.kind) else None
        if found is not None and (told := advise(raised, found)):
            return told
    return ""


def _advise_against_numpy(raised: RaisedException, found: re.Match[str]) -> str:
    used = re.search(r"\b(?:np|numpy)\.(\w+)\(", raised.line)
    if used is None or not hasattr(torch, used[1]):
        return (
            "NumPy takes no tensor that needs a gradient: compute this in PyTorch. With .detach() "
            "the gradient would be lost."
        )
    return (
        f"np.{used[1]} takes no tensor that needs a gradient: write torch.{used[1]}. With "
        ".detach() the gradient would be lost."
    )


def _advise_numpy_keepdims(raised: RaisedException, found: re.Match[str]) -> str:
    one, other = sorted((tuple(re.findall(r"\d+", text)) for text in found.groups()), key=len)
    reduced = any(other[:i] + other[i + 1 :] == one for i in range(len(other)))
    return _advise_keeping_axis(raised, "keepdims=True") if reduced else ""


def _advise_torch_keepdim(raised: RaisedException, found: re.Match[str]) -> str:
    return _advise_keeping_axis(raised, "keepdim=True")


def _advise_keeping_axis(raised: RaisedException, keyword: str) -> str:
    """Name the call without `keepdims` whose result stands in the line that raised."""
    for number in range(raised.number, raised.start, -1):
        line = raised.read_line(number)
        if (name := _find_reduction(line)) is None or _RESTORES_AXIS.search(line):
            continue
        assigned = re.match(r"\s*(\w+)\s*(?:,\s*\w+\s*)?=[^=]", line)
        if number == raised.number or (assigned and re.search(rf"\b{assigned[1]}\b", raised.line)):
            at = raised.name_line(number)
            return f"{name} in line {at} takes its axis away: with {keyword} it stays, of size 1."
    return ""


def _find_reduction(line: str) -> str | None:
    """Return the name of a function in a line that reduces along an axis; None without one."""
    for found in _REDUCTION.finditer(line):
        inside = _read_call_arguments(line[found.end() : found.end() + _MAX_CALL])
        if _AXIS.search(inside) if found[1] is None else "," in inside:
            return found[2]
    return None


def _read_call_arguments(text: str) -> str:
    """Return a text up to the bracket that closes the call whose arguments it begins with."""
    depth = 1
    for place, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if not depth:
            return text[:place]
    return text


def _advise_keepdims_spelling(raised: RaisedException, found: re.Match[str]) -> str:
    return "NumPy writes keepdims=True, with an s."


def _advise_on_pair(raised: RaisedException, found: re.Match[str]) -> str:
    if (name := found[1]) not in _PAIRS:
        return ""
    if name in ("max", "min"):
        return (
            f"{name} with a dimension returns a pair, the values and their indices: take its "
            f".values, or write a{name}."
        )
    return f"{name} returns a pair, the values and their indices: take its .values."


def _advise_against_input(raised: RaisedException, found: re.Match[str]) -> str:
    called = re.search(r"\binput\(", raised.line)
    return "Nobody can type here: take input() out." if called else ""


def _advise_against_writing(raised: RaisedException, found: re.Match[str]) -> str:
    written = re.match(
        r"\s*(\w+)(?:\s*([-+*/@&|^]|\*\*|//)=|\[.*\]\s*(?:[-+*/@&|^]|\*\*|//)?=|\.\w+_\()",
        raised.line,
    )
    if written is None or not raised.holds_given(written[1]):
        return "This writes into a tensor that needs a gradient: make a new tensor."
    name, sign = written.groups()
    if sign:
        code = f"{name} = {name} {sign} ..."
        return f"{name} belongs to the caller: write {code}, which makes a new tensor."
    return f"{name} belongs to the caller: make a new tensor, and leave {name} as it is."


def _advise_on_none(pattern: str) -> Advise:
    """Return a function that says what is None: the only name that the pattern finds in the line.

    `{0}` in the pattern stands for the text that was found in the message.
    """

    def advise(raised: RaisedException, found: re.Match[str]) -> str:
        given = [re.escape(text or "") for text in found.groups()]
        matches = re.finditer(pattern.format(*given), raised.line)
        names = {match[1] for match in matches if match[1].isidentifier()}
        if len(names) != 1:
            return ""
        [name] = names
        if name == "keep" and raised.holds_given(name):
            return "keep is None here: then nothing is hidden."
        return f"{name} is None here."

    return advise


def _advise_on_no_arguments(raised: RaisedException, found: re.Match[str]) -> str:
    """Say that a call gave no arguments, or None alone, to a function that takes any number."""
    owner = re.search(r"def\s+(\w+)\s*\(\s*\*(\w+)", raised.header)
    if owner is None or not (call := re.fullmatch(r"(\w+)\(([None, ]*)\)", raised.call)):
        return ""
    if call[1] != owner[1]:
        return ""
    if not call[2]:
        return f"{owner[2]} is empty here: the call has no arguments."
    return f"All of {owner[2]} are None here."


def _advise_on_missing_super(raised: RaisedException, found: re.Match[str]) -> str:
    return "Write super().__init__() in the first line of __init__: before it nothing can be set."


_EMPTY = r"index out of range|empty|^$|NoneType"
_NAME = r"(?:(?<=\bself\.)|(?<![\w.)\]]))(\w+)"  # a variable, or an attribute of self
_SHAPE = r"\(([\d,]{1,99})\)"
_RULES: tuple[tuple[str, str, Advise], ...] = (
    ("RuntimeError", r"^Can't call numpy\(\) on Tensor that requires grad", _advise_against_numpy),
    ("ValueError", rf"could not be broadcast together with shapes {_SHAPE} {_SHAPE}",
     _advise_numpy_keepdims),
    ("RuntimeError", r"^The size of tensor a \(\d+\) must match the size of tensor b \(\d+\) at "
     r"non-singleton dimension [1-9]", _advise_torch_keepdim),
    ("TypeError", r"^_?a?(?:sum|mean|max|min)\(\) got an unexpected keyword argument 'keepdim'",
     _advise_keepdims_spelling),
    ("TypeError|AttributeError", r"torch\.return_types\.(\w{1,20})", _advise_on_pair),
    ("EOFError", "", _advise_against_input),
    ("RuntimeError", r"^a (?:view of a )?leaf Variable that requires grad is being used in an "
     r"in-place operation", _advise_against_writing),
    ("IndexError|TypeError|ValueError|RuntimeError|StopIteration", _EMPTY, _advise_on_no_arguments),
    ("TypeError|AttributeError|ValueError", r"\bNone(?:Type)?\b", advise_on_missing_return),
    ("TypeError", r"^bad operand type for unary ~: 'NoneType'", _advise_on_none(r"~(\w+)")),
    ("AttributeError", r"^'(\w{1,99})' object has no attribute '(\w{1,99})'$",
     advise_on_unset_attribute),
    ("NameError", r"^name '(\w{1,99})' is not defined", advise_on_unset_name),
    ("UnboundLocalError", r"^cannot access local variable '(\w{1,99})'", advise_on_unset_local),
    ("AttributeError", r"before (?:Module|\w{1,99})\.__init__\(\) call$", _advise_on_missing_super),
    ("AttributeError", r"^'NoneType' object has no attribute '(\w{1,99})'",
     _advise_on_none(rf"{_NAME}\.{{0}}\b")),
    ("TypeError", r"^'NoneType' object is not subscriptable", _advise_on_none(rf"{_NAME}\[")),
    ("TypeError", r"^unsupported operand type\(s\) for (\S{1,2}): 'NoneType'",
     _advise_on_none(r"\b(\w+)\s*{0}")),
    ("TypeError", r"^unsupported operand type\(s\) for (\S{1,2}): '\w+' and 'NoneType'",
     _advise_on_none(r"{0}\s*(\w+)\b(?![.(\[])")),
    ("TypeError", r"^(logical_\w+|where)\(\): .*position 1\) must be Tensor, not NoneType",
     _advise_on_none(r"\b{0}\(\s*(\w+)\b(?![.(\[])")),
    ("TypeError", r"^(masked_fill_?|where)\(\) received .* got \(NoneType\b",
     _advise_on_none(r"\b{0}\(\s*(\w+)\s*,")),
    ("TypeError", r"^(masked_fill_?|where)\(\) received .* got \(bool\b",
     _advise_on_none(r"\b{0}\(\s*(\w+)\s*[=!]=\s*(?:0|1|True|False)\s*,")),
)  # fmt: skip
