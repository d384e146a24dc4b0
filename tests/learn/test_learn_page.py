"""What stands on the page, and what its parts do."""

import asyncio
from dataclasses import replace

import pytest

from grader.core.diagnosis_records import Diagnosis, PinnedLine
from grader.core.records import CheckResult, ExerciseReport, Verdict
from grader.core.scoring import sum_score_points
from grader.learn.open_files import digest_text
from grader.practice import hints
from grader.practice.hints import Hint
from grader.practice.learner_progress import record_attempt
from tests.learn.learn_user import judged, state_of, visited
from tests.reporting.samples import DIAGNOSIS, HOSTILE

SLUG = "ex01_softmax"
TEXT = "def softmax_numpy(x, axis=-1):\n    return x\n"


def checked(
    *verdicts: Verdict, why: str = "", diagnosis: Diagnosis | None = None, points: int = 1, **more
) -> ExerciseReport:
    checks = tuple(
        CheckResult(id=f"check_{n}", says=f"Check {n} holds.", verdict=verdict, points=points, calls=frozenset({"softmax_numpy"}),
                    why=why if verdict is Verdict.FAILED else "", diagnosis=diagnosis if verdict is Verdict.FAILED else None)
        for n, verdict in enumerate(verdicts)
    )  # fmt: skip
    given = {
        "state": "graded",
        "sentence": "",
        "path": f"{SLUG}.py",
        "sha256": digest_text(TEXT),
    } | more
    return ExerciseReport(
        slug=SLUG,
        title="Softmax",
        track="core",
        score=sum_score_points(checks, None),
        checks=checks,
        speed=None,
        **given,
    )


@pytest.fixture
def place(tmp_path):
    (tmp_path / f"{SLUG}.py").write_text(TEXT)
    return tmp_path


@pytest.fixture
def state(place):
    return state_of(place)


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario, 30))


async def eventually(true) -> None:
    for _ in range(100):
        if true():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it never came")


def editor_of(user):
    from nicegui import ui

    [found] = user.find(ui.codemirror).elements
    return found


def test_the_page_has_lesson_editor_and_list(state):
    async def scenario():
        async with visited(state) as user:
            await user.should_see("ex03")
            await user.should_see("Scaled dot-product attention")
            await user.should_see("0 of 8 exercises passed at least once.")
            assert editor_of(user).value == TEXT
            from nicegui import ui

            lesson = next(e for e in user.find(ui.html).elements if "<math" in e.content)
            assert "The question." in lesson.content
            assert '<img src="data:image/svg+xml;base64,' in lesson.content

    run(scenario())


def test_opening_an_exercise_asks_for_its_verdict(state):
    async def scenario():
        async with visited(state) as user:
            await user.should_see("Grading ex01_softmax ...")
            assert state.take_requests() == [SLUG]

    run(scenario())


def test_what_is_typed_is_in_the_file_after_a_pause(state, place):
    async def scenario():
        async with visited(state) as user:
            editor_of(user).value = "typed = 1\n"
            await user.should_see("Not saved yet ...")
            assert (place / f"{SLUG}.py").read_text() == TEXT
            await eventually(lambda: (place / f"{SLUG}.py").read_text() == "typed = 1\n")
            await user.should_see("ex01_softmax.py saved at")

    run(scenario())


def test_a_closed_tab_saves_what_was_typed_before_the_pause(state, place):
    async def scenario():
        async with visited(state) as user:
            editor_of(user).value = "typed = 1\n"
            for handler in user.client.disconnect_handlers:
                user.client.safe_invoke(handler)
            assert (place / f"{SLUG}.py").read_text() == "typed = 1\n"  # no pause has passed

    run(scenario())


def test_what_another_program_saves_appears(state, place):
    async def scenario():
        async with visited(state) as user:
            (place / f"{SLUG}.py").write_text("by_vim = 1\n")
            await eventually(lambda: editor_of(user).value == "by_vim = 1\n")
            await user.should_see("was changed by another tab or program")

    run(scenario())


