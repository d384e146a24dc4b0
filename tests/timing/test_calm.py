"""Waiting for an undisturbed processor: as long as it must, and no longer."""

import os
from types import SimpleNamespace

import pytest

from grader.timing import wait_idle
from grader.timing.wait_idle import IdleWaiter

CORE = max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
pytestmark = pytest.mark.skipif(CORE is None, reason="this system binds nothing to a core")


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(wait_idle, "least_idle_piece_seconds", float("inf"))


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock that goes on when somebody sleeps, and at no other time."""
    clock = SimpleNamespace(now=100.0)
    clock.perf_counter = lambda: clock.now
    clock.sleep = lambda seconds: setattr(clock, "now", clock.now + seconds)
    monkeypatch.setattr(wait_idle, "time", clock)
    return clock


def bound(**options):
    waiting = IdleWaiter(**options)
    waiting.core = CORE
    return waiting


def pieces(*seconds):
    """A piece of work that takes so long, each time it is done; and what was taken so far."""
    left = list(seconds)
    return left, lambda: left.pop(0)


def test_a_calm_core_is_not_waited_for():
    left, piece = pieces(1.0, 1.1, 0.9)
    waiting = bound(piece=piece)
    for _ in range(3):
        waiting.wait()
    assert left == []
    assert waiting._patience == wait_idle.PATIENCE_SECONDS


def test_a_disturbed_core_is_waited_for_until_it_is_calm():
    left, piece = pieces(1.0, 1.3, 1.3, 1.25, 1.05, "not asked for")
    waiting = bound(piece=piece)
    waiting.wait()
    waiting.wait()
    assert left == ["not asked for"]


def test_what_was_learned_holds_for_the_next_exercise():
    bound(piece=pieces(1.0)[1]).wait()
    left, piece = pieces(1.3, 1.0)
    bound(piece=piece).wait()
    assert left == []


def test_patience_ends_and_then_nothing_is_asked_any_more(clock):
    left, piece = pieces(1.0, *[2.0] * 1000)
    waiting = bound(patience=0.1, piece=piece)
    for _ in range(10):
        waiting.wait()
    assert clock.now == pytest.approx(100.1, abs=1.5 * wait_idle.PAUSE_SECONDS)
    asked = len(left)
    waiting.wait()
    assert 980 < len(left) == asked


def test_the_thread_is_free_again_afterwards():
    before = os.sched_getaffinity(0)
    seen = []
    bound(piece=lambda: seen.append(os.sched_getaffinity(0)) or 1.0).wait()
    assert seen == [{CORE}]
    assert os.sched_getaffinity(0) == before


def test_parties_that_are_bound_to_no_core_are_not_waited_for():
    IdleWaiter(piece=lambda: pytest.fail("asked")).wait()


def test_the_piece_takes_the_least_of_its_times(clock, monkeypatch):
    durations = iter([3.0, 2.0, 5.0, 1.5, 4.0, 6.0])
    monkeypatch.setattr(wait_idle.torch, "softmax", lambda *_: clock.sleep(next(durations)))
    assert wait_idle._time_idle_piece() == 1.5


def test_the_calmest_core_is_chosen():
    cores = sorted(os.sched_getaffinity(0))
    chosen = IdleWaiter(piece=lambda: 2.0 if os.sched_getaffinity(0) == {cores[-1]} else 1.0)
    chosen.choose()
    assert chosen.core == cores[0]
