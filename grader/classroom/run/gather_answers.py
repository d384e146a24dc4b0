"""Reads what a class handed in. Runs none of it, and unpacks nothing to the disk.

A student has a folder or a zip, `submissions/<student>/` or `submissions/<student>.zip`. Whatever
lies in it, each exercise gets an answer, or a sentence that says why there is none.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grader.classroom.run.answer_contents import (
    Contents,
    is_student_answer,
    note_student_file_ignored,
    read_student_contents,
)
from grader.classroom.run.answer_files import StudentFile, is_student_folder
from grader.core import catalog
from grader.core.records import Exercise
from grader.submission.answer_file import UnreadableFile, is_submission_content_untouched
from grader.submission.handed_files import (
    clean_submitted_name,
    describe_submitted_other_archive,
    drop_submitted_archive_suffix,
    is_handed_in_accidentally,
    is_submitted_other_archive,
    is_submitted_zip,
)

MAX_STUDENT_NOTES = 10  # on one student
TIMES_TABLE_NAME = "submitted.csv"  # beside the students: when what was handed in


class NoClassFound(Exception):
    """Raised for a folder that holds no class; the message says why, and how to fix it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedAnswer:
    """One handed-in answer, or the reason why there is none."""

    slug: str
    name: str  # the file's own name
    path: str  # where it lies, for people
    content: bytes = b""  # its bytes, when it can be graded
    state: str = "graded"  # or "missing" or "unreadable": what the report will say of it
    sentence: str = ""  # the student's, when it is not "graded"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedAnswers:
    """The files and answers of one student."""

    student: str  # a printable name
    folder: str  # the entry's own name without .zip, to name the folder of results
    answers: tuple[HandedAnswer, ...]  # one for each exercise asked, in their order
    notes: tuple[str, ...] = ()  # a sentence each on what else was found


