"""Reads CUDA C++ as text, as a compiler begins to: joins lines, blanks comments and strings.

Nothing here understands the language. It finds functions, launches and directives, which is enough
to translate a kernel and to say what is missing; the compilers do the rest.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_LEXICAL_PARTS = re.compile(
    r"""
      (?P<number> \.?[0-9] (?: [eEpP][+-] | '[0-9A-Za-z_] | [\w.] )* )
    | (?P<name> [^\W\d]\w* )
    | (?P<hidden> //[^\n]* | /\*.*?(?:\*/|\Z)
        | "(?:\\.|[^"\\\n])*+" | '(?:\\.|[^'\\\n])*+' )
    | (?P<open> "(?:\\.|[^"\\\n])*+ | '(?:\\.|[^'\\\n])*+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_BRACKETS = {"(": ")", "{": "}", "[": "]"}
_BODY_START = r"\)(?:\s|const\b|noexcept\b)*+\{"  # what follows the parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionText:
    """A function with a body: its place, its parameters, and the text in its braces."""

    name: str
    line: int
    parameters: tuple[str, ...]
    body: str  # without comments


def join_cuda_lines(text: str) -> str:
    """Return the text with lines that end in a backslash joined to the next; no other line moves.

    Joined lines count as one line from here on, so that nothing can hide where they meet.
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


def blank_cuda_comments(text: str) -> str:
    """Return the text with comments and the insides of strings as spaces; all else keeps its place.

    text  as `join_cuda_lines` returns it
    """

    def blank(found: re.Match[str]) -> str:
        part = found.group()
        if found.lastgroup != "hidden":
            return part
        if part[0] in "\"'":
            return part[0] + " " * (len(part) - 2) + part[0]
        return re.sub(r"[^\n]", " ", part)

    return _LEXICAL_PARTS.sub(blank, text)


def find_open_cuda_quotes(text: str) -> Iterator[int]:
    """Return the places of opening quotes that are not closed on their line.

    text  as `join_cuda_lines` returns it
    """
    return (m.start() for m in _LEXICAL_PARTS.finditer(text) if m.lastgroup == "open")


def find_cuda_line(text: str, place: int) -> int:
    """Return the number of the line at a place of the text, counted from 1."""
    return bisect_left(_find_cuda_line_ends(text), place) + 1


@lru_cache(maxsize=8)
def _find_cuda_line_ends(text: str) -> tuple[int, ...]:
    """Return the places at which lines end."""
    return tuple(m.start() for m in re.finditer("\n", text))


def find_closing_cuda_bracket(text: str, place: int) -> int:
    """Return the place of the bracket that closes the one at `place`; the end if none does."""
    return _pair_cuda_brackets(text).get(place, len(text))


def find_opening_cuda_bracket(text: str, place: int) -> int:
    """Return the place of the bracket that the one at `place` closes; `place` if none."""
    return _find_opening_cuda_brackets(text).get(place, place)


@lru_cache(maxsize=8)
def _find_opening_cuda_brackets(text: str) -> dict[int, int]:
    return {close: open_ for open_, close in _pair_cuda_brackets(text).items()}


@lru_cache(maxsize=8)
def _pair_cuda_brackets(text: str) -> dict[int, int]:
    """Return, for the place of each closed bracket, the place that closes it."""
    found: dict[int, int] = {}
    waiting: dict[str, list[int]] = {mark: [] for mark in _BRACKETS.values()}
    for bracket in re.finditer(r"[][(){}]", text):
        mark = bracket.group()
        if mark in _BRACKETS:
            waiting[_BRACKETS[mark]].append(bracket.start())
        elif waiting[mark]:
            found[waiting[mark].pop()] = bracket.start()
    return found


def find_cuda_functions(code: str) -> Iterator[FunctionText]:
    """Return every function with a body, in order.

    code  as `blank_cuda_comments` returns it
    """
    name, body = re.compile(r"\b([A-Za-z_]\w*+)\s*+\("), re.compile(_BODY_START)
    place = 0
    while found := name.search(code, place):
        place = found.end()
        end = find_closing_cuda_bracket(code, place - 1)
        begins = body.match(code, end)
        if begins is None or found[1] in ("if", "for", "while", "switch", "catch", "return"):
            continue
        place = find_closing_cuda_bracket(code, begins.end() - 1)  # no function stands in another
        yield FunctionText(
            name=found[1],
            line=find_cuda_line(code, found.start()),
            parameters=tuple(
                p for p in split_cuda_at_commas(code[found.end() : end]) if p and p != "void"
            ),
            body=code[begins.end() : place],
        )


def split_cuda_at_commas(text: str) -> list[str]:
    """Return the texts between commas outside of brackets, with single spaces."""
    parts, depth, begin = [], 0, 0
    for found in re.finditer(r"[][(){}<>,]", text):
        mark = found.group()
        if mark == "," and depth == 0:
            parts.append(text[begin : found.start()])
            begin = found.end()
        depth += (mark in "(<[{") - (mark in ")>]}")
    return [" ".join(part.split()) for part in (*parts, text[begin:])]
