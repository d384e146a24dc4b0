"""The formats that platforms read."""

import json
import re

import pytest
from junitparser import JUnitXml
from typer.testing import CliRunner

from grader.cli import app, grade_command
from grader.core.catalog import ROOT
from grader.core.records import CheckResult, Verdict
from grader.core.translation import Words
from grader.reporting import classroom50, github, gradescope, junit, write_reports
from grader.submission import python_outline
from tests.command.here import take_one_nursery
from tests.reporting.samples import (
    EVERYTHING,
    FAULT,
    FURTHER,
    HOSTILE,
    NOT_STARTED,
    RIGHT,
    check,
    exercise,
    report,
)

EN = Words("en")
RUNNER = {
    "CLASSROOM": "attention", "ASSIGNMENT": "by-hand", "COMMIT_URL": "https://example.org/c/1",
    "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d", "RELEASE_URL": "https://example.org/r",
}  # fmt: skip
ODD = f"{HOSTILE}\n::error::x\n\x00\ufffe\x1b[31m a%b,c:d|e"
NASTY = report(exercise(checks=(check("own_a", Verdict.FAILED, why=ODD, line=7),), speed=None))


def read(text):
    return JUnitXml.fromstring(text.encode())


def test_junit_has_a_suite_for_each_exercise_and_a_case_for_each_check():
    found = read(junit.render_junit_report(EVERYTHING, EN))
    assert [suite.name for suite in found] == [e.slug for e in EVERYTHING.exercises]
    [suite] = [s for s in found if s.name == "ex03_sdpa"]
    kinds = {case.name: [type(r).__name__ for r in case.result] for case in suite}
    assert kinds == {
        "own_a": [], "own_b": ["Failure"], "own_c": ["Skipped"], "own_d": ["Skipped"], "speed": [],
    }  # fmt: skip
    assert (suite.tests, suite.failures, suite.skipped, suite.errors) == (5, 1, 2, 0)
    assert {p.name: p.value for p in suite.properties()}["earned"] == "5"
    assert found.tests == sum(suite.tests for suite in found)


def test_junit_of_a_file_that_is_not_graded_has_only_failures():
    [suite] = read(junit.render_junit_report(report(NOT_STARTED), EN))
    assert (suite.tests, suite.failures) == (1, 1)
    [case] = suite
    assert case.result[0].message == "Not started yet."


def test_junit_takes_a_fault_of_ours_for_an_error():
    [suite] = read(junit.render_junit_report(report(FAULT), EN))
    assert suite.errors > 0


def test_junit_takes_any_text():
    [suite] = read(junit.render_junit_report(NASTY, EN))
    [case] = suite
    assert "<script>" in case.result[0].text
    assert "\x1b" not in case.result[0].text


def test_github_points_at_the_students_lines():
    [line] = github.render_github_annotations(NASTY, EN)
    assert line.startswith("::error file=exercises/ex03_sdpa.py,line=7,title=What own_a asks.::")
    assert "\n" not in line
    assert "a%25b,c:d|e" in line


def test_github_gets_ten_annotations_at_most_and_one_for_a_refused_file():
    many = exercise(checks=tuple(check(f"own_{n}", Verdict.FAILED, why="x") for n in range(30)))
    assert len(github.render_github_annotations(report(many), EN)) == 10
    refused = exercise(
        state="refused", sentence="Line 1: eval is not allowed.",
        checks=tuple(check(f"own_{n}", Verdict.BLOCKED, why="Line 1") for n in range(3)),
    )  # fmt: skip
    assert len(github.render_github_annotations(report(refused), EN)) == 1


def test_no_line_of_a_summary_is_a_command_or_markup_of_the_students():
    text = github.render_github_summary(NASTY, EN)
    assert not re.search(r"(?m)^\s*::", text)
    assert "<script>" not in text and "<img" not in text
    assert "<details>" in text


def test_the_further_track_stands_below_the_others_in_a_summary():
    text = github.render_github_summary(report(RIGHT, FURTHER), EN)
    core, apart = text.split("Optional exercises, not counted in the total")
    assert f"| {FURTHER.slug} |" not in core
    assert f"| {FURTHER.slug} | 7/7 |" in apart


def test_a_summary_stays_below_the_limit():
    long = exercise(checks=(check("own_a", Verdict.FAILED, why="注" * 400_000),))
    text = github.render_github_summary(report(RIGHT, long, long), EN)
    assert len(text.encode()) <= github.MAX_SUMMARY_BYTES
    assert "| ex03_sdpa |" in text


