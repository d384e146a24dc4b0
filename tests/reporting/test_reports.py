"""The report in its formats: the JSON fits its schema, the terminal view is drawn from the same."""

import io
import json
import re
from dataclasses import replace
from datetime import datetime, timedelta

import jsonschema
import pytest
from rich.console import Console

from grader.core.catalog import ROOT
from grader.core.records import CheckResult, ExerciseReport, Report, Score, Speed, Verdict
from grader.core.translation import Words
from grader.reporting import as_json, terminal
from grader.reporting.kept_text import report_short_time
from grader.reporting.next_step import point_to_hint
from tests.conftest import solution

SCHEMA = json.loads((ROOT / "grader/reporting/report.v1.schema.json").read_text())


def check(verdict: Verdict, **more) -> CheckResult:
    return CheckResult(id="test_x", says="Rows sum to one.", verdict=verdict, points=2, **more)


def exercise(state: str = "graded", **more) -> ExerciseReport:
    default = {
        "slug": "ex03_sdpa", "title": "Attention", "track": "core", "path": "exercises/ex03_sdpa.py",
        "sha256": "a" * 64, "state": state, "sentence": "", "speed": None,
        "score": Score(earned=2, possible=8, not_run=2),
        "checks": (
            check(Verdict.PASSED),
            check(Verdict.FAILED, why="out[0] is 1, but should be 2  [f()]\n3 of 4 entries differ."),
            check(Verdict.BLOCKED, why="Rows sum to one."),
            check(Verdict.NOT_RUN, why="needs CUDA"),
        ),
    }  # fmt: skip
    return ExerciseReport(**(default | more))


def report(*exercises: ExerciseReport) -> Report:
    return Report(
        student="me", seed_id="0" * 16, seed="abc", device="cpu", isolation="process",
        versions={"torch": "2.13.0"}, exercises=exercises, seconds=1.25,
    )  # fmt: skip


