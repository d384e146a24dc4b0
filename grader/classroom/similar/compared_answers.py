"""Reads the answers that are compared: those of a class, and those added to it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from grader.authoring.skeletons import NoSkeleton, pristine
from grader.classroom.run.answer_contents import is_answer
from grader.classroom.run.gather_answers import entries, handed_in
from grader.classroom.similar.fingerprints import Tokens, own, tokens
from grader.core.catalog import names_read
from grader.core.records import Exercise
from grader.submission.answer_file import Unreadable, is_untouched_skeleton, read
from grader.submission.handed_files import printable
from grader.submission.reader_client import Unread


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Whose answers lie at an entry: a folder or a zip."""

    who: str  # in a line: "ada", or "2025/ada" of what was added
    entry: Path
    of_class: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedAnswer:
    """One answer; what was given to everybody is no part of its tokens."""

    number: int  # among the answers to its exercise
    writer: Writer
    source: str  # of a notebook: what was taken from its cells
    tokens: Tokens


def writers(submissions: Path, also: Sequence[Path]) -> tuple[list[Writer], list[str]]:
    """Everybody whose answers are compared, and a sentence on all that is nobody's.

    also  folders of earlier classes, or of answers

    Raises `collect.NoClass` for a folder that holds neither.
    """
    students, notes = entries(submissions)
    found = [Writer(who=_name(entry), entry=entry, of_class=True) for entry in students]
    for place in also:
        shown = printable(os.fspath(place))
        if _is_flat(place):
            found.append(Writer(who=shown, entry=place.resolve(), of_class=False))
            continue
        others, more = entries(place)
        notes += more
        found += [Writer(who=f"{shown}/{_name(e)}", entry=e, of_class=False) for e in others]
    return found, notes


def _name(entry: Path) -> str:
    return printable(entry.name if entry.is_dir() else entry.stem)


def _is_flat(place: Path) -> bool:
    """Whether answers lie in a folder itself, not in one for each student."""
    try:
        return any(map(is_answer, os.listdir(place)))
    except OSError:  # `entries` says why
        return False


def answers(
    people: Sequence[Writer], exercise: Exercise, given: Tokens
) -> tuple[list[ComparedAnswer], list[str]]:
    """The answers to an exercise in which something was written, and why others cannot be read."""
    found: list[ComparedAnswer] = []
    problems = []
    with TemporaryDirectory() as folder:
        for writer in people:
            try:
                source = _source(writer, exercise, Path(folder))
            except Unreadable as problem:
                problems.append(f"{writer.who}: {problem}")
                continue
            if is_untouched_skeleton(source):
                continue
            try:
                written = own(tokens(source, exercise.language), given)
            except Unread as problem:
                problems.append(f"{writer.who}: {problem}")
                continue
            if written.count:
                number = len(found)
                found.append(
                    ComparedAnswer(number=number, writer=writer, source=source, tokens=written)
                )
    return found, problems


def _source(writer: Writer, exercise: Exercise, folder: Path) -> str:
    """The text of an answer; nothing if there is no file. `Unreadable` says why it has none."""
    [handed] = handed_in(writer.entry, [exercise]).answers
    if handed.state == "missing":
        return ""
    if handed.sentence:
        raise Unreadable(handed.sentence)
    copy = folder / f"{exercise.slug}{Path(handed.name).suffix}"  # it may lie in a zip
    copy.write_bytes(handed.content)
    return read(copy, exercise.slug, names_read(exercise)).source


def skeleton(exercise: Exercise) -> str:
    """What everybody was given to begin with; nothing where that is not known."""
    try:
        return pristine(exercise)
    except NoSkeleton:
        return ""
