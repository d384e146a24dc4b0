"""Reads the answers to compare: those of a class, and those added to the class."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from grader.authoring.skeletons import NoSkeleton, make_untouched_skeleton
from grader.classroom.run.answer_contents import is_student_answer
from grader.classroom.run.gather_answers import gather_student_answers, list_class_students
from grader.classroom.similar.fingerprints import (
    AnswerTokens,
    read_fingerprint_tokens,
    remove_given_fingerprints,
)
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
    tokens: AnswerTokens


def find_similar_writers(submissions: Path, also: Sequence[Path]) -> tuple[list[Writer], list[str]]:
    """Return the writers whose answers are compared, and a sentence for each other entry.

    also  folders of earlier classes, or folders of answers

    Raises `gather_answers.NoClassFound` for a folder with neither a class nor answers.
    """
    students, notes = list_class_students(submissions)
    found = [
        Writer(who=_name_similar_writer(entry), entry=entry, of_class=True) for entry in students
    ]
    for place in also:
        shown = clean_submitted_name(os.fspath(place))
        if _is_compared_answer_folder(place):
            found.append(Writer(who=shown, entry=place.resolve(), of_class=False))
            continue
        others, more = list_class_students(place)
        notes += more
        found += [
            Writer(who=f"{shown}/{_name_similar_writer(e)}", entry=e, of_class=False)
            for e in others
        ]
    return found, notes


def _name_similar_writer(entry: Path) -> str:
    return clean_submitted_name(entry.name if entry.is_dir() else entry.stem)


def _is_compared_answer_folder(place: Path) -> bool:
    """Return whether answers lie directly in a folder, not in one folder for each student."""
    try:
        return any(map(is_student_answer, os.listdir(place)))
    except OSError:  # `entries` says why
        return False


def read_compared_answers(
    people: Sequence[Writer], exercise: Exercise, given: AnswerTokens
) -> tuple[list[ComparedAnswer], list[str]]:
    """Read the written answers to an exercise, with a sentence for each unreadable answer."""
    found: list[ComparedAnswer] = []
    problems = []
    with TemporaryDirectory() as folder:
        for writer in people:
            try:
                source = _read_compared_source(writer, exercise, Path(folder))
            except UnreadableFile as problem:
                problems.append(f"{writer.who}: {problem}")
                continue
            if is_submission_text_untouched(source):
                continue
            try:
                written = remove_given_fingerprints(
                    read_fingerprint_tokens(source, exercise.language), given
                )
            except UnreadableContent as problem:
                problems.append(f"{writer.who}: {problem}")
                continue
            if written.count:
                number = len(found)
                found.append(
                    ComparedAnswer(number=number, writer=writer, source=source, tokens=written)
                )
    return found, problems


def _read_compared_source(writer: Writer, exercise: Exercise, folder: Path) -> str:
    """Return an answer's text; '' if there is no file. Raises `UnreadableFile` with the reason."""
    [handed] = gather_student_answers(writer.entry, [exercise]).answers
    if handed.state == "missing":
        return ""
    if handed.sentence:
        raise UnreadableFile(handed.sentence)
    copy = folder / f"{exercise.slug}{Path(handed.name).suffix}"  # it may lie in a zip
    copy.write_bytes(handed.content)
    return read_submission(copy, exercise.slug, list_catalog_names(exercise)).source


def read_compared_skeleton(exercise: Exercise) -> str:
    """Return the skeleton that everybody was given; '' if the skeleton is not known."""
    try:
        return make_untouched_skeleton(exercise)
    except NoSkeleton:
        return ""
