"""Writes the report in the formats that are files."""

import os
import sys
from pathlib import Path

from grader.core.records import Report
from grader.core.translation import Words


def write_report(report: Report, format: str, output: Path | None, words: Words) -> None:
    """Write the report to `output`, or print it.

    For GitHub, write the summary to the runner's file, and print the annotations. Raises
    `classroom50.NotInRunner` outside of Classroom 50's runner.
    """
    text = _format_report(report, format, words)
    summary = os.environ.get("GITHUB_STEP_SUMMARY") if format == "github" else None
    if output is not None:
        output.write_text(text, encoding="utf-8")
    elif summary:
        with open(summary, "a", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)
    if format == "github":
        from grader.reporting.github import github_annotations

        print(*github_annotations(report, words), sep="\n")


def _format_report(report: Report, format: str, words: Words) -> str:
    from grader.reporting import as_json, classroom50, github, gradescope, html, junit

    match format:
        case "json":
            return as_json.to_json(report)
        case "html":
            return html.to_html(report, words)
        case "junit":
            return junit.to_junit(report, words)
        case "github":
            return github.github_summary(report, words)
        case "gradescope":
            return gradescope.to_gradescope(report, words)
    return classroom50.to_classroom50(report, words, os.environ)
