"""Turns the formulas of a page, `$...$` and `$$...$$`, into MathML, which browsers draw."""

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

_FORMULA = r"(\$\$?)(?=\S)((?:[^$\\]|\\.)+?)(?<=\S)\1(?!\d)"
_BELOW_CODE_ABOVE_ESCAPES = 185  # Python-Markdown runs code spans at 190, and escapes at 180


class FormulaProcessor(InlineProcessor):
    """Replaces one formula by its MathML."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:
        """Return the place of the MathML in the page, and where the formula began and ended."""
        display = "block" if m[1] == "$$" else "inline"
        stored = self.md.htmlStash.store(convert(m[2], display=display))
        return stored, m.start(), m.end()


class FormulaExtension(Extension):
    """Registers the formulas with Python-Markdown."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Look for formulas after code spans, and before a backslash escapes anything."""
        md.inlinePatterns.register(
            FormulaProcessor(_FORMULA, md), "formula", _BELOW_CODE_ABOVE_ESCAPES
        )


def makeExtension(**options: Any) -> FormulaExtension:
    """Return the extension, under the name by which Python-Markdown looks for it."""
    return FormulaExtension(**options)
