"""The command as people start it: what it prints, and how it ends."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner, Result

from grader.cli.app import app
from grader.core.catalog import ROOT


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def grader(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "grader", *args], cwd=ROOT, capture_output=True, text=True
    )


def whys(report: dict) -> list[str]:
    return [check["why"] for check in report["exercises"][0]["checks"]]


def asked(*args: str) -> Result:
    """The same in this process, for what is not about the process."""
    return CliRunner().invoke(app, args)


def test_one_solution_is_graded():
    done = grader("grade", "ex01_softmax", "--submission", "solutions", "--seed", "7")
    assert done.returncode == 0
    assert "ex01_softmax  10/10 all right" in done.stdout
    assert "seed 7 (SEED=7 repeats" in done.stdout
    assert done.stderr == ""


@pytest.mark.usefixtures("one_nursery")
def test_a_single_file_names_its_exercise():
    done = asked("grade", "--submission", "solutions/ex01_softmax.py")
    assert "ex01_softmax  10/10" in done.stdout


@pytest.mark.usefixtures("one_nursery")
def test_the_first_part_of_a_name_is_enough_and_named_twice_counts_once_in_json_too(tmp_path):
    path = tmp_path / "report.json"
    names = ("ex01", "ex01_softmax")
    done = asked("grade", *names, "--submission", "solutions", "--format", "json", "-o", str(path))
    assert done.exit_code == 0
    report = json.loads(path.read_text())
    assert [one["slug"] for one in report["exercises"]] == ["ex01_softmax"]
    assert report["score"] == {"earned": 10, "possible": 10, "not_run": 0}


@pytest.mark.weekly
def test_the_same_seed_gives_the_same_report_for_a_mended_file_too(tmp_path):
    wrong = tmp_path / "ex01_softmax.py"
    found = []
    for seed, comment in (("a", ""), ("a", "# tried again\n"), ("b", "")):
        wrong.write_text(f"{comment}import torch\ndef softmax(x, dim=-1): return x\n")
        done = asked("grade", "--submission", str(wrong), "--format", "json", "--seed", seed)
        found.append(whys(json.loads(done.stdout)))
    first, again, other = found
    assert first == again != other


@pytest.mark.parametrize(
    "args, says",
    [
        (["grade", "ex01_sofmax"], "There is no exercise called 'ex01_sofmax'. Did you mean ex01_softmax?"),
        (["grade", "--submission", "nowhere"], "nowhere is not there. Name a folder of answers, or one file."),
        (["grade", "--submission", "README.md"], "Name the exercise as well"),
        (["grade", "ex01", "ex02", "--submission", "README.md"], "README.md is one file, so it answers one exercise"),
        (["grade", "--submission", "x" * 300], "is not there."),
        (["grade", "ex1"], "Did you mean ex01?"),
        (["grade", "ex01", "--format", "jsn"], "There is no format called 'jsn'. Did you mean json?"),
        (["grade", "ex01", "--device", "tpu"], "There is no device called 'tpu': cpu or cuda."),
        (["grade", "ex01", "--format", "json", "-o", "/nowhere/x"], "/nowhere/x cannot be written"),
        (["hint"], "Which exercise? `make hint EX=ex03_sdpa`, for instance."),
        (["show"], "Which exercise? `make show EX=ex03_sdpa`, for instance."),
        (["grad"], "grade"),
    ],
)  # fmt: skip
def test_wrong_usage_gets_a_sentence_and_ends_with_2(args, says):
    done = asked(*args)
    assert done.exit_code == 2
    assert says in done.stderr
    assert done.exception is None or isinstance(done.exception, SystemExit)


def test_the_process_ends_with_2_and_says_it_in_a_sentence():
    done = grader("grade", "ex01_sofmax")
    assert done.returncode == 2
    assert "Did you mean ex01_softmax?" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


@pytest.mark.usefixtures("one_nursery", "unexplained")
def test_a_score_below_the_least_ends_with_1(tmp_path):
    (tmp_path / "ex01_softmax.py").write_text("x = 1\n")
    args = ["grade", "ex01", "--submission", str(tmp_path), "--min-score"]
    assert asked(*args, "1").exit_code == 1
    assert asked(*args, "0").exit_code == 0


def test_a_suite_is_ordinary_pytest():
    command = [sys.executable, "-m", "pytest", "-q", "grader/suites/ex01_softmax"]
    command.append("--submission=solutions")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
