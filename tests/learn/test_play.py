"""What can be moved: pictures by the reference and by an answer, at every end of every control."""

from dataclasses import replace
from itertools import product

import pytest

from grader.core import catalog
from grader.core.records import Limits
from grader.core.translation import Words
from grader.judging.playing import Bars, Grid, Note, Painted, Slider, Switch
from grader.learn import play_runner
from grader.learn.play_pane import has_play
from grader.learn.play_runner import AnswerPlayer, Played, measure_picture_difference
from grader.reporting.html import render_report_template
from grader.worker.parent.walls import PROCESS
from tests.conftest import solution

PLAYED = [e for e in catalog.list_catalog_exercises() if has_play(e)]
CORE = [f"ex0{n}" for n in range(1, 8)]


def ends(control) -> tuple:
    match control:
        case Slider():
            return control.low, control.begin, control.high
        case Switch():
            return False, True
        case Painted():
            nothing = tuple(tuple(False for _ in row) for row in control.begin)
            return control.begin, nothing


def settings(exercise) -> list[dict]:
    controls = play_runner.list_controls(exercise)
    return [
        dict(zip((c.name for c in controls), values, strict=True))
        for values in product(*map(ends, controls))
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("answers")
    for exercise in PLAYED:
        (place / exercise.file).write_text(solution(exercise.slug))
    return place


@pytest.fixture(scope="module")
def player(place):
    player = AnswerPlayer(place, PROCESS)
    yield player
    player.close()


def test_every_core_lesson_but_that_of_cuda_has_something_to_play_with():
    assert {e.slug.split("_")[0] for e in PLAYED} >= {*CORE, "ex10"}


@pytest.mark.parametrize("exercise", PLAYED, ids=lambda e: e.slug)
def test_a_right_answer_draws_what_the_reference_draws(exercise, player):
    for values in settings(exercise):
        right = play_runner.play_reference(exercise, values)
        yours = player.play(exercise, "right", values)
        assert yours.problem == ""
        assert measure_picture_difference(right, yours) < 1e-5, values


@pytest.mark.parametrize("exercise", PLAYED, ids=lambda e: e.slug)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_picture_is_drawn_in_both_languages(exercise, language):
    words = Words(language)
    for values in settings(exercise):
        pictures = play_runner.play_reference(exercise, values).pictures
        named = [(type(p).__name__, p) for p in pictures]
        drawn = render_report_template("pictures.html.j2", words, pictures=named)
        assert "nan" not in drawn
        for picture in pictures:
            says = picture.says if isinstance(picture, Note) else picture.title
            assert language == "en" or words(says) != says, f"{says!r} has no Chinese"


@pytest.fixture
def softmax(place):
    """The file of ex01, put right again after the test."""
    path = place / "ex01_softmax.py"
    yield path
    path.write_text(solution("ex01_softmax"))


def test_a_wrong_answer_is_told_from_the_reference(softmax, player):
    exercise = catalog.find_catalog_exercise("ex01")
    softmax.write_text("def softmax_numpy(x, axis=-1):\n    return x\n")
    values = settings(exercise)[0]
    yours = player.play(exercise, "wrong", values)
    assert measure_picture_difference(play_runner.play_reference(exercise, values), yours) > 0.1


def test_an_answer_that_hangs_gives_a_sentence_and_the_next_one_is_played(softmax, player):
    exercise = catalog.find_catalog_exercise("ex01")
    short = replace(exercise, limits=Limits(call_seconds=0.5))
    values = settings(exercise)[0]
    softmax.write_text("def softmax_numpy(x, axis=-1):\n    while True:\n        pass\n")
    assert "no answer within" in player.play(short, "hangs", values).problem
    softmax.write_text(solution(exercise.slug))
    assert player.play(exercise, "mended", values).problem == ""


def test_an_answer_that_is_gone_gives_a_sentence(softmax, player):
    exercise = catalog.find_catalog_exercise("ex01")
    softmax.unlink()
    assert "is not there" in player.play(exercise, "gone", settings(exercise)[0]).problem


@pytest.mark.parametrize(
    "a, b",
    [
        (Bars(title="", labels=("a",), values=(1.0,)), Bars(title="", labels=("a",), values=(float("nan"),))),
        (Grid(title="", rows=("a",), columns=("b",), values=((None,),)), Grid(title="", rows=("a",), columns=("b",), values=((0.0,),))),
        (Note(says=""), Bars(title="", labels=(), values=())),
    ],
)  # fmt: skip
def test_what_has_another_form_or_is_no_number_differs(a, b):
    assert measure_picture_difference(Played(pictures=(a,)), Played(pictures=(b,))) == float("inf")
