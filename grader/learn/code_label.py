"""Draws a sentence whose words in backticks are code."""

from nicegui import ui

from grader.reporting.html import mark_up_reported_code


class CodeLabel(ui.html):
    """A label that draws `code` as code; all its other text stays text."""

    def __init__(self, text: str = "") -> None:
        super().__init__(mark_up_reported_code(text), sanitize=False)

    def set_text(self, text: str) -> None:
        self.set_content(mark_up_reported_code(text))
