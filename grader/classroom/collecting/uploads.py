"""Reads uploads to a platform: the zip that the platform gives an instructor, or its folder.

    Canvas   adalovelace_LATE_1042_7731_ex01_softmax-1.py    1042 is the student's id
    Moodle   Ada Lovelace_57_assignsubmission_file/...       or single files with this prefix
    others   ada/ex01_softmax.py, ada.zip                    ada: a student, a login or an id

Canvas's second number differs for each file. Moodle's number differs for each assignment, so only
the name identifies the student. Some versions of Moodle end the folder in `_file_`.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path, PurePosixPath

from grader.classroom.collecting import source_files
from grader.classroom.collecting.roster import Person, Roster, UnknownStudent, find_roster_student
from grader.classroom.collecting.source_files import CollectResult, Parcel
from grader.classroom.collecting.upload_times import UploadTimes
from grader.classroom.run import answer_contents, answer_files, class_archive
from grader.classroom.run.answer_files import StudentFile, is_student_folder
from grader.core.errors import UserError
from grader.submission.answer_file import UnreadableFile
from grader.submission.handed_files import (
    clean_submitted_name,
    drop_submitted_archive_suffix,
    is_submitted_other_archive,
    is_submitted_zip,
)

_CANVAS_NAME = re.compile(r"(?P<name>[^_/]+)_(?:LATE_)?(?P<id>\d+)_\d+_(?P<file>[^/]+)")
_MOODLE_NAME = re.compile(
    r"(?P<name>.+)_\d+_assignsubmission_(?P<kind>file|onlinetext)(?:_(?P<file>.*))?"
)
CANVAS_COLUMNS, MOODLE_COLUMNS = ("id",), ("name", "student")  # of the roster
_CANVAS_VERSION = re.compile(r"-\d+(?=\.\w+$)")  # how Canvas marks a file that was uploaded again


@dataclass(frozen=True, slots=True)
class UploadKey:
    """A platform's name or id for the student who uploaded a file."""

    shown: str
    value: str
    columns: tuple[str, ...]  # of the roster, in which `value` may stand

    @property
    def cure(self) -> str:
        return (
            f"Write {clean_submitted_name(self.value)} into the roster: as "
            f"{' or '.join(self.columns)}."
        )

    @property
    def cure_of_namesakes(self) -> str:
        value = clean_submitted_name(self.value)
        if self.columns == MOODLE_COLUMNS:  # whose number says nothing about the student
            return (
                f"Look who it is, unpack the zip, and write the roster's `student` in the place "
                f"of {value} in this name."
            )
        return f"Let only one of them have {value} in the roster."


def collect_upload_parcels(
    place: Path, roster: Roster, times: UploadTimes, until: datetime | None, told: CollectResult
) -> Iterator[Parcel]:
    """Yield the files that each student uploaded; unpack nothing to the disk."""
    return _collect_found_upload_parcels(
        match_uploads_to_students(place, roster, told), times, until, told
    )


def match_uploads_to_students(
    place: Path, roster: Roster, told: CollectResult
) -> list[tuple[Person, UploadKey, list[StudentFile]]]:
    """Return who uploaded what; files have the student's names, and the platform's paths."""
    by_key: dict[UploadKey, list[StudentFile]] = defaultdict(list)
    for file in _list_collected_uploads(place, told):
        try:
            key, name = _parse_collected_uploader(file)
        except UnknownStudent as problem:
            told.open.append(str(problem))
        else:
            by_key[key].append(replace(file, name=name))
    found = source_files.match_collected_owners(
        by_key, partial(_find_collected_uploader, roster), _show_upload_key, told
    )
    return [(person, key, by_key[key]) for person, key in found]


