"""The commands that collect what a class handed in, and return the reports."""

from pathlib import Path
from typing import Annotated

import typer

from grader.cli.options import BELOW, Lang, parse_language_option, stop_command
from grader.core.catalog import suggest_close_name
from grader.core.translation import Words

commands = typer.Typer()
Clones = Annotated[Path | None, typer.Option(help="The folder of clones that get the reports.")]


@commands.command()
def collect(
    roster: Annotated[Path, typer.Argument(help="A CSV: student, login, id.")],
    source: Annotated[Path, typer.Argument(help="Clones, uploads, or nbgrader's folder.")],
    output: Annotated[Path, typer.Option("-o", help="The folder of submissions.")] = Path(
        "submissions"
    ),
    kind: Annotated[
        str, typer.Option(help="What the source is: auto, repositories, nbgrader or uploads.")
    ] = "auto",
    times: Annotated[
        Path | None,
        typer.Option(help="The platform's times as CSV; of repositories SOURCE/pushes.csv."),
    ] = None,
    until: Annotated[
        str, typer.Option(help="Only what was handed in until then: 2026-03-01T18:00:00+01:00.")
    ] = "",
) -> None:
    """Collect what a class handed in: submissions/<student>/<slug>.py, and when that was."""
    from grader.classroom.collecting.collect_answers import CollectRequest
    from grader.classroom.collecting.collect_answers import collect_class_answers as collected
    from grader.classroom.course.table_reader import read_class_table_moment

    told = collected(
        CollectRequest(
            roster=roster, source=source, output=output, kind=kind, times=times,
            until=read_class_table_moment(until, "--until") if until else None,
        )
    )  # fmt: skip
    _print_collect_command(told.facts, told.open)


@commands.command("return")
def return_(
    results: Annotated[Path, typer.Argument(help="The folder of results of `make class`.")],
    to: Annotated[str, typer.Option(help="zips, canvas, moodle, branches or files.")] = "zips",
    roster: Annotated[
        Path | None, typer.Option(help="A CSV: student, login, id; without it, all get a zip.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="What the platform gave: its zip, or Moodle's worksheet.")
    ] = None,
    repositories: Clones = None,
    output: Annotated[Path, typer.Option("-o", help="The folder of zips.")] = Path("returned"),
    branch: Annotated[str, typer.Option(help="The branch that gets the reports.")] = "grading",
    dry: Annotated[
        bool, typer.Option("-n", "--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    lang: Lang = None,
) -> None:
    """Return the reports: as zips, as a platform's upload takes them, or into repositories."""
    from grader.classroom.collecting import return_reports
    from grader.classroom.run.results_folder import find_class_report_language

    words = parse_language_option(lang)
    if lang is None:  # the summary beside a report is in the report's language
        words = Words(find_class_report_language(results) or words.language)
    if to not in return_reports.RETURN_WAYS:
        close = suggest_close_name(to, return_reports.RETURN_WAYS)
        stop_command(
            f"There is no way called {to!r}: {', '.join(return_reports.RETURN_WAYS)}.{close}"
        )
    told = return_reports.return_class_reports(
        return_reports.ReturnRequest(
            results=results, roster=roster, way=to, output=output, source=source,
            repositories=repositories, branch=branch, dry=dry, words=words,
        )
    )  # fmt: skip
    _print_collect_command(told.facts, told.open)


def _print_collect_command(facts: list[str], open: list[str]) -> None:
    """Print the collected facts and open questions; exit with 1 if a question is open."""
    print(*facts, sep="\n")
    if open:
        print("", "To be settled:", *open, sep="\n")
        raise typer.Exit(BELOW)
