"""Several processes judge a run together, and find what one would have found."""

from concurrent.futures import BrokenExecutor, Future
from dataclasses import replace

import pytest

from grader.core import catalog
from grader.grading import judge_together as together
from grader.grading import session as sessions
from grader.grading.session import Session
from grader.worker.parent.walls import PROCESS
from tests.conftest import solution

SLUGS = "ex01_softmax", "ex02_masking", "ex05_causal_mask"
EXERCISES = tuple(map(catalog.find_catalog_exercise, SLUGS))


@pytest.fixture(autouse=True)
def visible(monkeypatch):
    monkeypatch.setattr(
        sessions, "hide_grader_from_workers", lambda: None
    )  # it is that of the tests


@pytest.fixture
def answers(tmp_path):
    """Solutions; the first, which the other process begins, with a mistake."""
    for exercise in EXERCISES:
        (tmp_path / f"{exercise.slug}.py").write_text(solution(exercise.slug))
    with (tmp_path / "ex01_softmax.py").open("a") as file:
        file.write("\n\ndef softmax(x, dim=-1):\n    return x\n")  # which is named at once
    return tmp_path


def judged(monkeypatch, answers, processes: int):
    """Judge the answers in so many processes: the reports without times and explanations.

    How far an explanation gets, and so which failing case it shows, depends on the processor.
    """
    monkeypatch.setattr(sessions, "count_grading_processes", lambda exercises: processes)
    told = []
    with Session(
        exercises=EXERCISES, place=answers, seed="11", wall=PROCESS, together=True
    ) as session:
        report = session.judge(lambda doing, share: told.append(share))
    assert all(0 <= share < 1 for share in told)
    return [
        replace(r, seconds=0.0, kept_since=None, checks=tuple(map(_without_explanation, r.checks)))
        for r in report.exercises
    ]


def _without_explanation(check):
    return replace(check, seconds=0.0, why="", where="", line=0, diagnosis=None)


def test_two_processes_find_what_one_finds(monkeypatch, answers):
    two = judged(monkeypatch, answers, 2)
    assert two == judged(monkeypatch, answers, 1)
    assert [r.slug for r in two if any(c.verdict == "failed" for c in r.checks)] == ["ex01_softmax"]


@pytest.mark.parametrize("exercises, processes", [(1, 1), (5, 1), (6, 2), (18, 4)])
def test_a_process_is_started_for_no_fewer_than_three_exercises(monkeypatch, exercises, processes):
    monkeypatch.setattr(together.sys, "platform", "darwin")
    monkeypatch.setattr(together.os, "cpu_count", lambda: 4)
    assert together.count_grading_processes(exercises) == processes


class Broken:
    """A pool whose processes have begun everything and die."""

    def __init__(self, processes: int) -> None:
        assert processes == 1

    def call(self, function, exercise, terms):
        future: Future = Future()
        future.set_running_or_notify_cancel()
        future.set_exception(BrokenExecutor())
        return future

    def close(self, *, at_once: bool) -> None:
        assert at_once


def test_what_ends_its_process_is_judged_in_this_one(monkeypatch):
    monkeypatch.setattr(together, "ProcessPool", Broken)
    found = together.grade_answers_together(
        EXERCISES, None, 2, lambda exercise: exercise.slug.upper()
    )
    assert list(found) == [(e, e.slug.upper()) for e in EXERCISES]
