"""A class graded again: one mark for an appeal, or all of them to see whose would change."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from grader.classroom.run import adjust, gather_answers, late_students
from grader.classroom.run.adjust import Adjustments
from grader.classroom.run.class_grading import (
    ClassRequest,
    class_run,
    lates_of,
    left_behind,
    sentences,
)
from grader.classroom.run.class_progress import Progress
from grader.classroom.run.results_folder import RUN, LastRun, full_reports, last_run, opened
from grader.classroom.run.write_results import Written
from grader.classroom.settings import BadCourse, Settings, read
from grader.core import catalog
from grader.core.errors import UserError
from grader.core.records import Exercise, Report
from grader.core.translation import Words
from grader.grading import report_diff
from grader.grading.official_grader import SECRET_FILE
from grader.grading.report_diff import Change
from grader.reporting import as_json
from grader.reporting.exercise_mark import Late
from grader.reporting.from_json import NoReport, from_json
from grader.submission.handed_files import printable
from grader.worker import traces


def is_results(folder: Path) -> bool:
    """Whether this is the folder of results of a class."""
    return (folder / RUN).is_file()


def secret_beside(report: Path) -> Path | None:
    """The secret that a report of a class run was drawn from; None for another report."""
    results = _results_of(report)
    return results / SECRET_FILE if is_results(results) else None


def full_report(report: Path) -> Path:
    """The report that has everything, where the one that a student may see has not."""
    results = _results_of(report)
    if not is_results(results):
        return report
    with sentences():
        return full_reports(results, last_run(results).shows) / report.parent.name / report.name


def _results_of(report: Path) -> Path:
    return report.resolve().parent.parent.parent


@contextmanager
def answers_to(report: Path) -> Iterator[Path | None]:
    """A folder with the answers that a report of a class run is about; None for another report.

    Raises `UserError` if they are not where they were.
    """
    results = _results_of(report)
    if not is_results(results):
        yield None
        return
    with sentences():
        last = last_run(results)
        entries, _ = gather_answers.entries(Path(last.submissions))
    exercises = _exercises(last)
    name = report.resolve().parent.name
    with TemporaryDirectory(prefix=traces.prefix()) as folder:
        for entry in entries:
            if gather_answers.folder_of(entry) != name:
                continue
            for answer in gather_answers.handed_in(entry, exercises).answers:
                if answer.state == "graded":
                    (Path(folder) / answer.name).write_bytes(answer.content)
        yield Path(folder)


def changes(asked: ClassRequest, progress: Progress) -> Iterator[Change]:
    """Whose marks another grading would change. What it finds is kept, but not written.

    A later class run takes what was found here: nothing is graded twice.
    """
    with opened(asked.results), sentences():
        entries, _ = gather_answers.entries(asked.submissions)
        with class_run(asked, entries) as run:
            run.judge(progress)
            if asked.speed:
                run.time(progress)
        names = [row.student for row in run.rows]
        reports = full_reports(asked.results, last_run(asked.results).shows)
        before = late_students.before(asked.results)
        adjusted, _ = adjust.read(asked.results, names, asked.exercises)
        written = Written(
            folder=asked.results, words=asked.words, speed=asked.speed, adjustments=adjusted,
            lates=lates_of(asked, names)[0],
        )  # fmt: skip
        for path in left_behind(asked.results, run):
            why = ("nobody of that name is in the class now",)
            yield Change(student=printable(path.name), slug="", before=None, after=None, why=why)
        for row, report in written.reports(run):
            yield from _of_student(_before(reports / row.folder / "report.json"), report, adjusted)
            yield from _of_lateness(row.student, written.lates.of(report), before)


def as_before(results: Path, jobs: int, words: Words, course: Settings) -> ClassRequest:
    """What the last run into this folder was asked for, by the course as it is now.

    course  another one than that of the last run, if it has a path
    """
    with sentences():
        last = last_run(results)
    try:
        now = read(Path(last.course)) if last.course and course.path is None else course
    except BadCourse as problem:
        raise UserError(str(problem)) from None
    return ClassRequest(
        submissions=Path(last.submissions), results=results,
        exercises=[now.counted(e) for e in _exercises(last)], device=last.device,
        wall=last.wall, speed=last.speed, jobs=jobs, cluster=None, words=words, course=now,
    )  # fmt: skip


def _exercises(last: LastRun) -> list[Exercise]:
    """What the last run was about: of packs as well, which its course's file names."""
    known = {exercise.slug for exercise in catalog.exercises()}
    try:
        if last.course and not known.issuperset(last.exercises):
            read(Path(last.course))
        return [catalog.find(slug) for slug in last.exercises]
    except BadCourse as problem:
        raise UserError(str(problem)) from None
    except catalog.UnknownExercise as problem:
        raise UserError(f"{problem} {catalog.PACK_HINT}") from None


def _before(path: Path) -> Report | None:
    """The report that was written; None if there is none."""
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, NoReport):
        raise UserError(f"{path} cannot be read: grade the class again.") from None


def _of_student(before: Report | None, after: Report, adjusted: Adjustments) -> Iterator[Change]:
    old = {} if before is None else {e.slug: as_json.of_exercise(e) for e in before.exercises}
    for exercise in after.exercises:
        found = as_json.of_exercise(exercise)
        change = report_diff.compare_reports(after.student, old.get(exercise.slug), found)
        if change is not None:
            by_hand = adjusted.get(after.student, {}).get(exercise.slug)
            yield replace(change, by_hand=by_hand.points if by_hand else 0)


def _of_lateness(
    student: str, lates: Mapping[str, Late], before: Mapping[tuple[str, str], int]
) -> Iterator[Change]:
    """The answers of a student that lose other points by coming late than they did."""
    slugs = {*lates, *(slug for name, slug in before if name == student)}
    for slug in sorted(slugs):
        was, now = before.get((student, slug), 0), lates.get(slug)
        lost = now.points if now else 0
        if was != lost:
            why = (f"late: {was} points lost before, {lost} now", *([now.why] if now else []))
            yield Change(student=student, slug=slug, before=-was, after=-lost, why=why)
