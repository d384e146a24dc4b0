"""How far a command has come, on the screen."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar on the screen, and remove it at the end; without a screen, none."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda doing, share: bar.update(task, description=doing, completed=share)
