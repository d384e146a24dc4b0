"""The tests of this folder run behind every wall that works on the machine."""

from collections.abc import Iterator

import pytest

from grader.worker import walls
from grader.worker.nursery import Nursery

PROBES = [walls.probe(name) for name in walls.NAMES]
WALLS = [
    pytest.param(
        p.wall, id=p.name, marks=pytest.mark.skipif(p.wall is None, reason=f"{p.name}: {p.why}")
    )
    for p in PROBES
]


@pytest.fixture(scope="session", params=WALLS)
def nursery(request) -> Iterator[Nursery]:
    with Nursery(request.param) as nursery:
        yield nursery
