"""`make gpu-check` yields something whatever happens, and goes on where it stopped."""

import json
import signal
import subprocess
import sys
import time

import pytest
import torch

from grader.core import catalog
from grader.core.catalog import ROOT
from grader.gpu_check import gpu_session, plan
from grader.gpu_check.gpu_results import GpuResults
from grader.gpu_check.gpu_words import GpuTally, describe_gpu_check_line
from grader.gpu_check.plan import GpuStep
from reference import on_device

LINES = """
import sys
after = int(sys.argv[-1]) if "--after" in sys.argv else 0
for i in range(after, 4):
    if i == 1 and {at_one!r} == "dies":
        raise SystemExit("lost the device")
    if i == 1 and {at_one!r} == "hangs":
        import time
        time.sleep(60)
    print('{{"about": "number", "number": %d}}' % i, flush=True)
"""


def step(name, at_one="", *, by_line=True):
    """Four lines; at the second its process dies or hangs."""
    command = (sys.executable, "-c", LINES.format(at_one=at_one))
    return GpuStep(name=name, command=command, by_line=by_line)


@pytest.fixture
def results(tmp_path):
    return GpuResults.resume(tmp_path / "found.json", "cpu")


def numbers(path, name):
    lines = json.loads(path.read_text())["steps"][name]["lines"]
    return [line.get("number", line.get("error")) for line in lines]


def test_a_process_that_dies_leaves_all_other_lines(results, capsys):
    assert not gpu_session.run_gpu_steps([step("first", "dies"), step("second")], results)
    first = numbers(results.path, "first")
    assert first[0] == 0 and first[2:] == [2, 3]
    assert "status 1: lost the device" in first[1]
    assert numbers(results.path, "second") == [0, 1, 2, 3]
    assert "1 results, 1 of them wrong" in capsys.readouterr().out


def test_a_step_that_cannot_go_on_ends_with_its_error(results):
    assert not gpu_session.run_gpu_steps(
        [step("first", "dies", by_line=False), step("second")], results
    )
    assert len(numbers(results.path, "first")) == 2
    assert numbers(results.path, "second") == [0, 1, 2, 3]


def test_when_the_time_is_over_the_rest_is_named_and_goes_on_later(results, capsys):
    steps = [step("first", "hangs"), step("second")]
    assert not gpu_session.run_gpu_steps(steps, results, minutes=1 / 60)
    assert numbers(results.path, "first") == [0]
    assert "Left: first, second." in capsys.readouterr().out
    again = GpuResults.resume(results.path, "cpu")
    gpu_session.run_gpu_steps([step("first"), step("second")], again)
    assert numbers(results.path, "first") == [0, 1, 2, 3]  # the first of them from the first run
    assert "Left" not in capsys.readouterr().out


def test_what_is_finished_is_not_run_again_unless_afresh(results, capsys):
    gpu_session.run_gpu_steps([step("first")], results)
    gpu_session.run_gpu_steps([step("first", "dies")], GpuResults.resume(results.path, "cpu"))
    assert "from an earlier run" in capsys.readouterr().out
    assert numbers(results.path, "first") == [0, 1, 2, 3]
    gpu_session.run_gpu_steps(
        [step("first", "dies")], GpuResults.resume(results.path, "cpu", fresh=True)
    )
    assert "lost the device" in numbers(results.path, "first")[1]


def test_results_of_other_code_are_put_aside(results):
    gpu_session.run_gpu_steps([step("first")], results)
    text = results.path.read_text()
    results.path.write_text(text.replace(results.about["code"], "another"))
    assert not GpuResults.resume(results.path, "cpu").steps
    [aside] = results.path.parent.glob("found.*-*.json")
    assert "another" in aside.read_text()


def test_no_result_is_no_success(results):
    assert not gpu_session.run_gpu_steps(
        [GpuStep(name="silent", command=(sys.executable, "-c", ""))], results
    )


