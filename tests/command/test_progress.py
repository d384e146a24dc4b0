"""The learner's progress, and what is said after an exercise is passed."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grader.cli import app
from grader.core import catalog
from grader.core.records import ExerciseReport, Score
from grader.core.translation import Words
from grader.practice import learner_progress
from grader.practice.hints import Progress, write_hint_progress
from grader.practice.learner_progress import (
    LearnedExercise,
    read_learner_progress,
    record_attempt,
    write_learner_progress,
)
from grader.practice.passed_exercise import follow_practice_report, list_passed_lines
from tests.conftest import ROOT, solution

EX01, EX02, EX03 = map(catalog.find_catalog_exercise, ("ex01", "ex02", "ex03"))
SCORE = Score(earned=1, possible=1, not_run=0)
REPORT = ExerciseReport(
    slug="ex01_softmax", title="", track="core", path="ex01_softmax.py", sha256="a" * 64,
    state="graded", sentence="", score=SCORE, checks=(), speed=None,
)  # fmt: skip


def attempt(place, text: str, *, passed: bool = False) -> LearnedExercise:
    return record_attempt(place, replace(REPORT, sha256=text * 64), passed=passed)


def test_an_attempt_is_an_answer_that_changed(tmp_path):
    assert [attempt(tmp_path, text).attempts for text in "abba"] == [1, 2, 2, 3]


def test_the_first_pass_stays_the_first(tmp_path):
    attempt(tmp_path, "a")
    first = attempt(tmp_path, "b", passed=True)
    after = attempt(tmp_path, "c", passed=True)
    assert (first.needed, after.needed, after.attempts) == (2, 2, 3)
    assert after.passed == first.passed != ""


@pytest.mark.parametrize(
    "report",
    [replace(REPORT, state="not_started"), replace(REPORT, state="missing", sha256="")],
)
def test_what_was_not_begun_is_no_attempt(tmp_path, report):
    assert record_attempt(tmp_path, report, passed=False).attempts == 0
    assert not (tmp_path / ".progress").exists()


def test_the_projects_own_solutions_are_no_attempt():
    record_attempt(ROOT / "solutions", REPORT, passed=True)
    assert not (ROOT / "solutions" / ".progress").exists()


def test_hints_are_counted_once_each_and_not_forgotten(tmp_path):
    for level in (1, 2, 2):
        write_hint_progress(tmp_path, EX01, Progress(given={"softmax": level}))
    write_hint_progress(tmp_path, EX01, Progress())  # passed: the levels begin again
    write_hint_progress(tmp_path, EX01, Progress(given={"softmax": 1}))
    attempt(tmp_path, "a")
    assert read_learner_progress(tmp_path).about("ex01_softmax").hints == 3


@pytest.mark.parametrize(
    "content",
    [
        b"{", b"\xff", b"[1]", b"3", b"[" * 100_000, b'{"a": 1' + b" " * 300_000 + b"}",
        b'{"ex01_softmax": {"attempts": 1' + b"0" * 5000 + b"}}",
    ],
)  # fmt: skip
def test_a_damaged_file_is_a_sentence_and_is_kept(tmp_path, content):
    (tmp_path / ".progress").write_bytes(content)
    assert read_learner_progress(tmp_path).damaged
    said = follow_practice_report(EX01, tmp_path, REPORT, [EX01], Words())
    assert said == (
        ".progress is damaged and counts as empty; it is kept under another name, and begun anew.",
    )
    assert (tmp_path / ".progress.1").read_bytes() == content
    assert read_learner_progress(tmp_path).about("ex01_softmax").attempts == 1


@pytest.mark.parametrize(
    "entry",
    [
        7, [], {"attempts": -1}, {"attempts": True}, {"attempts": 10**9}, {"passed": "\x1b[31m"},
        {"passed": "today", "sha256": "no"}, {"given": {"a b": 1, "f": "x"}}, {"given": [1]},
    ],
)  # fmt: skip
def test_what_does_not_fit_in_an_entry_is_left_out(tmp_path, entry):
    (tmp_path / ".progress").write_text(json.dumps({"ex01_softmax": entry}))
    assert read_learner_progress(tmp_path).about("ex01_softmax") == LearnedExercise()


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / ".progress")
    assert read_learner_progress(tmp_path).damaged


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path):
    (tmp_path / ".progress").mkdir()
    assert not write_learner_progress(tmp_path, "ex01_softmax", LearnedExercise(attempts=1))
    assert [p.name for p in tmp_path.iterdir()] == [".progress"]


@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch, step):
    attempt(tmp_path, "a")
    before = (tmp_path / ".progress").read_bytes()

    def fill_the_disk(self, *args, **kwargs):
        if step == "write_text":
            self.write_bytes(b"{")  # as much as there was room for
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, step, fill_the_disk)
    assert not write_learner_progress(tmp_path, "ex01_softmax", LearnedExercise(attempts=7))
    assert [p.name for p in tmp_path.iterdir()] == [".progress"]
    assert (tmp_path / ".progress").read_bytes() == before


def test_an_entry_leaves_those_of_other_exercises(tmp_path):
    for slug, attempts in (("ex01_softmax", 1), ("ex02_masking", 2), ("ex01_softmax", 3)):
        write_learner_progress(tmp_path, slug, LearnedExercise(attempts=attempts))
    read = read_learner_progress(tmp_path).exercises
    assert {slug: entry.attempts for slug, entry in read.items()} == {
        "ex01_softmax": 3,
        "ex02_masking": 2,
    }


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("exercise", catalog.list_catalog_exercises(), ids=lambda e: e.slug)
def test_after_a_pass_at_most_ten_lines_are_read(tmp_path, exercise, language):
    lines = list_passed_lines(exercise, tmp_path, catalog.list_catalog_exercises(), Words(language))
    assert 7 <= len(lines) <= 10
    assert len(Words(language).learned(exercise)) == 3
    assert all(line.strip() for line in lines)


def test_the_next_exercise_is_the_first_that_was_never_passed(tmp_path):
    write_learner_progress(tmp_path, "ex02_masking", LearnedExercise(passed="2026-01-01"))
    lines = list_passed_lines(EX01, tmp_path, [EX01, EX02, EX03], Words())
    assert lines[-1] == "Next: ex03_sdpa, with its lesson docs/lessons/ex03_sdpa.en.md"
    assert (
        list_passed_lines(EX01, tmp_path, [EX01, EX02], Words())[-1]
        == "Every exercise here is passed."
    )


@pytest.mark.usefixtures("one_nursery")
def test_grading_and_the_table_show_it(tmp_path):
    def run(*arguments: str) -> str:
        place = ["--submission", str(tmp_path)]
        return CliRunner().invoke(app.app, [*arguments, *place], catch_exceptions=False).output

    (tmp_path / "ex01_softmax.py").write_text(solution("ex01"), encoding="utf-8")
    said = run("grade", "ex01")
    assert "ex01_softmax is passed. You now know:" in said
    assert "`make show EX=ex01_softmax` sets every step beside the right one." in said
    assert "(`make interview EX=ex01_softmax`)" in said
    assert "Next: ex02_masking" in said
    row = next(line for line in run("progress").splitlines() if "ex01_softmax" in line)
    assert row.split()[:2] == ["ex01_softmax", "1"]
    assert "1 of " in run("progress")
    assert "You now know" not in run("grade", "ex01", "--format", "json")


def test_a_damaged_file_is_told_by_the_table(tmp_path):
    (tmp_path / learner_progress.PROGRESS_FILE).write_text("{")
    done = CliRunner().invoke(app.app, ["progress", "--submission", str(tmp_path), "--lang", "zh"])
    assert ".progress 已损坏" in done.output
