"""The command as people start it: what it prints, and how it ends."""

import json
import subprocess
import sys

import pytest

from grader.catalog import ROOT


def grader(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "grader", *args], cwd=ROOT, capture_output=True, text=True
    )


def whys(report: dict) -> list[str]:
    return [check["why"] for check in report["exercises"][0]["checks"]]


def test_one_solution_is_graded():
    done = grader("grade", "ex01_softmax", "--submission", "solutions", "--seed", "7")
    assert done.returncode == 0
    assert "ex01_softmax  10/10 all right" in done.stdout
    assert "seed 7 (SEED=7 repeats" in done.stdout
    assert done.stderr == ""


def test_the_first_part_of_a_name_is_enough():
    assert grader("grade", "ex01", "--submission", "solutions").returncode == 0


def test_a_single_file_names_its_exercise():
    done = grader("grade", "--submission", "solutions/ex01_softmax.py")
    assert "ex01_softmax  10/10" in done.stdout


def test_json_goes_to_a_file(tmp_path):
    path = tmp_path / "report.json"
    done = grader("grade", "ex01", "--submission", "solutions", "--format", "json", "-o", str(path))
    assert done.returncode == 0
    assert json.loads(path.read_text())["score"] == {"earned": 10, "possible": 10, "not_run": 0}


def test_the_same_seed_gives_the_same_report(tmp_path):
    wrong = tmp_path / "ex01_softmax.py"
    wrong.write_text("import torch\ndef softmax(x, dim=-1): return x\n")
    runs = [
        json.loads(grader("grade", "--submission", str(wrong), "--format", "json", "--seed", seed).stdout)
        for seed in ("a", "a", "b")
    ]  # fmt: skip
    first, again, other = (whys(run) for run in runs)
    assert first == again != other


def test_a_seed_repeats_the_inputs_for_a_mended_file(tmp_path):
    wrong = tmp_path / "ex01_softmax.py"
    found = []
    for comment in ("", "# tried again\n"):
        wrong.write_text(f"{comment}import torch\ndef softmax(x, dim=-1): return x\n")
        args = ["grade", "--submission", str(wrong), "--format", "json", "--seed", "a"]
        found.append(whys(json.loads(grader(*args).stdout)))
    assert found[0] == found[1]


def test_an_exercise_named_twice_counts_once():
    done = grader("grade", "ex01", "ex01_softmax", "--submission", "solutions")
    assert done.stdout.count("ex01_softmax ") == 1


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
    done = grader(*args)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_a_score_below_the_least_ends_with_1(tmp_path):
    (tmp_path / "ex01_softmax.py").write_text("x = 1\n")
    args = ["grade", "ex01", "--submission", str(tmp_path), "--min-score"]
    assert grader(*args, "1").returncode == 1
    assert grader(*args, "0").returncode == 0


def test_a_suite_is_ordinary_pytest():
    command = [sys.executable, "-m", "pytest", "-q", "grader/suites/ex01_softmax"]
    for more in (["--in-process"], []):
        options = ["--submission=solutions", *more]
        done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "passed" in done.stdout


def test_without_a_cuda_device_the_gpu_check_says_so():
    torch_sees_none = "import torch; raise SystemExit(torch.cuda.is_available())"
    if subprocess.run([sys.executable, "-c", torch_sees_none]).returncode:
        pytest.skip(reason="this machine has a CUDA device")
    done = grader("gpu-check")
    assert done.returncode == 1
    assert "no CUDA device" in done.stdout