def test_if_both_sides_changed_the_person_is_told_where_the_other_version_is(state, place):
    async def scenario():
        async with visited(state) as user:
            editor_of(user).value = "typed = 1\n"
            (place / f"{SLUG}.py").write_text("by_vim = 1\n")
            await user.should_see("its version is kept as ex01_softmax.1.py", retries=20)
            assert (place / f"{SLUG}.1.py").read_text() == "by_vim = 1\n"
            assert (place / f"{SLUG}.py").read_text() == "typed = 1\n"

    run(scenario())


def test_a_deleted_file_is_told_and_written_by_the_next_change(state, place):
    async def scenario():
        async with visited(state) as user:
            (place / f"{SLUG}.py").unlink()
            await user.should_see("Its text is still here", retries=20)
            assert editor_of(user).value == TEXT
            editor_of(user).value = "again = 1\n"
            await eventually(lambda: (place / f"{SLUG}.py").exists())

    run(scenario())


LATIN = "# caf\xe9\n".encode("latin-1")


def test_a_file_that_is_no_text_is_taken_up_as_soon_as_it_is(state, place):
    file = place / f"{SLUG}.py"
    file.write_bytes(LATIN)

    async def scenario():
        async with visited(state) as user:
            await user.should_see("is not UTF-8 text")
            assert not editor_of(user).enabled
            file.write_text("# caf\xe9\n", encoding="utf-8")
            await eventually(lambda: editor_of(user).value == "# caf\xe9\n")
            assert editor_of(user).enabled
            await user.should_not_see("is not UTF-8 text")
            editor_of(user).value = "typed = 1\n"
            await eventually(lambda: file.read_text() == "typed = 1\n")

    run(scenario())


def test_of_a_deleted_file_that_was_no_text_nothing_is_said_to_be_here(state, place):
    (place / f"{SLUG}.py").write_bytes(LATIN)

    async def scenario():
        async with visited(state) as user:
            (place / f"{SLUG}.py").unlink()
            await user.should_see("is not there yet: what you write makes it", retries=20)
            assert editor_of(user).enabled
            await user.should_not_see("Its text is still here")

    run(scenario())


def test_a_file_that_was_no_text_for_a_while_is_open_again(state, place):
    async def scenario():
        async with visited(state) as user:
            (place / f"{SLUG}.py").write_bytes(LATIN)
            await user.should_see("is not UTF-8 text", retries=20)
            (place / f"{SLUG}.py").write_text(TEXT)
            await user.should_see("ex01_softmax.py is open.", retries=20)

    run(scenario())


def test_what_could_not_be_saved_gives_way_to_no_other_text(state, place):
    file = place / f"{SLUG}.py"

    async def scenario():
        async with visited(state) as user:
            file.write_bytes(LATIN)
            editor_of(user).value = "typed = 1\n"
            await user.should_see("is not UTF-8 text", retries=20)
            file.write_text("by_vim = 1\n")
            await user.should_see("its version is kept as ex01_softmax.1.py", retries=20)
            assert editor_of(user).value == file.read_text() == "typed = 1\n"

    run(scenario())


def test_the_first_failed_check_is_open_with_its_diagnosis_and_its_line_marked(state):
    pinned = replace(DIAGNOSIS, pinned=PinnedLine(line=2, name="return", got=(2,), right=(3,)))

    async def scenario():
        async with visited(state) as user:
            judged(
                state,
                checked(
                    Verdict.FAILED, Verdict.FAILED, Verdict.PASSED, why="x is 1", diagnosis=pinned
                ),
            )
            await user.should_see("1 of 3 checks passed")
            from nicegui import ui

            drawn = [e.content for e in user.find(ui.html).elements]
            first = next(c for c in drawn if "x is 1" in c and "<details" not in c)
            assert "Divided by D." in first and "<svg" in first and "yours" in first
            await eventually(lambda: editor_of(user).decorations)
            assert editor_of(user).decorations == [
                {"kind": "line", "line": 2, "class": "wrong-line"}
            ]
            assert "Line 2 is the first" in editor_of(user).line_tooltips[2]

    run(scenario())


