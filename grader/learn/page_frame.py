"""Begins a page: its title, styles, scripts and colours, and what the browser is told."""

import json
from pathlib import Path

from nicegui import ui

from grader.core.translation import Words
from grader.learn.learn_state import LearnState
from grader.reporting.html import LANGUAGE_TAGS, mark_up_reported_code

_HERE = Path(__file__).parent


def begin_page(state: LearnState, title: str) -> ui.dark_mode:
    """Give the page of a tab its head; return what makes the page dark or light."""
    ui.page_title(f"{title} · {state.words('Attention by Hand')}")
    for name in ("play.css", "passed.css", "learn.css"):
        ui.add_head_html(f"<style>{(_HERE / name).read_text('utf-8')}</style>")
    for name in ("painting.js", "learn.js"):
        ui.add_head_html(f"<script>{(_HERE / name).read_text('utf-8')}</script>")
    ui.colors(primary="var(--link)")
    return ui.dark_mode(state.choices.dark)


async def greet_browser(words: Words) -> bool:
    """Tell a connected browser the language of the page; return whether the page is dark."""
    # A server that starts again draws a new token, so an old tab cannot come back by itself.
    lost = words("The server has ended or sleeps. What you write is kept in this browser. "
                 "If the page does not come back, run `make learn` and open the new address "
                 "that it prints.")  # fmt: skip
    told = json.dumps([mark_up_reported_code(lost), LANGUAGE_TAGS[words.language]])
    return bool(await ui.run_javascript(f"learn.say(...{told})", timeout=10.0))
