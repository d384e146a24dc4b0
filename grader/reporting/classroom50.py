"""Writes the report as Classroom 50's `result.json`: `classroom50/result/v1`.

https://github.com/foundation50/classroom50 describes it. Its runner puts what the grader cannot
know into environment variables. Scores are whole numbers out of a fixed maximum: a check that was
not run is listed with 0 points and the reason.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from grader.core.errors import UserError
from grader.core.records import Report, Verdict
from grader.core.translation import Words
from grader.reporting.items import ReportItem, list_report_items

CLASSROOM50_SCHEMA = "classroom50/result/v1"
_VARIABLES = {
    "classroom": "CLASSROOM",
    "assignment": "ASSIGNMENT",
    "submission": "SUBMISSION_TAG",
    "commit": "COMMIT_URL",
    "release": "RELEASE_URL",
}
_SUBMISSION_TAG = re.compile(r"submit/(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)Z-\w+")


class NotInRunner(UserError):
    """Raised if a variable of the runner is missing; the message says why, and how to fix it."""


def render_classroom50_report(report: Report, words: Words, environment: Mapping[str, str]) -> str:
    """Return the report as JSON text; `NotInRunner` says which variable is missing."""
    given = read_report_runner_context(environment)
    tests = [
        _report_classroom50_test(item, e.slug)
        for e in report.exercises
        for item in list_report_items(e, words)
    ]
    found = {
        "schema": CLASSROOM50_SCHEMA,
        **given,
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
    }
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def read_report_runner_context(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the runner's variables say of the submission."""
    given = {
        field: _require_report_variable(environment, name) for field, name in _VARIABLES.items()
    }
    review = environment.get("REVIEW_URL") or given["commit"]
    return given | {"review": review, "datetime": _read_reported_time(given["submission"])}


def _require_report_variable(environment: Mapping[str, str], name: str) -> str:
    if not environment.get(name):
        cure = "--format classroom50 is for Classroom 50's runner, which sets it."
        raise NotInRunner(f"{name} is not set: {cure}")
    return environment[name]


def _read_reported_time(tag: str) -> str:
    """Return the time of submission in `tag`; this machine's clock is never read."""
    found = _SUBMISSION_TAG.fullmatch(tag)
    if found is None:
        wanted = "submit/2026-06-01T14-32-05Z-a1b2c3d"
        raise NotInRunner(f"SUBMISSION_TAG is {tag!r}, which is no tag like {wanted}.")
    day, *clock = found.groups()
    return f"{day}T{':'.join(clock)}Z"


def _report_classroom50_test(item: ReportItem, slug: str) -> dict[str, Any]:
    return {
        "test-name": f"{slug}: {item.says}",
        "passed": item.verdict is Verdict.PASSED,
        "score": item.earned,
        "max-score": item.points,
        "output": item.told,  # beyond the schema, which keeps such fields
    }
