"""Makes text of a submission harmless for terminals, files and CI logs."""

import re

# Also signs without width, tags and line separators: they hide text, or show it in another order.
_CONTROL_CODES = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# `::` where a line may begin, also once it is wrapped: at its start, after a blank, or inside a
# word that is too long for a line. The older form, `##[`, is a command anywhere.
_RUNNER_COMMAND = re.compile(r"(?:(?<!\S)|(?<=\S{20})):(?=:)|##(?=\[)")


def clean_worker_text(text: str) -> str:
    """Remove control characters, invisible signs and marks of text direction from `text`.

    A lone surrogate becomes "?". Also put a blank inside each `::` that may begin a line, and
    inside each `##[`: to GitHub's runner such a line is a command.
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    return _RUNNER_COMMAND.sub(r"\g<0> ", _CONTROL_CODES.sub("", text))
