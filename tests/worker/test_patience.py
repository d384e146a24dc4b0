"""A limit counts what an answer takes, not what a busy machine makes of it."""

import itertools
import multiprocessing
import os
import time

import pytest

from grader.worker.parent.faults import AnswerTimedOut
from grader.worker.parent.patience import count_worker_seconds
from grader.worker.parent.supervisor import Supervisor
from tests.worker.asking import call, worker

SOURCE = """
import time

def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return 1

def sleep(seconds):
    time.sleep(seconds)
    return 1

def threads(seconds):
    import threading
    for _ in range(8):
        threading.Thread(target=spin, args=(3600,), daemon=True).start()
    return spin(3600)
"""


def spin_on(core):
    os.sched_setaffinity(0, {core})
    while True:
        pass


@pytest.fixture
def crowd():
    """Four others who compute on the same processor, for ever."""
    core = min(os.sched_getaffinity(0))
    context = multiprocessing.get_context("fork")
    others = [context.Process(target=spin_on, args=(core,), daemon=True) for _ in range(4)]
    for other in others:
        other.start()
    yield core
    for other in others:
        other.kill()
        other.join()


def ask(nursery, name, seconds, limit, core=None, **limits):
    with worker(nursery, SOURCE, call_seconds=limit, **limits) as (client, supervisor):
        supervisor._core = core
        return call(client, name, seconds)


def test_a_call_that_waits_for_others_has_its_time(nursery, crowd):
    # Beside four others it takes twice to five times as long.
    assert ask(nursery, "spin", 0.5, limit=0.8, core=crowd) == 1


def test_a_call_that_computes_too_long_is_ended_beside_others_too(nursery, crowd):
    with pytest.raises(AnswerTimedOut, match=r"no answer within 0\.3 s"):
        ask(nursery, "spin", 3600, limit=0.3, core=crowd)


def test_sleeping_counts(nursery):
    with pytest.raises(AnswerTimedOut, match=r"no answer within 0\.3 s"):
        ask(nursery, "sleep", 3600, limit=0.3)


def test_threads_that_wait_for_each_other_have_waited_for_themselves(nursery):
    began = time.monotonic()
    with pytest.raises(AnswerTimedOut):
        ask(nursery, "threads", 0, limit=0.5)
    assert time.monotonic() - began < 60


def test_a_call_is_not_charged_what_calls_before_it_used(nursery, crowd):
    with worker(nursery, SOURCE, call_seconds=0.8) as (client, supervisor):
        supervisor._core = crowd
        for _ in range(3):  # one and a half seconds in all
            assert call(client, "spin", 0.5) == 1


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ({"queued_ns": 0, "cpu_ns": 0}, {"queued_ns": 4e9, "cpu_ns": 1e9}, 2),
        ({"queued_ns": 9e9, "cpu_ns": 0}, {"queued_ns": 9e9, "cpu_ns": 0}, 6),  # slept
        ({"queued_ns": 0, "cpu_ns": 9e9}, {"queued_ns": 5e9, "cpu_ns": 10e9}, 1),
        ({"queued_ns": 0, "cpu_ns": 0}, {"queued_ns": 5e9, "cpu_ns": 40e9}, 6),  # its own threads
        ({}, {"queued_ns": 4e9, "cpu_ns": 1e9}, 6),
        ({"queued_ns": 0, "cpu_ns": 0}, {}, 6),
    ],
)
def test_what_was_used_before_neither_costs_nor_helps(before, after, counts):
    assert count_worker_seconds(6.0, after, before) == counts


def test_the_exercise_is_charged_what_counts(nursery, crowd):
    with worker(nursery, SOURCE, call_seconds=3.0, exercise_seconds=2.4) as (client, supervisor):
        supervisor._core = crowd
        for _ in range(3):
            assert call(client, "spin", 0.5) == 1


def test_a_worker_that_was_ended_leaves_what_counted(nursery):
    with worker(nursery, SOURCE, call_seconds=0.4, exercise_seconds=1.0) as (client, _):
        for _ in range(2):
            with pytest.raises(AnswerTimedOut, match=r"no answer within 0\.4 s"):
                call(client, "sleep", 3600)
        with pytest.raises(AnswerTimedOut, match=r"no answer within 0\.[01]|used up its 1 seconds"):
            call(client, "sleep", 3600)


def test_after_ten_times_as_long_it_ends_whatever_is_said(nursery, monkeypatch):
    told = ({"queued_ns": n * 10**15, "cpu_ns": 1} for n in itertools.count())
    monkeypatch.setattr(Supervisor, "usage", lambda _: next(told))
    began = time.monotonic()
    with pytest.raises(AnswerTimedOut):
        ask(nursery, "sleep", 3600, limit=0.3)
    assert time.monotonic() - began >= 3.0


def test_the_seconds_that_a_worker_used_are_those_of_the_processor(nursery):
    with worker(nursery, SOURCE) as (client, _):
        call(client, "sleep", 0.1)
        before = client.count_seconds()
        call(client, "sleep", 0.3)
        rested = client.count_seconds()
        call(client, "spin", 0.3)
        assert rested - before < 0.2
        assert client.count_seconds() - rested >= 0.3


def test_a_worker_that_has_ended_used_those_of_the_processor_too(nursery):
    with worker(nursery, SOURCE) as (client, supervisor):
        call(client, "sleep", 0.5)
        before = client.count_seconds()
        supervisor.reject()
        assert client.count_seconds() - before < 0.2
        call(client, "spin", 0.3)
        assert client.count_seconds() - before >= 0.3
