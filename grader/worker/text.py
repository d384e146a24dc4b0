"""Text that came from a submission, made harmless for terminals, files and CI logs."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COMMAND = re.compile(r"(?m)^([^\S\n]*)::")


def harmless(text: str) -> str:
    """`text` without control characters and lone surrogates.

    A line that begins with `::` is a command to GitHub's runner, so that a blank is put into it.
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    return _COMMAND.sub(r"\1: :", _CONTROL.sub("", text))