def test_a_mark_goes_with_the_text_that_it_was_on(state, place):
    pinned = replace(DIAGNOSIS, pinned=PinnedLine(line=2, name="return", got=(2,), right=(3,)))
    report = checked(Verdict.FAILED, why="x is 1", diagnosis=pinned)

    async def scenario():
        async with visited(state) as user:
            judged(state, report)
            await eventually(lambda: editor_of(user).line_tooltips)
            (place / f"{SLUG}.py").write_text("")
            await eventually(lambda: editor_of(user).value == "")
            assert editor_of(user).line_tooltips == {} and editor_of(user).decorations == []
            (place / f"{SLUG}.py").write_text(TEXT)
            await eventually(lambda: editor_of(user).value == TEXT)
            judged(state, replace(report, seconds=2.0))
            await eventually(lambda: editor_of(user).line_tooltips)

    run(scenario())


def test_every_failed_check_has_its_own_lines_folded_below_the_first(state):
    report = checked(Verdict.FAILED, Verdict.PASSED, Verdict.FAILED, why="x is 1")
    first, passed, second = report.checks
    first = replace(first, line=1)  # else the one whose mistake is known comes first
    second = replace(second, why="it loops for ever", diagnosis=DIAGNOSIS)

    async def scenario():
        async with visited(state) as user:
            judged(state, replace(report, checks=(first, passed, second)))
            await user.should_see("1 of 3 checks passed")
            from nicegui import ui

            drawn = [e.content for e in user.find(ui.html).elements]
            others = next(c for c in drawn if "it loops for ever" in c)
            fold = others.partition("<details>")[2].partition("</details>")[0]
            row, _, lines = fold.partition("</summary>")
            assert "What went wrong" in row and "Check 2 holds." in row
            assert "it loops for ever" in lines and "Divided by D." in lines and "<svg" in lines
            assert not any("x is 1" in c and "<details" in c for c in drawn)

    run(scenario())


def test_a_file_that_cannot_be_run_has_its_line_marked_and_keeps_its_points(state):
    async def scenario():
        async with visited(state) as user:
            judged(state, checked(Verdict.PASSED, Verdict.FAILED, why="x is 1", sha256=""))
            await user.should_see("1/2")
            broken = checked(Verdict.BLOCKED, state="unreadable")
            [check] = broken.checks
            judged(state, replace(broken, checks=(replace(check, line=2, why="invalid syntax"),)))
            await eventually(lambda: editor_of(user).decorations)
            assert editor_of(user).decorations[0]["line"] == 2
            assert editor_of(user).line_tooltips == {2: "invalid syntax"}
            await user.should_see("1/2")

    run(scenario())


def test_the_list_has_the_points_that_make_grade_gives(state):
    async def scenario():
        async with visited(state) as user:
            judged(state, checked(Verdict.PASSED, Verdict.FAILED, why="x is 1", points=3))
            await user.should_see("1 of 2 checks passed")
            await user.should_see("3/6")
            await user.should_not_see("1/2")

    run(scenario())


def test_a_line_of_another_text_is_not_marked(state):
    async def scenario():
        async with visited(state) as user:
            editor_of(user).value = "import torch\n" + TEXT
            pinned = PinnedLine(line=2, name="return", got=(2,), right=(3,))
            diagnosis = replace(DIAGNOSIS, pinned=pinned)
            judged(state, checked(Verdict.FAILED, why="x is 1", diagnosis=diagnosis))
            await user.should_see("0 of 1 checks passed")
            assert editor_of(user).decorations == []

    run(scenario())


def test_verdicts_come_before_the_names_of_mistakes(state):
    async def scenario():
        async with visited(state) as user:
            state.show(replace(state.view, grading=SLUG))
            judged(state, checked(Verdict.PASSED, state="grading", sha256=""))
            await user.should_see("Passed so far: 1")
            await user.should_not_see("is passed.")
            judged(state, checked(Verdict.PASSED, Verdict.FAILED, why="x is 1", state="grading"))
            await user.should_see("Passed so far: 1")
            await user.should_see("looking for the mistake")
            state.show(replace(state.view, grading=""))
            judged(state, checked(Verdict.FAILED, why="x is 1", diagnosis=DIAGNOSIS))
            await user.should_not_see("looking for the mistake", retries=20)

    run(scenario())


