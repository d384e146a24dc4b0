"""The tests of this folder run behind the weakest and the strongest wall that work on the machine.

What is about the walls themselves runs behind every one, as all does with ALL=1.
"""

from collections.abc import Iterator

import pytest

from grader.worker import walls
from grader.worker.nursery import Nursery
from tests.part import ALL

PROBES = [walls.probe(name) for name in walls.NAMES]
WALLS = [
    pytest.param(
        p.wall, id=p.name, marks=pytest.mark.skipif(p.wall is None, reason=f"{p.name}: {p.why}")
    )
    for p in PROBES
]
WORKING = [w for w, p in zip(WALLS, PROBES, strict=True) if p.wall is not None]
TWO = WALLS if ALL else [WORKING[0], *WORKING[1:][-1:]]


@pytest.fixture(scope="session", params=TWO)
def nursery(request) -> Iterator[Nursery]:
    with Nursery(request.param) as nursery:
        yield nursery
