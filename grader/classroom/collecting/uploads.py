"""What students uploaded to a platform: the zip that it gives an instructor, or that unpacked.

    Canvas   adalovelace_LATE_1042_7731_ex01_softmax-1.py    1042 is the student's id
    Moodle   Ada Lovelace_57_assignsubmission_file/...       or one file for each, the same in front
    others   ada/ex01_softmax.py, ada.zip                    ada: a student, a login or an id

Canvas's second number is another one for each file, Moodle's for each assignment, where only the
name says who it is. Some versions of Moodle end the folder in `_file_`.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path, PurePosixPath

from grader.classroom.collecting import source_files
from grader.classroom.collecting.roster import Person, Roster, UnknownStudent, only
from grader.classroom.collecting.source_files import CollectResult, Parcel
from grader.classroom.collecting.upload_times import Times
from grader.classroom.run import answer_contents, answer_files, class_archive
from grader.classroom.run.answer_files import File, is_folder
from grader.core.errors import UserError
from grader.submission.answer_file import Unreadable
from grader.submission.handed_files import is_zip, printable

_CANVAS = re.compile(r"(?P<name>[^_/]+)_(?:LATE_)?(?P<id>\d+)_\d+_(?P<file>[^/]+)")
_MOODLE = re.compile(
    r"(?P<name>.+)_\d+_assignsubmission_(?P<kind>file|onlinetext)(?:_(?P<file>.*))?"
)
_VERSION = re.compile(r"-\d+(?=\.\w+$)")  # Canvas tells a file from an earlier one of its name


@dataclass(frozen=True, slots=True)
class Key:
    """What a platform says of who uploaded something."""

    shown: str
    value: str
    columns: tuple[str, ...]  # of the roster, in which `value` may stand

    @property
    def cure(self) -> str:
        return f"Write {printable(self.value)} into the roster: as {' or '.join(self.columns)}."


def read(
    place: Path, roster: Roster, times: Times, until: datetime | None, told: CollectResult
) -> Iterator[Parcel]:
    """What each student uploaded; nothing of it is unpacked to the disk."""
    by_key: dict[Key, list[File]] = defaultdict(list)
    for file in _files(place, told):
        try:
            key, name = _keyed(file)
        except UnknownStudent as problem:
            told.open.append(str(problem))
        else:
            by_key[key].append(replace(file, name=name))
    found = source_files.owned(by_key, partial(_owner, roster), _shown, told)
    return _parcels(found, by_key, times, until, told)


def _parcels(
    owned: Sequence[tuple[Person, Key]], by_key: Mapping[Key, Sequence[File]], times: Times,
    until: datetime | None, told: CollectResult,
) -> Iterator[Parcel]:  # fmt: skip
    for person, key in owned:
        try:
            found = answer_contents.of_files(by_key[key], key.shown)
        except Unreadable as problem:
            told.open.append(f"{printable(person.student)}: {problem}")
            continue
        submitted = {f.path: at for f in found.files if (at := times.of(person, f.name))}
        kept = _in_time(found.files, submitted, until, told)
        yield Parcel(person=person, contents=replace(found, files=kept), submitted=submitted)


def _shown(key: Key) -> str:
    return key.shown


def _owner(roster: Roster, key: Key) -> Person:
    return only(roster.known_as(key.value, *key.columns), key.shown, key.cure)


def _files(place: Path, told: CollectResult) -> Iterator[File]:
    """Everything in a zip, or in a folder and the folders in it."""
    if not is_folder(place):
        yield from _of_zip(place)
        return
    for file in _listed(place, printable(place.name)):
        if not is_folder(place / file.name):
            yield file
            continue
        try:
            inner = _listed(place / file.name, file.shown)
        except Unreadable as problem:
            told.open.append(str(problem))
        else:
            yield from (replace(f, path=f"{file.path}/{f.path}") for f in inner)


def _of_zip(place: Path) -> list[File]:
    try:
        return class_archive.files_of_class(place)
    except Unreadable as problem:
        raise UserError(str(problem)) from None


def _listed(folder: Path, shown: str) -> list[File]:
    """What lies in a folder, to be read later: there may be more folders than can be open."""
    with answer_files.opened(folder, shown) as handle:
        listed = answer_files.listed(handle, shown)
    return [replace(f, read=partial(answer_files.read, folder / f.name, f.shown)) for f in listed]


def _keyed(file: File) -> tuple[Key, str]:
    """Who uploaded a file, and how they called it. `UnknownStudent` says why that is not known."""
    top, _, rest = file.path.partition("/")
    if found := _MOODLE.fullmatch(top):
        front, *others = top.split("_assignsubmission_")
        if len(others) > 1:
            raise UnknownStudent(f"{file.shown} may be of several students: it was left alone.")
        name = found["file"] or PurePosixPath(rest).name
        return Key(printable(front), found["name"], ("name", "student")), name
    if not rest and (found := _CANVAS.fullmatch(top)):
        whose = f"{found['name']}_{found['id']}"
        return Key(printable(whose), found["id"], ("id",)), _VERSION.sub("", found["file"])
    if rest or is_zip(top):
        owner = top if rest else top[: -len(".zip")]
        return Key(printable(owner), owner, ("student", "login", "id")), file.name
    raise UnknownStudent(
        f"{file.shown} does not say who uploaded it: put it into a folder named by the student."
    )


def _in_time(
    found: Sequence[File],
    submitted: Mapping[str, datetime],
    until: datetime | None,
    told: CollectResult,
) -> list[File]:
    """The files that count; a sentence on each answer that nobody says was in time."""
    if until is None:
        return list(found)
    late = [f for f in found if f.path not in submitted or submitted[f.path] > until]
    told.open += [
        f"Nothing says that {file.shown} was uploaded until {until}: it was left alone."
        for file in late
        if answer_contents.is_answer(file.name)
    ]
    return [file for file in found if file not in late]
