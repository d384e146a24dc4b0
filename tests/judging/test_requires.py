"""An exercise whose packages are not installed is not asked, and nobody loses a point for it."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from grader import catalog
from grader.judging.grade import Run, grade, timed
from grader.languages import Words
from grader.records import Report, Score, Verdict
from grader.reporting import (
    as_json,
    classroom50,
    from_json,
    github,
    gradescope,
    html,
    junit,
    task,
    terminal,
)
from grader.reporting.next_step import Kind, next_step
from grader.worker import packages
from tests.conftest import solution

MISSING = "needs no-such-package, which is not installed here: pip install no-such-package"
CASES = [
    ([], ""), (["torch"], ""), (["torch>=2"], ""), (["numpy", "torch"], ""),
    (["no-such-package"], MISSING), (["torch", "no-such-package"], MISSING),
    (["no-such-package>=3"],
     "needs no-such-package, which is not installed here: pip install 'no-such-package>=3'"),
    (["torch>=1000"], f"needs torch>=1000, and {packages.version('torch')} is installed here: "
                      "pip install 'torch>=1000'"),
]  # fmt: skip
ENVIRONMENT = {
    "CLASSROOM": "c", "ASSIGNMENT": "a", "COMMIT_URL": "https://x/c", "RELEASE_URL": "https://x/r",
    "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d",
}  # fmt: skip


@pytest.mark.parametrize("requirements, says", CASES)
def test_what_is_lacking_is_said_with_its_cure(requirements, says):
    assert packages.lacking(requirements) == says


def test_what_is_lacking_is_said_in_chinese_too():
    told = "需要 no-such-package，这里没有安装：pip install no-such-package"
    assert Words("zh").said(MISSING) == told


@pytest.fixture
def exercise():
    return replace(catalog.find("ex03_sdpa"), requires=("no-such-package",))


@pytest.fixture
def run(nursery):
    return Run(nursery=nursery, student="s", secret="s")


@pytest.fixture
def report(exercise, run, tmp_path):
    path = tmp_path / "ex03_sdpa.py"
    path.write_text(solution("ex03_sdpa"))
    return grade(exercise, path, run)


def whole(*reports):
    return Report(
        student="me", seed_id="0" * 16, seed=None, device="cpu", isolation="process", versions={},
        exercises=reports, seconds=1.0,
    )  # fmt: skip


def test_no_check_is_run_and_no_speed_and_nothing_could_be_earned(report):
    assert (report.state, report.sentence) == ("graded", "")
    assert {(c.verdict, c.why) for c in report.checks} == {(Verdict.NOT_RUN, MISSING)}
    assert (report.speed.verdict, report.speed.why) == ("not_run", MISSING)
    assert report.score == Score(earned=0, possible=0, not_run=16)


def test_a_class_run_that_comes_back_for_the_speed_measures_none(exercise, run, report, tmp_path):
    again = timed(exercise, tmp_path / "ex03_sdpa.py", run, report)
    assert (again.speed, again.score) == (report.speed, report.score)


@pytest.mark.parametrize(
    "source, state",
    [("import torch\ntorch.nn.functional.scaled_dot_product_attention\n", "refused"),
     ("def (", "unreadable"), (None, "missing")],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_all_the_same(exercise, run, tmp_path, source, state):
    path = tmp_path / "ex03_sdpa.py"
    if source is not None:
        path.write_text(source)
    report = grade(exercise, path, run)
    assert (report.state, report.score) == (state, Score(earned=0, possible=0, not_run=16))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_format_says_why(report, language):
    words, console = Words(language), Console(file=io.StringIO(), width=200)
    terminal.show(whole(report), console, words)
    told = {
        "terminal": console.file.getvalue(),
        "page": html.to_html(whole(report), words),
        "junit": junit.to_junit(whole(report), words),
        "gradescope": gradescope.to_gradescope(whole(report), words),
        "classroom50": classroom50.to_classroom50(whole(report), words, ENVIRONMENT),
        "task": task.to_text(
            task.of_task(report, [c.id for c in report.checks], 16, timed=True), words
        ),
    }
    assert [name for name, text in told.items() if words.said(MISSING) not in text] == []
    assert words("nothing was asked") in told["terminal"]
    assert words("nothing was asked") in told["page"]
    assert github.summary(whole(report), words)
    assert not [line for line in github.annotations(whole(report), words) if "::error" in line]


def test_it_comes_back_from_json_as_it_was(report):
    text = as_json.to_json(whole(report))
    assert json.loads(text)["exercises"][0]["score"] == {"earned": 0, "possible": 0, "not_run": 16}
    assert from_json.from_json(text).exercises[0].score == report.score


def test_nbgrader_leaves_it_to_a_person_and_gives_no_next_step(report):
    assert task.of_task(report, [c.id for c in report.checks], 16, timed=True).not_run
    assert next_step(whole(report)).kind is Kind.NOTHING
