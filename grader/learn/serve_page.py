"""Serves the page and watches the answers until Ctrl-C."""

import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from grader.core.records import Exercise
from grader.core.translation import Words
from grader.learn.learn_server import LearnServer
from grader.learn.learn_state import new_learn_state
from grader.practice.watch.watch_session import WatchSession
from grader.worker.parent.walls import Wall

FIRST_PAGE_SECONDS = 3.0  # the page has the processor to itself for so long


def serve_learn_page(
    exercises: Sequence[Exercise], place: Path, *, words: Words, start: Exercise, wall: Wall,
    shows: str, port: int | None = None, browse: bool = True,
) -> None:  # fmt: skip
    """Serve the page on the answers in `place`, and open a browser with `browse`."""
    state = new_learn_state(exercises, place, words, wall, shows)
    with suppress(KeyboardInterrupt), state.closing, WatchSession(
        exercises, place, words, state, wall, shows, moves_on=False
    ) as session, LearnServer(state, start.slug, port) as server:  # fmt: skip
        print(words("The page is open at {address}", address=server.address), flush=True)
        print(words("Keep the address to yourself. Ctrl-C ends the page."), flush=True)
        if browse:
            webbrowser.open(server.single_use_address())
        # Grading imports torch, which would make the first page wait.
        state.shown.wait(FIRST_PAGE_SECONDS)
        state.request_all()
        session.run(start)
    print(words("Your answers are in {place}. `make learn` goes on from here.", place=place))
