"""Reads CUDA C++ as text, the way a compiler begins to: lines joined, comments and strings out.

Nothing here understands the language. It finds functions, launches and directives, which is enough
to translate a kernel and to say what is missing; the compilers do the rest.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_PARTS = re.compile(
    r"""
      (?P<number> \.?[0-9] (?: [eEpP][+-] | '[0-9A-Za-z_] | [\w.] )* )
    | (?P<name> [^\W\d]\w* )
    | (?P<hidden> //[^\n]* | /\*.*?(?:\*/|\Z)
        | "(?:\\.|[^"\\\n])*+" | '(?:\\.|[^'\\\n])*+' )
    | (?P<open> "(?:\\.|[^"\\\n])*+ | '(?:\\.|[^'\\\n])*+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENS = {"(": ")", "{": "}", "[": "]"}
_BODY = r"\)(?:\s|const\b|noexcept\b)*+\{"  # what follows the parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionText:
    """A function with a body: where it begins, its parameters, and what stands in its braces."""

    name: str
    line: int
    parameters: tuple[str, ...]
    body: str  # without comments


def joined(text: str) -> str:
    """The text with each line that ends in a backslash joined to the next; lines keep their place.

    What is joined is one line from here on, for every reader: nothing can hide in the seam.
    """
    done: list[str] = []
    seam: list[str] = []  # the parts of a line that goes on
    for line in text.split("\n"):
        whole = line.rstrip(" \t")
        if whole.endswith("\\"):
            seam.append(whole[:-1])
        else:
            done += ["".join([*seam, line]), *[""] * len(seam)]
            seam = []
    return "\n".join([*done, "".join(seam), *[""] * (len(seam) - 1)] if seam else done)


def bare(text: str) -> str:
    """The text with comments and the insides of strings as spaces; every place stays what it was.

    text  as `joined` gives it
    """

    def blank(found: re.Match[str]) -> str:
        part = found.group()
        if found.lastgroup != "hidden":
            return part
        if part[0] in "\"'":
            return part[0] + " " * (len(part) - 2) + part[0]
        return re.sub(r"[^\n]", " ", part)

    return _PARTS.sub(blank, text)


def open_quotes(text: str) -> Iterator[int]:
    """The places of quotes that no quote on their line closes.

    text  as `joined` gives it
    """
    return (m.start() for m in _PARTS.finditer(text) if m.lastgroup == "open")


def line_at(text: str, place: int) -> int:
    """The number of the line at a place of the text, counted from 1."""
    return bisect_left(_ends(text), place) + 1


@lru_cache(maxsize=8)
def _ends(text: str) -> tuple[int, ...]:
    """The places at which lines end."""
    return tuple(m.start() for m in re.finditer("\n", text))


def closing(text: str, place: int) -> int:
    """The place of the bracket that closes the one at `place`; the end if none does."""
    return _pairs(text).get(place, len(text))


def opening(text: str, place: int) -> int:
    """The place of the bracket that the one at `place` closes; `place` if it closes none."""
    return _openings(text).get(place, place)


@lru_cache(maxsize=8)
def _openings(text: str) -> dict[int, int]:
    return {close: open_ for open_, close in _pairs(text).items()}


@lru_cache(maxsize=8)
def _pairs(text: str) -> dict[int, int]:
    """For the place of each bracket that is closed, the place of what closes it."""
    found: dict[int, int] = {}
    waiting: dict[str, list[int]] = {mark: [] for mark in _OPENS.values()}
    for bracket in re.finditer(r"[][(){}]", text):
        mark = bracket.group()
        if mark in _OPENS:
            waiting[_OPENS[mark]].append(bracket.start())
        elif waiting[mark]:
            found[waiting[mark].pop()] = bracket.start()
    return found


def functions(code: str) -> Iterator[FunctionText]:
    """Every function with a body, in order.

    code  as `bare` gives it
    """
    name, body = re.compile(r"\b([A-Za-z_]\w*+)\s*+\("), re.compile(_BODY)
    place = 0
    while found := name.search(code, place):
        place = found.end()
        end = closing(code, place - 1)
        begins = body.match(code, end)
        if begins is None or found[1] in ("if", "for", "while", "switch", "catch", "return"):
            continue
        place = closing(code, begins.end() - 1)  # no function stands in another
        yield FunctionText(
            name=found[1],
            line=line_at(code, found.start()),
            parameters=tuple(p for p in split(code[found.end() : end]) if p and p != "void"),
            body=code[begins.end() : place],
        )


def split(text: str) -> list[str]:
    """What stands between the commas outside of brackets, with single spaces."""
    parts, depth, begin = [], 0, 0
    for found in re.finditer(r"[][(){}<>,]", text):
        mark = found.group()
        if mark == "," and depth == 0:
            parts.append(text[begin : found.start()])
            begin = found.end()
        depth += (mark in "(<[{") - (mark in ")>]}")
    return [" ".join(part.split()) for part in (*parts, text[begin:])]
