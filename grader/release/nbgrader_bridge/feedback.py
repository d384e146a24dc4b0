"""Writes nbgrader's feedback: of any notebook, and without scores if an exam shows nothing."""

from html import escape
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.markdown_mistune import InvalidNotebook
from nbformat import NotebookNode
from nbgrader.preprocessors import GetGrades

Resources = dict[str, Any]


class FeedbackExporter(HTMLExporter):  # type: ignore[misc]
    """The exporter of HTML feedback that shows as text what nbconvert refuses as Markdown."""

    @pass_context
    def markdown2html(self, context: Context, source: str) -> str:
        try:
            return str(super().markdown2html(context, source))
        except InvalidNotebook:
            return f"<pre>{escape(source)}</pre>"


class Received(GetGrades):  # type: ignore[misc]
    """The preprocessor that removes scores from HTML feedback, in place of `GetGrades`."""

    def preprocess(self, nb: NotebookNode, resources: Resources) -> tuple[NotebookNode, Resources]:
        nb, resources = super().preprocess(nb, resources)
        resources["nbgrader"].update(score=0, max_score=0, late_penalty=0)
        for cell in nb.cells:
            cell.metadata.get("nbgrader", {}).update(grade=False, task=False)
        return nb, resources
