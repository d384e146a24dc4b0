"""The settings of a course in one file, `course.toml`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from grader.classroom.lateness import NO_PENALTY, Extension, Terms
from grader.core import catalog
from grader.core.catalog import did_you_mean
from grader.core.packs import BadPack
from grader.core.records import Exercise
from grader.core.toml_file import BadCourse, Entries, load_entries
from grader.core.toml_values import BadFile

__all__ = ["BadCourse", "Chosen", "Settings", "read_settings"]

FILE = "course.toml"
LANGUAGES, DEVICES, WALLS = ("en", "zh"), ("cpu", "cuda"), ("locked", "contained")
HELP, EXAM_SHOWS = ("open", "hints", "exam"), ("verdicts", "nothing")
_MOST_DAYS, _MOST_GRACE, _MOST_WEIGHT = 366, 7 * 24 * 60, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """An exercise of the course."""

    slug: str
    weight: float | None = None  # None: 1 in the core track, 0 in the further
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a course; the defaults hold without a file."""

    path: Path | None = field(default=None, compare=False)
    name: str = "Attention by Hand"
    language: str | None = None  # None: that of the environment
    device: str = "cpu"
    speed: bool = True
    wall: str | None = None  # the weakest that is accepted
    help: str = "open"
    exam_shows: str = "verdicts"
    packs: tuple[Path, ...] = ()
    late: Terms = NO_PENALTY
    chosen: tuple[Chosen, ...] = ()  # in the order of the syllabus; none: every exercise
    extensions: tuple[Extension, ...] = ()

    @property
    def shows(self) -> str:
        """Return what a student is shown: open, hints, verdicts or nothing."""
        return self.exam_shows if self.help == "exam" else self.help

    @property
    def exercises(self) -> list[Exercise]:
        if not self.chosen:
            return list(catalog.exercises())
        return [self.counted(catalog.find(one.slug)) for one in self.chosen]

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

    def for_students(self) -> "Settings":
        """Return the settings that students get: without extensions, and without a wall."""
        return replace(self, extensions=(), wall=None, packs=())

    def extension(self, student: str, slug: str) -> timedelta:
        """Return the longest extension of a student."""
        deadline = self.deadlines[slug]
        mine = (e for e in self.extensions if e.student == student and e.slug in (None, slug))
        return max((e.after(deadline) for e in mine), default=timedelta(0))


NO_COURSE = Settings()


def read_settings(path: Path) -> Settings:
    """Return the settings in the file at `path`. Raises `BadCourse` with a sentence."""
    top = load_entries(path)
    top.only(
        "name", "language", "device", "speed", "wall", "help", "exam_shows", "packs", "late",
        "exercises", "extensions",
    )  # fmt: skip
    packs = tuple(_resolve_packs(top, path.resolve().parent))
    try:
        if packs:
            catalog.add_packs(packs)  # the exercises below may be of them
    except (BadPack, BadFile, catalog.BadManifest) as problem:
        top.wrong("packs", f"cannot be followed. {problem}")
    chosen = tuple(sorted(_read_exercises(top), key=_syllabus_place))
    usual = Settings()
    help = top.choice("help", HELP) or usual.help
    exam_shows = top.choice("exam_shows", EXAM_SHOWS)
    if exam_shows is not None and help != "exam":
        top.wrong("exam_shows", f'is for exams, but help = "{help}": remove one, or mend it.')
    return Settings(
        path=path.resolve(),
        name=top.text("name") or usual.name,
        language=top.choice("language", LANGUAGES),
        device=top.choice("device", DEVICES) or usual.device,
        speed=top.flag("speed", usual.speed),
        wall=top.choice("wall", WALLS),
        help=help,
        exam_shows=exam_shows or usual.exam_shows,
        packs=packs,
        late=_read_late_terms(top.inner("late")),
        chosen=chosen,
        extensions=tuple(_read_extensions(top, chosen)),
    )


def _resolve_packs(top: Entries, beside: Path) -> Iterator[Path]:
    for name in top.texts("packs"):
        try:
            pack = (beside / name).resolve()
            there = pack.is_dir()
        except (OSError, ValueError):  # no path can be called so
            there = False
        if not there:
            shown = name if len(name) <= 60 else f"{name[:60]}…"
            top.wrong(
                "packs", f"names {shown!r}, but there is no such folder in {beside}: mend the path."
            )
        yield pack


def _read_late_terms(late: Entries) -> Terms:
    late.only("penalty_per_day", "at_most", "grace_minutes")
    found = {
        "penalty_per_day": late.number("penalty_per_day", 100),
        "at_most": late.number("at_most", 100),
        "grace_minutes": late.number("grace_minutes", _MOST_GRACE),
    }
    terms = Terms(**{name: value for name, value in found.items() if value is not None})
    if terms.at_most < terms.penalty_per_day:
        late.wrong("at_most", f"is less than one day costs ({terms.penalty_per_day:g}): raise it.")
    return terms


def _read_exercises(top: Entries) -> Iterator[Chosen]:
    seen: set[str] = set()
    for one in top.each("exercises"):
        one.only("ex", "weight", "deadline")
        slug = _find_slug(one, one.needed("ex", '"ex03"'))
        if slug in seen:
            one.wrong("ex", f"names {slug} a second time: keep one of the two.")
        seen.add(slug)
        weight = one.number("weight", _MOST_WEIGHT)
        yield Chosen(slug=slug, weight=weight, deadline=one.moment("deadline"))


def _find_slug(entries: Entries, name: str) -> str:
    try:
        return catalog.find(name).slug
    except catalog.UnknownExercise as problem:
        entries.wrong("ex", f"is of no use. {problem}")


def _syllabus_place(chosen: Chosen) -> int:
    return [e.slug for e in catalog.exercises()].index(chosen.slug)


def _read_extensions(top: Entries, chosen: tuple[Chosen, ...]) -> Iterator[Extension]:
    deadlines = {c.slug: c.deadline for c in chosen if c.deadline is not None}
    for one in top.each("extensions"):
        one.only("student", "ex", "until", "days")
        student, name = one.needed("student", '"ada"'), one.text("ex")
        until, days = one.moment("until"), one.number("days", _MOST_DAYS)
        if (until is None) == (days is None):
            one.wrong("until", "and days: give one of the two.")
        slug = None if name is None else _find_slug(one, name)
        if slug not in (None, *(c.slug for c in chosen)):
            near = did_you_mean(slug or "", [c.slug for c in chosen])
            one.wrong("ex", f"is {slug}, which is no part of the course: mend it.{near}")
        if not deadlines or slug not in (None, *deadlines):
            what = slug or "no exercise"
            has = "has no deadline" if slug else "has a deadline"
            one.wrong("ex" if slug else "student", f"cannot be given more time, since {what} {has}:"
                      " add the deadline under [[exercises]], or remove this.")  # fmt: skip
        due = [deadlines[slug]] if slug else deadlines.values()
        if until is not None and all(until < deadline for deadline in due):
            whose = f"the deadline of {slug}, {deadlines[slug]}" if slug else "every deadline"
            one.wrong("until", f"is before {whose}: mend one of the two.")
        yield Extension(student=student, slug=slug, until=until, days=days or 0)