def list_class_students(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the students' folders and zips, sorted, and a sentence on each other entry.

    Raises `NoClassFound` where there is no student, or where answers lie in `folder` itself.
    """
    shown = clean_submitted_name(os.fspath(folder))
    students: dict[str, str] = {}  # the entry that counts for a folder of results
    notes = []
    for name, problem in _list_class_entries(folder, shown):
        student = name_student_folder(folder / name)
        if problem:
            notes.append(problem)
        elif student in students:
            notes.append(note_student_file_ignored(name, students[student]))
        else:
            students[student] = name
    if not students:
        none = f"There is no student in {shown}: it should hold {shown}/<student>/<exercise>.py."
        raise NoClassFound("\n".join([none, *notes[:MAX_STUDENT_NOTES]]))
    return [folder / students[student] for student in sorted(students)], notes


def _list_class_entries(folder: Path, shown: str) -> list[tuple[str, str]]:
    """Return the sorted names, each with the reason why it is no student's ("" if it is)."""
    try:
        with os.scandir(folder) as found:
            kept = [
                e
                for e in found
                if not (is_handed_in_accidentally(e.name) or _is_class_times_table(e))
            ]
    except FileNotFoundError:
        raise NoClassFound(f"{shown} is not there: name the folder of the submissions.") from None
    except NotADirectoryError:
        raise NoClassFound(f"{shown} is no folder: name the folder of the submissions.") from None
    except OSError as error:
        raise NoClassFound(f"{shown} cannot be read: {error.strerror}.") from None
    # `bob` before `bob.zip`, and `bob.zip` before `bob.rar`
    kept.sort(key=lambda entry: (is_submitted_other_archive(entry.name), entry.name))
    return [(entry.name, _check_class_entry(entry, shown)) for entry in kept]


def _is_class_times_table(entry: os.DirEntry[str]) -> bool:
    """Return whether this is the table of when answers were handed in."""
    return entry.name == TIMES_TABLE_NAME and not entry.is_dir(follow_symlinks=False)


def _check_class_entry(entry: os.DirEntry[str], folder: str) -> str:
    """Return why an entry of the submissions is no student's; "" if it is one."""
    shown = clean_submitted_name(entry.name)
    if entry.is_dir(follow_symlinks=False):
        return ""
    if is_student_answer(entry.name):
        raise NoClassFound(
            f"{folder} holds {shown} itself, but should hold a folder or a zip for each student: "
            f"{folder}/<student>/{shown}."
        )
    if entry.is_symlink():
        return f"{shown} is a link and was not followed: put what it leads to in its place."
    is_archive = is_submitted_zip(entry.name) or is_submitted_other_archive(entry.name)
    if is_archive and entry.is_file(follow_symlinks=False):
        return ""
    return (
        f"{shown} is neither a student's folder nor a zip: it was passed over. If a student handed "
        "it in, put it into a folder with the student's name."
    )


def gather_student_answers(entry: Path, exercises: Sequence[Exercise]) -> HandedAnswers:
    """Read what a student handed in for `exercises`. Returns whatever lies at `entry`."""
    place = "/".join(clean_submitted_name(name) for name in (entry.parent.name, entry.name) if name)
    notes: tuple[str, ...] = ()
    try:
        with read_student_contents(entry, place) as found:
            answers = [_choose_student_answer(exercise, found) for exercise in exercises]
            notes = _write_student_notes(found, answers)
    except UnreadableFile as problem:
        answers = [
            HandedAnswer(
                slug=e.slug, name=e.file, path=place, state="unreadable",
                sentence=str(problem),
            )
            for e in exercises
        ]  # fmt: skip
    folder = name_student_folder(entry)
    return HandedAnswers(
        student=clean_submitted_name(folder), folder=folder, answers=tuple(answers), notes=notes
    )


def name_student_of_entry(entry: Path) -> str:
    """Return the printable name of the student who handed in an entry."""
    return clean_submitted_name(name_student_folder(entry))


def name_student_folder(entry: Path) -> str:
    """Return the name of a student's entry, without the suffix of a zip or another archive."""
    is_archive = is_submitted_zip(entry.name) or is_submitted_other_archive(entry.name)
    if is_archive and not is_student_folder(entry):
        return drop_submitted_archive_suffix(entry.name)
    return entry.name


def _choose_student_answer(exercise: Exercise, found: Contents) -> HandedAnswer:
    """Return the plain file; the notebook if there is none, or if it is an untouched skeleton."""
    script, notebook = (found.called(name) for name in (exercise.file, f"{exercise.slug}.ipynb"))
    if script is None or notebook is None:
        return _read_student_answer(exercise, script or notebook, found.place)
    handed = _read_student_answer(exercise, script, found.place)
    return (
        _read_student_answer(exercise, notebook, found.place)
        if is_submission_content_untouched(handed.content, exercise, handed.name)
        else handed
    )


def _read_student_answer(exercise: Exercise, file: StudentFile | None, place: str) -> HandedAnswer:
    slug = exercise.slug
    if file is None:
        name = exercise.file
        return HandedAnswer(
            slug=slug, name=name, path=f"{place}/{name}", state="missing",
            sentence=f"{name} was not handed in.",
        )  # fmt: skip
    path = f"{place}/{file.shown}"
    try:
        content = file.content()
    except UnreadableFile as problem:
        return HandedAnswer(
            slug=slug, name=file.name, path=path, state="unreadable", sentence=str(problem)
        )
    name = f"{slug}{PurePosixPath(file.name).suffix.lower()}"  # even if it has a copy's name
    return HandedAnswer(slug=slug, name=name, path=path, content=content)


def _write_student_notes(found: Contents, answers: Sequence[HandedAnswer]) -> tuple[str, ...]:
    """Return at most `MAX_STUDENT_NOTES` notes besides the answers, and how many more there are."""
    told = {answer.sentence for answer in answers}
    paths = {answer.path: answer.name for answer in answers if answer.content}
    graded = {f.name: paths[p] for f in found.files if (p := f"{found.place}/{f.shown}") in paths}
    copies = found.list_all_copies()  # graded, or named by an answer's sentence
    odd = [
        f
        for f in found.own
        if f.problem not in {"", *told} or not (is_student_answer(f.name) or f.path in copies)
    ]
    first = [*found.notes, *_write_student_notebook_notes(found, answers)]
    first += [
        f"{clean_submitted_name(name)} was graded as {right}."
        for name, right in graded.items()
        if name != right
    ]
    if not found.files:
        first.append(f"{found.place} holds no file.")
    notes = [*first, *map(describe_student_file_problem, odd[:MAX_STUDENT_NOTES])][
        :MAX_STUDENT_NOTES
    ]
    more = len(first) + len(odd) - len(notes)
    return (*notes, *([f"And {more} more."] if more else []))


def _write_student_notebook_notes(found: Contents, answers: Sequence[HandedAnswer]) -> list[str]:
    """Return notes on begun notebooks that do not count because a plain file was begun too."""
    scripts = [answer for answer in answers if not answer.name.endswith(".ipynb")]
    notebooks = [(found.called(f"{a.slug}.ipynb"), a) for a in scripts]
    return [
        note_student_file_ignored(file.path, script.name)
        for file, script in notebooks
        if file is not None and not _is_student_file_untouched(file, script.slug)
    ]


def _is_student_file_untouched(file: StudentFile, slug: str) -> bool:
    """Return whether nobody has changed a skeleton or a notebook; False if it cannot be read."""
    try:
        content = file.content()
    except UnreadableFile:
        return False
    exercise = catalog.find_catalog_exercise(slug)
    return is_submission_content_untouched(content, exercise, file.name)


def describe_student_file_problem(file: StudentFile) -> str:
    """Return the sentence on a file that is not graded."""
    if is_submitted_other_archive(file.name) and not file.problem:
        return describe_submitted_other_archive(file.shown)
    return (
        file.problem
        or f"{file.shown} is no answer to an exercise.{_suggest_student_answer_name(file.name)}"
    )


def _suggest_student_answer_name(name: str) -> str:
    """Return ' Did you mean ex01_softmax.py?' for a name close to that of an answer, else ''."""
    slugs = [exercise.slug for exercise in catalog.list_catalog_exercises()]
    parts = {part: slug for slug in slugs for part in slug.split("_", 1)}  # ex01, and softmax
    stem, _, rest = name.partition(".")
    written = re.sub(r"\W+", "_", stem.lower())
    hint = catalog.suggest_close_name(parts.get(written, written), slugs)
    meant = hint.removesuffix("?").rpartition(" ")[2]
    suffix = ".ipynb" if "ipynb" in rest.lower() else catalog.find_catalog_suffix(meant)
    return hint.replace("?", f"{suffix}?")
