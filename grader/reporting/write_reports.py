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
        from grader.reporting.github import render_github_annotations

        print(*render_github_annotations(report, words), sep="\n")


def _format_report(report: Report, format: str, words: Words) -> str:
    from grader.reporting import as_json, classroom50, github, gradescope, html, junit

    match format:
        case "json":
            return as_json.write_report_json(report)
        case "html":
            return html.render_html_report(report, words)
        case "junit":
            return junit.render_junit_report(report, words)
        case "github":
            return github.render_github_summary(report, words)
        case "gradescope":
            return gradescope.render_gradescope_report(report, words)
    return classroom50.render_classroom50_report(report, words, os.environ)
