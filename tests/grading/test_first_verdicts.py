"""Verdicts are told while an answer is still graded, and no check is told before it is decided."""

import pytest

from grader.core import catalog
from grader.core.records import Verdict
from grader.grading.exercise import Run, grade_answer
from tests.conftest import solution

SLUG = "ex01_softmax"
BAD_LAST = "\n\ndef softmax(x, dim=-1):\n    return x\n"


@pytest.fixture
def told(nursery, tmp_path):
    """Grade a text; return what was told on the way, and the verdicts in the end."""

    def grade(source: str) -> tuple[list, tuple]:
        seen: list = []
        path = tmp_path / f"{SLUG}.py"
        path.write_text(source)
        run = Run(nursery=nursery, student="test", secret="test", speed=False, verdicts=seen.append)
        return seen, grade_answer(catalog.find_catalog_exercise(SLUG), path, run).checks

    return grade


def test_each_check_is_told_once_it_is_decided(told):
    seen, checks = told(solution(SLUG))
    ran = [c.id for c in checks if c.verdict is Verdict.PASSED]
    assert [len(some) for some in seen] == [*range(1, len(ran) + 1), len(checks)]
    assert all(c.verdict is Verdict.PASSED for some in seen[:-1] for c in some)


def test_what_is_told_on_the_way_is_never_taken_back(told):
    seen, checks = told(solution(SLUG) + BAD_LAST)
    final = {c.id: c.verdict for c in checks}
    assert Verdict.FAILED in final.values() and Verdict.BLOCKED in final.values()
    for some in seen:
        assert {c.id: c.verdict for c in some}.items() <= final.items()


def test_the_first_failure_is_told_before_the_last_check_is_run(told):
    seen, checks = told(
        "def softmax_numpy(x, axis=-1):\n    return x\n\n\ndef softmax(x, dim=-1):\n    return x\n",
    )
    assert seen[0][0].verdict is Verdict.FAILED and seen[0][0].why
    assert len(seen[0]) < len(checks)
