"""Commands in this process, without what a process of their own would cost."""

from contextlib import nullcontext

import pytest

from grader.grading import replay, session
from grader.worker.parent.nursery import Nursery


def take_one_nursery(patch: pytest.MonkeyPatch, nursery: Nursery) -> None:
    """Let commands take the nursery of all tests: none is started for each of them."""
    for module in (session, replay):
        patch.setattr(module, "Nursery", lambda wall: nullcontext(nursery))
        patch.setattr(module, "hide_grader_from_workers", lambda: None)  # it is that of the tests
