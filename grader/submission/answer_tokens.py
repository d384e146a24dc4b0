"""Turns an answer into a row of letters, one for each token; easily changed tokens share a letter.

All names that the writer chose have the same letter. Comments, strings, layout, semicolons and
trailing commas have none. Names after a dot, such as `.softmax`, belong to a library and have
letters of their own, since they tell apart what was written independently; but names after `self.`
are the writer's.
"""

import builtins
import keyword
import re
import zlib
from functools import lru_cache

from grader.cuda.source import blank_cuda_comments

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
_PYTHON_WORDS = frozenset([*keyword.kwlist, *dir(builtins)])
_CUDA_WORDS = frozenset(
    {
        *("auto", "bool", "break", "const", "continue", "do", "double", "else", "extern", "false"),
        *("float", "for", "if", "int", "long", "return", "short", "static", "struct", "template"),
        *("true", "typename", "unsigned", "using", "void", "while"),
        *("__device__", "__global__", "__shared__", "__syncthreads"),
        *("blockDim", "blockIdx", "gridDim", "threadIdx"),
    }
)


def tokenize_submission(source: str, language: str = "python") -> tuple[str, list[tuple[int, int]]]:
    """Return a letter for each token, and the start and end of each token in the source."""
    in_cuda = language == "cuda"
    kept = _CUDA_WORDS if in_cuda else _PYTHON_WORDS
    text = (
        blank_cuda_comments(source).replace("#", " ") if in_cuda else source
    )  # a directive is no comment
    texts: list[str] = []
    letters: list[str] = []
    places: list[tuple[int, int]] = []
    for found in _TOKEN.finditer(text):
        if found.lastgroup is None:
            continue
        part = found[0]
        if part in (")", "]", "}") and texts[-1:] == [","]:
            del texts[-1], letters[-1], places[-1]
        is_name = found.lastgroup == "name"
        letters.append(
            _encode_submission_name(part, texts[-2:], kept)
            if is_name
            else _encode_submission_token(part)
        )
        texts.append(part)
        places.append(found.span())
    return "".join(letters), places


def _encode_submission_name(text: str, before: list[str], language: frozenset[str]) -> str:
    """Return the letter of a name that follows the two tokens `before`."""
    if before[-1:] == ["."]:
        return "V" if before[0] == "self" else _encode_submission_token(f".{text}")
    return _encode_submission_token(text) if text in language else "V"


@lru_cache(maxsize=10_000)
def _encode_submission_token(text: str) -> str:
    """Return a letter for a text, the same in every answer; two texts seldom share one."""
    return chr(0x100 + zlib.crc32(text.encode("utf-8", "surrogatepass")) % 0xD000)