FAULT = exercise("fault", score=None, sentence="the suite cannot be run", checks=())
SPEED = Speed(says="As fast as it can be.", verdict="not_run", points=3, why="needs CUDA")
REPORTS = {
    "graded": report(exercise()),
    "several": report(exercise(), exercise(speed=SPEED), exercise(track="further")),
    "fault": report(exercise(), FAULT),
    "faulted check": report(
        exercise("fault", score=None, checks=(check(Verdict.GRADER_FAULT, why="KeyError"),))
    ),
    "kept": report(
        exercise(kept_since="2026-01-02T03:04:05+00:00", kept_seed="abc"),
        exercise("missing", kept_since="2026-01-02T03:04:05+00:00", kept_seed="abc"),
    ),
    "kept from several runs": report(
        *(exercise(kept_since="2026-01-02T03:04:05+00:00", kept_seed=seed) for seed in "12")
    ),
    "not started": report(exercise("not_started", sentence="Not started yet.")),
    "refused": report(exercise("refused", sentence="Line 1: torch.softmax is not allowed.")),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
def test_the_json_fits_its_schema(name):
    jsonschema.validate(json.loads(as_json.write_report_json(REPORTS[name])), SCHEMA)


def test_a_real_report_fits_the_schema(graded):
    real = report(graded("ex01_softmax", solution("ex01_softmax")), graded("ex01_softmax", "x ="))
    jsonschema.validate(json.loads(as_json.write_report_json(real)), SCHEMA)


@pytest.mark.parametrize("entry", SCHEMA["required"])
def test_the_schema_notices_what_is_missing(entry):
    record = as_json.convert_report_to_dict(REPORTS["graded"])
    del record[entry]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(record, SCHEMA)


def test_the_seed_is_told_only_in_a_run_of_ones_own():
    assert as_json.convert_report_to_dict(report())["seed"] == "abc"
    assert "seed" not in as_json.convert_report_to_dict(replace(report(), seed=None))


def test_the_total_is_that_of_the_core_track_without_faults():
    further = exercise(track="further")
    total = report(exercise(), exercise(), FAULT, further).score
    assert total == Score(earned=4, possible=16, not_run=4)


def drawn(report: Report) -> str:
    file = io.StringIO()
    terminal.print_terminal_report(report, Console(file=file, width=100))
    return re.sub(" +", " ", file.getvalue())


@pytest.mark.parametrize(
    "name, lines",
    [
        (
            "graded",
            [
                "ex03_sdpa 2/8 1 of 3 checks passed; 2 points not run (needs CUDA)",
                "✓ Rows sum to one. 2/2",
                "✗ Rows sum to one. 0/2",
                " out[0] is 1, but should be 2 [f()]",
                " 3 of 4 entries differ.",
                " blocked by: Rows sum to one.",
                "○ Rows sum to one. needs CUDA",
                "Next: exercises/ex03_sdpa.py: Rows sum to one.\n"
                "`make hint EX=ex03_sdpa` gives a hint.\n"
                "device cpu, wall process, 1.2 s",
                "seed abc (SEED=abc repeats this run's inputs)",
                "sha256 " + "a" * 64,
            ],
        ),
        ("several", ["Total 4/16 4 points not run", "(make grade EX=ex03_sdpa shows all)"]),
        ("fault", ["grader fault: no score", "the suite cannot be run"]),
        ("faulted check", ["! Rows sum to one.", " KeyError"]),
        ("kept", ["(needs CUDA) · unchanged since 2026-01-02 ",
                  "seed abc (SEED=abc repeats this run's inputs)",
                  "what is unchanged was judged earlier (FRESH=1 judges it again)"]),
        ("not started", ["not started yet: docs/lessons/ex03_sdpa.en.md", "Next: read docs/lessons/ex03_sdpa.en.md, then write exercises/ex03_sdpa.py"]),
        ("refused", ["not graded: it uses something that is not allowed",
                     "Line 1: torch.softmax is not allowed.",
                     "Next: exercises/ex03_sdpa.py: mend what is said above"]),
    ],
)  # fmt: skip
def test_the_terminal_says_it(name, lines):
    text = drawn(REPORTS[name])
    assert [line for line in lines if line not in text] == []


def test_only_a_learners_own_run_names_the_next_hint():
    assert "make hint" not in drawn(replace(REPORTS["graded"], seed=None))


def test_neighbours_that_one_check_blocks_are_told_once():
    failed = check(Verdict.FAILED, why="out is 1")
    waiting = [
        replace(check(Verdict.BLOCKED, why=failed.says), says=f"Case {n}.") for n in range(3)
    ]
    text = drawn(report(exercise(checks=(failed, *waiting))))
    assert all(f"· Case {n}. 0/2" in text for n in range(3))
    assert text.count("blocked by") == 1
    assert "these 3 are blocked by: Rows sum to one." in text


@pytest.mark.parametrize("state", ["unreadable", "missing", "refused"])
def test_why_a_file_is_not_graded_is_told_once(state):
    waiting = tuple(check(Verdict.BLOCKED, why="Line 3 is no Python.") for _ in range(3))
    odd = exercise(state=state, sentence="Line 3 is no Python.", checks=waiting)
    assert drawn(report(odd)).count("Line 3 is no Python.") == 1
    assert drawn(report(odd, exercise(slug="ex04_heads"))).count("Line 3 is no Python.") == 1


def test_a_time_of_today_needs_no_date():
    moment, evening = datetime(2026, 1, 2, 14, 2), datetime(2026, 1, 2, 23, 59)
    assert report_short_time(moment, evening) == "14:02"
    assert report_short_time(moment, evening + timedelta(days=1)) == "2026-01-02 14:02"


def test_what_was_judged_now_or_is_missing_is_not_called_unchanged():
    assert "unchanged" not in drawn(REPORTS["graded"])
    assert drawn(REPORTS["kept"]).count("unchanged since") == 1


def test_inputs_of_several_seeds_have_no_seed_to_repeat_them():
    assert "SEED=" not in drawn(REPORTS["kept from several runs"])


def test_the_total_in_the_terminal_is_that_of_the_record():
    assert "Total 4/16" in drawn(report(exercise(), exercise()))


def test_the_further_track_stands_below_the_total_in_the_terminal():
    core, apart = drawn(report(exercise(), exercise(slug="ex09_gradients", track="further"))).split(
        "Optional exercises, not counted in the total"
    )
    assert "Total 2/8" in core
    assert "ex09_gradients" not in core
    assert "ex09_gradients 2/8" in apart
    assert "Total" not in apart


def test_of_the_further_track_alone_there_is_no_total():
    alone = [exercise(slug=s, track="further") for s in ("ex09_gradients", "ex13_mla")]
    text = drawn(report(*alone))
    assert "Total" not in text
    assert "ex13_mla 2/8" in text
    assert "which the total leaves out" not in text


def test_nothing_that_a_student_wrote_is_taken_for_markup():
    odd = exercise(checks=(check(Verdict.FAILED, why="[bold]x[/nothing]"),), output="[red]hi\n")
    assert "[bold]x[/nothing]" in drawn(report(odd))
    assert "[red]hi" in drawn(report(odd))


@pytest.mark.parametrize("lines, cut", [(10, False), (11, True)])
def test_what_was_printed_is_not_cut_without_a_word(lines, cut):
    text = drawn(report(exercise(output="line\n" * lines)))
    assert text.count("| line") == 10
    assert ("| ..." in text) == cut


def test_a_hint_is_for_the_file_that_was_graded():
    e = exercise()
    assert point_to_hint(e, Words()) == "`make hint EX=ex03_sdpa` gives a hint."
    elsewhere = point_to_hint(replace(e, path="a b/ex03_sdpa.py"), Words("zh"))
    assert elsewhere.startswith("`make hint EX=ex03_sdpa SUBMISSION='a b/ex03_sdpa.py'`")
