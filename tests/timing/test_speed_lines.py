"""What a person and a program read about speed: the lines in a terminal, and the JSON."""

import io
import json
import re
from dataclasses import replace

import jsonschema
import pytest
from rich.console import Console

from grader.core.catalog import ROOT
from grader.core.records import (
    CheckResult,
    ExerciseReport,
    Interval,
    Report,
    Score,
    Speed,
    SpeedMeasurement,
    Verdict,
)
from grader.reporting import as_json, speed_text, terminal

SCHEMA = json.loads((ROOT / "grader/reporting/report.v1.schema.json").read_text())
SECONDS = SpeedMeasurement(
    unit="s", typical=(0.04, 0.00525, 0.0063), rounds=((0.04, 0.005, 0.006), (0.05, 0.006, 0.007)),
    position=Interval(low=0.9, middle=0.95, high=1.0), ratio=Interval(low=1.1, middle=1.2, high=1.3),
)  # fmt: skip
BYTES = replace(
    SECONDS, unit="bytes", typical=(260.0 * 2**20, 10.5 * 2**20, 135.5 * 2**20),
    position=Interval(low=0.25, middle=0.5, high=0.75),
)  # fmt: skip


def made(verdict: str = "scored", earned: int = 0, **more) -> Speed:
    return Speed(says="As fast as can be.", verdict=verdict, points=3, earned=earned, **more)


FULL = made(earned=3, fraction=1.0, measured=SECONDS)
PART = made(earned=2, fraction=0.5, measured=BYTES)
NONE = made(earned=0, fraction=0.0, measured=SECONDS)
LOOK = replace(FULL, why="2.0 times faster than the reference: worth a look")
FAILED = made("failed", why="out[0] is 1, but should be 2  [f()]\n3 of 4 entries differ.")
NOT_RUN = made("not_run", why="needs CUDA")
ALIKE = replace(NOT_RUN, why="this machine cannot tell them apart", measured=SECONDS)
BUSY = made("inconclusive", why="the machine was too busy", measured=SECONDS)
ALL = {
    "full": FULL, "part": PART, "none": NONE, "look": LOOK, "failed": FAILED, "not run": NOT_RUN,
    "alike": ALIKE, "busy": BUSY,
}  # fmt: skip


def drawn(s: Speed, width: int = 110) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width).print(speed_text.render_speed_report(s, "ex03_sdpa"))
    return [line.rstrip() for line in file.getvalue().splitlines()]


@pytest.mark.parametrize(
    "name, head, below",
    [
        ("full", "✓ As fast as can be.  3/3", []),
        ("part", "◐ As fast as can be.  2/3", []),
        ("none", "✗ As fast as can be.  0/3", []),
        (
            "look",
            "✓ As fast as can be.  3/3",
            ["    2.0 times faster than the reference: worth a look"],
        ),
        (
            "failed",
            "✗ As fast as can be.  0/3",
            ["    out[0] is 1, but should be 2  [f()]", "    3 of 4 entries differ."],
        ),
        ("not run", "○ As fast as can be.  needs CUDA", []),
        ("alike", "○ As fast as can be.  this machine cannot tell them apart", []),
        ("busy", "○ As fast as can be.  the machine was too busy", []),
    ],
)
def test_the_verdict_comes_first_and_its_reason_below(name, head, below):
    lines = drawn(ALL[name])
    assert lines[0] == head
    measured = 2 if ALL[name].measured else 0
    assert lines[1 : len(lines) - measured] == below
    assert len(lines) == 1 + len(below) + measured


def test_seconds_are_told_on_one_scale_and_in_words():
    _, scale, words = drawn(FULL)
    assert scale == f"    zero 40 ms ├{'─' * 35}░░●░░┤ 1.2 times the reference: 6.3 ms"
    assert words == (
        "    yours 6.3 ms: 1.20 times the reference (1.10 to 1.30), at 0.95 of the way (0.90 to 1.00); "
        "2 rounds"
    )


def test_bytes_are_told_in_mebibytes():
    _, scale, words = drawn(PART)
    assert scale.startswith("    zero 260.0 MiB ├")
    assert scale.endswith("┤ 1.2 times the reference: 12.6 MiB")
    assert words.startswith("    yours 135.5 MiB: 1.20 times the reference")


