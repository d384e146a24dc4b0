"""A worker for a text, and calls to it."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from grader.core.records import Limits, Submission
from grader.worker.parent.client import Client
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.supervisor import Supervisor


@contextmanager
def worker(
    nursery: Nursery,
    source: str,
    *,
    refuse: Sequence[str] = (),
    preload: Sequence[str] = (),
    prelude: str = "",
    on_cuda: bool = False,
    **limits: float,
) -> Iterator[tuple[Client, Supervisor]]:
    """A worker whose submission is `source`, within these limits."""
    submission = Submission(slug="ex99_test", path=Path("x.py"), sha256="0", source=source)
    limited = Limits(**limits)
    more = {"refuse": refuse, "preload": preload, "prelude": prelude, "on_cuda": on_cuda}
    with closing(Supervisor(nursery, submission, limited, **more)) as it:
        yield it.client(), it


def call(client: Client, name: str, *args, on=None, graph=False, **kwargs):
    """What a function of the submission returns."""
    return client.call(on, name, args, kwargs, graph=graph).value
