"""The next hint: on what the first failed check concerns, from gentle to plain."""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from grader.core.errors import GraderFault, UserError
from grader.core.records import CheckResult, Exercise, ExerciseReport, Verdict
from grader.core.translation import Words
from grader.reporting.redact import of_exercise
from grader.submission import answer_file, solution_text
from grader.worker.harmless_text import harmless
from grader.worker.walls import PROCESS, Wall

FILE = ".hints.json"  # beside the answers


class NoHint(UserError):
    """What was asked for cannot be given; the message is a sentence with the cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How many hints on each name were given, and on which content of the file the last one."""

    sha256: str = ""
    given: Mapping[str, int] = field(default_factory=dict)


def hint(
    exercise: Exercise, place: Path, *, words: Words, level: int | None = None,
    solution: bool = False, wall: Wall = PROCESS, shows: str = "open",
) -> tuple[str, ...]:  # fmt: skip
    """The next hint on an answer in `place`, in sentences; or, of a passed exercise, its solution.

    The exercise is graded first, without its speed. Raises `NoHint` if there is no such level, or
    no solution to show yet, and `GraderFault` if the grader itself failed.
    """
    report = of_exercise(_graded(exercise, place, wall), shows)
    before = read(place, exercise)
    progress = still_open(before, report)
    if passed(report):
        if before.given:
            write(place, exercise, Progress(sha256=report.sha256))
        return (_code(exercise, words),) if solution else _congratulation(exercise, words)
    if solution:
        raise NoHint(words("The solution of {slug} is shown once it is passed. "
                           "`make hint EX={slug}` gives a hint.", slug=exercise.slug))  # fmt: skip
    if report.state not in ("graded", "not_started"):
        return words.said(report.sentence), words("A hint can be given once the file can be run.")
    name = concerned(exercise, first_failure(report))
    hints = words.hints(exercise, name)
    number = _level(level, progress.given.get(name, 0), len(hints), name, words)
    given = {**progress.given, name: number}
    kept = write(place, exercise, Progress(sha256=report.sha256, given=given))
    what = words("Hint {number} of {count} on {name}: {hint}",
                 number=number, count=len(hints), name=name, hint=hints[number - 1])  # fmt: skip
    after = _after(exercise, number, len(hints), kept, words)
    return *_about(exercise, report, name, words), what, after


def passed(report: ExerciseReport) -> bool:
    """Whether every check passed that could be asked."""
    verdicts = {c.verdict for c in report.checks}
    return report.state == "graded" and verdicts - {Verdict.NOT_RUN} == {Verdict.PASSED}


def first_failure(report: ExerciseReport) -> CheckResult | None:
    return next((c for c in report.checks if c.verdict is Verdict.FAILED), None)


def concerned(exercise: Exercise, check: CheckResult | None) -> str:
    """The function or class that a failed check is about; without a check, the first to write.

    Of several that the check called it is the one that its failure names first: the call that went
    wrong stands in it.
    """
    called = [] if check is None else [n for n in exercise.names if n in check.calls]
    why = "" if check is None else check.why
    found = {n: at.start() for n in called if (at := re.search(rf"\b{re.escape(n)}\b", why))}
    return min(found, key=found.__getitem__, default=[*called, *exercise.names][0])


def still_open(progress: Progress, report: ExerciseReport) -> Progress:
    """The progress without the names whose checks pass now; none if the file was begun anew."""
    if report.state == "not_started" and progress.sha256 != report.sha256:
        return Progress(sha256=report.sha256)
    right = {n for c in report.checks if c.verdict is Verdict.PASSED for n in c.calls}
    wrong = {n for c in report.checks if c.verdict is Verdict.FAILED for n in c.calls}
    given = {n: number for n, number in progress.given.items() if n not in right - wrong}
    return Progress(sha256=progress.sha256, given=given)


def read(place: Path, exercise: Exercise) -> Progress:
    """What was written last; nothing where the file is missing or damaged."""
    entry = _entries(place).get(exercise.slug)
    entry = entry if isinstance(entry, dict) else {}
    given, sha256 = entry.get("given"), entry.get("sha256")
    numbers = given.items() if isinstance(given, dict) else ()
    return Progress(
        sha256=sha256 if isinstance(sha256, str) else "",
        given={n: k for n, k in numbers if n in exercise.names and type(k) is int and k > 0},
    )


