"""Computes the points that a late notebook loses, by the course's `course.toml`.

nbgrader asks for the penalty whenever it grades, so that an extension that is granted later counts
with `nbgrader autograde --force`. nbgrader has extensions of its own: the longer one counts.
"""

from datetime import UTC, timedelta
from pathlib import Path

from nbgrader.plugins import LateSubmissionPlugin

from grader.classroom.course.lateness import Lateness, compute_class_lateness
from grader.classroom.course.settings import COURSE_FILE, CourseSettings, read_course_settings


def read_nbgrader_course_settings(root: str) -> CourseSettings:
    """Return the settings of the course in a folder; the defaults without a course.toml."""
    path = Path(root) / COURSE_FILE
    return read_course_settings(path) if path.is_file() else CourseSettings()


class Late(LateSubmissionPlugin):  # type: ignore[misc]
    """The plugin that deducts points by course.toml; without the file, as nbgrader does."""

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float | None:
        settings = read_nbgrader_course_settings(self.parent.parent.parent.coursedir.root)
        if settings.path is None:
            found: float | None = super().late_submission_penalty(
                student_id, score, total_seconds_late
            )
            return found
        late = self._submission_lateness(settings, student_id)
        if late.says:
            self.log.warning("%s, %s: %s", self.parent.assignment_id, student_id, late.says)
        return late.points

    def _submission_lateness(self, settings: CourseSettings, student: str) -> Lateness:
        slug = self.parent.assignment_id
        if slug not in settings.deadlines:
            return Lateness()
        gradebook, notebook = self.parent.gradebook, self.parent.notebook_id
        submission = gradebook.find_submission(slug, student)
        worth = gradebook.find_submission_notebook(notebook, slug, student).max_score
        more = max(settings.extension(student, slug), submission.extension or timedelta(0))
        submitted = submission.timestamp.replace(tzinfo=UTC)
        return compute_class_lateness(
            submitted, settings.deadlines[slug], more, settings.late, int(worth)
        )
