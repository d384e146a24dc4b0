"""Files as students hand them in: their names, made fit for print, and how large they may be."""

from grader.worker.harmless_text import harmless

MAX_BYTES = 150_000  # of an answer
MAX_NOTEBOOK = 20_000_000
MAX_ZIP = 20_000_000
MAX_STAMP = 1_000  # nbgrader's timestamp.txt
_MAX_PRINTED = 300  # characters; a name in a zip may have 65,535
_TOO_LARGE = {  # by the suffix: how large, and what is said beyond that
    **dict.fromkeys(
        (".py", ".cu"), (MAX_BYTES, "{file} is too large: an answer has at most {bytes:,} bytes.")
    ),
    ".ipynb": (
        MAX_NOTEBOOK,
        "{file} is too large: a notebook has at most {bytes:,} bytes. "
        "Clear its outputs and save it again.",
    ),
    ".txt": (MAX_STAMP, "{file} is too large: a time stamp has at most {bytes:,} bytes."),
    ".zip": (
        MAX_ZIP,
        "{file} is too large: a zip has at most {bytes:,} bytes. Put only the answers into it.",
    ),
}
_LEFT_BY_MACHINES = ("__pycache__", "__MACOSX", "Thumbs.db", "desktop.ini")


def printable(name: str) -> str:
    """A name in one line that can be printed anywhere, the end of it if it is long.

    A mark stands for every letter that is not seen, so that no name looks like another one.
    """
    line = harmless("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name))
    return f"…{line[-_MAX_PRINTED:]}" if len(line) > _MAX_PRINTED else line or "?"


def is_passed_over(name: str) -> bool:
    """Whether nobody meant to hand this in: hidden files, and what machines leave behind."""
    hidden = name.startswith(".") and name not in (".", "..")
    return hidden or name in _LEFT_BY_MACHINES


def is_zip(name: str) -> bool:
    return name.lower().endswith(".zip")


def limit(name: str) -> int:
    """How many bytes an answer, a zip or a time stamp of this name may have."""
    return _TOO_LARGE[_suffix(name)][0]


def too_large(name: str, shown: str) -> str:
    """What is said of one that has more."""
    most, sentence = _TOO_LARGE[_suffix(name)]
    return sentence.format(file=shown, bytes=most)


def _suffix(name: str) -> str:
    return name[name.rindex(".") :].lower()


def link(shown: str) -> str:
    """What is said of a link."""
    return f"{shown} is a link: hand in the file itself."
