"""Processes are killed at random moments of a grading run: a right verdict, or none."""

import contextlib
import os
import random
import signal
import threading
from collections.abc import Container
from pathlib import Path

import pytest

from grader.core import catalog
from grader.grading.exercise import Run, grade_answer
from grader.worker.parent import supervisor, walls
from grader.worker.parent.nursery import Nursery
from tests.conftest import solution

pytestmark = pytest.mark.weekly
SLUG = "ex01_softmax"
MOMENTS = 30
STRONGEST = [name for name in walls.WALL_NAMES if walls.probe_wall(name).wall is not None][-1]


@pytest.fixture(scope="module", params=dict.fromkeys(["process", STRONGEST]))
def run(request):
    with Nursery(walls.choose_wall(request.param)) as nursery:
        yield Run(nursery=nursery, student="test", secret="test", speed=False)


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    """Half of it is right, so that a lost verdict and a gained one would both be seen."""
    wrong = "\n\ndef softmax(x, dim=-1):\n    return torch.exp(x) / torch.exp(x).sum(dim)\n"
    path = tmp_path_factory.mktemp("answer") / f"{SLUG}.py"
    path.write_text(solution(SLUG) + wrong)
    return path


def test_killed_at_any_moment_the_mark_is_right_or_missing(run, answer, monkeypatch):
    exercise = catalog.find_catalog_exercise(SLUG)
    with monkeypatch.context() as patch:
        killer = _Killer(patch, run.nursery)
        undisturbed = grade_answer(exercise, answer, run)
    wanted = [(c.id, c.verdict, c.earned) for c in undisturbed.checks]
    rng, requests, marked = random.Random(run.nursery.wall.name), killer.requests, 0
    for number in range(MOMENTS):
        moment, victim = rng.randrange(requests), number % 3
        with monkeypatch.context() as patch:
            killer = _Killer(patch, run.nursery, victim, {moment}, computing=number % 2 == 1)
            report = grade_answer(exercise, answer, run)
        assert killer.done
        if report.score is None:
            assert report.state == "fault"
        else:
            marked += 1
            assert [(c.id, c.verdict, c.earned) for c in report.checks] == wanted
    assert marked > 0  # a second try gives a mark, as a rule
    after = grade_answer(exercise, answer, run)
    assert [(c.id, c.verdict, c.earned) for c in after.checks] == wanted


def test_a_nursery_that_is_killed_every_time_is_a_fault_without_a_score(run, answer, monkeypatch):
    _Killer(monkeypatch, run.nursery, victim=1, moments=range(10**6))
    report = grade_answer(catalog.find_catalog_exercise(SLUG), answer, run)
    assert (report.state, report.score) == ("fault", None)


class _Killer:
    """Kills the process that the grader started, the nursery, or a worker, at some requests.

    A moment is a request's number, so that it is the same one on a machine that is busy: before
    the worker has the request, or while it is `computing`.
    """

    def __init__(
        self, patch, nursery: Nursery, victim=0, moments: Container[int] = (), *, computing=False
    ) -> None:
        self._nursery, self._victim, self._moments = nursery, victim, moments
        self._computing, self._converse = computing, supervisor.send_request_to_worker
        self.requests, self.done = 0, False
        patch.setattr(supervisor, "send_request_to_worker", self._ask)

    def _ask(self, *request):
        number, self.requests = self.requests, self.requests + 1
        if number not in self._moments:
            return self._converse(*request)
        if not self._computing:
            self._kill(self._chosen())
            return self._converse(*request)
        chosen = self._chosen()
        for pid in _tree(self._nursery._process.pid):
            os.kill(pid, signal.SIGSTOP)  # so that the request is sent and never answered
        later = threading.Timer(0.1, self._go_on_without, [chosen])
        later.start()
        try:
            return self._converse(*request)
        finally:
            later.join()

    def _go_on_without(self, chosen: list[int]) -> None:
        stopped = _tree(self._nursery._process.pid)
        self._kill(chosen)
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _chosen(self) -> list[int]:
        first = self._nursery._process.pid
        pythons = [pid for pid in _tree(first) if "python" in _name(pid)]
        return [[first], pythons[:1], pythons[1:]][self._victim][-1:]

    def _kill(self, chosen: list[int]) -> None:
        for pid in chosen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.done = True


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
