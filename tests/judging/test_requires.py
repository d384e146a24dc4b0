"""An exercise whose packages are not installed is not asked, and nobody loses a point for it."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from grader.core import catalog
from grader.core.records import Report, Score, Verdict
from grader.core.this_python import build_pip_install_command, find_this_python
from grader.core.translation import Words
from grader.grading.exercise import Run, grade_answer, grade_answer_speed
from grader.reporting import (
    as_json,
    classroom50,
    from_json,
    github,
    gradescope,
    html,
    junit,
    task_report,
    terminal,
)
from grader.reporting.next_step import StepKind, choose_reported_next_step
from grader.worker.parent import requirements as packages
from tests.conftest import solution

PIP = f"{find_this_python()} -m pip install"
MISSING = f"needs no-such-package, which is not installed here: {PIP} no-such-package"
CASES = [
    ([], ""), (["torch"], ""), (["torch>=2"], ""), (["numpy", "torch"], ""),
    (["no-such-package"], MISSING), (["torch", "no-such-package"], MISSING),
    (["no-such-package>=3"],
     f"needs no-such-package, which is not installed here: {PIP} 'no-such-package>=3'"),
    (["torch>=1000"], f"needs torch>=1000, and {packages.read_worker_version('torch')} is installed here: "
                      f"{PIP} 'torch>=1000'"),
]  # fmt: skip
ENVIRONMENT = {
    "CLASSROOM": "c", "ASSIGNMENT": "a", "COMMIT_URL": "https://x/c", "RELEASE_URL": "https://x/r",
    "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d",
}  # fmt: skip


@pytest.mark.parametrize("requirements, says", CASES)
def test_what_is_lacking_is_said_with_its_cure(requirements, says):
    assert packages.find_unmet_worker_requirement(requirements) == says


def test_what_is_lacking_is_said_in_chinese_too():
    told = f"需要 no-such-package，这里没有安装：{PIP} no-such-package"
    assert Words("zh").said(MISSING) == told


@pytest.mark.parametrize(
    "executable, says",
    [
        ("{here}/.venv/bin/python", ".venv/bin/python -m pip install x"),
        ("/opt/python3.12/bin/python3", "/opt/python3.12/bin/python3 -m pip install x"),
        ("/home/my files/bin/python", "'/home/my files/bin/python' -m pip install x"),
    ],
)
def test_the_cure_names_the_python_that_runs(tmp_path, monkeypatch, executable, says):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.executable", executable.format(here=tmp_path))
    assert build_pip_install_command("x") == says


@pytest.mark.parametrize("on_cuda, found", [(False, ("a>=3",)), (True, ("a>=2",))])
def test_a_manifest_can_require_something_else_on_cuda(tmp_path, on_cuda, found):
    manifest = catalog.find_catalog_exercise("ex01").folder / "exercise.toml"
    lines = manifest.read_text(encoding="utf-8").replace(
        "requires = []", 'requires = ["a>=3"]\nrequires_on_cuda = ["a>=2"]'
    )
    path = tmp_path / "ex01_softmax" / "exercise.toml"
    path.parent.mkdir()
    path.write_text(lines, encoding="utf-8")
    assert (
        packages.list_worker_requirements(catalog.read_exercise_manifest(path), on_cuda=on_cuda)
        == found
    )


def test_what_is_required_on_cuda_is_what_is_required_unless_a_manifest_says_otherwise(exercise):
    assert packages.list_worker_requirements(exercise, on_cuda=True) == ("no-such-package",)


def test_a_run_on_cuda_is_held_to_what_is_required_there(exercise, run, tmp_path):
    other = replace(exercise, requires_on_cuda=("no-such-compiler",))
    report = grade_answer(other, tmp_path / "ex03_sdpa.py", replace(run, device="cuda"))
    assert {c.why for c in report.checks} == {MISSING.replace("-package", "-compiler")}


@pytest.fixture
def exercise():
    return replace(catalog.find_catalog_exercise("ex03_sdpa"), requires=("no-such-package",))


@pytest.fixture
def run(nursery):
    return Run(nursery=nursery, student="s", secret="s")


@pytest.fixture
def report(exercise, run, tmp_path):
    path = tmp_path / "ex03_sdpa.py"
    path.write_text(solution("ex03_sdpa"))
    return grade_answer(exercise, path, run)


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
    again = grade_answer_speed(exercise, tmp_path / "ex03_sdpa.py", run, report)
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
    report = grade_answer(exercise, path, run)
    assert (report.state, report.score) == (state, Score(earned=0, possible=0, not_run=16))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_format_says_why(report, language):
    words, console = Words(language), Console(file=io.StringIO(), width=1000)
    terminal.print_terminal_report(whole(report), console, words)
    told = {
        "terminal": console.file.getvalue(),
        "page": html.render_html_report(whole(report), words),
        "junit": junit.render_junit_report(whole(report), words),
        "gradescope": gradescope.render_gradescope_report(whole(report), words),
        "classroom50": classroom50.render_classroom50_report(whole(report), words, ENVIRONMENT),
        "task": task_report.render_task_text(
            task_report.select_task_report(report, [c.id for c in report.checks], 16, timed=True),
            words,
        ),
    }
    says = "".join(words.said(MISSING).split())  # a notebook's text is wrapped
    assert [name for name, text in told.items() if says not in "".join(text.split())] == []
    assert words("nothing was run") in told["terminal"]
    assert words("nothing was run") in told["page"]
    assert github.render_github_summary(whole(report), words)
    assert not [
        line for line in github.render_github_annotations(whole(report), words) if "::error" in line
    ]


def test_it_comes_back_from_json_as_it_was(report):
    text = as_json.write_report_json(whole(report))
    assert json.loads(text)["exercises"][0]["score"] == {"earned": 0, "possible": 0, "not_run": 16}
    assert from_json.parse_report_json(text).exercises[0].score == report.score


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_format_says_that_all_is_right(report, language):
    words, console = Words(language), Console(file=io.StringIO(), width=1000)
    terminal.print_terminal_report(whole(report), console, words)
    told = [
        console.file.getvalue(),
        html.render_html_report(whole(report), words),
        github.render_github_summary(whole(report), words),
        classroom50.render_classroom50_report(whole(report), words, ENVIRONMENT),
    ]
    for right in ("all right", "All checks passed."):
        assert not any(words(right) in text for text in told)
    assert not any("✓" in text for text in told)
    assert words("No check could be run here.") in told[0]
    assert words("No check could be run here.") in told[1]


def test_a_report_without_any_check_says_that_nothing_was_asked(report):
    console = Console(file=io.StringIO(), width=1000)
    terminal.print_terminal_report(whole(replace(report, checks=())), console, Words("en"))
    assert "nothing was run" in console.file.getvalue()


def test_nbgrader_leaves_it_to_a_person_and_gives_no_next_step(report):
    assert task_report.select_task_report(
        report, [c.id for c in report.checks], 16, timed=True
    ).not_run
    assert choose_reported_next_step(whole(report)).kind is StepKind.NOT_RUN
