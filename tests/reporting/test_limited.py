"""What a student is shown where a course gives less help: nothing of the rest is in the report."""

import json
from dataclasses import replace

import jsonschema
import pytest

from grader.core.catalog import ROOT
from grader.core.diagnosis_records import (
    Diagnosis,
    Fact,
    NamedMistake,
    PinnedLine,
    SmallExample,
    Stage,
    WrongPlaces,
)
from grader.core.records import Verdict
from grader.core.translation import Words
from grader.reporting import as_json, github, html, terminal
from grader.reporting.from_json import parse_report_json
from grader.reporting.redact import redact_report
from tests.reporting.samples import (
    FAULT,
    MEASURED,
    NOT_STARTED,
    REFUSED,
    SCORED,
    check,
    exercise,
    report,
)

SCHEMA = json.loads((ROOT / "grader/reporting/report.v1.schema.json").read_text())
KNOWN = Diagnosis(
    mistakes=(NamedMistake(id="own_1", says="NAMED", mend="MEND"),),
    places=(WrongPlaces(axis="row", wrong=(3,), size=4),),
    stage=Stage(name="scores", factor=7.25, got=((0.125,),), right=((0.875,),)),
    facts=(Fact(key="row_sums", values={"sum": 0.625}),),
    pinned=PinnedLine(line=77, name="PINNED", got=(2, 55)),
    example=SmallExample(inputs=(("q", "[[41]]"),), name="output", got="[[42]]", right="[[43]]"),
)
CHECKS = (
    check("own_a", Verdict.PASSED),
    check("own_b", Verdict.FAILED, why="WHY", where="WHERE", diagnosis=KNOWN, line=3),
    check("own_c", Verdict.NOT_RUN, why="needs CUDA"),
)
TIMED = replace(SCORED, why="SPEEDWHY", measured=MEASURED)
WRONG = exercise("ex01_softmax", checks=CHECKS, speed=TIMED, output="PRINTED")
SECRETS = (
    "NAMED",
    "MEND",
    "7.25",
    "0.875",
    "WHY",
    "WHERE",
    "PRINTED",
    "row",
    "0.625",
    "[[42]]",
    "SPEEDWHY",
    "77",
    "PINNED",
)


def views(shown) -> str:
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), width=200)
    terminal.print_terminal_report(shown, console, Words())
    page = html.render_html_report(shown, Words()).partition("<body>")[2]
    texts = [
        as_json.write_report_json(shown),
        page,
        github.render_github_summary(shown, Words()),
        console.file.getvalue(),
    ]
    return "\n".join(texts) + "\n".join(github.render_github_annotations(shown, Words()))


@pytest.mark.parametrize(
    "shows, gone",
    [("hints", SECRETS[:4]), ("verdicts", (*SECRETS[:7], "SPEEDWHY")), ("nothing", SECRETS)],
)
def test_what_is_not_to_be_seen_is_in_no_view(shows, gone):
    everything = views(report(WRONG))
    assert [word for word in gone if word not in everything] == []
    seen = views(redact_report(report(WRONG), shows))
    assert [word for word in gone if word in seen] == []


def test_open_is_everything():
    assert redact_report(report(WRONG), "open") == report(WRONG)


def test_hints_keep_the_check_why_and_where():
    [e] = redact_report(report(WRONG), "hints").exercises
    failed = e.checks[1]
    assert (failed.why, failed.where, failed.diagnosis) == (
        "WHY",
        "WHERE",
        replace(KNOWN, mistakes=(), stage=None, pinned=None),
    )


def test_verdicts_keep_verdicts_points_and_what_the_machine_lacks():
    shown = redact_report(report(WRONG), "verdicts")
    [e] = shown.exercises
    assert [c.verdict for c in e.checks] == [c.verdict for c in CHECKS]
    assert e.checks[2].why == "needs CUDA"
    assert shown.score == report(WRONG).score and e.speed.earned == SCORED.earned


def test_nothing_is_alike_for_a_right_and_a_wrong_answer():
    right = replace(WRONG, checks=(check("own_a", Verdict.PASSED),), speed=None, output="")
    one, other = (redact_report(report(e), "nothing") for e in (right, WRONG))
    assert one == other
    assert one.score.worth == 0
    assert "It was read. What it is worth is not shown here." in views(one)


def test_nothing_has_no_points_to_show():
    several = replace(WRONG, slug="ex02_masking")
    assert "/0" not in views(redact_report(report(WRONG, several), "nothing"))


@pytest.mark.parametrize("e", [NOT_STARTED, REFUSED, FAULT])
@pytest.mark.parametrize("shows", ["hints", "verdicts", "nothing"])
def test_what_cannot_be_graded_says_so_all_the_same(e, shows):
    shown = redact_report(report(e), shows)
    assert (shown.exercises[0].state, shown.exercises[0].sentence) == (e.state, e.sentence)
    assert shown.faulted == report(e).faulted
    views(shown)


@pytest.mark.parametrize("shows", ["hints", "verdicts", "nothing"])
def test_it_fits_the_schema_and_can_be_read_back(shows):
    text = as_json.write_report_json(redact_report(report(WRONG), shows))
    jsonschema.validate(json.loads(text), SCHEMA)
    assert as_json.write_report_json(parse_report_json(text)) == text
