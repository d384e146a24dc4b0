"""Shows one task below its notebook cell: checks and points of the exercise's report."""

import io
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from rich.console import Console

from grader.core.records import CheckResult, ExerciseReport, Speed, Verdict
from grader.core.translation import Words
from grader.reporting import html, speed_text, terminal_checks
from grader.reporting.redact import RECEIVED_STATE

_STYLE_PATH = Path(__file__).with_name("report.css")
_COLUMNS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """The part of an exercise's report that concerns one task."""

    exercise: ExerciseReport
    worth: int  # points
    checks: tuple[CheckResult, ...] = ()
    speed: Speed | None = None

    @property
    def earned(self) -> int:
        spent = self.speed.earned if self.speed is not None else 0
        return sum(c.earned for c in self.checks) + spent

    @property
    def not_run(self) -> bool:
        """Return whether a check or the speed was not run, so that no points can be given."""
        if self.exercise.score is None or (self.speed is not None and not self.speed.counts):
            return True
        return any(c.verdict is Verdict.NOT_RUN for c in self.checks)


def select_task_report(
    report: ExerciseReport, ids: Collection[str], worth: int, timed: bool
) -> TaskReport:
    """Select from a report the checks with these ids, and the speed if it is `timed`."""
    return TaskReport(
        exercise=report,
        worth=worth,
        checks=tuple(c for c in report.checks if c.id in ids),
        speed=report.speed if timed else None,
    )


def render_task_html(task: TaskReport, words: Words) -> str:
    """Return a piece of an HTML page, with its own style."""
    return html.render_report_template(
        "task.html.j2",
        words,
        e=task.exercise,
        checks=task.checks,
        speed=task.speed,
        earned=task.earned,
        worth=task.worth,
        tone=_report_task_tone(task),
        sentence=_report_task_sentence(task),
        style=Markup(_STYLE_PATH.read_text(encoding="utf-8").replace(":root", "&")),
    )


def render_task_text(task: TaskReport, words: Words) -> str:
    """Return the task's report as plain text."""
    console = Console(file=io.StringIO(), width=_COLUMNS, color_system=None, legacy_windows=False)
    if task.exercise.state != RECEIVED_STATE:
        console.print(f"{task.earned}/{task.worth} {words('points')}", highlight=False)
    if _report_task_sentence(task):
        console.print(words.said(_report_task_sentence(task)), markup=False, highlight=False)
    for part in terminal_checks.render_terminal_checks(task.checks, task.exercise, words):
        console.print(part)
    if task.speed is not None:
        console.print(speed_text.render_speed_report(task.speed, task.exercise.slug, words))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def summarise_task_report(task: TaskReport, words: Words) -> str:
    """Return the first failure in plain sentences; "" if nothing failed."""
    if _report_task_sentence(task):
        return words.said(_report_task_sentence(task))
    slug = task.exercise.slug
    for check in task.checks:
        if check.verdict is Verdict.FAILED:
            named = check.diagnosis.mistakes[:1] if check.diagnosis else ()
            said = [words.mistake(slug, m.id, m.says, m.mend) for m in named]
            told = [words.check(slug, check.id, check.says), words.said(check.why)]
            return "\n".join([*told, *(words.joined(*parts) for parts in said)])
    return ""


def _report_task_sentence(task: TaskReport) -> str:
    if task.exercise.score is None:
        return "The grader itself failed. Please report it."
    return task.exercise.sentence


def _report_task_tone(task: TaskReport) -> str:
    if task.exercise.score is None:
        return "fault"
    if task.not_run:
        return "quiet"
    return "good" if task.earned == task.worth else "partly" if task.earned else "bad"
