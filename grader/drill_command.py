"""The command that draws a bug hunt."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from grader import catalog
from grader.arguments import (
    Isolation,
    Lang,
    One,
    Place,
    exercises_named,
    stop,
    wall_named,
    words_in,
)
from grader.languages import Words
from grader.records import Exercise
from grader.worker.walls import Wall

commands = typer.Typer()


@commands.command()
def drill(
    name: One = None,
    submission: Place = Path("exercises"),
    seed: Annotated[int | None, typer.Option(min=0, help="Repeat an earlier drill.")] = None,
    again: Annotated[
        bool, typer.Option(help="Keep an earlier answer beside the new drill.")
    ] = False,
    isolation: Isolation = "auto",
    lang: Lang = None,
) -> None:
    """Draw a bug hunt: an answer with one mistake in it, to be found, mended and named."""
    from grader.course import drills
    from grader.judging.case import GraderFault

    words, hunt = words_in(lang), next(e for e in catalog.exercises() if e.hunts)
    if not submission.is_dir():
        stop(
            words(
                "{place} is no folder: a drill is written into a folder of answers.",
                place=submission,
            )
        )
    number = drills.new_seed() if seed is None else seed
    exercise = _exercise(name, submission, number, wall_named(isolation, "cpu"), words)
    path = submission / f"{hunt.slug}.py"
    try:
        kept = drills.put(path, hunt, f"{exercise.slug} {number}", words, again=again)
    except drills.Occupied as problem:
        stop(str(problem))
    except GraderFault as problem:
        stop(f"{problem}.")
    except OSError as error:
        stop(words("{path} cannot be written: {why}.", path=path, why=error.strerror))
    if kept is not None:
        print(words("Your earlier answer is kept as {name}.", name=kept.name))
    print(words("A mistake is hidden in {path}. Find it, mend it, name it.", path=path))


def _exercise(name: str | None, place: Path, seed: int, wall: Wall, words: Words) -> Exercise:
    """The exercise to draw from: the one that was named, or one that is passed."""
    from grader.judging.drills import drills

    if name is not None:
        [chosen] = exercises_named([name], place)
        if not drills(chosen):
            stop(words("Nothing is drawn from {slug}: it has no drills.", slug=chosen.slug))
        return chosen
    some = [e for e in catalog.exercises() if drills(e)]
    turn = seed % len(some)
    passed = _first_passed([*some[turn:], *some[:turn]], place, wall)
    if passed is None:
        stop(
            words(
                "No exercise is passed yet. Name one to draw from: make drill EX=ex05_causal_mask"
            )
        )
    return passed


def _first_passed(exercises: Sequence[Exercise], place: Path, wall: Wall) -> Exercise | None:
    from grader import submission
    from grader.grading import grade_all

    for exercise in exercises:
        answer = submission.locate(place, exercise.slug)
        if not answer.is_file() or submission.is_untouched(answer):
            continue
        [report] = grade_all([exercise], place, wall=wall, speed=False).exercises
        if report.score is not None and report.score.earned == report.score.possible > 0:
            return exercise
    return None
