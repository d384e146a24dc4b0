"""Processes are killed at random moments of a grading run: a right verdict, or none."""

import contextlib
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from grader import catalog
from grader.judging.grade import Run, grade
from grader.worker import walls
from grader.worker.nursery import Nursery
from tests.conftest import solution
from tests.part import ALL

MOMENTS = 10 if ALL else 5  # behind each of two walls
SLUG = "ex01_softmax"
STRONGEST = [name for name in walls.NAMES if walls.probe(name).wall is not None][-1]


@pytest.fixture(scope="module", params=dict.fromkeys(["process", STRONGEST]))
def run(request):
    with Nursery(walls.choose(request.param)) as nursery:
        yield Run(nursery=nursery, student="test", secret="test", speed=False)


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    """Half of it is right, so that a lost verdict and a gained one would both be seen."""
    wrong = "\n\ndef softmax(x, dim=-1):\n    return torch.exp(x) / torch.exp(x).sum(dim)\n"
    path = tmp_path_factory.mktemp("answer") / f"{SLUG}.py"
    path.write_text(solution(SLUG) + wrong)
    return path


def test_killed_at_any_moment_the_mark_is_right_or_missing(run, answer):
    exercise = catalog.find(SLUG)
    grade(exercise, answer, run)  # the nursery has started
    started = time.monotonic()
    undisturbed = grade(exercise, answer, run)
    seconds = time.monotonic() - started
    wanted = [(c.id, c.verdict, c.earned) for c in undisturbed.checks]
    rng, killed, marked = random.Random(run.nursery.wall.name), 0, 0
    for number in range(MOMENTS):
        delay = rng.uniform(0, seconds)
        killer = _Killer(run.nursery, delay, victim=number % 3)
        killer.start()
        report = grade(exercise, answer, run)
        killer.join()
        killed += killer.done
        if report.score is None:
            assert report.state == "fault"
        else:
            marked += killer.done
            assert [(c.id, c.verdict, c.earned) for c in report.checks] == wanted
    assert killed > MOMENTS // 2
    assert marked > 0  # a second try gives a mark, as a rule
    after = grade(exercise, answer, run)
    assert [(c.id, c.verdict, c.earned) for c in after.checks] == wanted


def test_a_nursery_that_is_killed_every_time_is_a_fault_without_a_score(run, answer):
    killer = _Killer(run.nursery, 0.02, victim=1, times=2000)
    killer.start()
    report = grade(catalog.find(SLUG), answer, run)
    killer.stop()
    assert (report.state, report.score) == ("fault", None)


class _Killer(threading.Thread):
    """Kills the process that the grader started, the nursery, or a worker, after a while."""

    def __init__(self, nursery: Nursery, delay: float, victim: int, times: int = 1) -> None:
        super().__init__()
        self._nursery, self._delay, self._victim, self._times = nursery, delay, victim, times
        self._stopped = threading.Event()
        self.done = False

    def run(self) -> None:
        while not self._stopped.wait(self._delay) and self._times:
            self._times -= 1
            first = self._nursery._process.pid
            pythons = [pid for pid in _tree(first) if "python" in _name(pid)]
            victims = [[first], pythons[:1], pythons[1:]][self._victim]
            for pid in victims[-1:]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.done = True

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _tree(pid: int) -> list[int]:
    """A process and all below it, from the top."""
    below = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                below += _tree(int(child))
    return [pid, *below]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""
