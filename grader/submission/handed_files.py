"""Names of handed-in files, made safe to print, and the limits of their sizes."""

import re
from collections.abc import Container, Iterable

from grader.worker.parent.harmless_text import clean_worker_text

MAX_ANSWER_BYTES = 150_000  # of an answer
MAX_NOTEBOOK_BYTES = 20_000_000
MAX_ZIP_BYTES = 20_000_000
MAX_STAMP_BYTES = 1_000  # nbgrader's timestamp.txt
_MAX_PRINTED_CHARACTERS = 300  # characters; a name in a zip may have 65,535
_LIMITS_AND_SENTENCES = {  # by the suffix: how large, and what is said beyond that
    **dict.fromkeys(
        (".py", ".cu"),
        (MAX_ANSWER_BYTES, "{file} is too large: an answer has at most {bytes:,} bytes."),
    ),
    ".ipynb": (
        MAX_NOTEBOOK_BYTES,
        "{file} is too large: a notebook has at most {bytes:,} bytes. "
        "Clear its outputs and save it again.",
    ),
    ".txt": (MAX_STAMP_BYTES, "{file} is too large: a time stamp has at most {bytes:,} bytes."),
    ".zip": (
        MAX_ZIP_BYTES,
        "{file} is too large: a zip has at most {bytes:,} bytes. Put only the answers into it.",
    ),
}
# What browsers, systems and platforms put behind the name of a file that is there already.
_RENAMED_ENDING = re.compile(r"(?:[\s_.-]*+(?:\(\d{1,3}\)|\d{1,3}|v\d{1,3}|copy|kopie|副本))*+\s*+")
_OTHER_ARCHIVES = (".tar.gz", ".tar", ".tgz", ".rar", ".7z")
_LEFT_BY_MACHINES = ("__pycache__", "__MACOSX", "Thumbs.db", "desktop.ini")
# What a course hands out, sealed or not; the whole project has `tests` too.
BUNDLE_MARKS = ("exercises", "notebooks", "AI-POLICY.md")  # the top of a bundle holds one of them
BUNDLE_FOLDERS = ("docs", "grader", "reference", "stored", "tests")  # without answers of students
_BUNDLE_FILES = (  # at its top
    "AI-POLICY.md", "LICENSE", "Makefile", "README.md", "README.zh-CN.md", "SEALED.md",
    "constraints.txt", "course.toml", "pyproject.toml",
)  # fmt: skip


def clean_submitted_name(name: str) -> str:
    """Return a name as one line that can be printed anywhere; only the end of a long name.

    A mark replaces each unprintable character, so that no name looks like another one.
    """
    line = clean_worker_text(
        "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    )
    return (
        f"…{line[-_MAX_PRINTED_CHARACTERS:]}"
        if len(line) > _MAX_PRINTED_CHARACTERS
        else line or "?"
    )


def is_handed_in_accidentally(name: str) -> bool:
    """Return whether a file was handed in by accident: a hidden one, or one that systems leave."""
    hidden = name.startswith(".") and name not in (".", "..")
    return hidden or name in _LEFT_BY_MACHINES


def list_bundle_tops(paths: Iterable[str]) -> frozenset[tuple[str, ...]]:
    """Return the folders that hold a bundle, each by its parts, among files with these paths."""
    split = [path.split("/") for path in paths]
    return frozenset(
        tuple(parts[:n]) for parts in split for n, part in enumerate(parts) if part in BUNDLE_MARKS
    )


def is_bundle_file(path: str, tops: Container[tuple[str, ...]]) -> bool:
    """Return whether the course handed out the file at `path`, which is no student's answer.

    tops  the folders that hold a bundle
    """
    *folders, name = path.split("/")
    return (name in _BUNDLE_FILES and tuple(folders) in tops) or any(
        part in BUNDLE_FOLDERS and tuple(folders[:n]) in tops
        for n, part in enumerate([*folders, name])
    )


def list_renamed_answers(names: Iterable[str], slug: str, suffixes: Iterable[str]) -> list[str]:
    """Return the names that are a copy's name of the answer: `ex01_softmax (1).ipynb`."""
    wanted, found = tuple(suffixes), []
    for name in names:
        stem, dot, suffix = name.lower().rpartition(".")
        is_answer = f"{dot}{suffix}" in wanted and stem.startswith(slug)
        if is_answer and _RENAMED_ENDING.fullmatch(stem.removeprefix(slug)):
            found.append(name)
    return found


def is_submitted_zip(name: str) -> bool:
    return name.lower().endswith(".zip")


def is_submitted_other_archive(name: str) -> bool:
    """Return whether this is an archive that is no zip; nothing opens it."""
    return name.lower().endswith(_OTHER_ARCHIVES)


def drop_submitted_archive_suffix(name: str) -> str:
    """Return the name of a zip or another archive without its suffix."""
    suffixes = (suffix for suffix in (".zip", *_OTHER_ARCHIVES) if name.lower().endswith(suffix))
    return name[: -len(next(suffixes))]


def describe_submitted_other_archive(shown: str) -> str:
    """Return the sentence about an archive that is no zip."""
    return f"{shown} is no zip and was not opened: unpack it, or hand in a zip."


def find_submission_size_limit(name: str) -> int:
    """Return how many bytes an answer, a zip or a time stamp of this name may have."""
    return _LIMITS_AND_SENTENCES[_lower_submission_suffix(name)][0]


def describe_too_large_submission(name: str, shown: str) -> str:
    """Return the sentence about a file that exceeds its size limit."""
    most, sentence = _LIMITS_AND_SENTENCES[_lower_submission_suffix(name)]
    return sentence.format(file=shown, bytes=most)


def _lower_submission_suffix(name: str) -> str:
    return name[name.rindex(".") :].lower()


def describe_submitted_link(shown: str) -> str:
    """Return the sentence about a link."""
    return f"{shown} is a link: hand in the file itself."
