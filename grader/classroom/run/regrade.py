"""Grades a class again: one mark for an appeal, or all, to see whose mark would change."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from grader.classroom.course.settings import CourseSettings, read_course_settings
from grader.classroom.run import adjust, gather_answers, late_students
from grader.classroom.run.adjust import Adjustments
from grader.classroom.run.class_grading import (
    ClassRequest,
    begin_class_run,
    explain_class_errors,
    list_abandoned_student_folders,
    read_class_lateness,
)
from grader.classroom.run.class_progress import ClassProgress
from grader.classroom.run.results_folder import (
    RUN_FILE,
    LastClassRun,
    list_class_report_paths,
    open_class_results,
    read_last_class_run,
)
from grader.classroom.run.write_results import WrittenResults
from grader.core import catalog
from grader.core.errors import UserError
from grader.core.records import Exercise, Report
from grader.core.translation import Words
from grader.grading import report_diff
from grader.grading.official_grader import SECRET_FILE
from grader.grading.report_diff import GradeChange
from grader.reporting import as_json
from grader.reporting.exercise_mark import LateMark
from grader.reporting.from_json import NoReport, parse_report_json
from grader.submission.handed_files import clean_submitted_name
from grader.worker.parent import traces


def is_class_results_folder(folder: Path) -> bool:
    """Return whether this is the folder of results of a class."""
    return (folder / RUN_FILE).is_file()


def find_class_report_secret(report: Path) -> Path | None:
    """Return the secret that a report of a class run was drawn from; None for another report."""
    results = _find_class_results_folder(report)
    return results / SECRET_FILE if is_class_results_folder(results) else None


def find_full_class_report(report: Path) -> Path:
    """Return the full report that belongs to a report which a student may see."""
    results = _find_class_results_folder(report)
    if not is_class_results_folder(results):
        return report
    with explain_class_errors():
        return (
            list_class_report_paths(results, read_last_class_run(results).shows)
            / report.parent.name
            / report.name
        )


def _find_class_results_folder(report: Path) -> Path:
    return report.resolve().parent.parent.parent


@contextmanager
def open_class_report_answers(report: Path) -> Iterator[Path | None]:
    """Open a folder with the answers of a class report; None for another report.

    Raises `UserError` if the answers have been moved.
    """
    results = _find_class_results_folder(report)
    if not is_class_results_folder(results):
        yield None
        return
    with explain_class_errors():
        last = read_last_class_run(results)
        entries, _ = gather_answers.list_class_students(Path(last.submissions))
    exercises = _find_last_class_exercises(last)
    name = report.resolve().parent.name
    with TemporaryDirectory(prefix=traces.build_worker_trace_prefix()) as folder:
        for entry in entries:
            if gather_answers.name_student_folder(entry) != name:
                continue
            for answer in gather_answers.gather_student_answers(entry, exercises).answers:
                if answer.state == "graded":
                    (Path(folder) / answer.name).write_bytes(answer.content)
        yield Path(folder)


def find_class_changes(asked: ClassRequest, progress: ClassProgress) -> Iterator[GradeChange]:
    """Yield the changes that another grading would make to marks; write no reports.

    New results are stored, and a later class run takes them: nothing is graded twice.
    """
    with open_class_results(asked.results), explain_class_errors():
        entries, _ = gather_answers.list_class_students(asked.submissions)
        with begin_class_run(asked, entries) as run:
            run.judge(progress)
            if asked.speed:
                run.time(progress)
        names = [row.student for row in run.rows]
        reports = list_class_report_paths(asked.results, read_last_class_run(asked.results).shows)
        before = late_students.read_last_class_lateness(asked.results)
        adjusted, _ = adjust.read_class_adjustments(asked.results, names, asked.exercises)
        written = WrittenResults(
            folder=asked.results, words=asked.words, speed=asked.speed, adjustments=adjusted,
            lates=read_class_lateness(asked, names)[0],
        )  # fmt: skip
        for path in list_abandoned_student_folders(asked.results, run):
            why = ("nobody of that name is in the class now",)
            yield GradeChange(
                student=clean_submitted_name(path.name), slug="", before=None, after=None, why=why
            )
        for row, report in written.reports(run):
            yield from _list_student_changes(
                _read_earlier_class_report(reports / row.folder / "report.json"), report, adjusted
            )
            yield from _list_student_lateness_changes(row.student, written.lates.of(report), before)


def repeat_class_request(
    results: Path, jobs: int, words: Words, course: CourseSettings
) -> ClassRequest:
    """Return the request of the last run into this folder, with the course as it is now.

    course  the course to use instead of the last run's, if it has a path
    """
    with explain_class_errors():
        last = read_last_class_run(results)
    now = read_course_settings(Path(last.course)) if last.course and course.path is None else course
    return ClassRequest(
        submissions=Path(last.submissions), results=results,
        exercises=[now.counted(e) for e in _find_last_class_exercises(last)], device=last.device,
        wall=last.wall, speed=last.speed, jobs=jobs, cluster=None, words=words, course=now,
    )  # fmt: skip


def _find_last_class_exercises(last: LastClassRun) -> list[Exercise]:
    """Return the exercises of the last run, also those of packs that its course names."""
    known = {exercise.slug for exercise in catalog.list_catalog_exercises()}
    if last.course and not known.issuperset(last.exercises):
        read_course_settings(Path(last.course))
    try:
        return [catalog.find_catalog_exercise(slug) for slug in last.exercises]
    except catalog.UnknownExercise as problem:
        raise UserError(f"{problem} {catalog.PACK_HINT}") from None


def _read_earlier_class_report(path: Path) -> Report | None:
    """Return the report that was written; None if there is none."""
    try:
        return parse_report_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, NoReport):
        raise UserError(f"{path} cannot be read: grade the class again.") from None


def _list_student_changes(
    before: Report | None, after: Report, adjusted: Adjustments
) -> Iterator[GradeChange]:
    old = (
        {}
        if before is None
        else {e.slug: as_json.convert_exercise_report(e) for e in before.exercises}
    )
    for exercise in after.exercises:
        found = as_json.convert_exercise_report(exercise)
        change = report_diff.compare_graded_reports(after.student, old.get(exercise.slug), found)
        if change is not None:
            by_hand = adjusted.get(after.student, {}).get(exercise.slug)
            yield replace(change, by_hand=by_hand.points if by_hand else 0)


def _list_student_lateness_changes(
    student: str, lates: Mapping[str, LateMark], before: Mapping[tuple[str, str], int]
) -> Iterator[GradeChange]:
    """Yield the answers of a student whose loss for lateness has changed."""
    slugs = {*lates, *(slug for name, slug in before if name == student)}
    for slug in sorted(slugs):
        was, now = before.get((student, slug), 0), lates.get(slug)
        lost = now.points if now else 0
        if was != lost:
            why = (f"late: {was} points lost before, {lost} now", *([now.why] if now else []))
            yield GradeChange(student=student, slug=slug, before=-was, after=-lost, why=why)