def _collect_found_upload_parcels(
    owned: Sequence[tuple[Person, UploadKey, Sequence[StudentFile]]], times: UploadTimes,
    until: datetime | None, told: CollectResult,
) -> Iterator[Parcel]:  # fmt: skip
    for person, key, uploaded in owned:
        try:
            found = answer_contents.choose_student_files(uploaded, key.shown)
        except UnreadableFile as problem:
            told.open.append(f"{clean_submitted_name(person.student)}: {problem}")
            continue
        submitted = {f.path: at for f in found.files if (at := times.upload_time(person, f.name))}
        kept = _keep_uploads_in_time(found.files, submitted, until, told)
        yield Parcel(person=person, contents=replace(found, files=kept), submitted=submitted)


def _show_upload_key(key: UploadKey) -> str:
    return key.shown


def _find_collected_uploader(roster: Roster, key: UploadKey) -> Person:
    return find_roster_student(
        roster.known_as(key.value, *key.columns), key.shown, key.cure, key.cure_of_namesakes
    )


def _list_collected_uploads(place: Path, told: CollectResult) -> Iterator[StudentFile]:
    """Yield all files in a zip, or in a folder and its subfolders of one level."""
    if not is_student_folder(place):
        yield from _list_collected_zip_files(place)
        return
    for file in _list_collected_folder_files(place, clean_submitted_name(place.name)):
        if not is_student_folder(place / file.name):
            yield file
            continue
        try:
            inner = _list_collected_folder_files(place / file.name, file.shown)
        except UnreadableFile as problem:
            told.open.append(str(problem))
        else:
            yield from (replace(f, path=f"{file.path}/{f.path}") for f in inner)


def _list_collected_zip_files(place: Path) -> list[StudentFile]:
    try:
        return class_archive.unpack_class_files(place)
    except UnreadableFile as problem:
        raise UserError(str(problem)) from None


def _list_collected_folder_files(folder: Path, shown: str) -> list[StudentFile]:
    """List a folder's files, to be read later: not all of the folders can be open at once."""
    with answer_files.open_student_folder(folder, shown) as handle:
        listed = answer_files.list_student_folder(handle, shown)
    return [
        replace(f, read=partial(answer_files.read_student_file, folder / f.name, f.shown))
        for f in listed
    ]


def _parse_collected_uploader(file: StudentFile) -> tuple[UploadKey, str]:
    """Return the uploader of a file, and the file's name there. Raises `UnknownStudent`."""
    top, _, rest = file.path.partition("/")
    if found := _MOODLE_NAME.fullmatch(top):
        front, *others = top.split("_assignsubmission_")
        if len(others) > 1:
            raise UnknownStudent(f"{file.shown} may be of several students: it was left alone.")
        name = found["file"] or PurePosixPath(rest).name
        return UploadKey(clean_submitted_name(front), found["name"], MOODLE_COLUMNS), name
    if not rest and (found := _CANVAS_NAME.fullmatch(top)):
        whose = f"{found['name']}_{found['id']}"
        key = UploadKey(clean_submitted_name(whose), found["id"], CANVAS_COLUMNS)
        return key, _CANVAS_VERSION.sub("", found["file"])
    if rest or is_submitted_zip(top) or is_submitted_other_archive(top):
        owner = top if rest else drop_submitted_archive_suffix(top)
        return UploadKey(clean_submitted_name(owner), owner, ("student", "login", "id")), file.name
    raise UnknownStudent(
        f"{file.shown} does not say who uploaded it: put it into a folder named by the student."
    )


def _keep_uploads_in_time(
    found: Sequence[StudentFile],
    submitted: Mapping[str, datetime],
    until: datetime | None,
    told: CollectResult,
) -> list[StudentFile]:
    """Return the files uploaded in time; note each answer without a time, or a late one."""
    if until is None:
        return list(found)
    late = [f for f in found if f.path not in submitted or submitted[f.path] > until]
    told.open += [
        f"Nothing says that {file.shown} was uploaded until {until}: it was left alone."
        for file in late
        if answer_contents.is_student_answer(file.name)
    ]
    return [file for file in found if file not in late]
