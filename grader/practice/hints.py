"""Gives the next hint on the first failed check; each hint tells more than the one before."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from grader.core.catalog import ANSWERS_FOLDER
from grader.core.diagnosis_records import Diagnosis
from grader.core.errors import GraderFault, UserError
from grader.core.records import CheckResult, Exercise, ExerciseReport, Verdict
from grader.core.translation import Words
from grader.practice.hint_ladder import KNOWN, HintLadder, find_hint_ladder
from grader.practice.learner_progress import (
    MAX_COUNT,
    PROGRESS_FILE,
    read_learner_progress,
    write_learner_progress,
)
from grader.reporting import fact_text, stage_text
from grader.reporting.next_step import find_failure_to_mend
from grader.reporting.redact import redact_exercise_report
from grader.submission import answer_file, solution_text
from grader.worker.parent.harmless_text import clean_worker_text
from grader.worker.parent.walls import PROCESS, Wall

if TYPE_CHECKING:
    from grader.grading.kept_results import KeptResults


class NoHint(UserError):
    """Raised if a hint or solution cannot be given; the message says why, and how to fix it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The number of hints given of each ladder, and the answer's sha256 at the last hint."""

    sha256: str = ""
    given: Mapping[str, int] = field(default_factory=dict)  # by the key of a ladder


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A hint, its place among those on its name, and whether it is remembered as given."""

    name: str
    number: int
    count: int
    text: str
    kept: bool


def find_next_hint(
    exercise: Exercise, place: Path, *, words: Words, level: int | None = None,
    solution: bool = False, wall: Wall = PROCESS, shows: str = "open",
    kept: "KeptResults | None" = None,
) -> tuple[str, ...]:  # fmt: skip
    """Return the next hint on an answer in `place`, in sentences; or a passed exercise's solution.

    The exercise is judged first, unless `kept` has its verdicts. Raises `NoHint` if there is no
    such level, or no solution to show yet, and `GraderFault` if the grader itself failed.
    """
    report = redact_exercise_report(_judge_for_hint(exercise, place, wall, kept), shows)
    before = read_hint_progress(place, exercise)
    if is_practice_passed(report):
        if before.given:
            write_hint_progress(place, exercise, Progress(sha256=report.sha256))
        return (
            (_show_solution_as_hint(exercise, words),)
            if solution
            else _hint_that_all_passed(exercise, words)
        )
    if solution:
        raise NoHint(words("The solution of {slug} is shown once it is passed. "
                           "`make hint EX={slug}` gives a hint.", slug=exercise.slug))  # fmt: skip
    if not can_hint(report):
        return words.said(report.sentence), words("A hint can be given once the file can be run.")
    told = take_hint(exercise, place, report, words=words, level=level)
    what = words("Hint {number} of {count} on {name}: {hint}",
                 number=told.number, count=told.count, name=told.name, hint=told.text)  # fmt: skip
    after = _advise_next_hint(exercise, report.path, told, words)
    return *_describe_failure_to_hint(exercise, report, told.name, words), what, after


def can_hint(report: ExerciseReport) -> bool:
    """Return whether there is something to hint at: the file can be run, or is not begun."""
    return report.state in ("graded", "not_started") and not is_practice_passed(report)


def take_hint(
    exercise: Exercise, place: Path, report: ExerciseReport, *, words: Words,
    level: int | None = None,
) -> Hint:  # fmt: skip
    """Return the next hint on what fails in a report (see `can_hint`), and remember it as given."""
    progress = drop_hints_of_passed(read_hint_progress(place, exercise), report)
    ladder = find_hint_ladder(exercise, report, words)
    number = _choose_hint_level(level, progress.given.get(ladder.key, 0), ladder, words)
    given = Progress(sha256=report.sha256, given={**progress.given, ladder.key: number})
    return _build_hint(ladder, number, kept=write_hint_progress(place, exercise, given))


def list_given_hints(
    exercise: Exercise, place: Path, report: ExerciseReport, words: Words
) -> tuple[Hint, ...]:
    """Return the hints that were given before on what fails in a report."""
    progress = drop_hints_of_passed(read_hint_progress(place, exercise), report)
    ladder = find_hint_ladder(exercise, report, words)
    given = min(progress.given.get(ladder.key, 0), len(ladder.hints))
    return tuple(_build_hint(ladder, number, kept=True) for number in range(1, given + 1))


def _build_hint(ladder: HintLadder, number: int, *, kept: bool) -> Hint:
    hints = ladder.hints
    return Hint(
        name=ladder.name, number=number, count=len(hints), text=hints[number - 1], kept=kept
    )


def is_practice_passed(report: ExerciseReport) -> bool:
    """Return whether every check passed that could be run."""
    verdicts = {c.verdict for c in report.checks}
    return report.state == "graded" and verdicts - {Verdict.NOT_RUN} == {Verdict.PASSED}


def is_practice_open(report: ExerciseReport) -> bool:
    """Return whether nothing is known to be wrong yet: not begun, or no check failed so far."""
    if report.state == "grading":
        return find_failure_to_mend(report) is None
    return report.state in ("not_started", "missing")


def drop_hints_of_passed(progress: Progress, report: ExerciseReport) -> Progress:
    """Drop the ladders whose checks pass now; all of them if the file was begun anew."""
    if report.state == "not_started" and progress.sha256 != report.sha256:
        return Progress(sha256=report.sha256)
    right = {n for c in report.checks if c.verdict is Verdict.PASSED for n in (c.id, *c.calls)}
    wrong = {n for c in report.checks if c.verdict is Verdict.FAILED for n in (c.id, *c.calls)}
    given = {
        key: number
        for key, number in progress.given.items()
        if key.partition(KNOWN)[0] not in right - wrong
    }
    return Progress(sha256=progress.sha256, given=given)


def read_hint_progress(place: Path, exercise: Exercise) -> Progress:
    """Read the progress that was written last; empty if the file is missing or damaged."""
    entry = read_learner_progress(place).about(exercise.slug)
    return Progress(sha256=entry.sha256, given=entry.given)


def write_hint_progress(place: Path, exercise: Exercise, progress: Progress) -> bool:
    """Write the progress, and count hints not given before; return whether it could be written."""
    before = read_learner_progress(place).about(exercise.slug)
    new = sum(max(0, k - before.given.get(n, 0)) for n, k in progress.given.items())
    entry = replace(
        before, sha256=progress.sha256, given=dict(progress.given),
        hints=min(before.hints + new, MAX_COUNT),
    )  # fmt: skip
    return write_learner_progress(place, exercise.slug, entry)


def _judge_for_hint(
    exercise: Exercise, place: Path, wall: Wall, kept: "KeptResults | None"
) -> ExerciseReport:
    from grader.grading.session import judge_own_answer

    report = judge_own_answer(exercise, place, wall=wall, kept=kept)
    if report.state == "fault":
        faults = [c.why for c in report.checks if c.verdict is Verdict.GRADER_FAULT]
        raise GraderFault("; ".join([report.sentence, *faults]).strip("; "))
    return report


def _choose_hint_level(level: int | None, given: int, ladder: HintLadder, words: Words) -> int:
    count = len(ladder.hints)
    if level is None:
        return min(given + 1, count)
    if not 1 <= level <= count:
        raise NoHint(words("There is no hint {level} on {name}: choose 1 to {count}.",
                           level=level, name=ladder.name, count=count))  # fmt: skip
    return level


def _describe_failure_to_hint(
    exercise: Exercise, report: ExerciseReport, name: str, words: Words
) -> tuple[str, ...]:
    """Say what fails, and the mistake if it is known; its cure is left to the hints."""
    failed = find_failure_to_mend(report)
    if failed is None:
        lesson = answer_file.locate_lesson_of_submission(exercise.slug, words.language)
        return (words("{slug} is not started yet. Its lesson is {lesson}; {name} comes first.",
                      slug=exercise.slug, lesson=lesson, name=name),)  # fmt: skip
    says = words.check(exercise.slug, failed.id, failed.says)
    found = failed.diagnosis or Diagnosis()
    told = [words.mistake(exercise.slug, m.id, m.says, m.mend)[0] for m in found.mistakes]
    return (
        words("This fails in {slug}: {check}", slug=exercise.slug, check=says),
        *(f"{words(found.link) if number else ''}{mistake}" for number, mistake in enumerate(told)),
        *(() if told else _describe_unnamed_failure(failed, found, words)),
    )


def _describe_unnamed_failure(failed: CheckResult, found: Diagnosis, words: Words) -> Iterator[str]:
    """Yield what the report says of a failure whose mistake is not known."""
    yield words.said(failed.why).partition("\n")[0]
    yield from fact_text.report_facts(found.facts, words)
    if found.stage is not None:
        yield stage_text.report_wrong_stage(found.stage, words)


def _advise_next_hint(exercise: Exercise, path: str, told: Hint, words: Words) -> str:
    slug, number = exercise.slug, told.number
    if number == told.count:
        lesson = answer_file.locate_lesson_of_submission(slug, words.language)
        return words("This is the last hint; the lesson is {lesson}.", lesson=lesson)
    if not told.kept:
        return words("{file} cannot be written: `make hint EX={slug} ARGS='--level {number}'` "
                     "gives the next one.",
                     file=PROGRESS_FILE, slug=slug, number=number + 1)  # fmt: skip
    if Path(path).parent == ANSWERS_FOLDER:
        return words("`make hint EX={slug}` gives the next one.", slug=slug)
    return words("`make hint EX={slug} SUBMISSION={path}` gives the next one.", slug=slug,
                 path=shlex.quote(path))  # fmt: skip


def _hint_that_all_passed(exercise: Exercise, words: Words) -> tuple[str, ...]:
    told = words("{slug} is passed: there is nothing to hint at.", slug=exercise.slug)
    if not exercise.solution.is_file():
        return (told,)
    return told, words("`make hint EX={slug} ARGS=--solution` shows a solution beside which to "
                       "lay yours.", slug=exercise.slug)  # fmt: skip


def _show_solution_as_hint(exercise: Exercise, words: Words) -> str:
    """Return the code of the solution, without its prose."""
    path = exercise.solution
    if not path.is_file():
        raise NoHint(words("The solution of {slug} is not at hand here.", slug=exercise.slug))
    parts = [c.text for c in solution_text.split_cells(path.read_text("utf-8")) if c.kind == "code"]
    lines = "\n\n\n".join(parts).splitlines()
    return clean_worker_text(
        "\n".join(line for line in lines if line.strip() not in solution_text.MARKS)
    )
