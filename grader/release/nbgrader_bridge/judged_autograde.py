"""Has `nbgrader autograde` take the one answer in each folder, and name whom it could not grade.

nbgrader has no setting for its converter, so `install_judged_autograde` puts this class in its
place: for the command, the Python API and formgrader.
"""

import glob
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.apps import api, autogradeapp
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException
from nbgrader.utils import parse_utc

from grader.classroom.run.answer_files import open_student_folder, read_student_file
from grader.core import catalog
from grader.release.nbgrader_bridge.nbgrader_judge import read_ungraded_reason
from grader.release.nbgrader_bridge.submitted_answer import SubmittedAnswer, find_submitted_answer
from grader.submission.answer_file import UnreadableFile

_TIME_NAME = "timestamp.txt"


def install_judged_autograde() -> None:
    """Put `JudgedAutograde` in the place of nbgrader's converter.

    If one time stamp cannot be read, Formgrader lists no student at all. So our reader, which
    returns None for such a time stamp, replaces its own.
    """
    autogradeapp.Autograde = api.Autograde = JudgedAutograde
    api.NbGraderAPI.get_submitted_timestamp = _read_submitted_timestamp


def _read_submitted_timestamp(api: Any, assignment: str, student: str) -> datetime | None:
    """Return the time of a submission, as nbgrader's API calls for it."""
    course = api.coursedir
    return read_nbgrader_timestamp(
        course.format_path(course.submitted_directory, student, assignment)
    )


def read_nbgrader_timestamp(folder: str) -> datetime | None:
    """Return the time of a submission; None if there is no time that can be read.

    nbgrader does not grade a student whose timestamp.txt it cannot read.
    """
    try:
        with open_student_folder(Path(folder), folder) as handle:
            text = read_student_file(_TIME_NAME, _TIME_NAME, handle).decode().strip()
        return parse_utc(text) if text else None
    except (UnreadableFile, ValueError, OverflowError):
        return None


class JudgedAutograde(Autograde):  # type: ignore[misc]
    """nbgrader's converter for submissions whose notebook may be renamed or a plain file.

    The converter always uses the name of the released notebook; `Judge` and `TolerantExporter`
    read the file that is there.
    """

    def init_notebooks(self) -> None:
        self.coursedir.get_existing_timestamp = read_nbgrader_timestamp
        self.assignments: dict[str, list[str]] = {}
        self.notebooks: list[str] = []
        slugs = {exercise.slug for exercise in catalog.list_catalog_exercises()}
        of = self.coursedir.assignment_id, self.coursedir.student_id
        for folder in sorted(glob.glob(self._format_source(*of))):
            student, slug = self._read_place(folder)
            if slug not in slugs:
                continue
            answer = find_submitted_answer(Path(folder), slug)
            self._answers[student, slug] = answer
            if answer.path is not None:
                self.assignments[folder] = [str(Path(folder) / f"{slug}.ipynb")]
        if not self._answers:
            super().init_notebooks()  # which says that there is nothing, and what may be meant

    def _read_place(self, folder: str) -> tuple[str, str]:
        """Return the student and the assignment of a folder of `submitted`."""
        pattern = self._format_source("(?P<assignment>.*)", "(?P<student>.*)", escape=True)
        found = re.match(pattern, folder)
        return (found["student"], found["assignment"]) if found else ("", "")

    def start(self) -> None:
        self._answers: dict[tuple[str, str], SubmittedAnswer] = {}
        try:
            super().start()
        finally:
            self._list_answers_that_need_a_look()
        if not all(answer.path for answer in self._answers.values()):
            raise NbGraderException("Some students could not be graded.")

    def _list_answers_that_need_a_look(self) -> None:
        for (student, slug), answer in self._answers.items():
            if answer.path is not None and answer.is_renamed:
                self.log.warning("%s: %s was graded as %s.ipynb", student, answer.path.name, slug)
            graded = Path(self._format_dest(slug, student))
            if answer.path is not None and (why := read_ungraded_reason(graded, slug)):
                self.log.warning("%s: %s could not be graded: %s", student, answer.path.name, why)
        without = {key: answer.why for key, answer in self._answers.items() if answer.path is None}
        for (student, slug), why in without.items():
            self.log.error("%s: %s was not graded. %s", student, slug, why)
        if without and self.create_student:  # so that the export has a row
            with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
                for student, _ in without:
                    gradebook.update_or_create_student(student)
