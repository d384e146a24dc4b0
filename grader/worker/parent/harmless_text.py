"""Makes text of a submission harmless for terminals, files and CI logs."""

import re

_CONTROL_CODES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# `::` where a line may begin, also once it is wrapped: at its start, after a blank, or inside a
# word that is too long for a line. The older form, `##[`, is a command anywhere.
_RUNNER_COMMAND = re.compile(r"(?:(?<!\S)|(?<=\S{20})):(?=:)|##(?=\[)")


def clean_worker_text(text: str) -> str:
    """Remove control characters, lone surrogates and marks of text direction from `text`.

    Also put a blank inside each `::` that may begin a line, and inside each `##[`: to GitHub's
    runner such a line is a command.
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    return _RUNNER_COMMAND.sub(r"\g<0> ", _CONTROL_CODES.sub("", text))
