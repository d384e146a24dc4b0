"""The command that opens the debugger at the first failing case of an answer."""

import typer

from grader.cli.options import (
    Device,
    Lang,
    One,
    Place,
    Seed,
    check_device_option,
    check_seed_option,
    parse_exercise_option,
    parse_language_option,
)
from grader.core.catalog import ANSWERS_FOLDER
from grader.submission import answer_file

commands = typer.Typer()


@commands.command()
def debug(
    name: One = None,
    submission: Place = ANSWERS_FOLDER,
    device: Device = "cpu",
    seed: Seed = "",
    lang: Lang = None,
) -> None:
    """Run the first failing case in this process, and open the debugger in your function."""
    words, exercise = parse_language_option(lang), parse_exercise_option("debug", name, submission)
    check_seed_option(device, seed, words)
    check_device_option(device)
    from grader.practice.debug.debug_session import debug_answer

    path = answer_file.locate_submission(submission, exercise.slug)
    debug_answer(exercise, path, words=words, seed=seed, device=device)
