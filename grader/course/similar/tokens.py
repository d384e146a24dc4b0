"""An answer as a row of letters, one for each token, so that what is easily changed is alike.

Names that their writer chooses have one letter, whatever they are. Comments, strings, layout,
semicolons and trailing commas have none. Names after a dot, such as `.softmax`, belong to a library
and have letters of their own, since they tell apart what was written independently; but not those
after `self.`, which are the writer's.
"""

import builtins
import keyword
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from grader.cuda.source import bare

SHORTEST = 12  # tokens of a passage that can be found: one or two statements
GAP = "\n"  # stands where something was cut out
Places = np.ndarray[Any, np.dtype[np.int32]]

# Also of what Python would not take: a string that is not closed ends with its line or the file.
_TOKEN = re.compile(
    r"""
    \#[^\n]* | [\s;\\]+
    | [rbuftRBUFT]{0,2} (?: \"{3} (?:[^\\]|\\.)*? (?:\"{3}|\Z) | '{3} (?:[^\\]|\\.)*? (?:'{3}|\Z)
                        | " (?:[^"\\\n]|\\.)* "? | ' (?:[^'\\\n]|\\.)* '? )
    | (?P<name> [^\W\d]\w* )
    | (?P<other> \.?\d (?:[eE][+-]\d | [\w.])*
               | \.\.\. | -> | (?:\*\*|//|<<|>>|[-+*/%@&|^=!<>:])=? | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_LANGUAGE = frozenset([*keyword.kwlist, *dir(builtins)])
_CUDA = frozenset(
    {
        *("auto", "bool", "break", "const", "continue", "do", "double", "else", "extern", "false"),
        *("float", "for", "if", "int", "long", "return", "short", "static", "struct", "template"),
        *("true", "typename", "unsigned", "using", "void", "while"),
        *("__device__", "__global__", "__shared__", "__syncthreads"),
        *("blockDim", "blockIdx", "gridDim", "threadIdx"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokens:
    """The letters of a source's tokens, and from where to where each reaches in it."""

    letters: str
    places: Places  # (tokens, 2)

    @property
    def count(self) -> int:
        return len(self.letters) - self.letters.count(GAP)


def tokens(source: str, language: str = "python") -> Tokens:
    """The tokens of Python, or of what should have been Python; or of CUDA C++."""
    in_cuda = language == "cuda"
    kept = _CUDA if in_cuda else _LANGUAGE
    text = bare(source).replace("#", " ") if in_cuda else source  # a directive is no comment
    return _tokens(text, kept)


def _tokens(source: str, language: frozenset[str]) -> Tokens:
    texts: list[str] = []
    letters: list[str] = []
    places: list[tuple[int, int]] = []
    for found in _TOKEN.finditer(source):
        if found.lastgroup is None:
            continue
        text = found[0]
        if text in (")", "]", "}") and texts[-1:] == [","]:
            del texts[-1], letters[-1], places[-1]
        is_name = found.lastgroup == "name"
        letters.append(_name(text, texts[-2:], language) if is_name else _kept(text))
        texts.append(text)
        places.append(found.span())
    return Tokens(letters="".join(letters), places=_array(places))


def own(answer: Tokens, given: Tokens) -> Tokens:
    """What of an answer was not given: a gap stands where that was, or what is too short.

    copydetect takes single fingerprints out, which leaves those that reach from the skeleton into
    an answer, and so parts of the skeleton in what two answers have in common.
    """
    shared = _passages(given.letters)
    covered = np.zeros(len(answer.letters) + 2, dtype=bool)
    covered[[0, -1]] = True
    for start, passage in enumerate(_in_order(answer.letters), 1):
        if passage in shared:
            covered[start : start + SHORTEST] = True
    edges = np.flatnonzero(np.diff(covered)).reshape(-1, 2).tolist()
    runs = [(start, end) for start, end in edges if end - start >= SHORTEST]
    places: list[tuple[int, int]] = []
    for start, end in runs:
        places += [(0, 0)] * bool(places)
        places += answer.places[start:end].tolist()
    letters = GAP.join(answer.letters[start:end] for start, end in runs)
    return Tokens(letters=letters, places=_array(places))


def _name(text: str, before: list[str], language: frozenset[str]) -> str:
    """The letter of a name after the two tokens that stand before it."""
    if before[-1:] == ["."]:
        return "V" if before[0] == "self" else _kept(f".{text}")
    return _kept(text) if text in language else "V"


@lru_cache(maxsize=10_000)
def _kept(text: str) -> str:
    """A letter for a text, the same in every answer; two texts seldom have the same."""
    return chr(0x100 + zlib.crc32(text.encode("utf-8", "surrogatepass")) % 0xD000)


def _array(places: list[tuple[int, int]]) -> Places:
    return np.array(places, dtype=np.int32).reshape(-1, 2)


def _in_order(letters: str) -> Iterator[str]:
    for start in range(len(letters) - SHORTEST + 1):
        yield letters[start : start + SHORTEST]


@cache
def _passages(letters: str) -> frozenset[str]:
    return frozenset(_in_order(letters))
