"""The rounds as pytest-benchmark shows them, and the command that does it."""

import json
import statistics
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from grader.cli import app, options
from grader.core.catalog import ROOT
from grader.core.errors import GraderFault
from grader.core.records import Interval, Speed, SpeedMeasurement
from grader.timing import bench_command
from grader.timing.benchmark_table import print_benchmark_table
from tests.timing.rounds import rounds

NOWHERE = Interval(low=0.0, middle=0.5, high=1.0)


def speed(times=None, unit: str = "s", **more) -> Speed:
    measured = None
    if times is not None:
        measured = SpeedMeasurement(
            unit=unit, typical=tuple(np.median(times, axis=0)), position=NOWHERE, ratio=NOWHERE,
            rounds=tuple(map(tuple, times)),
        )  # fmt: skip
    default = {"says": "As fast as can be.", "verdict": "scored", "points": 3}
    return Speed(measured=measured, **(default | more))


def recorded(path) -> dict[str, dict]:
    """What pytest-benchmark wrote, by the name of its test."""
    return {b["name"]: b for b in json.loads(path.read_text())["benchmarks"]}


def test_the_recorded_rounds_are_those_that_are_shown(tmp_path):
    times, path = rounds(45) / 1000, tmp_path / "rounds.json"
    assert print_benchmark_table({"ex03_sdpa": speed(times)}, [f"--benchmark-json={path}"]) == 0
    found = recorded(path)
    assert found.keys() == {f"bench_attention[{p}]" for p in ("zero", "reference", "student")}
    for column, party in enumerate(("zero", "reference", "student")):
        one = found[f"bench_attention[{party}]"]
        own = times[:, column].tolist()
        assert one["stats"]["data"] == pytest.approx(own)  # each round, in its order
        assert one["stats"]["min"] == pytest.approx(min(own))
        assert one["stats"]["median"] == pytest.approx(statistics.median(own))
        assert one["stats"]["rounds"] == 45
        assert one["group"] == "ex03_sdpa"


def test_every_exercise_has_its_own_rounds(tmp_path):
    path = tmp_path / "rounds.json"
    speeds = {"ex03_sdpa": speed(rounds(45)), "ex05_causal_mask": speed(rounds(20, seed=1))}
    assert print_benchmark_table(speeds, [f"--benchmark-json={path}"]) == 0
    assert {b["group"]: b["stats"]["rounds"] for b in recorded(path).values()} == {
        "ex03_sdpa": 45,
        "ex05_causal_mask": 20,
    }


@pytest.mark.parametrize("compare", ["--benchmark-compare=0001", "--benchmark-compare"])
def test_a_later_run_is_compared_with_an_earlier_one(tmp_path, capfd, compare):
    kept = [f"--benchmark-storage={tmp_path}", "--benchmark-autosave"]
    assert print_benchmark_table({"ex03_sdpa": speed(rounds(20))}, kept) == 0
    capfd.readouterr()
    assert print_benchmark_table({"ex03_sdpa": speed(rounds(20) * 2)}, [*kept, compare]) == 0
    table = capfd.readouterr().out
    assert "bench_attention[student] (0001_" in table
    assert "bench_attention[student] (NOW)" in table


def test_a_histogram_is_drawn(tmp_path):
    assert (
        print_benchmark_table(
            {"ex03_sdpa": speed(rounds(20))}, [f"--benchmark-histogram={tmp_path / 'h'}"]
        )
        == 0
    )
    [drawn] = tmp_path.glob("h*.svg")
    names = drawn.read_text(encoding="utf-8")
    assert all(f"bench_attention[{party}]" in names for party in ("zero", "reference", "student"))


@pytest.mark.parametrize("times, code", [(1.0, 0), (2.0, 1)])
def test_a_run_that_has_become_slower_can_fail(tmp_path, times, code):
    kept = [f"--benchmark-storage={tmp_path}", "--benchmark-autosave"]
    limit = ["--benchmark-compare=0001", "--benchmark-compare-fail=median:50%"]
    assert print_benchmark_table({"ex03_sdpa": speed(rounds(20))}, kept) == 0
    assert print_benchmark_table({"ex03_sdpa": speed(rounds(20) * times)}, [*kept, *limit]) == code


@pytest.mark.parametrize(
    "speeds",
    [
        {},
        {"ex07_mqa_gqa": speed(rounds(5) * 2**20, "bytes")},
        {"ex03_sdpa": speed(verdict="failed")},
    ],
    ids=["none", "bytes", "failed"],
)
def test_where_nothing_was_timed_there_is_no_table(speeds, capfd):
    assert print_benchmark_table(speeds, []) == 0
    assert capfd.readouterr().out == ""


