"""What may stand before or after every command: `--course FILE` and `--exercises DIR`.

A course's file sets the defaults of a command's options; an option that is written out wins. A
file is never used just because it lies there: name it with `--course`, in GRADER_COURSE or as
COURSE= of `make`.
"""

import sys
from collections.abc import Sequence
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Annotated, Any

import typer

from grader import __version__
from grader.classroom.course.settings import CourseSettings, read_course_settings
from grader.cli.options import (
    ACTIVE_COURSE,
    FAULT,
    find_command_words,
    is_project_whole,
    parse_language_option,
    stop_command,
)
from grader.cli.translated_help import TranslatedGroup, UsageError, stop_command_for_usage
from grader.core import catalog
from grader.core.errors import GraderFault, UserError

OPTIONS = ("--course", "--exercises")
WITHOUT_COURSE = "course"  # the command that writes such a file
OF_WHOLE_PROJECT = (
    "release", "skeletons", "mutants", "headroom", "mechanical", "diagnose-trial", "house", "new",
    "drill",
)  # fmt: skip
NOT_IN_EXAMS = ("bench", "drill", "hint", "interview", "learn", "show", "watch")
_Course = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", envvar="GRADER_COURSE", help="A course's course.toml; after a command too."
    ),
]
_Packs = Annotated[
    list[Path] | None,
    typer.Option(
        "--exercises", metavar="DIR", help="A folder of more exercises; after a command too."
    ),
]


class GroupWithGlobalOptions(TranslatedGroup):
    """A group of commands that finds its own options behind its commands as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.obj = _find_language_option(args)  # before anything can be wrong
        parse_language_option(ctx.obj)
        try:
            return super().parse_args(ctx, _move_global_options_first(args))
        except UsageError as problem:
            stop_command_for_usage(problem)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands that help lists: those that can be run with what is here."""
        known = super().list_commands(ctx)
        return known if is_project_whole() else [n for n in known if n not in OF_WHOLE_PROJECT]

    def invoke(self, ctx: Any) -> Any:
        """Run a command; print an error that ends it as a sentence, without a traceback."""
        try:
            return super().invoke(ctx)
        except UsageError as problem:
            stop_command_for_usage(problem)
        except UserError as problem:
            stop_command(str(problem))
        except GraderFault as fault:
            told = "The grader itself failed: {fault}. Please report it."
            print(find_command_words()(told, fault=str(fault).rstrip(".")), file=sys.stderr)
            raise typer.Exit(FAULT) from None


def _find_language_option(args: Sequence[str]) -> str | None:
    """Return the value of the last `--lang`; None if there is none."""
    found = None
    for word, following in pairwise([*takewhile("--".__ne__, args), ""]):
        name, given, value = word.partition("=")
        if name == "--lang":
            found = value if given else following
    return found or None


def _move_global_options_first(args: Sequence[str]) -> list[str]:
    """Return the arguments with `OPTIONS` and their values first; none after `--` moves."""
    first, others = list[str](), list[str]()
    rest = iter(args)
    for argument in rest:
        if argument == "--":
            return [*first, *others, argument, *rest]
        name, given, _ = argument.partition("=")
        if name not in OPTIONS:
            others.append(argument)
        elif given:
            first.append(argument)
        elif (value := next(rest, None)) is not None:
            first += [argument, value]
        else:
            stop_command(f"What follows {name}? Write `{name} PATH`.")
    return [*first, *others]


def _print_version_option(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


_Version = Annotated[
    bool,
    typer.Option(
        "--version", help="Print the version.", callback=_print_version_option, is_eager=True
    ),
]


def begin(
    context: typer.Context, course: _Course = None, exercises: _Packs = None,
    version: _Version = False,
) -> None:  # fmt: skip
    """Grades attention written by hand."""
    if exercises:
        catalog.add_packs_to_catalog(exercises)
    if course is None or context.invoked_subcommand == WITHOUT_COURSE:
        return
    settings = read_course_settings(course)
    before = ACTIVE_COURSE.set(settings)
    context.call_on_close(lambda: ACTIVE_COURSE.reset(before))
    parse_language_option(context.obj or settings.language)
    if settings.help == "exam" and context.invoked_subcommand in NOT_IN_EXAMS:
        stop_command(
            f"`{context.invoked_subcommand}` is not for exams, and {settings.name} is one."
        )
    context.default_map = dict.fromkeys(
        _list_command_names(context), _read_course_option_defaults(settings)
    )


def _list_command_names(context: typer.Context) -> Sequence[str]:
    group = context.command
    assert isinstance(group, TranslatedGroup)
    return list(group.commands)


def _read_course_option_defaults(settings: CourseSettings) -> dict[str, object]:
    found = {"device": settings.device, "speed": settings.speed}
    return found if settings.language is None else {**found, "lang": settings.language}
