"""Holds what `show` returns: a trace that a terminal, a notebook or a file can draw."""

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType

from grader.core.catalog import suggest_close_name
from grader.core.translation import Words
from grader.practice.show import picture, show_text
from grader.practice.show.sentence import CannotShow
from grader.practice.show.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXT_COLUMNS = 110  # of a notebook


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class View:
    """A trace in a language. `print` it, leave it as a cell's last line, or `.save` it."""

    trace: Trace
    words: Words

    def figure(self) -> "Figure":
        """Return the heat maps as a matplotlib figure."""
        return picture.show_heat_maps(self.trace, self.words)

    def save(self, path: str | Path) -> None:
        """Write the heat maps to a .png, .svg or .pdf file; `CannotShow` says why not."""
        path = Path(path)
        check_shown_picture_suffix(path)
        drawn = self.figure()
        try:
            drawn.savefig(path, dpi=150)
        except OSError as error:
            why = error.strerror or error
            raise CannotShow(f"{path} cannot be written: {why}.") from None

    def __rich__(self) -> RenderableType:
        return show_text.show_trace_lines(self.trace, self.words)

    def __repr__(self) -> str:
        console = Console(
            file=io.StringIO(), width=TEXT_COLUMNS, color_system=None, force_jupyter=False
        )
        console.print(self)
        return "\n".join(line.rstrip() for line in _show_on_console(console).splitlines())

    def _repr_html_(self) -> str:
        console = Console(file=io.StringIO(), width=TEXT_COLUMNS, record=True, force_jupyter=False)
        console.print(self)
        code = '<pre style="line-height:1.2;font-family:monospace">{code}</pre>'
        return console.export_html(inline_styles=True, code_format=code) + self._image_html()

    def _image_html(self) -> str:
        try:
            data = base64.b64encode(picture.show_heat_maps_png(self.trace, self.words)).decode()
        except CannotShow:  # without matplotlib the text is all there is
            return ""
        return f'<img style="max-width:100%" alt="" src="data:image/png;base64,{data}">'


def check_shown_picture_suffix(path: Path) -> None:
    """Raise `CannotShow` unless a picture can be written under this name."""
    if path.suffix.lower() not in picture.PICTURE_SUFFIXES:
        close = suggest_close_name(path.suffix.lower(), picture.PICTURE_SUFFIXES)
        endings = ", ".join(picture.PICTURE_SUFFIXES)
        raise CannotShow(f"{path} should end in one of {endings}.{close}")


def _show_on_console(console: Console) -> str:
    file: Any = console.file
    return str(file.getvalue())
