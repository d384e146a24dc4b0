"""The command that holds an interview: a blank file, a clock, the verdict, three questions."""

import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from rich.console import Console

from grader.cli.options import (
    FAULT,
    Isolation,
    Lang,
    One,
    parse_exercises_option,
    parse_language_option,
    parse_wall_option,
    stop_command,
    stop_command_for_unwritable,
)
from grader.core import catalog
from grader.core.advice import fit_advice
from grader.core.questions import Question, read_questions_toml
from grader.core.records import Exercise
from grader.core.translation import Words
from grader.practice.interview import editor, viva
from grader.practice.interview.clock import InterviewClock
from grader.practice.interview.keyboard import Keyboard
from grader.practice.interview.sitting import Sitting
from grader.worker.parent import requirements
from grader.worker.parent.walls import Wall

commands = typer.Typer()
MOST_MINUTES, MOST_SEED = 240, 10**6
_NO_MINUTES = "{minutes} is no time for an interview: give whole minutes, 1 to {most}."
_NO_SEED = "{seed} is no seed of an interview: at most {digits} digits, or no --seed at all."
_NO_HUNT = "{slug} is a bug hunt, which begins with an answer: name another exercise."
_NOT_HERE = "{slug} cannot be graded here: {why}"
_NONE_FITS = "No exercise fits in {minutes} minutes: give more time, or name one (EX=ex01_softmax)."
_DRAWN = "Drawn: {slug} (SEED={seed} draws it again)."
_MAX_SEED_DIGITS = 18


@commands.command()
def interview(
    name: One = None,
    given: Annotated[str, typer.Option("--minutes", help="How long, 1 to 240.")] = "30",
    seed: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Repeat an earlier draw.")
    ] = None,
    edit: Annotated[bool, typer.Option(help="Open the file in $VISUAL or $EDITOR.")] = False,
    output: Annotated[
        Path, typer.Option("-o", help="The folder in which each interview gets its own.")
    ] = Path("interview"),
    isolation: Isolation = "auto",
    lang: Lang = None,
) -> None:
    """Write an answer from a blank file, against the clock; then a verdict and three questions."""
    from grader.practice.interview.interview_task import write_interview_task

    words, wall = parse_language_option(lang), parse_wall_option(isolation, "cpu")
    minutes, number = _parse_minutes_option(given, words), _parse_seed_option(seed, words)
    command = editor.choose_interview_editor() if edit else []
    exercise = _choose_exercise_for_command(name, minutes, number, words)
    asked = viva.draw_interview_questions(read_questions_toml(exercise), number)
    sitting = Sitting(
        exercise=exercise, minutes=minutes, words=words, console=Console(), keyboard=Keyboard(),
        folder=_name_interview_command_folder(output, exercise.slug),
    )  # fmt: skip
    try:
        sitting.begin(write_interview_task(exercise, minutes, words))
        _run_interview_command(sitting, command, wall, asked)
    except KeyboardInterrupt:
        print()
        sitting.say("Ended. Your file is {path}; this grades it:", path=sitting.path)
        print(_describe_repeat_command(exercise, sitting.path))
    except OSError as error:
        stop_command_for_unwritable(sitting.folder, error)


def _run_interview_command(
    sitting: Sitting, command: list[str], wall: Wall, asked: list[Question]
) -> None:
    """Run the interview: the time, the verdict, the questions."""
    clock = InterviewClock(60 * sitting.minutes)
    report = sitting.judge(wall) if sitting.write(clock, command) else None
    if report is None:
        sitting.say("Nothing is written in {path}: no points.", path=sitting.path)
    viva.ask_interview_questions(
        asked, sitting.exercise.slug, keyboard=sitting.keyboard, console=sitting.console,
        words=sitting.words, path=sitting.folder / "answers.md",
    )  # fmt: skip
    names = ", ".join(sorted(path.name for path in sitting.folder.iterdir()))
    print()
    sitting.say("All of it is in {folder}: {names}.", folder=sitting.folder, names=names)
    if report is not None and report.faulted:
        raise typer.Exit(FAULT)


def _name_interview_command_folder(output: Path, slug: str) -> Path:
    """Return the name of a new folder: date and time, with a number if that is taken."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{slug}"
    names = (name, *(f"{name}-{number}" for number in range(2, 100)))
    return next((new for n in names if not os.path.lexists(new := output / n)), output / name)


def _describe_repeat_command(exercise: Exercise, path: Path) -> str:
    pack = "" if exercise.home == catalog.ROOT else f"EXERCISES={shlex.quote(str(exercise.home))} "
    return fit_advice(f"  make grade EX={exercise.slug} {pack}SUBMISSION={shlex.quote(str(path))}")


def _parse_minutes_option(text: str, words: Words) -> int:
    if not (_is_option_number(text, 3) and 1 <= int(text) <= MOST_MINUTES):
        stop_command(words(_NO_MINUTES, minutes=repr(text[:40]), most=MOST_MINUTES))
    return int(text)


def _parse_seed_option(text: str | None, words: Words) -> int:
    if text is None:
        return Random().randrange(MOST_SEED)
    if not _is_option_number(text, _MAX_SEED_DIGITS):
        stop_command(words(_NO_SEED, seed=repr(text[:40]), digits=_MAX_SEED_DIGITS))
    return int(text)


def _is_option_number(text: str, digits: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= digits


def _choose_exercise_for_command(
    name: str | None, minutes: int, seed: int, words: Words
) -> Exercise:
    """Return the named exercise, or one that is drawn."""
    if name is not None:
        [named] = parse_exercises_option([name], Path())
        if named.hunts:
            stop_command(words(_NO_HUNT, slug=named.slug))
        if why := requirements.find_unmet_worker_requirement(
            requirements.list_worker_requirements(named, on_cuda=False)
        ):
            stop_command(words(_NOT_HERE, slug=named.slug, why=words.said(why)))
        return named
    drawn = next(
        filter(_is_command_without_cuda, _order_exercises_for_command(minutes, seed)), None
    )
    if drawn is None:
        stop_command(words(_NONE_FITS, minutes=minutes))
    print(words(_DRAWN, slug=drawn.slug, seed=seed))
    return drawn


def _order_exercises_for_command(minutes: int, seed: int) -> Sequence[Exercise]:
    """Return the exercises that fit the time and can be graded here, in an order set by the seed.

    An exercise's own minutes are for the first time, with the lesson. Half of them is enough for
    somebody who has done it before.
    """
    some = [
        e
        for e in catalog.list_catalog_exercises()
        if not (e.hunts or e.draft)
        and e.minutes <= 2 * minutes
        and not requirements.find_unmet_worker_requirement(
            requirements.list_worker_requirements(e, on_cuda=False)
        )
    ]
    return Random(f"exercise {seed}").sample(some, len(some))


def _is_command_without_cuda(exercise: Exercise) -> bool:
    from grader.judging import suite_runner

    return not any(check.cuda for check in suite_runner.list_suite_checks(exercise))
