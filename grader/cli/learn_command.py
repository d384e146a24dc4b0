"""The command that opens the page to learn on."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from grader.cli.folder_commands import begin_learner_folder
from grader.cli.options import (
    Isolation,
    Lang,
    Place,
    find_course_option,
    parse_exercises_option,
    parse_language_option,
    parse_wall_option,
    stop_command,
)
from grader.core.catalog import ANSWERS_FOLDER
from grader.core.installed_copies import is_wheel_installed
from grader.core.this_python import SCRIPT
from grader.core.translation import Words

commands = typer.Typer()
PACKAGES = ("nicegui", "latex2mathml")
_MISSING = "The page needs packages that are not installed: run `make learn`, which installs them."
_MISSING_IN_WHEEL = "The page needs packages that are not installed: install attention-by-hand[learn] in the way that you installed attention-by-hand."  # noqa: E501
_ONE_FILE = "The page shows a folder of answers: name a folder."


@commands.command()
def learn(
    name: Annotated[str | None, typer.Argument(metavar="[EX]", help="Begin with this one.")] = None,
    submission: Place = ANSWERS_FOLDER,
    isolation: Isolation = "auto",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="A port of your choice.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    lang: Lang = None,
) -> None:
    """Open a page to read lessons, write answers, and see verdicts as you write."""
    words = parse_language_option(lang)
    if not all(map(find_spec, PACKAGES)):
        stop_command(words(_MISSING_IN_WHEEL if is_wheel_installed() else _MISSING))
    if submission == ANSWERS_FOLDER and is_wheel_installed() and not submission.exists():
        submission = _find_or_begin_answers(words)
    named = parse_exercises_option([name] if name else [], submission)
    if not submission.is_dir():
        stop_command(words(_ONE_FILE))
    from grader.practice.watch.watch_session import prepare_to_watch

    prepare_to_watch()
    from grader.learn.page_choices import choose_first_exercise, read_page_choices
    from grader.learn.serve_page import serve_learn_page

    exercises = [e for e in find_course_option().exercises if not e.draft or (name and e in named)]
    if not lang:
        words = Words(read_page_choices(submission).language or words.language)
    serve_learn_page(
        exercises, submission, words=words,
        start=named[0] if name else choose_first_exercise(exercises, submission),
        wall=parse_wall_option(isolation, "cpu"), shows=find_course_option().shows, port=port,
        browse=browser,
    )  # fmt: skip


def _find_or_begin_answers(words: Words) -> Path:
    """Return the answers in the folder that `init` writes by default; write it if need be."""
    answers = Path(SCRIPT) / ANSWERS_FOLDER
    if not answers.is_dir():
        begin_learner_folder(answers.parent, words)
    return answers
