"""The report in the formats that are files."""

import os
import sys
from pathlib import Path

from grader.core.records import Report
from grader.core.translation import Words


def write(report: Report, format: str, output: Path | None, words: Words) -> None:
    """Write the report to `output`, or print it.

    For GitHub the summary goes where the runner reads it, and the annotations are printed. Raises
    `classroom50.NotInRunner` where there is no runner of Classroom 50.
    """
    text = _text(report, format, words)
    summary = os.environ.get("GITHUB_STEP_SUMMARY") if format == "github" else None
    if output is not None:
        output.write_text(text, encoding="utf-8")
    elif summary:
        with open(summary, "a", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)
    if format == "github":
        from grader.reporting.github import annotations

        print(*annotations(report, words), sep="\n")


def _text(report: Report, format: str, words: Words) -> str:
    from grader.reporting import as_json, classroom50, github, gradescope, html, junit

    match format:
        case "json":
            return as_json.to_json(report)
        case "html":
            return html.to_html(report, words)
        case "junit":
            return junit.to_junit(report, words)
        case "github":
            return github.summary(report, words)
        case "gradescope":
            return gradescope.to_gradescope(report, words)
    return classroom50.to_classroom50(report, words, os.environ)