def write(place: Path, exercise: Exercise, progress: Progress) -> bool:
    """Keep the progress; whether it could be written."""
    entry = {"sha256": progress.sha256, "given": dict(progress.given)}
    path = _file(place)
    new = path.with_name(f"{FILE}.{os.getpid()}")
    try:
        new.write_text(json.dumps({**_entries(place), exercise.slug: entry}, indent=2) + "\n")
        new.replace(path)  # nobody ever sees half of it
    except OSError:
        with suppress(OSError):
            new.unlink()
        return False
    return True


def _entries(place: Path) -> dict[str, object]:
    try:
        entries = json.loads(_file(place).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _file(place: Path) -> Path:
    return (place if place.is_dir() else place.parent) / FILE


def _graded(exercise: Exercise, place: Path, wall: Wall) -> ExerciseReport:
    from grader.grading.session import grade_all

    [report] = grade_all([exercise], place, wall=wall, speed=False).exercises
    if report.state == "fault":
        faults = [c.why for c in report.checks if c.verdict is Verdict.GRADER_FAULT]
        raise GraderFault("; ".join([report.sentence, *faults]).strip("; "))
    return report


def _level(level: int | None, given: int, count: int, name: str, words: Words) -> int:
    if level is None:
        return min(given + 1, count)
    if not 1 <= level <= count:
        raise NoHint(words("There is no hint {level} on {name}: choose 1 to {count}.",
                           level=level, name=name, count=count))  # fmt: skip
    return level


def _about(exercise: Exercise, report: ExerciseReport, name: str, words: Words) -> tuple[str, ...]:
    """What fails, and which mistake it is where that is known; its cure is left to the hints."""
    failed = first_failure(report)
    if failed is None:
        lesson = answer_file.lesson_path(exercise.slug, words.language)
        return (words("{slug} is not started yet. Its lesson is {lesson}; {name} comes first.",
                      slug=exercise.slug, lesson=lesson, name=name),)  # fmt: skip
    says = words.check(exercise.slug, failed.id, failed.says)
    mistakes = failed.diagnosis.mistakes if failed.diagnosis else ()
    told = [words.mistake(exercise.slug, m.id, m.says, m.mend)[0] for m in mistakes]
    return words("This fails in {slug}: {check}", slug=exercise.slug, check=says), *(
        f"{words('Or: ') if number else ''}{mistake}" for number, mistake in enumerate(told)
    )


def _after(exercise: Exercise, number: int, count: int, kept: bool, words: Words) -> str:
    slug = exercise.slug
    if number == count:
        lesson = answer_file.lesson_path(slug, words.language)
        return words("This is the last hint; the lesson is {lesson}.", lesson=lesson)
    if not kept:
        return words("{file} cannot be written: `make hint EX={slug} ARGS='--level {number}'` "
                     "gives the next one.", file=FILE, slug=slug, number=number + 1)  # fmt: skip
    return words("`make hint EX={slug}` gives the next one.", slug=slug)


def _congratulation(exercise: Exercise, words: Words) -> tuple[str, ...]:
    told = words("{slug} is passed: there is nothing to hint at.", slug=exercise.slug)
    if not exercise.solution.is_file():
        return (told,)
    return told, words("`make hint EX={slug} ARGS=--solution` shows a solution beside which to "
                       "lay yours.", slug=exercise.slug)  # fmt: skip


def _code(exercise: Exercise, words: Words) -> str:
    """The code of the solution, without its prose."""
    path = exercise.solution
    if not path.is_file():
        raise NoHint(words("The solution of {slug} is not at hand here.", slug=exercise.slug))
    parts = [c.text for c in solution_text.cells(path.read_text("utf-8")) if c.kind == "code"]
    lines = "\n\n\n".join(parts).splitlines()
    return harmless("\n".join(line for line in lines if line.strip() not in solution_text.MARKS))