def test_gradescope_adds_up():
    run = report(RIGHT, exercise())
    found = json.loads(gradescope.render_gradescope_report(run, EN))
    assert found["score"] == sum(t["score"] for t in found["tests"]) == run.score.earned
    assert sum(t["max_score"] for t in found["tests"]) == run.score.possible
    assert {t["visibility"] for t in found["tests"]} == {"visible"}
    assert {t.get("status") for t in found["tests"]} <= {"passed", "failed", None}
    not_run = [t for t in found["tests"] if t["output"] == "needs CUDA"]
    assert not_run and all(t["max_score"] == 0 and "status" not in t for t in not_run)
    assert set(found) <= {
        "score", "execution_time", "output", "output_format", "test_output_format",
        "test_name_format", "visibility", "stdout_visibility", "extra_data", "tests", "leaderboard",
    }  # fmt: skip


def test_classroom_50_has_whole_scores_out_of_a_fixed_maximum():
    found = json.loads(classroom50.render_classroom50_report(EVERYTHING, EN, RUNNER))
    assert found["schema"] == "classroom50/result/v1"
    assert found["datetime"] == "2026-06-01T14:32:05Z"
    assert found["review"] == found["commit"]
    for test in found["tests"]:
        assert type(test["score"]) is type(test["max-score"]) is int
        assert 0 <= test["score"] <= test["max-score"]
        assert test["passed"] in (True, False)
    assert found["score"] == sum(t["score"] for t in found["tests"])
    assert found["max-score"] == sum(t["max-score"] for t in found["tests"])
    assert any(t["output"] == "needs CUDA" and not t["passed"] for t in found["tests"])


@pytest.mark.parametrize("missing", [*RUNNER, "tag"])
def test_outside_its_runner_there_is_a_sentence(missing):
    given = RUNNER | {"SUBMISSION_TAG": "v1"} if missing == "tag" else dict(RUNNER)
    given.pop(missing, None)
    with pytest.raises(classroom50.NotInRunner, match=missing if missing != "tag" else "'v1'"):
        classroom50.render_classroom50_report(EVERYTHING, EN, given)


def test_for_github_the_summary_goes_to_the_runners_file(tmp_path, monkeypatch, capsys):
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    write_reports.write_report(NASTY, "github", None, EN)
    assert path.read_text().startswith("before\n## Attention by Hand")
    assert capsys.readouterr().out.startswith("::error file=")


def grade(folder, *args):
    command = ["grade", "ex01", "--submission", str(folder), "--isolation", "process", *args]
    return CliRunner().invoke(app.app, command)


@pytest.fixture
def verdicts_alone(nursery, unexplained, monkeypatch):
    """Grade in the nursery of all tests, and explain nothing: its own line is in what failed."""
    take_one_nursery(monkeypatch, nursery)


@pytest.mark.usefixtures("verdicts_alone")
def test_a_failure_knows_the_line_it_points_to(tmp_path):
    source = (ROOT / "solutions/ex01_softmax.py").read_text(encoding="utf-8")
    wrong = source.replace("    return weights.to(x.dtype)\n", "    return weights.no_such\n", 1)
    assert wrong != source
    (tmp_path / "ex01_softmax.py").write_text(wrong)
    done = grade(tmp_path, "--format", "github")
    number = wrong.splitlines().index("    return weights.no_such") + 1
    assert f"::error file={tmp_path}/ex01_softmax.py,line={number}," in done.output


@pytest.mark.usefixtures("verdicts_alone")
def test_a_failure_in_a_notebook_points_at_no_line(tmp_path):
    cells = [
        {
            "cell_type": "code",
            "source": "import torch\ndef softmax(x, dim=-1):\n    return x.no_such",
        }
    ]
    path = tmp_path / "ex01_softmax.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    done = grade(path, "--format", "github")
    assert "no_such" in done.output
    assert "::error file=" in done.output and ",line=" not in done.output


def test_classroom_50_is_asked_for_its_runner_before_anything_is_graded(tmp_path, monkeypatch):
    monkeypatch.setattr(grade_command, "Session", lambda **_: pytest.fail("it was graded"))
    (tmp_path / "ex01_softmax.py").write_text("x = 1\n")
    done = grade(tmp_path, "--format", "classroom50")
    assert done.exit_code == 2
    assert "CLASSROOM is not set" in done.output


def test_a_wrong_value_points_at_the_function():
    from grader.submission.admission import find_submission_definition

    lines = python_outline.list_submission_lines(
        python_outline.parse_submission("x = 1\n\n\ndef softmax(x):\n    return x\n")
    )
    assert (
        find_submission_definition(lines, "out[0] is 1, but should be 2  [softmax(float32 (3,))]")
        == 4
    )
    assert find_submission_definition(lines, "nothing of theirs") == 0
    assert CheckResult(id="a", says="", verdict=Verdict.PASSED, points=1).line == 0
