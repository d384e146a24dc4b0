"""The pane of what can be moved, while the server ends."""

from nicegui import ui

from grader.core.records import Verdict
from grader.core.translation import Words
from grader.judging.playing import Bars, Grid
from grader.learn import play_pane
from grader.learn.play_pane import PlayPane
from grader.learn.play_runner import Played, list_controls
from grader.reporting.html import render_report_template
from tests.learn.learn_user import judged, state_of, visited
from tests.learn.test_learn_page import SLUG, checked, run


def test_a_picture_that_the_end_of_the_server_cuts_off_is_no_error(tmp_path, monkeypatch):
    """NiceGUI gives None for what it did not compute: the controls, a picture, or the other one."""
    state = state_of(tmp_path)

    async def scenario():
        async with visited(state) as user:
            judged(state, checked(Verdict.PASSED))
            with user:
                pane = PlayPane(state, SLUG)
            pane.show()
            for values, *computed in ({}, None), ({"by": 1}, None), ({"by": 1}, Played(), None):
                results = iter(computed)

                async def compute(*_, results=results):
                    return next(results, None)

                monkeypatch.setattr(play_pane.run, "io_bound", compute)
                pane._values, pane._dirty = values, True
                await pane._tick()

    run(scenario())


def test_words_in_backticks_are_drawn_as_code_and_spoken_without_them(tmp_path):
    async def scenario():
        state = state_of(tmp_path)
        async with visited(state) as user:
            with user:
                PlayPane(state, SLUG)._draw_controls(list_controls(state.exercises[SLUG]))
            await user.should_see("Score of <code>cat</code>")
            named = {e.props.get("aria-label") for e in user.find(ui.slider).elements}
            assert "Score of cat" in named

    run(scenario())


def test_a_picture_titled_with_code_draws_it_as_code():
    bars = Bars(title="Score of `cat`", labels=("`q`",), values=(1.0,))
    drawn = render_report_template("pictures.html.j2", Words("en"), pictures=[("Bars", bars)])
    assert "Score of <code>cat</code>" in drawn
    assert "<code>q</code>" in drawn
    assert "`" not in drawn


def test_queries_and_keys_are_named_in_chinese_too():
    words = Words("zh")
    grid = Grid(title="Weights", rows=("query 0",), columns=("key 0",), values=((1.0,),))
    pictures = render_report_template("pictures.html.j2", words, pictures=[("Grid", grid)])
    painted = render_report_template("painted.html.j2", words, name="keep", rows=((True,),))
    for drawn in (pictures, painted):
        assert '<th scope="row">查询 0</th>' in drawn
        assert '<th scope="col">键 0</th>' in drawn
