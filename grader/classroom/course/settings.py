"""The settings of a course in one file, `course.toml`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from grader.classroom.course.lateness import NO_PENALTY, DeadlineExtension, LatenessTerms
from grader.core import catalog
from grader.core.catalog import suggest_close_name
from grader.core.packs import BadPack
from grader.core.records import Exercise
from grader.core.toml_file import (
    FILLED_TEXT,
    FLAG,
    MAX_SHOWN_CHARACTERS,
    MOMENT,
    TEXTS,
    BadFile,
    TomlTable,
    TomlTables,
    expect_toml_choice,
    expect_toml_number,
    label_toml_table,
    read_toml_table,
)

COURSE_FILE = "course.toml"
LANGUAGES, DEVICES, WALLS = ("en", "zh"), ("cpu", "cuda"), ("locked", "contained")
HELP, EXAM_SHOWS = ("open", "hints", "exam"), ("verdicts", "nothing")
_MOST_DAYS, _MOST_GRACE, _MOST_WEIGHT = 366, 7 * 24 * 60, 1000
_LATE = TomlTable(
    entries={
        "penalty_per_day": expect_toml_number(100),
        "at_most": expect_toml_number(100),
        "grace_minutes": expect_toml_number(_MOST_GRACE),
    }
)
_CHOSEN = TomlTable(
    entries={"ex": FILLED_TEXT, "weight": expect_toml_number(_MOST_WEIGHT), "deadline": MOMENT},
    needs=("ex",),
)
_EXTENSION = TomlTable(
    entries={
        "student": FILLED_TEXT, "ex": FILLED_TEXT, "until": MOMENT,
        "days": expect_toml_number(_MOST_DAYS),
    },
    needs=("student",),
)  # fmt: skip
_COURSE = TomlTable(
    entries={
        "name": FILLED_TEXT, "language": expect_toml_choice(*LANGUAGES),
        "device": expect_toml_choice(*DEVICES), "speed": FLAG, "wall": expect_toml_choice(*WALLS),
        "help": expect_toml_choice(*HELP), "exam_shows": expect_toml_choice(*EXAM_SHOWS),
        "packs": TEXTS, "late": _LATE,
        "exercises": TomlTables(_CHOSEN), "extensions": TomlTables(_EXTENSION),
    }
)  # fmt: skip
_BUILT = {"packs", "late", "exercises", "extensions"}  # what takes more than the entry itself


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenExercise:
    """An exercise that the teacher chose for the course, with its weight and deadline."""

    slug: str
    weight: float | None = None  # None: 1 in the core track, 0 in the further
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseSettings:
    """The settings of a course; without a settings file, the defaults."""

    path: Path | None = field(default=None, compare=False)
    name: str = "Attention by Hand"
    language: str | None = None  # None: that of the environment
    device: str = "cpu"
    speed: bool = True
    wall: str | None = None  # the weakest that is accepted
    help: str = "open"
    exam_shows: str = "verdicts"
    packs: tuple[Path, ...] = ()
    late: LatenessTerms = NO_PENALTY
    chosen: tuple[ChosenExercise, ...] = ()  # in the order of the syllabus; none: every exercise
    extensions: tuple[DeadlineExtension, ...] = ()

    @property
    def shows(self) -> str:
        """Return what a student is shown: open, hints, verdicts or nothing."""
        return self.exam_shows if self.help == "exam" else self.help

    @property
    def exercises(self) -> list[Exercise]:
        if not self.chosen:
            return list(catalog.list_catalog_exercises())
        return [self.counted(catalog.find_catalog_exercise(one.slug)) for one in self.chosen]

    def counted(self, exercise: Exercise) -> Exercise:
        """Return the exercise in the track of its weight: in the total, or not."""
        weight = self.weights.get(exercise.slug)
        if weight is None or exercise.draft:
            return exercise
        return replace(exercise, track="core" if weight else "further")

    @property
    def weights(self) -> Mapping[str, float]:
        """Return the weight of each exercise in the total, if the course has weights."""
        return {one.slug: one.weight for one in self.chosen if one.weight is not None}

    @property
    def deadlines(self) -> Mapping[str, datetime]:
        return {one.slug: one.deadline for one in self.chosen if one.deadline is not None}

    def for_students(self) -> "CourseSettings":
        """Return the settings that students get: without extensions, and without a wall."""
        return replace(self, extensions=(), wall=None, packs=())

    def extension(self, student: str, slug: str) -> timedelta:
        """Return the longest extension of a student."""
        deadline = self.deadlines[slug]
        mine = (e for e in self.extensions if e.student == student and e.slug in (None, slug))
        return max((e.after(deadline) for e in mine), default=timedelta(0))


NO_COURSE = CourseSettings()


def read_course_settings(path: Path) -> CourseSettings:
    """Return the settings in the file at `path`. Raises `BadFile` with a sentence."""
    if not path.exists():
        raise BadFile(f"{path} is not there: `python -m grader course new -o {path}` writes one.")
    entries = read_toml_table(path, _COURSE)
    try:
        return _build_course_settings(entries, path.resolve())
    except BadFile as problem:
        raise BadFile(f"{path}: {problem}") from None


def _build_course_settings(entries: dict[str, Any], path: Path) -> CourseSettings:
    packs = tuple(_resolve_course_packs(entries.get("packs", []), path.parent))
    try:
        if packs:
            catalog.add_packs_to_catalog(packs)  # the exercises below may be of them
    except (BadPack, BadFile) as problem:
        raise BadFile(f"packs cannot be followed. {problem}") from None
    chosen = tuple(sorted(_build_course_exercises(entries), key=_find_course_place))
    help = entries.get("help", NO_COURSE.help)
    if "exam_shows" in entries and help != "exam":
        raise BadFile(f'exam_shows is for exams, but help = "{help}": remove one, or mend it.')
    late = LatenessTerms(**entries.get("late", {}))
    if late.at_most < late.penalty_per_day:
        raise BadFile(
            f"late.at_most is less than one day costs ({late.penalty_per_day:g}): raise it."
        )
    plain = {name: entries[name] for name in _COURSE.entries.keys() - _BUILT if name in entries}
    return CourseSettings(
        path=path, packs=packs, late=late, chosen=chosen,
        extensions=tuple(_build_course_extensions(entries, chosen)), **plain,
    )  # fmt: skip


def _resolve_course_packs(names: list[str], beside: Path) -> Iterator[Path]:
    for name in names:
        try:
            pack = (beside / name).resolve()
            there = bool(name) and pack.is_dir()
        except (OSError, ValueError):  # no path can be called so
            there = False
        if not there:
            shown = (
                name if len(name) <= MAX_SHOWN_CHARACTERS else f"{name[:MAX_SHOWN_CHARACTERS]} ..."
            )
            raise BadFile(
                f"packs names {shown!r}, but there is no such folder in {beside}: mend the path."
            )
        yield pack


def _build_course_exercises(entries: dict[str, Any]) -> Iterator[ChosenExercise]:
    seen: set[str] = set()
    for number, one in enumerate(entries.get("exercises", []), 1):
        where = label_toml_table("exercises", number, one)
        slug = _find_course_slug(one["ex"], where)
        if slug in seen:
            raise BadFile(f"{where} names {slug} a second time: keep one of the two.")
        seen.add(slug)
        yield ChosenExercise(slug=slug, weight=one.get("weight"), deadline=one.get("deadline"))


def _find_course_slug(name: str, where: str) -> str:
    try:
        return catalog.find_catalog_exercise(name).slug
    except catalog.UnknownExercise as problem:
        raise BadFile(f"{where}: {problem}") from None


def _find_course_place(chosen: ChosenExercise) -> int:
    return [e.slug for e in catalog.list_catalog_exercises()].index(chosen.slug)


def _build_course_extensions(
    entries: dict[str, Any], chosen: tuple[ChosenExercise, ...]
) -> Iterator[DeadlineExtension]:
    deadlines = {c.slug: c.deadline for c in chosen if c.deadline is not None}
    for number, one in enumerate(entries.get("extensions", []), 1):
        where = label_toml_table("extensions", number, one)
        until = one.get("until")
        if (until is None) == ("days" not in one):
            raise BadFile(f"{where} needs until or days: give one of the two.")
        slug = _find_course_slug(one["ex"], where) if "ex" in one else None
        if slug not in (None, *(c.slug for c in chosen)):
            near = suggest_close_name(slug or "", [c.slug for c in chosen])
            raise BadFile(f"{where}: {slug} is no part of the course. Mend ex.{near}")
        if not deadlines or slug not in (None, *deadlines):
            has = f"{slug} has no deadline" if slug else "no exercise has a deadline"
            raise BadFile(
                f"{where} cannot give more time, since {has}: add the deadline under "
                "[[exercises]], or remove this."
            )
        due = [deadlines[slug]] if slug else deadlines.values()
        if until is not None and all(until < deadline for deadline in due):
            whose = f"the deadline of {slug}, {deadlines[slug]}" if slug else "every deadline"
            raise BadFile(f"{where}.until is before {whose}: mend one of the two.")
        yield DeadlineExtension(
            student=one["student"], slug=slug, until=until, days=one.get("days", 0)
        )
