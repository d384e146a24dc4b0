"""Text that came from a submission, made harmless for terminals, files and CI logs."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Where a line may begin, as it stands or as it is wrapped: at its start, after a blank, or far in
# a word that is too long for a line. The older form is one anywhere.
_COMMAND = re.compile(r"(?:(?<!\S)|(?<=\S{20})):(?=:)|##(?=\[)")


def harmless(text: str) -> str:
    """`text` without control characters, lone surrogates and signs that turn the line round.

    A line that begins with `::`, or has `##[` in it, is a command to GitHub's runner, so that a
    blank is put into these.
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    return _COMMAND.sub(r"\g<0> ", _CONTROL.sub("", text))
