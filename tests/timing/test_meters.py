"""What is measured of a call: the seconds that are the party's own."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader.timing import meters
from grader.timing.meters import build_peak_memory_meter, time_elapsed_seconds, time_party_call
from grader.timing.race import Plan
from grader.worker.child import usage
from tests.timing.contests import LINUX, contest, party

# Its answers look at threads, memory and other processes, which no list lets through.
pytestmark = pytest.mark.usefixtures("list_open")

BUSY = """
import os, threading, time
import torch

def work(seconds):
    try:
        os.sched_setaffinity(0, range(os.cpu_count()))
    except OSError:
        pass
    x, end = torch.ones(256, 256), time.thread_time() + seconds
    while time.thread_time() < end:
        x @ x

def answer(x):
    started = time.process_time()
    threads = [threading.Thread(target=work, args=(0.1,)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return torch.tensor(time.process_time() - started, dtype=torch.float64)
"""
BEHIND_OTHERS = """
import time
import torch

def answer(x):
    started, end = time.monotonic(), time.thread_time() + 0.2
    while time.thread_time() < end:
        pass
    return torch.tensor(time.monotonic() - started, dtype=torch.float64)
"""


def timed(nursery, folder, student: str, rounds: int = 3) -> list[tuple[float, float]]:
    """What the grader measured of each call of the student, and what the student answered."""
    answers: list[float] = []

    def bench(race):
        for draw in race:
            for found in race.time("answer", draw.normal(1)):
                if race.asked == "student":
                    answers.append(float(found))

    it = contest(nursery, folder, bench, student)
    it.run_a_set(Plan(rounds=rounds, warm_up=False), lambda share: None)
    return list(zip((row["student"] for row in it.rows), answers, strict=True))


@LINUX
@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_takes_no_less_than_all_its_threads_used_of_processors(wall, tmp_path, threads):
    student = BUSY.replace("THREADS", str(threads))
    for measured, used in timed(wall, tmp_path, student):
        assert used >= 0.1 * threads
        assert measured >= used


@contextmanager
def somebody_else(core: int | None) -> Iterator[None]:
    """Another program that never rests, on the processor of the parties."""
    spin = f"import os\nos.sched_setaffinity(0, {{{core}}})\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        try:
            yield
        finally:
            other.kill()


@pytest.mark.weekly
@LINUX
def test_time_for_which_others_had_the_processor_is_not_the_partys(wall, tmp_path):
    with somebody_else(meters.find_timing_processor()):
        for measured, elapsed in timed(wall, tmp_path, BEHIND_OTHERS):
            assert elapsed > 0.3  # of 0.2 that it needed
            mostly = 0.2 + (elapsed - 0.2) / 2
            if wall.wall.name == "process":  # those others may be its own: it may fork
                assert measured > mostly
            else:
                assert 0.2 <= measured < mostly


@LINUX
@pytest.mark.parametrize("may_fork", [True, False])
def test_what_a_process_waited_for_is_known_where_it_may_not_fork(may_fork):
    spin = "while True: pass"
    with subprocess.Popen([sys.executable, "-c", spin]) as busy:
        try:
            while usage.measure_worker_process(busy.pid, may_fork=True).get("cpu_ns", 0) < 10**7:
                time.sleep(0.01)
            busy.send_signal(signal.SIGSTOP)
            while Path(f"/proc/{busy.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                time.sleep(0.01)
            _, waited, _ = map(int, Path(f"/proc/{busy.pid}/schedstat").read_text().split())
            found = usage.measure_worker_process(busy.pid, may_fork=may_fork)
        finally:
            busy.kill()
    assert found["cpu_ns"] >= 10**7
    assert found["waited_ns"] == (0 if may_fork else waited)


NOTHING = {"peak_bytes": 0, "mapped_bytes": 0, "faults": 0, "child_faults": 0}


def used(cpu: float = 0.0, waited: float = 0.0) -> dict[str, int]:
    return {"cpu_ns": int(cpu * 1e9), "waited_ns": int(waited * 1e9)}


@pytest.mark.parametrize(
    "before, after, ours, measured",
    [
        (used(), used(), 0.0, 0.5),  # asleep, so to speak: the wall's time
        (used(7, 7), used(7, 7), 0.0, 0.5),  # what was before the call is not the call's
        (used(), used(5), 0.0, 5.0),  # several processors at once: the sum
        (used(), used(0.1, 0.2), 0.0, 0.3),  # others had it meanwhile
        (used(), used(0.1, 0.2), 0.1, 0.2),  # and in the place of the grader itself
        (used(), used(0.1, 90.0), 0.0, 0.1),  # never less than it used
        ({}, used(5), 0.0, 0.5),  # not known: the wall's time
        (used(5), {}, 0.0, 0.5),
    ],
)
def test_seconds_are_the_walls_without_those_of_others(monkeypatch, before, after, ours, measured):
    waited = iter([10**9, int((1 + ours) * 1e9)])
    clock = SimpleNamespace(perf_counter=iter([100.0, 100.5]).__next__)
    monkeypatch.setattr(meters, "time", clock)
    monkeypatch.setattr(meters, "_read_waited_nanoseconds", lambda: next(waited))
    assert time_party_call(party(before, after), lambda: 7) == (pytest.approx(measured), 7)


@pytest.mark.parametrize("ours, measured", [(0.0, 0.5), (0.1, 0.4)])
def test_on_a_gpu_it_is_the_walls_time_without_our_own_waiting(monkeypatch, ours, measured):
    waited = iter([10**9, int((1 + ours) * 1e9)])
    clock = SimpleNamespace(perf_counter=iter([100.0, 100.5]).__next__)
    monkeypatch.setattr(meters, "time", clock)
    monkeypatch.setattr(meters, "_read_waited_nanoseconds", lambda: next(waited))
    assert time_elapsed_seconds(party(), lambda: 7) == (pytest.approx(measured), 7)


@pytest.mark.parametrize(
    "meter", [time_elapsed_seconds, time_party_call, build_peak_memory_meter(NOTHING)]
)
def test_a_party_is_awake_and_waits_before_it_is_asked_and_stands_still_after(meter):
    one = party(*[{**used(), **NOTHING}] * 2)
    meter(one, lambda: one.worker.log.append("call"))
    assert one.worker.log == ["resume", "ping", "call", "stop"]


def test_a_party_stands_still_also_after_an_error():
    one = party(used(), used())
    with pytest.raises(ZeroDivisionError):
        time_party_call(one, lambda: 1 // 0)
    assert one.worker.log[-1] == "stop"
