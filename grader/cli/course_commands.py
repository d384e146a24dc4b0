"""The command that writes a course's file."""

from pathlib import Path
from typing import Annotated

import typer

from grader.classroom.course import settings
from grader.cli.options import stop_command, stop_command_for_unwritable
from grader.cli.translated_help import TranslatedGroup
from grader.core.advice import fit_advice

commands = typer.Typer()
course = typer.Typer(cls=TranslatedGroup, no_args_is_help=True, help="A course in one file.")
commands.add_typer(course, name="course")
_TEMPLATE = Path(settings.__file__).with_name("course.toml.in")


@course.callback()
def begin() -> None:
    """A course in one file."""


@course.command()
def new(
    output: Annotated[Path, typer.Option("-o", help="The file to write.")] = Path("course.toml"),
) -> None:
    """Write a course.toml with every entry explained; what is there is not written over."""
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(_TEMPLATE.read_text(encoding="utf-8"))
    except FileExistsError:
        stop_command(f"{output} is there already: it is yours. Name another file with -o.")
    except OSError as error:
        stop_command_for_unwritable(output, error)
    told = f"{output}: mend it, then `make class COURSE={output}` and the like follow it."
    print(fit_advice(told))
