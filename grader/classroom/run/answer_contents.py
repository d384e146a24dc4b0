"""What one student handed in: which files there are, and which of them counts."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath

from grader.classroom.run import answer_files, class_archive
from grader.classroom.run.answer_files import File
from grader.core import catalog
from grader.submission.answer_file import Unreadable
from grader.submission.handed_files import describe_link, is_zip, printable

_OF_BUNDLE = ("exercises", "notebooks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The files that a student handed in, and notes on what of it is left out."""

    place: str  # what their paths begin with, for people
    files: Sequence[File]
    notes: tuple[str, ...] = ()

    def called(self, name: str) -> File | None:
        """The file of this name that counts. Several, of which any may be meant, are a problem.

        What can be read goes before what cannot. Who zips the whole bundle means what lies in its
        `exercises` and `notebooks`: the oracle's files have the same names.
        """
        found = [file for file in self.files if file.name == name]
        good = [file for file in found if not file.problem]
        if len(good) > 1:
            good = [f for f in good if PurePosixPath(f.path).parent.name in _OF_BUNDLE] or good
        if len(good) > 1:
            where = f"{good[0].shown}, {good[1].shown}"
            return replace(
                good[0], problem=f"{name} is there more than once ({where}): hand in one."
            )
        return next(iter(good or found), None)


@contextmanager
def contents(entry: Path, place: str) -> Iterator[Contents]:
    """What lies in a student's folder or zip. `Unreadable` says why nothing of it can be read."""
    shown = printable(entry.name)
    if os.path.islink(entry):
        raise Unreadable(describe_link(shown))
    if is_zip(entry.name) and not answer_files.is_folder(entry):
        yield Contents(
            place=place, files=class_archive.files(answer_files.read(entry, shown), shown)
        )
        return
    with answer_files.opened(entry, shown) as folder:
        yield of_files(answer_files.listed(folder, shown), place)


def is_answer(name: str) -> bool:
    """Whether this is the name of an answer, to whichever exercise."""
    return name in answers()


@cache
def answers() -> frozenset[str]:
    """The names of all answers."""
    return frozenset(f"{e.slug}{s}" for e in catalog.exercises() for s in (e.suffix, ".ipynb"))


def left_out(name: str, other: str) -> str:
    """The note on what does not count because something else does."""
    return f"{printable(name)} was left out: {printable(other)} counts."


def of_files(found: Sequence[File], place: str) -> Contents:
    """A folder holds files, or one zip in their place."""
    zips = [file for file in found if is_zip(file.name)]
    others = [file for file in found if not is_zip(file.name)]
    if not zips:
        return Contents(place=place, files=others)
    if any(is_answer(file.name) for file in others):
        notes = tuple(f"{z.shown} was left out: the files beside it count." for z in zips)
        return Contents(place=place, files=others, notes=notes)
    if len(zips) > 1:
        several = f"There is more than one zip ({zips[0].shown}, {zips[1].shown})"
        raise Unreadable(f"{several}: hand in one.")
    inside = class_archive.files(zips[0].content(), zips[0].shown)
    return Contents(place=f"{place}/{zips[0].shown}", files=[*inside, *others])
