"""Writes the report for GitHub Actions: a job summary, and annotations at the student's lines.

No output of a submission is a command to the runner: annotations are the only lines that begin with
`::`, and their text is escaped.
"""

from collections.abc import Iterator

from grader.core.mark_records import CourseMark
from grader.core.records import CheckResult, ExerciseReport, Report, Verdict
from grader.core.translation import Words
from grader.reporting.items import ReportItem, list_report_items
from grader.reporting.redact import RECEIVED_STATE
from grader.worker.parent.harmless_text import clean_worker_text

MAX_ANNOTATIONS = 10  # of a step; the runner drops those beyond
MAX_SUMMARY_BYTES = 1000 * 1024  # a summary of more than 1024 kB is dropped whole
_SIGNS = {
    Verdict.PASSED: "✓",
    Verdict.FAILED: "✗",
    Verdict.BLOCKED: "·",
    Verdict.NOT_RUN: "○",
    Verdict.GRADER_FAULT: "!",
}


def render_github_annotations(report: Report, words: Words) -> list[str]:
    """Return one workflow command for each failed check, at most ten."""
    return [
        _render_github_annotation(e, item.says, item.told, line)
        for e in report.exercises
        for item, line in _list_github_failures(e, words)
    ][:MAX_ANNOTATIONS]


def _list_github_failures(e: ExerciseReport, words: Words) -> Iterator[tuple[ReportItem, int]]:
    """Yield the failed checks and their lines; for an ungraded file only the first check."""
    lines = {c.id: _find_pinned_file_line(c) or c.line for c in e.checks}
    for item in list_report_items(e, words):
        if item.verdict is Verdict.FAILED and e.state != "not_started":
            yield item, lines.get(item.id, 0)
            if e.state != "graded":
                return


def _find_pinned_file_line(c: CheckResult) -> int:
    """Return the line of the first wrong value; 0 if it is not known, or in a notebook's cell."""
    pinned = c.diagnosis.pinned if c.diagnosis else None
    return pinned.line if pinned and not pinned.cell else 0


def _render_github_annotation(e: ExerciseReport, title: str, message: str, line: int) -> str:
    at = f",line={line}" if line else ""
    said = f"file={_escape_github_property(e.path)}{at},title={_escape_github_property(title)}"
    return f"::error {said}::{_escape_github_text(clean_worker_text(message))}"


def _escape_github_text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_github_property(text: str) -> str:
    return _escape_github_text(clean_worker_text(text)).replace(":", "%3A").replace(",", "%2C")


def render_github_summary(report: Report, words: Words) -> str:
    """Return the report in Markdown, cut before the size at which the runner drops it."""
    mark, score = report.mark, report.score
    earned, possible = (
        (score.earned, score.possible) if mark is None else (mark.total, mark.possible)
    )
    total = f": {earned}/{possible}" if possible else ""
    name = words("Attention by Hand") if mark is None else _escape_github_markdown(mark.course)
    lines = [
        f"## {name}{total}",
        "",
        *(() if mark is None else _render_github_mark(mark, words)),
        f"| {words('Exercise')} | {words('Points')} | |",
        "|---|---|---|",
        *(_render_github_row(e, words) for e in report.core),
        "",
    ]
    if report.further:
        lines += [
            words("Optional exercises, not counted in the total"),
            "",
            f"| {words('Exercise')} | {words('Points')} | |",
            "|---|---|---|",
            *(_render_github_row(e, words) for e in report.further),
            "",
        ]
    text = "\n".join(lines)
    for e in report.exercises:
        part = "\n".join(_render_github_details(e, words))
        if len((text + part).encode()) > MAX_SUMMARY_BYTES:
            break
        text += part
    return text


def _render_github_mark(mark: CourseMark, words: Words) -> Iterator[str]:
    """Yield a table of what counts: weight, lateness and adjustment of each exercise."""
    columns = ("Exercise", "Weight", "Earned", "Late", "Adjustment", "Counts")
    yield f"| {' | '.join(map(words, columns))} |"
    yield "|---" * len(columns) + "|"
    for one in mark.exercises:
        earned, points = ("-" if p is None else p for p in (one.earned, one.points))
        by_hand = one.adjustment or one.adjustment_why
        changed = f"{one.adjustment:+d} {one.adjustment_why}" if by_hand else ""
        counts = words("{counts} of {possible}", counts=points, possible=one.possible)
        yield (
            f"| {one.slug} | {one.weight} | {earned} | {one.late or ''} | "
            f"{_escape_github_markdown(changed)} | {counts} |"
        )
    yield ""


def _render_github_row(e: ExerciseReport, words: Words) -> str:
    points = (
        "-"
        if e.score is None or e.state == RECEIVED_STATE
        else f"{e.score.earned}/{e.score.possible}"
    )
    return f"| {e.slug} | {points} | {_escape_github_markdown(words.said(e.sentence))} |"


def _render_github_details(e: ExerciseReport, words: Words) -> Iterator[str]:
    """Yield each check of a graded exercise, and below a failed one its explanation."""
    if e.state != "graded":
        return
    yield f"\n<details><summary>{e.slug}</summary>\n\n"
    for item in list_report_items(e, words):
        yield (
            f"{_SIGNS[item.verdict]} {_escape_github_html(item.says)} "
            f"{item.earned}/{item.points}  \n"
        )
        if item.told and item.verdict is not Verdict.PASSED:
            yield f"<pre>{_escape_github_html(item.told)}</pre>\n"
    yield "\n</details>\n"


def _escape_github_html(text: str) -> str:
    text = clean_worker_text(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\n", "&#10;")  # a blank line would end the block


def _escape_github_markdown(text: str) -> str:
    """Return `text` in one line that Markdown shows as it is."""
    text = _escape_github_html(" ".join(text.split()))
    return "".join(f"\\{c}" if c in "\\`*_[]|#~" else c for c in text)
