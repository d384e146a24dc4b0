"""Puts Typer's own words, of help and of errors, into the language of the command."""

from typing import Any, NoReturn, cast

import typer
from typer.core import TyperCommand, TyperGroup

from grader.cli.options import find_command_words, stop_command

UsageError = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])  # Typer names no other
_HELP_WAS_PRINTED = "NoArgsIsHelpError"  # of Typer: there were no words
_FIXED_WORDS = {  # of help, by the names that Typer gives them
    "ARGUMENTS_PANEL_TITLE": "Arguments",
    "OPTIONS_PANEL_TITLE": "Options",
    "COMMANDS_PANEL_TITLE": "Commands",
    "DEFAULT_STRING": "[default: {}]",
    "ENVVAR_STRING": "[env var: {}]",
    "REQUIRED_LONG_STRING": "[required]",
}


class TranslatedCommand(TyperCommand):
    """A command whose help is in its language."""

    def get_usage(self, ctx: Any) -> str:
        return find_command_words().said(super().get_usage(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _translate_help_texts(self, ctx)
        super().format_help(ctx, formatter)


class TranslatedGroup(TyperGroup):
    """A group of commands whose help is in the language of the command."""

    def get_usage(self, ctx: Any) -> str:
        return find_command_words().said(super().get_usage(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _translate_help_texts(self, ctx)
        for command in self.commands.values():
            command.help = find_command_words()(command.help or "")
        super().format_help(ctx, formatter)


def translate_typer_help(app: typer.Typer) -> None:
    """Let all commands of an app show their help in the command's language."""
    for part in (app, *(group.typer_instance for group in app.registered_groups)):
        for command in part.registered_commands if part else ():
            command.cls = TranslatedCommand


def _translate_help_texts(command: Any, ctx: Any) -> None:
    """Translate the texts of a command's help, which belong to this run alone."""
    from typer import rich_utils

    words = find_command_words()
    for name, english in _FIXED_WORDS.items():
        setattr(rich_utils, name, words(english))
    command.help = words(command.help or "")
    for parameter in command.get_params(ctx):
        parameter.help = words(parameter.help or "")


def stop_command_for_usage(problem: typer.BadParameter) -> NoReturn:
    """Print what was wrong with the words on the command line, and where help is; stop."""
    if type(problem).__name__ == _HELP_WAS_PRINTED:
        raise problem
    lines = [problem.format_message()]
    if problem.ctx is not None:
        help_option = f"{problem.ctx.command_path} {problem.ctx.help_option_names[0]}"
        lines = [problem.ctx.get_usage(), *lines, f"`{help_option}` explains it."]
    stop_command("\n".join(lines))
