"""Reads the answers to compare: those of a class, and those added to the class."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from grader.authoring.skeletons import NoSkeleton, untouched_skeleton
from grader.classroom.run.answer_contents import is_answer
from grader.classroom.run.gather_answers import list_students, read_student
from grader.classroom.similar.fingerprints import Tokens, read_tokens, remove_given
from grader.core.catalog import list_catalog_names
from grader.core.records import Exercise
from grader.submission.answer_file import (
    UnreadableFile,
    is_submission_text_untouched,
    read_submission,
)
from grader.submission.handed_files import clean_submitted_name
from grader.submission.reader_client import UnreadableContent


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A student, or an added source, whose answers lie at an entry: a folder or a zip."""

    who: str  # as shown: "ada", or "2025/ada" for an added class
    entry: Path
    of_class: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedAnswer:
    """One answer; its tokens leave out the skeleton that everybody was given."""

    number: int  # among the answers to its exercise
    writer: Writer
    source: str  # of a notebook: the code taken from its cells
    tokens: Tokens


def find_writers(submissions: Path, also: Sequence[Path]) -> tuple[list[Writer], list[str]]:
    """Return the writers whose answers are compared, and a sentence for each entry of no writer.

    also  folders of earlier classes, or of answers

    Raises `gather_answers.NoClass` for a folder without classes and answers.
    """
    students, notes = list_students(submissions)
    found = [Writer(who=_writer_name(entry), entry=entry, of_class=True) for entry in students]
    for place in also:
        shown = clean_submitted_name(os.fspath(place))
        if _is_answer_folder(place):
            found.append(Writer(who=shown, entry=place.resolve(), of_class=False))
            continue
        others, more = list_students(place)
        notes += more
        found += [Writer(who=f"{shown}/{_writer_name(e)}", entry=e, of_class=False) for e in others]
    return found, notes


def _writer_name(entry: Path) -> str:
    return clean_submitted_name(entry.name if entry.is_dir() else entry.stem)


def _is_answer_folder(place: Path) -> bool:
    """Return whether answers lie directly in a folder, not in one folder for each student."""
    try:
        return any(map(is_answer, os.listdir(place)))
    except OSError:  # `entries` says why
        return False


def read_answers(
    people: Sequence[Writer], exercise: Exercise, given: Tokens
) -> tuple[list[ComparedAnswer], list[str]]:
    """Read the written answers to an exercise, with a sentence for each unreadable answer."""
    found: list[ComparedAnswer] = []
    problems = []
    with TemporaryDirectory() as folder:
        for writer in people:
            try:
                source = _read_answer_source(writer, exercise, Path(folder))
            except UnreadableFile as problem:
                problems.append(f"{writer.who}: {problem}")
                continue
            if is_submission_text_untouched(source):
                continue
            try:
                written = remove_given(read_tokens(source, exercise.language), given)
            except UnreadableContent as problem:
                problems.append(f"{writer.who}: {problem}")
                continue
            if written.count:
                number = len(found)
                found.append(
                    ComparedAnswer(number=number, writer=writer, source=source, tokens=written)
                )
    return found, problems


def _read_answer_source(writer: Writer, exercise: Exercise, folder: Path) -> str:
    """Return an answer's text; '' if there is no file. Raises `UnreadableFile` with the reason."""
    [handed] = read_student(writer.entry, [exercise]).answers
    if handed.state == "missing":
        return ""
    if handed.sentence:
        raise UnreadableFile(handed.sentence)
    copy = folder / f"{exercise.slug}{Path(handed.name).suffix}"  # it may lie in a zip
    copy.write_bytes(handed.content)
    return read_submission(copy, exercise.slug, list_catalog_names(exercise)).source


def given_skeleton(exercise: Exercise) -> str:
    """Return the skeleton that everybody was given; '' if the skeleton is not known."""
    try:
        return untouched_skeleton(exercise)
    except NoSkeleton:
        return ""
