"""Writes the report as Gradescope's `results.json`.

https://gradescope-autograders.readthedocs.io/en/latest/specs/ describes it. A check that
was not run has a maximum of 0 points; all others keep their points.
"""

import json
from collections.abc import Iterator
from typing import Any

from grader.core.records import ExerciseReport, Report, Verdict
from grader.core.translation import Words
from grader.reporting.items import ReportItem, list_report_items

_VISIBILITY = "visible"


def render_gradescope_report(report: Report, words: Words) -> str:
    """Return the report as JSON text."""
    tests = [
        _render_gradescope_test(item, e, f"{place}.{number}")
        for place, e in enumerate(report.exercises, 1)
        for number, item in enumerate(list_report_items(e, words), 1)
    ]
    found = {
        "score": report.score.earned,
        "execution_time": round(report.seconds),
        "output": "\n".join(_render_gradescope_output(report, words)),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": _VISIBILITY,
        "stdout_visibility": "hidden",
        "tests": tests,
        "leaderboard": list(_render_gradescope_leaderboard(report)),
        "extra_data": {
            "seed_id": report.seed_id,
            "isolation": report.isolation,
            "sha256": {e.slug: e.sha256 for e in report.exercises if e.sha256},
        },
    }
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _render_gradescope_test(item: ReportItem, e: ExerciseReport, number: str) -> dict[str, Any]:
    verdict = {} if not item.counts else {"status": _render_gradescope_status(item)}
    return {
        "name": f"{e.slug}: {item.says}",
        "number": number,
        "score": item.earned,
        "max_score": item.points if item.counts else 0,
        **verdict,
        "output": item.told,
        "visibility": _VISIBILITY,
    }


def _render_gradescope_status(item: ReportItem) -> str:
    return "passed" if item.verdict is Verdict.PASSED else "failed"


def _render_gradescope_output(report: Report, words: Words) -> Iterator[str]:
    for e in report.exercises:
        if e.score is None:
            yield f"{e.slug}: {words('grader fault: no score')}"
        elif e.sentence:
            yield f"{e.slug}: {words.said(e.sentence)}"


def _render_gradescope_leaderboard(report: Report) -> Iterator[dict[str, Any]]:
    """Yield for each timed answer its place between a slow and a fast answer, from 0 to 1."""
    for e in report.exercises:
        if e.speed is not None and e.speed.fraction is not None:
            yield {"name": e.slug, "value": round(e.speed.fraction, 3), "order": "desc"}
