"""The tests of this folder run behind the weakest and the strongest wall that work on the machine.

What is about the walls themselves runs behind every one, as all does in `make weekly`.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from grader.worker.parent import walls
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.walls import Wall

PROBES = [walls.probe_wall(name) for name in walls.WALL_NAMES]
WALLS = [
    pytest.param(
        p.wall, id=p.name, marks=pytest.mark.skipif(p.wall is None, reason=f"{p.name}: {p.why}")
    )
    for p in PROBES
]
WORKING = [w for w, p in zip(WALLS, PROBES, strict=True) if p.wall is not None]
OUTER = [WORKING[0], *WORKING[1:][-1:]]
MOST = [
    w if w in OUTER else pytest.param(*w.values, id=w.id, marks=[*w.marks, pytest.mark.weekly])
    for w in WALLS
]


@pytest.fixture(scope="session")
def nurseries() -> Iterator[Callable[[Wall], Nursery]]:
    """One nursery for each wall, started when it is first asked for and kept for all files."""
    with ExitStack() as started:
        yield cache(lambda wall: started.enter_context(Nursery(wall)))


@pytest.fixture(scope="session", params=MOST)
def nursery(request, nurseries) -> Nursery:
    return nurseries(request.param)