@pytest.fixture
def command(monkeypatch):
    """`grader bench` with these arguments, where these speeds would be measured."""

    def run(speeds: dict[str, Speed], *args: str):
        monkeypatch.setattr(bench_command, "benchmark_all_exercises", lambda *_, **__: speeds)
        given = ["bench", "--submission", str(ROOT / "solutions"), "--isolation", "process"]
        return CliRunner().invoke(app.app, [*given, *args])

    return run


def test_memory_is_shown_and_left_out_of_the_table(command):
    speeds = {
        "ex03_sdpa": speed(rounds(20), earned=3),
        "ex07_mqa_gqa": speed(rounds(5) * 2**20, "bytes", says="The peak memory.", earned=1),
    }
    done = command(speeds, "ex03", "ex07")
    assert done.exit_code == 0
    shown, _, table = done.output.partition("benchmark 'ex03_sdpa': 3 tests")
    assert "The peak memory.  1/3" in shown
    assert "zero 8.1 MiB" in shown
    assert "bench_attention[student]" in table
    assert "ex07" not in table
    assert "bench_decode_memory" not in table


def test_options_of_pytest_benchmark_may_stand_anywhere(command, tmp_path):
    path = tmp_path / "rounds.json"
    speeds = {"ex03_sdpa": speed(rounds(20))}
    for args in (("ex03", f"--benchmark-json={path}"), (f"--benchmark-json={path}", "ex03")):
        path.unlink(missing_ok=True)
        assert command(speeds, *args).exit_code == 0
        assert len(recorded(path)) == 3


@pytest.mark.parametrize("option", ["--nonsense", "-q", "--pdb", "--junitxml=x.xml"])
def test_any_other_option_gets_a_sentence(command, option):
    for args in ((option,), ("ex03", option), (option, "ex03")):
        done = command({}, *args)
        assert done.exit_code == options.USAGE
        assert done.output == f"{option} is no option of bench, and none of pytest-benchmark's.\n"


def test_where_there_is_no_speed_case_it_says_so():
    done = subprocess.run(
        [sys.executable, "-m", "grader", "bench", "ex01", "--submission", "solutions",
         "--isolation", "process"], cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    says = "There is no speed to measure in ex01_softmax.\n"
    assert (done.returncode, done.stderr) == (2, says)


@pytest.fixture
def timed(monkeypatch):
    """`grader bench` where a contest ends with what `measure` says."""

    def run(measure, *args: str):
        monkeypatch.setattr(bench_command, "measure_speed", measure)
        monkeypatch.setattr(
            bench_command, "Nursery", lambda wall: nullcontext(SimpleNamespace(wall=wall))
        )
        monkeypatch.setattr(
            bench_command, "hide_grader_from_workers", lambda: None
        )  # it is that of the tests
        return CliRunner().invoke(app.app, ["bench", "--isolation", "process", *args])

    return run


def test_only_what_there_is_to_time_is_timed(timed, tmp_path):
    begun = []

    def measure(contest, progress):
        begun.append((contest.exercise.slug, contest.device, contest.answer.path.name))
        return speed(rounds(20))

    (tmp_path / "ex03_sdpa.py").write_text("import torch\n")
    (tmp_path / "ex05_causal_mask.py").write_text("import torch\ntorch.nn.MultiheadAttention\n")
    done = timed(measure, "--submission", str(tmp_path), "ex01", "ex03", "ex05", "ex06")
    assert done.exit_code == 0
    assert begun == [("ex03_sdpa", "cpu", "ex03_sdpa.py")]
    assert done.output.count("ex01") == 1
    assert "There is no speed to measure in ex01_softmax." in done.output
    assert "torch.nn.MultiheadAttention is not allowed" in done.output
    assert "ex06_kv_cache.py is not there." in done.output
    assert done.output.count("0/3") + done.output.count("0/2") == 2


def test_a_seed_repeats_the_inputs_of_a_run(timed):
    seeds = []

    def measure(contest, progress):
        seeds.append(contest.seed)
        return speed()

    for seed in ("7", "7", "8", "", ""):
        timed(measure, "ex03", "--submission", str(ROOT / "solutions"), "--seed", seed)
    assert seeds[0] == seeds[1]
    assert len(set(seeds)) == 4


def test_a_fault_of_ours_is_told_in_a_sentence(timed):
    def measure(contest, progress):
        raise GraderFault("the zero of ex03_sdpa: out[0] is 1")

    done = timed(measure, "ex03", "--submission", str(ROOT / "solutions"))
    assert done.exit_code == options.FAULT
    assert "the zero of ex03_sdpa: out[0] is 1" in done.output
