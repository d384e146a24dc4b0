"""The page that follows a pass: who may see it, both answers, the speed on request."""

import asyncio
import re

import pytest

from grader.core.errors import GraderFault
from grader.core.questions import read_questions_toml
from grader.core.records import Speed, Verdict
from grader.judging import suite_runner
from grader.learn import answer_timer
from grader.worker.parent.walls import PROCESS
from tests.conftest import solution
from tests.learn.learn_user import judged, state_of, visited
from tests.learn.test_learn_page import checked, eventually, run
from tests.reporting.samples import HOSTILE

SLUG = "ex01_softmax"
HERE = f"/passed/{SLUG}"


@pytest.fixture
def place(tmp_path):
    source = solution(SLUG).replace(
        "def softmax(", f"def _unused():\n    {HOSTILE!r}\n\n\ndef softmax("
    )
    (tmp_path / f"{SLUG}.py").write_text(f"{source}\n    _unused\n")
    return tmp_path


@pytest.fixture
def state(place):
    found = state_of(place)
    judged(found, checked(Verdict.PASSED))
    return found


async def opened(user) -> str:
    """Open the page, and return what is drawn beside each other."""
    from nicegui import ui

    user.javascript_rules = {re.compile(r"learn\."): lambda _: None}
    await user.open(HERE)
    beside = lambda: "".join(e.content for e in user.find(ui.html).elements)  # noqa: E731
    await eventually(lambda: 'class="lines"' in beside())
    return beside()


def test_both_answers_two_other_ways_and_the_questions_are_shown(state):
    async def scenario():
        async with visited(state) as user:
            await user.should_see("Beside the model answer")
            drawn = await opened(user)
            assert "Task 2: in PyTorch" in drawn
            assert "Everything in float64, rounded once." in drawn
            assert drawn.count("<details>") == 2 + len(read_questions_toml(state.exercises[SLUG]))
            await user.should_see("Next: Masking")

    run(scenario())


def test_the_page_is_in_chinese(place):
    state = state_of(place, "zh")
    judged(state, checked(Verdict.PASSED))

    async def scenario():
        async with visited(state) as user:
            drawn = await opened(user)
            for told in ("任务 2", "参考答案", "全程用 float64 计算", "面试官会问什么"):
                assert told in drawn

    run(scenario())


def test_the_text_of_an_answer_is_text(state):
    async def scenario():
        async with visited(state) as user:
            drawn = await opened(user)
            assert "&lt;script&gt;alert(1)" in drawn
            assert "<script>alert" not in drawn and "<img src=x" not in drawn

    run(scenario())


@pytest.mark.parametrize("shows, verdict", [("open", Verdict.FAILED), ("verdicts", Verdict.PASSED)])
def test_before_a_pass_and_in_a_closed_course_nothing_is_shown(place, shows, verdict):
    state = state_of(place, shows=shows)
    judged(state, checked(verdict))

    async def scenario():
        async with visited(state) as user:
            await user.should_not_see("Beside the model answer")
            answer = await user.http_client.get(HERE, follow_redirects=False)
            assert answer.headers["location"] == f"/learn/{SLUG}"
            assert "lines" not in answer.text

    run(scenario())


def test_the_speed_is_measured_on_request_only(state, monkeypatch):
    found = Speed(says="As fast as the best.", verdict="scored", points=3, earned=2)
    asked = []

    def measure(exercises, *_, progress, **__):
        asked.append(exercises[0].slug)
        progress("timing", 0.5)
        return {exercises[0].slug: found}

    monkeypatch.setattr(answer_timer, "benchmark_all_exercises", measure)
    monkeypatch.setattr(suite_runner, "find_suite_speed_case", lambda exercise: object())

    async def scenario():
        async with visited(state) as user:
            await opened(user)
            await asyncio.sleep(0.3)
            assert asked == []
            user.find("Time it").click()
            from nicegui import ui

            await eventually(lambda: any("2/3" in e.content for e in user.find(ui.html).elements))
            assert asked == [SLUG]

    run(scenario())


def test_an_exercise_without_speed_has_no_button(state):
    async def scenario():
        async with visited(state) as user:
            await opened(user)
            await user.should_not_see("Time it")

    run(scenario())


def test_a_fault_of_the_grader_is_told_and_the_next_timing_runs(place, monkeypatch):
    exercise = state_of(place).exercises[SLUG]
    timer = answer_timer.AnswerTimer(place, PROCESS)

    def fail(*_, **__):
        raise GraderFault("The bench is broken.")

    monkeypatch.setattr(answer_timer, "benchmark_all_exercises", fail)
    for _ in range(2):
        timer.start(exercise)
        for _ in range(100):
            if not timer.running:
                break
            asyncio.run(asyncio.sleep(0.02))
        assert timer.problems.pop(SLUG) == "The bench is broken."
