"""The command that shows a learner's progress."""

import typer
from rich.console import Console
from rich.table import Table

from grader.cli.options import (
    Lang,
    Place,
    find_course_option,
    parse_language_option,
)
from grader.core.catalog import ANSWERS_FOLDER

commands = typer.Typer()


@commands.command()
def progress(submission: Place = ANSWERS_FOLDER, lang: Lang = None) -> None:
    """Show your attempts, hints and first passes, from `.progress` beside the answers."""
    from grader.practice.learner_progress import PROGRESS_FILE, read_learner_progress

    words, found = parse_language_option(lang), read_learner_progress(submission)
    if found.damaged:
        print(words("{file} is damaged and counts as empty; the next attempt begins it anew.",
                    file=PROGRESS_FILE))  # fmt: skip
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(words("Exercise"))
    for heading in ("Attempts", "Hints", "First passed", "At attempt"):
        table.add_column(words(heading), justify="right")
    exercises = [e for e in find_course_option().exercises if not e.draft]
    for exercise in exercises:
        one = found.about(exercise.slug)
        counts = (one.attempts, one.hints, one.passed, one.needed)
        table.add_row(exercise.slug, *(str(x) if x else "·" for x in counts))
    console = Console()
    console.print(table)
    passed = sum(bool(found.about(e.slug).passed) for e in exercises)
    told = "{passed} of {count} exercises passed at least once."
    console.print(words(told, passed=passed, count=len(exercises)), highlight=False)
