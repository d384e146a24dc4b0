"""A person on the page, simulated: no browser, no server, no grading."""

import gc
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

from nicegui.testing.user import User
from nicegui.testing.user_simulation import user_simulation

from grader.core.catalog import list_catalog_exercises
from grader.core.records import ExerciseReport
from grader.core.translation import Words
from grader.learn.learn_page import build_learn_pages
from grader.learn.learn_state import LearnState, new_learn_state
from grader.worker.parent.walls import PROCESS


def state_of(place, language: str = "en", shows: str = "open") -> LearnState:
    core = [e for e in list_catalog_exercises() if e.track == "core"]
    return new_learn_state(core, place, Words(language), PROCESS, shows)


@asynccontextmanager
async def visited(state: LearnState, slug: str = "ex01_softmax") -> Iterator[User]:
    """A person who has opened the page of an exercise.

    What fails is raised when the page has shut down: raised before, NiceGUI's tasks would run on.
    """
    failed: list[BaseException] = []
    modules = dict(sys.modules)
    gc.freeze()  # NiceGUI collects garbage before and after: among what is made from here on
    async with user_simulation(root=lambda: None) as user:
        build_learn_pages(state, slug)
        user.javascript_rules.clear()
        try:
            await user.open(f"/learn/{slug}")
            yield user
        except BaseException as error:  # whatever it is, it is raised below
            failed.append(error)
    gc.unfreeze()
    sys.modules.update(modules)  # NiceGUI drops `grader`: another one would lack its packages
    if failed:
        raise failed[0]


def judged(state: LearnState, report: ExerciseReport) -> None:
    """Show a report as the watch does."""
    state.show(replace(state.view, reports={**state.view.reports, report.slug: report}))
