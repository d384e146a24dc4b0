"""Finds the file to be graded in a student's folder of `submitted`, whatever it is called."""

from dataclasses import dataclass
from pathlib import Path

from grader.core import catalog
from grader.submission.handed_files import (
    clean_submitted_name,
    describe_submitted_link,
    is_handed_in_accidentally,
    list_renamed_answers,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedAnswer:
    """The file that counts in a folder; without one, `why` says what is there instead."""

    path: Path | None = None
    why: str = ""

    @property
    def is_renamed(self) -> bool:
        """Return whether the file has another name than the released notebook."""
        return self.path is not None and self.path.name != f"{self.path.parent.name}.ipynb"


def find_submitted_answer(folder: Path, slug: str) -> SubmittedAnswer:
    """Return the released notebook; else the only file that is a plain or renamed answer."""
    suffixes = (".ipynb", catalog.find_catalog_suffix(slug))
    try:
        entries = {e.name: e for e in folder.iterdir() if not is_handed_in_accidentally(e.name)}
    except OSError:
        entries = {}
    exact = [name for suffix in suffixes if (name := f"{slug}{suffix}") in entries]
    names = exact[:1] or sorted(list_renamed_answers(entries, slug, suffixes))
    shown = ", ".join(map(clean_submitted_name, names))
    if len(names) > 1:
        return SubmittedAnswer(why=f"{shown}: any of them may be meant. Leave one of them there.")
    if names:
        path = entries[names[0]]
        if path.is_symlink():
            return SubmittedAnswer(why=describe_submitted_link(shown))
        return (
            SubmittedAnswer(path=path)
            if path.is_file()
            else SubmittedAnswer(why=f"{shown} is not a file.")
        )
    others = ", ".join(map(clean_submitted_name, sorted(entries)[:3]))
    return SubmittedAnswer(
        why=f"There is no {slug}.ipynb" + (f", but {others}." if others else ", and no file.")
    )
