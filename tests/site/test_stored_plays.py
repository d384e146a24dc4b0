"""The stored pictures of the site: for each setting what the reference draws for it."""

import json
import random

import pytest

from docs.site import stored_plays
from grader.core import catalog
from grader.core.translation import Words
from grader.judging.playing import Painted, Slider, Switch
from grader.learn import play_runner

PLAYED = [e for e in catalog.list_catalog_exercises() if stored_plays.has_play(e)]
PAINTED = catalog.find_catalog_exercise("ex02_masking")
SMALL = [catalog.find_catalog_exercise(name) for name in ("ex03", "ex04", "ex06", "ex10")]


def draw(stored: dict, at: int) -> str:
    """Return the HTML of a setting, as docs/site/assets/site.js puts it together."""
    text, *numbers = stored["settings"][at].split(" ")
    parts = stored["texts"][int(text)]
    return "".join(part + number for part, number in zip(parts, [*numbers, ""], strict=True))


@pytest.mark.parametrize("exercise", SMALL, ids=lambda e: e.slug)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_is_stored_is_what_the_reference_draws(exercise, language):
    words = Words(language)
    stored = json.loads(stored_plays.store_pictures(exercise, words))
    settings = list(stored_plays.list_settings(play_runner.list_controls(exercise)))
    assert len(stored["settings"]) == len(settings)
    for at, values in enumerate(settings):
        assert draw(stored, at) == stored_plays.draw_pictures(exercise, words, values)


@pytest.mark.parametrize("exercise", PLAYED, ids=lambda e: e.slug)
def test_the_settings_are_few_and_begin_and_end_where_the_controls_do(exercise):
    controls = play_runner.list_controls(exercise)
    settings = list(stored_plays.list_settings(controls))
    assert len(settings) < 10_000
    assert {control.name: control.begin for control in controls} in settings
    for control in controls:
        if isinstance(control, Slider):
            assert settings[0][control.name] == control.low
            assert settings[-1][control.name] == control.high


def test_a_row_of_the_picture_follows_from_the_same_row_of_the_mask():
    """Only so can the rows of a painted grid be stored one by one."""
    [control] = play_runner.list_controls(PAINTED)
    drawn = random.Random(2)
    size = len(control.begin)
    for _ in range(20):
        cells = tuple(tuple(drawn.random() < 0.4 for _ in range(size)) for _ in range(size))
        whole = play_runner.play_reference(PAINTED, {control.name: cells}).pictures
        for at, row in enumerate(cells):
            alone = {control.name: (*control.begin[:at], row, *control.begin[at + 1 :])}
            pictures = play_runner.play_reference(PAINTED, alone).pictures
            assert pictures[0].values[at] == whole[0].values[at]
            assert any(row) or str(at) in pictures[-1].values["rows"]


def test_a_painted_grid_stands_alone():
    painted = Painted(name="keep", says="The mask", begin=((True,),))
    switch = Switch(name="scaled", says="Scaled", begin=False)
    with pytest.raises(stored_plays.CannotStore, match="too many settings"):
        list(stored_plays.list_settings((painted, switch)))


def test_the_controls_name_what_they_move_in_both_languages():
    for exercise in PLAYED:
        english = stored_plays.write_play(exercise, Words("en"), "../x.json")
        chinese = stored_plays.write_play(exercise, Words("zh"), "../x.json")
        assert 'data-stored="../x.json"' in english
        assert english != chinese
        assert "\n" not in english  # or Markdown would see paragraphs in it
