"""Grades a submitted notebook instead of running it, and gives nbgrader scores and comments."""

import atexit
import json
import re
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades
from nbgrader.utils import is_grade, is_solution
from traitlets import Unicode

from grader.core import catalog
from grader.core.grade_ids import CUDA, SPEED, build_core_grade_id
from grader.core.records import Exercise, ExerciseReport
from grader.core.translation import Words
from grader.grading.official_grader import OfficialGrader, load_grading_secret
from grader.release.nbgrader_bridge.submitted_answer import find_submitted_answer
from grader.reporting import as_json, task_report
from grader.reporting.redact import redact_exercise_report
from grader.reporting.task_report import TaskReport

_COLUMNS = 90  # of a comment
METADATA_KEY = "attention_by_hand"  # of a graded notebook's metadata: the report
_UNGRADED_STATES = ("unreadable", "refused", "fault")
Resources = dict[str, Any]


@cache
def open_nbgrader_course_grader(
    course: Path, wall: str, device: str, weakest: str
) -> OfficialGrader:
    """Return the grader of a course, the same for all notebooks of this process."""
    made = OfficialGrader(load_grading_secret(course), wall, device, weakest)
    atexit.register(made.close)
    return made


class Judge(NbGraderPreprocessor):  # type: ignore[misc]
    """The preprocessor that gives every check cell its score and its report."""

    language = Unicode("en", help="Of what students read: en or zh.").tag(config=True)
    isolation = Unicode("auto", help="The wall: auto, locked or contained.").tag(config=True)
    device = Unicode("cpu", help="cpu or cuda.").tag(config=True)
    weakest = Unicode("locked", help="The weakest wall that is accepted.").tag(config=True)
    shows = Unicode("open", help="To students: open, hints, verdicts, nothing.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Resources) -> tuple[NotebookNode, Resources]:
        at = resources["nbgrader"]
        exercise, words = catalog.find_catalog_exercise(at["notebook"]), Words(self.language)
        cells = {cell.metadata["nbgrader"]["grade_id"]: cell for cell in nb.cells if is_grade(cell)}
        report = self.grade_file(exercise, at, speed=build_core_grade_id(SPEED) in cells)
        found = {
            name: _report_nbgrader_task(report, exercise, name, cells[build_core_grade_id(name)])
            for name in (*exercise.names, CUDA, SPEED)
            if build_core_grade_id(name) in cells
        }
        seen = redact_exercise_report(report, self.shows)
        shown = {
            name: _report_nbgrader_task(seen, exercise, name, cells[build_core_grade_id(name)])
            for name in found
        }
        for name, part in found.items():
            cells[build_core_grade_id(name)].outputs = _write_nbgrader_cell_outputs(
                part, shown[name], words
            )
            cells[build_core_grade_id(name)].metadata[METADATA_KEY] = {"not_run": part.not_run}
        for cell in nb.cells:
            if is_solution(cell) and (told := _write_nbgrader_comment(cell, shown, words)):
                cell.metadata[METADATA_KEY] = {"comment": told}
        nb.metadata[METADATA_KEY] = as_json.convert_exercise_report(report)
        return nb, resources

    def grade_file(self, exercise: Exercise, at: dict[str, str], *, speed: bool) -> ExerciseReport:
        """Return the report on a notebook, graded from the file as it was submitted."""
        course = self.parent.parent.coursedir
        folder = course.format_path(course.submitted_directory, at["student"], at["assignment"])
        named = Path(folder) / f"{exercise.slug}.ipynb"
        file = find_submitted_answer(Path(folder), exercise.slug).path or named
        grader = open_nbgrader_course_grader(
            Path(course.root), self.isolation, self.device, self.weakest
        )
        report = grader.grade(exercise, file, at["student"], speed=speed)
        if report.score is None:
            self.log.error("The grader itself failed on %s: %s", file, report.sentence)
        return report


def read_ungraded_reason(folder: Path, slug: str) -> str:
    """Return why the answer in a folder of `autograded` was not judged; '' if it was."""
    try:
        notebook = json.loads((folder / f"{slug}.ipynb").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # nothing was graded yet
        return ""
    report = notebook["metadata"].get(METADATA_KEY, {})
    return str(report["sentence"]) if report.get("state") in _UNGRADED_STATES else ""


def _report_nbgrader_task(
    report: ExerciseReport, exercise: Exercise, name: str, cell: NotebookNode
) -> TaskReport:
    from grader.judging.tasks import group_checks_by_task

    checks, worth = (
        group_checks_by_task(exercise).get(name, ()),
        int(cell.metadata["nbgrader"]["points"]),
    )
    part = task_report.select_task_report(
        report, [c.id for c in checks], worth, timed=name == SPEED
    )
    if part.earned > worth:
        raise ValueError(
            f"{exercise.slug}: {name} is worth {worth} points in the release, and more now. Make "
            "the release again: `make release`."
        )
    return part


def _write_nbgrader_cell_outputs(
    part: TaskReport, shown: TaskReport, words: Words
) -> list[NotebookNode]:
    """Return a check cell's outputs: the shown report, then the score for nbgrader, always last."""
    data = {
        "text/html": task_report.render_task_html(shown, words),
        "text/plain": task_report.render_task_text(shown, words),
    }
    told = new_output("display_data", data=data)
    score = new_output("execute_result", data={"text/plain": str(part.earned)}, execution_count=1)
    return [told] if part.not_run else [told, score]


def _write_nbgrader_comment(cell: NotebookNode, found: dict[str, TaskReport], words: Words) -> str:
    """Return the comment below an answer: of each of its failed tasks, the first failure."""
    names = [name for name in found if name in cell.metadata["nbgrader"]["grade_id"].split("-")]
    wrong = [found[name] for name in names if found[name].earned < found[name].worth]
    return _fence_nbgrader_text(
        "\n".join(task_report.summarise_task_report(part, words) for part in wrong)
    )


def _fence_nbgrader_text(text: str) -> str:
    """Return a text fenced as Markdown code, so that no markup of a student in it counts."""
    if not text:
        return ""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    lines = (part for line in text.splitlines() for part in textwrap.wrap(line, _COLUMNS) or [""])
    return "\n".join([fence, *lines, fence])


class SaveJudged(SaveAutoGrades):  # type: ignore[misc]
    """The preprocessor that saves scores and comments, and leaves tasks that did not run to people.

    It then removes scores from the notebook: a page shows each as `Out[1]: 4` below the report.
    """

    def preprocess(self, nb: NotebookNode, resources: Resources) -> tuple[NotebookNode, Resources]:
        nb, resources = super().preprocess(nb, resources)
        for cell in filter(is_grade, nb.cells):
            cell.outputs = [o for o in cell.outputs if o.output_type != "execute_result"]
        return nb, resources

    def _add_score(self, cell: NotebookNode, resources: Resources) -> None:
        super()._add_score(cell, resources)
        if cell.metadata.get(METADATA_KEY, {}).get("not_run"):
            grade = self._find_record(self.gradebook.find_grade, cell)
            grade.auto_score, grade.needs_manual_grade = None, True
            self.gradebook.db.commit()

    def _add_comment(self, cell: NotebookNode, resources: Resources) -> None:
        super()._add_comment(cell, resources)
        told = cell.metadata.get(METADATA_KEY, {}).get("comment")
        # Without one, nbgrader says "No response." of an unchanged cell, even if another answers.
        self._find_record(self.gradebook.find_comment, cell).auto_comment = told
        self.gradebook.db.commit()

    def _find_record(self, find: Any, cell: NotebookNode) -> Any:
        name = cell.metadata["nbgrader"]["grade_id"]
        return find(name, self.notebook_id, self.assignment_id, self.student_id)
