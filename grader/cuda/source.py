"""Reads CUDA C++ as text, the way a compiler begins to: lines joined, comments and strings out.

Nothing here understands the language. It finds functions, launches and directives, which is enough
to translate a kernel and to say what is missing; the compilers do the rest.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SPLICE = re.compile(r"\\[ \t]*\n")
_PARTS = re.compile(
    r"""
      (?P<number> \.?[0-9] (?: [eEpP][+-] | '\w | [\w.] )* )
    | (?P<name> [A-Za-z_]\w* )
    | (?P<hidden> //[^\n]* | /\*.*?(?:\*/|\Z)
        | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENS = {"(": ")", "{": "}", "[": "]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
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
    seams = 0
    for line in text.split("\n"):
        if seams:
            done[-1] += line
        else:
            done.append(line)
        if re.search(r"\\[ \t]*$", line):
            done[-1] = re.sub(r"\\[ \t]*$", "", done[-1])
            seams += 1
        elif seams:
            done += [""] * seams
            seams = 0
    return "\n".join(done + [""] * seams)


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


def line_at(text: str, place: int) -> int:
    """The number of the line at a place of the text, counted from 1."""
    return text.count("\n", 0, place) + 1


def closing(text: str, place: int) -> int:
    """The place of the bracket that closes the one at `place`; the end if none does."""
    depth = 0
    opens, closes = text[place], _OPENS[text[place]]
    for found in re.compile(f"[{re.escape(opens + closes)}]").finditer(text, place):
        depth += 1 if found.group() == opens else -1
        if depth == 0:
            return found.start()
    return len(text)


def functions(code: str) -> Iterator[Function]:
    """Every function with a body, in order.

    code  as `bare` gives it
    """
    for found in re.finditer(r"\b([A-Za-z_]\w*)\s*\(", code):
        end = closing(code, found.end() - 1)
        body = re.compile(r"\)\s*(?:const\b|noexcept\b|\s)*\{").match(code, end)
        if body is None or found[1] in ("if", "for", "while", "switch", "catch", "return"):
            continue
        last = closing(code, body.end() - 1)
        yield Function(
            name=found[1],
            line=line_at(code, found.start()),
            parameters=_split(code[found.end() : end]),
            body=code[body.end() : last],
        )


def _split(parameters: str) -> tuple[str, ...]:
    """Parameters, separated at commas outside of brackets, with single spaces."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    found = (" ".join(part.split()) for part in parts)
    return tuple(part for part in found if part and part != "void")
