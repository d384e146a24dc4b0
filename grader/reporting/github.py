"""The report for GitHub Actions: a summary of the job, and annotations at the student's lines.

What a submission printed or said is never a command to the runner: annotations are the only lines
that begin with `::`, and what stands in them is escaped.
"""

from collections.abc import Iterator

from grader.core.records import ExerciseReport, Report, Verdict
from grader.core.translation import Words
from grader.reporting.items import Item, items
from grader.reporting.redact import RECEIVED
from grader.worker.harmless_text import harmless

MOST_ANNOTATIONS = 10  # of a step; the runner drops those beyond
MOST_BYTES = 1000 * 1024  # a summary of more than 1024 kB is dropped whole
_SIGNS = {
    Verdict.PASSED: "✓",
    Verdict.FAILED: "✗",
    Verdict.BLOCKED: "·",
    Verdict.NOT_RUN: "○",
    Verdict.GRADER_FAULT: "!",
}


def annotations(report: Report, words: Words) -> list[str]:
    """One workflow command for each failed check, at most ten."""
    return [
        _annotation(e, item.says, item.told, line)
        for e in report.exercises
        for item, line in _wrong(e, words)
    ][:MOST_ANNOTATIONS]


def _wrong(e: ExerciseReport, words: Words) -> Iterator[tuple[Item, int]]:
    """The failed checks with the lines they point to; of an ungraded file one for all of them."""
    lines = {c.id: c.line for c in e.checks}
    for item in items(e, words):
        if item.verdict is Verdict.FAILED and e.state != "not_started":
            yield item, lines.get(item.id, 0)
            if e.state != "graded":
                return


def _annotation(e: ExerciseReport, title: str, message: str, line: int) -> str:
    at = f",line={line}" if line else ""
    said = f"file={_property(e.path)}{at},title={_property(title)}"
    return f"::error {said}::{_data(harmless(message))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(harmless(text)).replace(":", "%3A").replace(",", "%2C")


def summary(report: Report, words: Words) -> str:
    """The report in Markdown, cut where the runner would drop it."""
    score = report.score
    total = f": {score.earned}/{score.worth}" if score.worth else ""
    lines = [
        f"## {words('Attention by Hand')}{total}",
        "",
        f"| {words('Exercise')} | {words('Points')} | |",
        "|---|---|---|",
        *(_row(e, words) for e in report.core),
        "",
    ]
    if report.further:
        lines += [
            words("Optional exercises, not counted in the total"),
            "",
            f"| {words('Exercise')} | {words('Points')} | |",
            "|---|---|---|",
            *(_row(e, words) for e in report.further),
            "",
        ]
    text = "\n".join(lines)
    for e in report.exercises:
        part = "\n".join(_details(e, words))
        if len((text + part).encode()) > MOST_BYTES:
            break
        text += part
    return text


def _row(e: ExerciseReport, words: Words) -> str:
    points = "-" if e.score is None or e.state == RECEIVED else f"{e.score.earned}/{e.score.worth}"
    return f"| {e.slug} | {points} | {_plain(words.said(e.sentence))} |"


def _details(e: ExerciseReport, words: Words) -> Iterator[str]:
    """What failed, and below it what is to be said about it."""
    if e.state != "graded":
        return
    yield f"\n<details><summary>{e.slug}</summary>\n\n"
    for item in items(e, words):
        yield f"{_SIGNS[item.verdict]} {_escaped(item.says)} {item.earned}/{item.points}  \n"
        if item.told and item.verdict is not Verdict.PASSED:
            yield f"<pre>{_escaped(item.told)}</pre>\n"
    yield "\n</details>\n"


def _escaped(text: str) -> str:
    text = harmless(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\n", "&#10;")  # a blank line would end the block


def _plain(text: str) -> str:
    """Text in one line that Markdown takes as it stands."""
    text = _escaped(" ".join(text.split()))
    return "".join(f"\\{c}" if c in "\\`*_[]|#~" else c for c in text)