def test_hints_come_one_at_a_time_and_are_remembered(state):
    async def scenario():
        async with visited(state) as user:
            judged(state, checked(Verdict.FAILED, why="x is 1"))
            await user.should_see("A hint")
            await user.should_not_see("Hint 1 of")
            user.find("A hint").click()
            await user.should_see("Hint 1 of")
            await user.should_not_see("Hint 2 of")
            user.find("Next hint").click()
            await user.should_see("Hint 2 of")
            await user.open(f"/learn/{SLUG}")
            await user.should_see("Hint 2 of")

    run(scenario())


def test_a_hint_draws_its_code_as_code_and_its_text_as_text(state, monkeypatch):
    given = Hint(name="softmax", number=1, count=1, kept=True, text="Use `x.max()`, not <b>.")
    monkeypatch.setattr(hints, "list_given_hints", lambda *_: [given])

    async def scenario():
        async with visited(state) as user:
            judged(state, checked(Verdict.FAILED, why="x is 1"))
            await user.should_see("Use <code>x.max()</code>, not &lt;b&gt;.")

    run(scenario())


def test_a_course_that_shows_verdicts_only_gives_no_hints(place):
    state = state_of(place, shows="verdicts")

    async def scenario():
        async with visited(state) as user:
            judged(state, checked(Verdict.FAILED, Verdict.FAILED))
            await user.should_see("0 of 2 checks passed")
            await user.should_not_see("A hint")
            await user.should_not_see("What went wrong")  # nothing is told of it

    run(scenario())


def test_after_passing_the_next_exercise_is_offered(state):
    async def scenario():
        async with visited(state) as user:
            judged(state, checked(Verdict.PASSED))
            await user.should_see("ex01_softmax is passed. You now know:")
            await user.should_see("An interviewer asks:")
            await user.should_see("Next: Masking")
            await user.should_see("1 of 8 exercises passed at least once.")

    run(scenario())


def test_a_passed_exercise_counts_as_make_progress_counts_it_while_it_is_edited(state, place):
    right = checked(Verdict.PASSED)
    record_attempt(place, right, passed=True)  # as the watch does

    async def scenario():
        async with visited(state) as user:
            await user.should_see("1 of 8 exercises passed at least once.")
            judged(state, right)
            judged(state, checked(Verdict.FAILED, why="x is 1"))
            await user.should_see("0 of 1 checks passed")
            await user.should_see("1 of 8 exercises passed at least once.")

    run(scenario())


def test_the_text_of_an_answer_is_text(state):
    """Scripts, tags and templates of an answer, in its errors and in what it printed."""

    async def scenario():
        async with visited(state) as user:
            judged(state, checked(Verdict.FAILED, why=HOSTILE, output=HOSTILE))
            await user.should_see("0 of 1 checks passed")
            from nicegui import ui

            drawn = "".join(e.content for e in user.find(ui.html).elements)
            assert "&lt;script&gt;alert(1)" in drawn
            assert "<script>alert" not in drawn and "<img src=x" not in drawn

    run(scenario())


def test_the_page_speaks_chinese(place):
    state = state_of(place, "zh")

    async def scenario():
        async with visited(state) as user:
            judged(state, checked(Verdict.FAILED, Verdict.PASSED))
            await user.should_see("手写注意力")
            await user.should_see("2 项检查通过 1 项")
            await user.should_see("8 道题中有 0 道至少通过过一次。")

    run(scenario())


def test_the_language_is_switched_for_every_tab(state):
    async def scenario():
        async with visited(state) as user:
            user.find("中文").click()
            await eventually(lambda: state.words.language == "zh")
            await user.open(f"/learn/{SLUG}")
            await user.should_see("讲义")

    run(scenario())


def test_a_notebook_is_graded_but_not_edited_here(tmp_path):
    (tmp_path / f"{SLUG}.ipynb").write_text("{}")

    async def scenario():
        async with visited(state_of(tmp_path)) as user:
            await user.should_see("is a notebook: edit it in Jupyter")
            assert not editor_of(user).enabled

    run(scenario())


def test_an_unknown_exercise_leads_to_the_first(state):
    async def scenario():
        async with visited(state) as user:
            answer = await user.http_client.get("/learn/ex99", follow_redirects=False)
            assert answer.headers["location"] == f"/learn/{SLUG}"

    run(scenario())
