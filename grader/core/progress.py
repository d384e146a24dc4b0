"""How far a command has come, on the screen."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text


class _SecondsLeft(ProgressColumn):
    """The seconds that a task will still take, at the pace of the last half minute."""

    def render(self, task: Task) -> Text:
        left = task.time_remaining
        return Text("" if left is None else f"{math.ceil(left)} s")


@contextmanager
def show_progress_bar(*, with_seconds: bool = False) -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar on the screen, and remove it at the end; do nothing without a terminal.

    with_seconds  whether to show the seconds that are left, too
    """
    console = Console(stderr=True)
    columns = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn()]
    with Progress(
        *columns, *([_SecondsLeft()] if with_seconds else []),
        console=console, transient=True, disable=not console.is_terminal,
    ) as bar:  # fmt: skip
        task = bar.add_task("starting", total=1.0)
        yield lambda doing, share: bar.update(task, description=doing, completed=share)
