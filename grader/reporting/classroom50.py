"""The report as Classroom 50's `result.json`: `classroom50/result/v1`.

https://github.com/foundation50/classroom50 describes it. Its runner gives what the grader cannot
know in the environment. Scores are whole numbers out of a fixed maximum, so that what was not run
stands there with 0 and its reason.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from grader.core.errors import UserError
from grader.core.records import Report, Verdict
from grader.core.translation import Words
from grader.reporting.items import Item, items

SCHEMA = "classroom50/result/v1"
_GIVEN = {
    "classroom": "CLASSROOM",
    "assignment": "ASSIGNMENT",
    "submission": "SUBMISSION_TAG",
    "commit": "COMMIT_URL",
    "release": "RELEASE_URL",
}
_INSTANT = re.compile(r"submit/(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)Z-\w+")


class NotInRunner(UserError):
    """What the runner gives is not there; the message is a sentence with the cure."""


def to_classroom50(report: Report, words: Words, environment: Mapping[str, str]) -> str:
    """The report as JSON text; `NotInRunner` says what is missing."""
    given = context(environment)
    tests = [_test(item, e.slug) for e in report.exercises for item in items(e, words)]
    found = {
        "schema": SCHEMA,
        **given,
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
    }
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def context(environment: Mapping[str, str]) -> dict[str, str]:
    """What the runner says of the submission."""
    given = {field: _given(environment, name) for field, name in _GIVEN.items()}
    review = environment.get("REVIEW_URL") or given["commit"]
    return given | {"review": review, "datetime": _instant(given["submission"])}


def _given(environment: Mapping[str, str], name: str) -> str:
    if not environment.get(name):
        cure = "--format classroom50 is for Classroom 50's runner, which sets it."
        raise NotInRunner(f"{name} is not set: {cure}")
    return environment[name]


def _instant(tag: str) -> str:
    """When it was submitted, as its tag says; never this machine's clock."""
    found = _INSTANT.fullmatch(tag)
    if found is None:
        wanted = "submit/2026-06-01T14-32-05Z-a1b2c3d"
        raise NotInRunner(f"SUBMISSION_TAG is {tag!r}, which is no tag like {wanted}.")
    day, *clock = found.groups()
    return f"{day}T{':'.join(clock)}Z"


def _test(item: Item, slug: str) -> dict[str, Any]:
    return {
        "test-name": f"{slug}: {item.says}",
        "passed": item.verdict is Verdict.PASSED,
        "score": item.earned,
        "max-score": item.points,
        "output": item.told,  # beyond the schema, which keeps such fields
    }
