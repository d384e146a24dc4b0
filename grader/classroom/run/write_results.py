"""Writes the results of a class run: a report for each student, the grades, the class page."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.classroom.course.settings import CourseSettings
from grader.classroom.run.adjust import Adjustments
from grader.classroom.run.class_run import LOST_ANSWER, ClassRun, ProgressRow
from grader.classroom.run.grade_task import GradeTerms
from grader.classroom.run.lanes import Result
from grader.classroom.run.late_students import (
    LATE_TABLE,
    LatenessReport,
    write_class_lateness_table,
    write_student_lateness,
)
from grader.classroom.run.results_folder import STUDENTS, list_class_report_paths
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.records import Exercise, ExerciseReport, Report
from grader.core.result_store import does_file_hold_content, write_file_whole
from grader.core.scoring import SPEED_LEFT_OUT, SPEED_TO_COME, sum_score_points
from grader.core.translation import Words
from grader.reporting import as_json, class_page, from_json, grades, html
from grader.reporting.class_summary import (
    ClassSummary,
    GradedStudent,
    build_exercise_mark,
    find_counted_weights,
    summarise_class_reports,
)
from grader.reporting.course_mark import build_course_mark
from grader.reporting.exercise_mark import LateMark
from grader.reporting.redact import redact_report

PAGE, GRADES, CANVAS, MOODLE = "class.html", "grades.csv", "canvas.csv", "moodle.csv"
_STYLE_FILE = ".look"  # of the pages: language, templates, sentences


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenResults:
    """The folder to which results are written, and the settings of what is written."""

    folder: Path
    words: Words
    speed: bool
    adjustments: Adjustments
    lates: LatenessReport

    def write(self, run: ClassRun, title: str) -> ClassSummary:
        """Write everything; files that would not change are left as they are."""
        look = _digest_class_style(self.words)
        kept = self.folder / _STYLE_FILE
        same_look = kept.exists() and kept.read_text() == look
        if not same_look:
            kept.unlink(missing_ok=True)  # until all pages are written anew
        course, lates = self.lates.course, dict[str, Mapping[str, LateMark]]()
        graded = self._write_each_report(run, same_look, lates)
        summary = summarise_class_reports(
            graded, run.exercises, course.weights, bool(course.deadlines)
        )
        facts = {
            **_write_course_facts(course, self.words),
            **_write_class_facts(run.terms, self.words),
        }
        page = class_page.render_class_page(summary, self.words, title=title, facts=facts)
        write_file_whole(self.folder / PAGE, page)
        write_file_whole(self.folder / GRADES, grades.render_grades_csv(summary))
        write_file_whole(self.folder / CANVAS, grades.render_canvas_csv(summary))
        write_file_whole(self.folder / MOODLE, grades.render_moodle_csv(summary))
        if course.deadlines:
            write_file_whole(self.folder / LATE_TABLE, write_class_lateness_table(lates))
        else:
            (self.folder / LATE_TABLE).unlink(missing_ok=True)  # of an earlier run
        write_file_whole(kept, look)
        return summary

    def reports(self, run: ClassRun) -> Iterator[tuple[ProgressRow, Report]]:
        """Yield the report on each student, one after the other."""
        for row in run.rows:
            found = [self._build_report(run, row, number) for number in range(len(row.tasks))]
            yield row, _write_student_facts(row, found, run.terms)

    def _write_each_report(
        self, run: ClassRun, same_look: bool, lates: dict[str, Mapping[str, LateMark]]
    ) -> Iterator[GradedStudent]:
        """Yield each student with the report written; fill `lates`."""
        shows = self.lates.course.shows
        full = list_class_report_paths(self.folder, shows)
        for row, report in self.reports(run):
            late = lates[row.student] = self.lates.of(report)
            shown = self._mark_report(write_student_lateness(report, late), run, late)
            if shows != "open":
                self._write_report(full / row.folder, shown, same_look)
            place = self.folder / STUDENTS / row.folder
            self._write_report(place, redact_report(shown, shows), same_look)
            yield GradedStudent(
                report=report,
                notes=(*self.lates.notes(report), *row.notes, *run.remarks.get(row.folder, ())),
                adjustments=self.adjustments.get(row.student, {}),
                late=late,
                page=f"{full.name}/{row.folder}/report.html",
            )

    def _mark_report(self, report: Report, run: ClassRun, late: Mapping[str, LateMark]) -> Report:
        """Return the report with the mark that counts, if that is more than the points of it."""
        course, mine = self.lates.course, self.adjustments.get(report.student, {})
        if course.path is None and not mine:
            return report
        marks = {e.slug: build_exercise_mark(e, mine, late) for e in report.exercises}
        weights = find_counted_weights(run.exercises, course.weights)
        mark = build_course_mark(course.name, marks, weights)
        return replace(report, mark=mark) if mark.exercises else report

    def _write_report(self, place: Path, report: Report, same_look: bool) -> None:
        text, page = as_json.write_report_json(report), place / "report.html"
        if not (
            same_look and page.exists() and does_file_hold_content(place / "report.json", text)
        ):
            write_file_whole(page, html.render_html_report(report, self.words))
            write_file_whole(place / "report.json", text)  # last: it says that the page is of it

    def _build_report(self, run: ClassRun, row: ProgressRow, number: int) -> ExerciseReport:
        task, exercise = row.tasks[number], run.exercises[number]
        found = run.result(task)
        report = (
            _build_lost_class_report(exercise)
            if found is None
            else _find_class_report(found, exercise)
        )
        report = replace(report, path=row.paths[number])
        return report if self.speed else _leave_class_speed_out(report)


def _find_class_report(found: Result, exercise: Exercise) -> ExerciseReport:
    return from_json.parse_exercise_report(found, exercise.track)


def _build_lost_class_report(exercise: Exercise) -> ExerciseReport:
    return ExerciseReport(
        slug=exercise.slug, title=exercise.title, track=exercise.track, path="", sha256="",
        state="fault", sentence=LOST_ANSWER, score=None, checks=(), speed=None,
    )  # fmt: skip


def _leave_class_speed_out(report: ExerciseReport) -> ExerciseReport:
    """Return the report with its speed marked as left out of the grading."""
    speed = report.speed
    if speed is None or report.score is None:
        return report
    if speed.verdict != "not_run" or speed.why == SPEED_TO_COME:
        speed = replace(
            speed, verdict="not_run", why=SPEED_LEFT_OUT, earned=0, fraction=None, measured=None
        )
    return replace(report, speed=speed, score=sum_score_points(report.checks, speed))


def _write_student_facts(
    row: ProgressRow, found: Sequence[ExerciseReport], terms: GradeTerms
) -> Report:
    return Report(
        student=row.student, seed_id=terms.seed_id, seed=None, device=terms.device,
        isolation=terms.wall, versions=terms.versions, exercises=tuple(found),
        seconds=sum(e.seconds for e in found),
    )  # fmt: skip


def _write_course_facts(course: CourseSettings, words: Words) -> Mapping[str, str]:
    return {} if course.path is None else {words("Course"): course.name}


def _write_class_facts(terms: GradeTerms, words: Words) -> Mapping[str, str]:
    versions = ", ".join(f"{name} {version}" for name, version in terms.versions.items())
    return {
        words("Versions"): versions,
        words("Wall"): terms.wall,
        words("Device"): terms.device,
        words("Seed id"): terms.seed_id,
    }


def _digest_class_style(words: Words) -> str:
    """Return the digest of templates and styles."""
    found = hashlib.sha256(words.language.encode())
    folder = ROOT / "grader"
    sources = [*folder.glob("reporting/*.*"), *folder.glob("core/translation.py")]
    sources += folder.glob("core/zh.toml")
    suites = {exercise.folder for exercise in catalog.list_catalog_exercises()}
    for path in sorted([*sources, *(path for suite in suites for path in suite.glob("*.toml"))]):
        found.update(path.read_bytes())
    return found.hexdigest()
