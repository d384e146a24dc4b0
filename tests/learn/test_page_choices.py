"""What a person chose on the page is there at the next start."""

import json

import pytest

from grader.cli import learn_command
from grader.core.catalog import list_catalog_exercises
from grader.learn import serve_page
from grader.learn.page_choices import (
    PageChoices,
    choose_first_exercise,
    read_page_choices,
    write_page_choices,
)
from grader.practice.learner_progress import LearnedExercise, write_learner_progress
from tests.learn.learn_user import state_of, visited
from tests.learn.test_learn_page import eventually, run

CORE = [e for e in list_catalog_exercises() if e.track == "core"]


def test_language_colours_and_exercise_outlive_the_server(tmp_path):
    async def first():
        async with visited(state_of(tmp_path), "ex02_masking") as user:
            user.find("Auto").click()
            await user.should_see("Dark")
            user.find("中文").click()
            await eventually(lambda: read_page_choices(tmp_path).language == "zh")

    async def second():
        async with visited(state_of(tmp_path, "zh"), "ex02_masking") as user:
            await user.should_see("深色")

    run(first())
    run(second())
    chosen = PageChoices(language="zh", dark=True, slug="ex02_masking")
    assert read_page_choices(tmp_path) == chosen
    assert choose_first_exercise(CORE, tmp_path).slug == "ex02_masking"


def test_without_a_last_exercise_the_first_that_was_never_passed_is_open(tmp_path):
    assert choose_first_exercise(CORE, tmp_path) == CORE[0]
    write_learner_progress(tmp_path, CORE[0].slug, LearnedExercise(passed="2026-01-01"))
    assert choose_first_exercise(CORE, tmp_path) == CORE[1]


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 900, "[]", '{"language": 1, "dark": "yes", "slug": []}', "x" * 9000]
)
def test_a_damaged_file_holds_no_choices(tmp_path, text):
    (tmp_path / ".progress.page").write_text(text)
    assert read_page_choices(tmp_path) == PageChoices()


def test_an_unknown_language_is_no_choice(tmp_path):
    kept = {"language": "xx", "dark": None, "slug": "ex99"}
    (tmp_path / ".progress.page").write_text(json.dumps(kept))
    assert read_page_choices(tmp_path).language == ""
    assert choose_first_exercise(CORE, tmp_path) == CORE[0]


@pytest.mark.parametrize("lang, shown", [(None, "zh"), ("en", "en")])
def test_the_command_begins_as_the_page_ended(tmp_path, monkeypatch, lang, shown):
    write_page_choices(tmp_path, PageChoices(language="zh", slug="ex03_sdpa"))
    began = {}
    monkeypatch.setattr(serve_page, "serve_learn_page", lambda *_, **given: began.update(given))
    learn_command.learn(None, tmp_path, "process", None, False, lang)
    assert began["words"].language == shown
    assert began["start"].slug == "ex03_sdpa"
