"""A report comes back from its JSON as it was."""

import json

import pytest

from grader.reporting import as_json, from_json
from grader.reporting.from_json import NoReport
from tests.reporting.samples import EVERYTHING, FAULT, HOSTILE, KEPT, everywhere, report


@pytest.mark.parametrize(
    "run", [EVERYTHING, report(FAULT), everywhere(HOSTILE), report(seed=None), report(KEPT)]
)
def test_a_report_comes_back_as_it_was(run):
    text = as_json.write_report_json(run)
    assert as_json.write_report_json(from_json.parse_report_json(text)) == text


def test_what_comes_back_is_the_record():
    [e] = [e for e in EVERYTHING.exercises if e.slug == "ex03_sdpa"]
    found = from_json.parse_exercise_report(as_json.convert_exercise_report(e), track="core")
    assert found.speed == e.speed
    assert found.score == e.score
    assert found.checks[1].diagnosis.mistakes == e.checks[1].diagnosis.mistakes
    assert found.checks[1].diagnosis.places == e.checks[1].diagnosis.places


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda d: d.pop("exercises"), "damaged"),
        (lambda d: d.update(schema="x/v1"), "its schema is not attention-by-hand/report/v1"),
        (lambda d: d["exercises"][0].update(checks=3), "damaged"),
        (lambda d: d["exercises"][0]["checks"][0].update(verdict="perhaps"), "damaged"),
    ],
)
def test_what_is_no_report_gets_a_sentence(change, says):
    found = as_json.convert_report_to_dict(EVERYTHING)
    change(found)
    with pytest.raises(NoReport, match=says):
        from_json.parse_report_json(json.dumps(found))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000])
def test_any_other_text_gets_one_too(text):
    with pytest.raises(NoReport):
        from_json.parse_report_json(text)
