"""What the tests of classes have in common."""

from contextlib import nullcontext

import pytest

from grader.classroom.run import class_grading, grade_work
from grader.grading import official_grader, process_pool, replay
from tests.classes.lanes import InThisProcess
from tests.conftest import leave_unexplained


@pytest.fixture(scope="module")
def in_this_process(nursery):
    """Classes are graded, and answers graded again, without a start of a process each time.

    A class is judged behind the same wall as ever; a replay takes the nursery of the tests.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_grading, "LocalLanes", InThisProcess)
        patch.setattr(replay, "Nursery", lambda wall: nullcontext(nursery))
        for module in (official_grader, replay):
            patch.setattr(
                module, "hide_grader_from_workers", lambda: None
            )  # it is that of the tests
        yield
    process_pool.AT_THE_END.close()
    grade_work._open_class_grader.cache_clear()
    grade_work._find_class_answer_folder.cache_clear()


@pytest.fixture(scope="module")
def class_unexplained(in_this_process):
    """Only verdicts are meant."""
    with pytest.MonkeyPatch.context() as patch:
        leave_unexplained(patch)
        yield