@pytest.mark.parametrize("low, middle, high", [(0, 0, 0), (0, 0.5, 1), (1, 1, 1), (0.2, 0.21, 0.9)])
def test_the_scale_is_as_long_for_any_interval(low, middle, high):
    at = Interval(low=low, middle=middle, high=high)
    scale = drawn(replace(FULL, measured=replace(SECONDS, position=at)))[1]
    cells = re.search("├(.*)┤", scale)[1]
    assert len(cells) == 40
    assert cells.index("●") == round(middle * 39)
    assert cells.count("░") == round(high * 39) - round(low * 39)


@pytest.mark.parametrize(
    "seconds, said",
    [
        *[(12.345, "12.3 s"), (1.0, "1 s"), (0.9876, "988 ms"), (0.001, "1 ms")],
        *[(0.0009876, "988 us"), (2.5e-6, "2.5 us"), (0.00525, "5.25 ms")],
        *[(0.9996, "1 s"), (0.0009996, "1 ms")],
    ],
)
def test_a_time_is_told_in_three_digits_and_a_unit_that_fits(seconds, said):
    measured = replace(SECONDS, typical=(0.04, 0.005, seconds))
    assert f"yours {said}:" in drawn(replace(FULL, measured=measured))[2]


def test_what_it_ran_on_is_told():
    device = {"device": "NVIDIA H200", "share of a matrix product's speed": 0.75}
    lines = drawn(replace(FULL, measured=replace(SECONDS, device=device)))
    assert lines[3:] == ["    device: NVIDIA H200", "    share of a matrix product's speed: 0.75"]


def test_nothing_in_it_is_taken_for_markup():
    assert "    [bold]x[/nothing]" in drawn(made("failed", why="[bold]x[/nothing]"))
    assert drawn(made("not_run", why="[red]x"))[0].endswith("[red]x")


PASSED = CheckResult(id="test_values", says="It is right.", verdict=Verdict.PASSED, points=9)


def report(s: Speed | None) -> Report:
    possible, earned = (12, 9 + s.earned) if s and s.counts else (9, 9)
    exercise = ExerciseReport(
        slug="ex03_sdpa", title="Attention", track="core", path="exercises/ex03_sdpa.py",
        sha256="a" * 64, state="graded", sentence="", score=Score(earned=earned, possible=possible, not_run=12 - possible),
        checks=(PASSED,), speed=s,
    )  # fmt: skip
    return Report(
        student="me", seed_id="0" * 16, seed=None, device="cpu", isolation="process",
        versions={}, exercises=(exercise,), seconds=1.0,
    )  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_the_json_fits_its_schema(name):
    record = json.loads(as_json.write_report_json(report(ALL[name])))
    jsonschema.validate(record, SCHEMA)
    [exercise] = record["exercises"]
    assert exercise["speed"]["verdict"] == ALL[name].verdict
    assert exercise["speed"]["earned"] == ALL[name].earned
    assert exercise["speed"]["points"] == 3


def test_the_json_tells_all_that_was_measured():
    found = as_json.convert_report_to_dict(report(FULL))["exercises"][0]["speed"]
    assert (found["fraction"], found["ratio"], found["interval"]) == (1.0, 1.2, [1.1, 1.3])
    assert found["measured"] == {
        "unit": "s",
        "typical": {"zero": 0.04, "reference": 0.00525, "student": 0.0063},
        "position": [0.9, 0.95, 1.0],
        "device": {},
        "rounds": {"zero": [0.04, 0.05], "reference": [0.005, 0.006], "student": [0.006, 0.007]},
    }


@pytest.mark.parametrize("entry", SCHEMA["$defs"]["speed"]["required"])
def test_the_schema_notices_what_is_missing(entry):
    record = as_json.convert_report_to_dict(report(FULL))
    del record["exercises"][0]["speed"][entry]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(record, SCHEMA)


@pytest.mark.parametrize(
    "name, says",
    [
        ("full", "ex03_sdpa 12/12 all right, speed 3 of 3"),
        ("part", "Right, and it could be faster: exercises/ex03_sdpa.py"),
        ("busy", "3 points not run (the machine was too busy)"),
        ("full", "All checks passed."),
    ],
)
def test_the_whole_report_has_it_too(name, says):
    file = io.StringIO()
    terminal.print_terminal_report(report(ALL[name]), Console(file=file, width=100))
    assert says in re.sub(" +", " ", file.getvalue())


def test_an_answer_that_was_wrong_when_it_was_timed_is_not_called_right():
    file = io.StringIO()
    terminal.print_terminal_report(report(FAILED), Console(file=file, width=100))
    assert "all right" not in file.getvalue()
    assert "Right, and it could be faster" not in file.getvalue()
