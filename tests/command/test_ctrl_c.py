"""Ctrl-C ends a watch although something swallows the KeyboardInterrupt."""

import signal
from contextlib import suppress

import pytest

from grader.core.translation import Words
from grader.practice.watch import ctrl_c, watch_session
from grader.practice.watch.ctrl_c import end_watch_at_signals
from grader.practice.watch.watch_session import WatchSession
from grader.worker.parent.walls import PROCESS


class NoScreen:
    def show(self, view):
        raise AssertionError("nothing is graded")

    def fit(self):
        raise AssertionError("the watch goes on")

    def take_requests(self):
        return []


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.setattr(ctrl_c, "_pressed", False)
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    before = {number: signal.getsignal(number) for number in numbers}
    end_watch_at_signals()
    with WatchSession([], tmp_path, Words("en"), NoScreen(), PROCESS) as begun:
        yield begun
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_watch_ends_at_its_next_look(session):
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        session._wait_for_work()


def test_a_save_at_the_same_time_does_not_hide_it(session, monkeypatch):
    """A file that was saved meanwhile interrupts its grading in the same way."""

    class Overtaken:
        happened, cuts_off = True, False

        def __init__(self, changed):
            pass

        def stop_between_cases(self):
            pass

        def __enter__(self):
            signal.raise_signal(signal.SIGINT)

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(watch_session, "Overtaken", Overtaken)
    monkeypatch.setattr(session._files, "take", lambda slug: None)
    with pytest.raises(KeyboardInterrupt):
        session._attempt_grading("ex01_softmax")
