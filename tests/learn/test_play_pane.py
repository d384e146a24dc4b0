"""The pane of what can be moved, while the server ends."""

from grader.core.records import Verdict
from grader.learn import play_pane
from grader.learn.play_pane import PlayPane
from grader.learn.play_runner import Played
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