@pytest.mark.parametrize(
    "earned, possible, wrong, not_run",
    [(4, 4, False, False), (3, 4, True, False), (0, 0, False, True), (None, None, True, False)],
)
def test_an_exercise_is_right_wrong_or_not_run(earned, possible, wrong, not_run):
    score = None if earned is None else {"earned": earned, "possible": possible}
    report = {"score": score, "checks": [], "speed": None, "sentence": "", "seconds": 1.0}
    found = describe_gpu_check_line({"about": "exercise", "report": report})
    assert (found.wrong, found.not_run) == (wrong, not_run)
    tally = GpuTally(results=1)
    tally.add(found)
    assert tally.right == (not wrong and not not_run)


def test_one_case_of_the_fast_path_that_fails_leaves_all_others(monkeypatch):
    calls = []

    def fails_once(*args, **kwargs):
        calls.append(args)
        if len(calls) == 3:
            raise RuntimeError("cuDNN error")
        return torch.zeros(1)

    monkeypatch.setattr(on_device, "fused_attention", fails_once)
    monkeypatch.setattr(on_device, "SHAPES", on_device.SHAPES[:1])
    monkeypatch.setattr(on_device, "DTYPES", on_device.DTYPES[2:])
    found = [on_device.line(*one) for one in on_device.lines("cpu")]
    cases = [line for line in found if line["about"] == "case"]
    assert [n for n, line in enumerate(cases) if "error" in line] == [2]
    assert cases[2]["error"] == "RuntimeError: cuDNN error"
    assert len(cases) == 8 and all("largest_error" in line for line in cases[3:])


def test_the_quickest_and_most_telling_comes_first_and_speed_last():
    names = [one.name for one in plan.plan_gpu_steps([], "cuda")]
    assert names[:3] == ["machine", "fast path", "ex08_cuda_sdpa"]
    assert names[3:6] == ["compiling ex14_triton", "ex14_triton", "ex15_cuda_kernel"]
    timed = [name for name in names if name.startswith("speed of ")]
    assert names[-len(timed) :] == timed and "speed of ex14_triton" in timed
    assert {e.slug for e in catalog.list_catalog_exercises()} <= set(names)
    few = [one.name for one in plan.plan_gpu_steps(["ex01", "ex14"], "cuda", speed=False)]
    assert few == ["machine", "fast path", "compiling ex14_triton", "ex14_triton", "ex01_softmax"]


def gpu_check(*arguments, python=()):
    return [sys.executable, *python, "-m", "grader.gpu_check", *arguments]


def said(*arguments, python=()):
    command = gpu_check(*arguments, python=python)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_what_is_missing_is_said_in_the_first_line():
    done = said(python=("-S",))
    assert done.returncode == 1 and not done.stderr
    assert done.stdout.startswith("Not installed for this Python: numpy torch pytest")


def test_an_unknown_exercise_has_a_sentence():
    done = said("--rehearse", "ex0")
    assert done.returncode == 2
    assert done.stdout.strip() == "There is no exercise called 'ex0'. Did you mean ex00?"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_without_a_cuda_device_there_is_nothing_to_check():
    done = said()
    assert done.returncode == 1
    assert "no CUDA device" in done.stdout and "--rehearse" in done.stdout


@pytest.mark.weekly  # the steps themselves are asked above, without workers
def test_a_rehearsal_killed_in_the_middle_has_its_results(tmp_path):
    output = tmp_path / "found.json"
    command = gpu_check("--rehearse", "--no-speed", "ex01", "-o", str(output))
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not output.is_file() or "fast path" not in output.read_text():
        assert child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    kept = json.loads(output.read_text())["steps"]
    assert kept["machine"]["finished"] and not kept["fast path"]["finished"]
    done = said("--rehearse", "--no-speed", "ex01", "-o", str(output))
    assert done.returncode == 0, done.stdout + done.stderr
    steps = json.loads(output.read_text())["steps"]
    assert all(record["finished"] for record in steps.values())
    assert len(steps["fast path"]["lines"]) == 101  # each once
    [graded] = steps["ex01_softmax"]["lines"]
    assert graded["report"]["score"]["earned"] == graded["report"]["score"]["possible"]
