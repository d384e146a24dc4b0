"""The command that begins a new exercise."""

from pathlib import Path
from typing import Annotated

import typer

from grader.cli.options import check_whole_project, stop_command, stop_command_for_unwritable
from grader.core.packs import list_packs_in_use

commands = typer.Typer()


@commands.command()
def new(
    name: Annotated[str | None, typer.Argument(metavar="EX", help="Such as ex18_alibi.")] = None,
    into: Annotated[
        Path | None, typer.Option(metavar="PACK", help="Write into the folder of a pack.")
    ] = None,
) -> None:
    """Write every file of a new exercise, as a draft, with the open places marked."""
    from grader.authoring import new_exercise
    from grader.core import catalog

    check_whole_project("new")
    if name is None:
        stop_command("Which name is it to have? `make new EX=ex18_alibi`, for instance.")
    into = into or _choose_pack_in_use()
    try:
        for path in new_exercise.write_new_exercise(name, into):
            print(path.relative_to(catalog.ROOT) if into is None else path)
    except OSError as error:
        stop_command_for_unwritable(into or catalog.ROOT, error)
    print(
        f"{name} is a draft. `make house` lists its open places; docs/authors.md goes through them."
    )


def _choose_pack_in_use() -> Path | None:
    """Return the pack that `--exercises` names; None if none is named. Stop if several are."""
    used = list_packs_in_use()
    if len(used) > 1:
        stop_command(
            f"{len(used)} packs are in use: name the one that gets the exercise: `--into PACK`."
        )
    return used[0] if used else None
