"""Some of these tests are asked behind every wall that works on the machine."""

from collections.abc import Iterator

import pytest

from grader.timing import meters
from grader.timing.wait_idle import IdleWaiter
from grader.worker.parent import walls
from grader.worker.parent.nursery import Nursery


@pytest.fixture(scope="module", params=walls.WALL_NAMES)
def wall(request) -> Iterator[Nursery]:
    tried = walls.probe_wall(request.param)
    if tried.wall is None:
        pytest.skip(f"{tried.name}: {tried.why}")
    with Nursery(tried.wall) as nursery:
        yield nursery


@pytest.fixture(autouse=True)
def no_waiting_for_a_calm_core(request, monkeypatch):
    """What is tested here does not depend on it; `test_calm.py` tests it."""
    if request.module.__name__.endswith("test_calm"):
        return
    monkeypatch.setattr(
        IdleWaiter, "choose", lambda self: setattr(self, "core", meters.find_timing_processor())
    )
    monkeypatch.setattr(IdleWaiter, "wait", lambda self: None)
