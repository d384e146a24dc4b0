"""The command that lists similar answers."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from grader.cli.options import (
    Lang,
    Names,
    parse_exercises_option,
    parse_language_option,
    stop_command,
    stop_command_for_unwritable,
)
from grader.core.progress import show_progress_bar
from grader.core.this_python import build_pip_install_command

commands = typer.Typer()


@commands.command()
def similar(
    submissions: Annotated[Path, typer.Argument(help="submissions/<student>/<slug>.py")],
    names: Names = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(help="Compare with these as well: an earlier class, or a folder of answers."),
    ] = None,
    least: Annotated[int, typer.Option(min=1, help="Tokens that two must have in common.")] = 40,
    most: Annotated[
        int, typer.Option(min=1, help="How many groups are listed; the smallest is a pair.")
    ] = 50,
    output: Annotated[
        Path | None, typer.Option("-o", help="Write a page with the pairs side by side.")
    ] = None,
    lang: Lang = None,
) -> None:
    """List pairs of similar answers, for a person to look at: never a score."""
    from grader.classroom.run.gather_answers import NoClassFound
    from grader.classroom.similar import similar_page, similar_table
    from grader.classroom.similar.similar_search import (
        NoCopydetect,
        SearchTerms,
        find_similar_answers,
    )

    words = parse_language_option(lang)
    exercises = parse_exercises_option(names or [], Path("."))
    try:
        with show_progress_bar() as progress:
            found = find_similar_answers(
                submissions, also or [], exercises, SearchTerms(least=least, most=most), progress
            )
    except NoClassFound as problem:
        stop_command(words.said(str(problem)))
    except NoCopydetect:
        cure = build_pip_install_command("copydetect")
        stop_command(words("Comparing needs copydetect: `{cure}`, or `make similar`.", cure=cure))
    similar_table.print_similar(found, Console(), words)
    if output is not None:
        try:
            output.write_text(similar_page.render_similar_page(found, words), encoding="utf-8")
        except OSError as error:
            stop_command_for_unwritable(output, error)
