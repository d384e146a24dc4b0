"""Lists the files that one student handed in, and decides which of them count."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

from grader.classroom.run import answer_files, class_archive
from grader.classroom.run.answer_files import StudentFile
from grader.core import catalog
from grader.submission.answer_file import UnreadableFile, is_submission_content_untouched
from grader.submission.handed_files import (
    clean_submitted_name,
    describe_submitted_link,
    describe_submitted_other_archive,
    is_bundle_file,
    is_submitted_other_archive,
    is_submitted_zip,
    list_bundle_tops,
    list_renamed_answers,
)

MAX_COMPARED_FILES = 10  # of one name: a zip may hold thousands


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The files that a student handed in, and notes on files that are left out."""

    place: str  # what their paths begin with, for people
    files: Sequence[StudentFile]
    notes: tuple[str, ...] = ()

    @cached_property
    def own(self) -> Sequence[StudentFile]:
        """The files without those that the course handed out, such as the reference's."""
        tops = list_bundle_tops(file.path for file in self.files)
        return [f for f in self.files if not is_bundle_file(f.path, tops)]

    def called(self, name: str) -> StudentFile | None:
        """Return the file of this name that counts; if several do, one whose `problem` says so.

        A begun file goes before an unreadable one, and any file before an untouched skeleton. If no
        file has the name, one that is named as a copy counts: `ex01_softmax (1).py`.
        """
        found = [file for file in self.own if file.name == name]
        if len(found) > MAX_COMPARED_FILES:
            return _refuse_several_files(name, found)
        found = [f for f in found if not _is_course_solution(f)] or self._find_renamed(name)
        return _choose_begun_file(name, found) if len(found) > 1 else next(iter(found), None)

    def list_copies(self, slug: str) -> list[StudentFile]:
        """Return the files with a copy's name of this answer, if no file has the right name."""
        plain = catalog.find_catalog_suffix(slug)
        if any(file.name in (f"{slug}{plain}", f"{slug}.ipynb") for file in self.own):
            return []
        names = list_renamed_answers([file.name for file in self.own], slug, (plain, ".ipynb"))
        return [file for file in self.own if file.name in names]

    def list_all_copies(self) -> set[str]:
        """Return the paths of the files with a copy's name of any answer."""
        slugs = [exercise.slug for exercise in catalog.list_catalog_exercises()]
        return {file.path for slug in slugs for file in self.list_copies(slug)}

    def _find_renamed(self, name: str) -> list[StudentFile]:
        """Return the only file with a copy's name of this answer, or a problem if there are two."""
        slug, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
        found = self.list_copies(slug)
        if len(found) > 1 and suffix == ".ipynb":
            return []  # the plain file's sentence names them
        if len(found) > 1:
            shown = f"{found[0].shown}, {found[1].shown}"
            says = f"{name} was not handed in, but {shown}: hand in one, as {name}."
            return [replace(found[0], problem=says)]
        return [file for file in found if PurePosixPath(file.name).suffix.lower() == suffix]


def _choose_begun_file(name: str, files: Sequence[StudentFile]) -> StudentFile:
    """Return the only file that somebody began; a problem if two differ, a skeleton if none did."""
    exercise = catalog.find_catalog_exercise(PurePosixPath(name).stem)
    begun: dict[bytes | str, StudentFile] = {}  # by the text, or by the path of what is unreadable
    unreadable = [file for file in files if file.problem]
    for file in (file for file in files if not file.problem):
        try:
            content = file.content()
        except UnreadableFile:
            begun[file.path] = file
            continue
        if not is_submission_content_untouched(content, exercise, name):
            begun.setdefault(b"\n".join(content.splitlines()), file)
    if len(begun) > 1:
        return _refuse_several_files(name, list(begun.values()))
    return next(iter([*begun.values(), *unreadable]), files[0])


def _refuse_several_files(name: str, files: Sequence[StudentFile]) -> StudentFile:
    """Return the first file, with a problem that says that there are others."""
    where = f"{files[0].shown}, {files[1].shown}"
    says = f"{name} is there more than once ({where}): hand in one."
    return replace(files[0], problem=says)


def _is_course_solution(file: StudentFile) -> bool:
    """Return whether this is the course's own solution, as the whole project has it."""
    solution = catalog.ROOT / "solutions" / file.name
    if PurePosixPath(file.path).parent.name != "solutions" or not solution.is_file():
        return False
    try:
        return file.content() == solution.read_bytes()
    except UnreadableFile:
        return False


@contextmanager
def read_student_contents(entry: Path, place: str) -> Iterator[Contents]:
    """Return the contents of a student's folder or zip. Raises `UnreadableFile`."""
    shown = clean_submitted_name(entry.name)
    if os.path.islink(entry):
        raise UnreadableFile(describe_submitted_link(shown))
    is_folder = answer_files.is_student_folder(entry)
    if is_submitted_other_archive(entry.name) and not is_folder:
        raise UnreadableFile(describe_submitted_other_archive(shown))
    if is_submitted_zip(entry.name) and not is_folder:
        yield Contents(
            place=place,
            files=class_archive.unpack_student_files(
                answer_files.read_student_file(entry, shown), shown
            ),
        )
        return
    with answer_files.open_student_folder(entry, shown) as folder:
        yield choose_student_files(answer_files.list_student_folder(folder, shown), place)


def is_student_answer(name: str) -> bool:
    """Return whether this is the name of an answer to any exercise."""
    return name in list_student_answer_names()


@cache
def list_student_answer_names() -> frozenset[str]:
    """Return the file names that answers may have."""
    return frozenset(
        f"{e.slug}{s}" for e in catalog.list_catalog_exercises() for s in (e.suffix, ".ipynb")
    )


def note_student_file_ignored(name: str, other: str) -> str:
    """Return the note on a file that does not count because another does."""
    return f"{clean_submitted_name(name)} was left out: {clean_submitted_name(other)} counts."


def choose_student_files(found: Sequence[StudentFile], place: str) -> Contents:
    """Return the contents of a folder, which holds files, or one zip instead."""
    zips = [file for file in found if is_submitted_zip(file.name)]
    others = [file for file in found if not is_submitted_zip(file.name)]
    if not zips:
        return Contents(place=place, files=others)
    if any(is_student_answer(file.name) for file in others):
        notes = tuple(f"{z.shown} was left out: the files beside it count." for z in zips)
        return Contents(place=place, files=others, notes=notes)
    if len(zips) > 1:
        several = f"There is more than one zip ({zips[0].shown}, {zips[1].shown})"
        raise UnreadableFile(f"{several}: hand in one.")
    inside = class_archive.unpack_student_files(zips[0].content(), zips[0].shown)
    return Contents(place=f"{place}/{zips[0].shown}", files=[*inside, *others])
