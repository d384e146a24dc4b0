"""Verdicts are told while an answer is still graded, and no check is told before it is decided."""

import pytest

from grader.core import catalog
from grader.core.records import Verdict
from grader.core.translation import Words
from grader.diagnosis import failed_checks
from grader.grading.exercise import Run, grade_answer
from grader.practice.watch.watch_session import WatchSession
from grader.worker.parent.walls import PROCESS
from tests.conftest import solution

SLUG = "ex01_softmax"
BAD_LAST = "\n\ndef softmax(x, dim=-1):\n    return x\n"


@pytest.fixture
def told(nursery, tmp_path):
    """Grade a text; return what was told on the way, and the verdicts in the end."""

    def grade(source: str, **more) -> tuple[list, tuple]:
        seen: list = []
        path = tmp_path / f"{SLUG}.py"
        path.write_text(source)
        run = Run(
            nursery=nursery,
            student="test",
            secret="test",
            speed=False,
            verdicts=seen.append,
            **more,
        )
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


def test_checks_that_failed_before_run_first_and_change_no_verdict(told):
    source = solution(SLUG) + BAD_LAST
    _, checks = told(source)
    failed = next(c.id for c in reversed(checks) if c.verdict is Verdict.FAILED)
    seen, again = told(source, first=frozenset({failed, "test_of_another_suite"}))
    assert failed in {c.id for c in seen[0]}
    assert [(c.id, c.verdict, c.why) for c in again] == [(c.id, c.verdict, c.why) for c in checks]


def test_a_run_that_ends_between_two_cases_leaves_the_nursery_as_it_was(told):
    calls = []

    def stop() -> None:
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        told(solution(SLUG), before_case=stop)
    _, checks = told(solution(SLUG))
    assert {c.verdict for c in checks} <= {Verdict.PASSED, Verdict.NOT_RUN}


class _SavesAnotherAnswer:
    """A screen whose person saves a right answer as soon as the first failure is shown."""

    def __init__(self, path) -> None:
        self._path, self.failed = path, 0

    def show(self, view) -> None:
        checks = [c for report in view.reports.values() for c in report.checks]
        if view.grading and any(c.verdict is Verdict.FAILED for c in checks) and not self.failed:
            self.failed += 1
            self._path.write_text(solution(SLUG))


def test_a_save_ends_the_search_for_the_mistake_and_keeps_the_nursery(nursery, tmp_path):
    path, exercise = tmp_path / f"{SLUG}.py", catalog.find_catalog_exercise(SLUG)
    path.write_text(solution(SLUG) + BAD_LAST)
    screen = _SavesAnotherAnswer(path)
    session = WatchSession([exercise], tmp_path, Words("en"), screen, PROCESS)
    session._nursery = nursery
    session._grade_exercise(SLUG)
    assert screen.failed == 1
    assert session.farewell().startswith("Exercises passed: 1 of 1")
    assert session._nursery is nursery


class _RemembersViews:
    def __init__(self) -> None:
        self.views: list = []

    def show(self, view) -> None:
        self.views.append(view)


def test_a_screen_shows_every_verdict_before_a_mistake_is_looked_for(
    nursery, tmp_path, monkeypatch
):
    """The terminal of `make watch` and the page of `make learn` are such screens."""
    (tmp_path / f"{SLUG}.py").write_text(solution(SLUG) + BAD_LAST)
    screen, shown, explain = _RemembersViews(), [], failed_checks.diagnose_failed_checks

    def explain_later(exercise, checks, judge):
        shown.append(screen.views[-1].reports[SLUG])
        return explain(exercise, checks, judge)

    monkeypatch.setattr(failed_checks, "diagnose_failed_checks", explain_later)
    session = WatchSession(
        [catalog.find_catalog_exercise(SLUG)], tmp_path, Words("en"), screen, PROCESS
    )
    session._nursery = nursery
    session._grade_exercise(SLUG)
    [before], after = shown, session._view.reports[SLUG]
    assert [(c.id, c.verdict) for c in before.checks] == [(c.id, c.verdict) for c in after.checks]
    assert any(c.why for c in before.checks)
    assert not any(c.diagnosis for c in before.checks)
    assert any(c.diagnosis for c in after.checks)
