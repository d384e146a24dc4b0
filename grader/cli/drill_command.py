"""The command that draws a bug hunt."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from grader.cli.options import (
    Isolation,
    Lang,
    One,
    Place,
    check_command_unsealed,
    parse_exercises_option,
    parse_language_option,
    parse_wall_option,
    stop_command,
    stop_command_for_unwritable,
)
from grader.core import catalog
from grader.core.catalog import ANSWERS_FOLDER
from grader.core.records import Exercise
from grader.core.translation import Words
from grader.worker.parent.walls import Wall

commands = typer.Typer()
_NO_SEED = "{seed} is no number of a drill: at most {digits} digits, or no --seed at all."
_NOT_PASSED = (
    "A drill of {slug} shows its solution but for one mistake: pass {slug} first."
    " `make grade EX={slug}` says what is missing."
)
_NOTHING_PASSED = (
    "No exercise with drills is passed as it is now, and a drill shows the solution but for one"
    " mistake: pass one first. `make grade EX={slug}` says what is missing."
)
_NO_SOLUTIONS = (
    "A drill is the model solution with one mistake in it, and the model solutions are no part of"
    " what is here: clone the project to draw one."
)
_NO_DRILLS = "Nothing is drawn from {slug}: it has no drills. These have: {others}."


@commands.command()
def drill(
    name: One = None,
    submission: Place = ANSWERS_FOLDER,
    seed: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Repeat an earlier drill.")
    ] = None,
    again: Annotated[
        bool, typer.Option(help="Keep an earlier answer beside the new drill.")
    ] = False,
    isolation: Isolation = "auto",
    lang: Lang = None,
) -> None:
    """Draw a bug hunt: an answer that you have passed with one mistake in it, to find and name."""
    from grader.core.errors import GraderFault
    from grader.practice import bug_hunts

    words = parse_language_option(lang)
    check_command_unsealed("drill", words)
    hunt = next(e for e in catalog.list_catalog_exercises() if e.hunts)
    if not submission.is_dir():
        stop_command(
            words(
                "{place} is no folder: a drill is written into a folder of answers.",
                place=submission,
            )
        )
    number = bug_hunts.new_drill_seed() if seed is None else _parse_drill_option(seed, words)
    wall, path = parse_wall_option(isolation, "cpu"), submission / f"{hunt.slug}.py"
    try:
        exercise = _choose_drill_command_exercise(name, submission, number, wall, words)
        kept = bug_hunts.write_drill(path, hunt, f"{exercise.slug} {number}", words, again=again)
    except GraderFault as problem:
        stop_command(f"{problem}.")
    except OSError as error:
        stop_command_for_unwritable(path, error)
    if kept is not None:
        print(words("Your earlier answer is kept as {name}.", name=kept.name))
    print(words("A mistake is hidden in {path}. Find it, mend it, name it.", path=path))


def _parse_drill_option(seed: str, words: Words) -> int:
    from grader.judging.drills import MAX_SEED_DIGITS

    if not (seed.isascii() and seed.isdigit() and len(seed) <= MAX_SEED_DIGITS):
        stop_command(words(_NO_SEED, seed=repr(seed[:40]), digits=MAX_SEED_DIGITS))
    return int(seed)


def _choose_drill_command_exercise(
    name: str | None, place: Path, seed: int, wall: Wall, words: Words
) -> Exercise:
    """Return the exercise to draw from: the named one, or any, if it is passed."""
    from grader.judging.drills import read_judging_drills

    some = [e for e in catalog.list_catalog_exercises() if read_judging_drills(e) and not e.draft]
    if not any(exercise.solution.is_file() for exercise in some):
        stop_command(words(_NO_SOLUTIONS))
    if name is None:
        turn = seed % len(some)
        passed = _find_drill_command_exercise([*some[turn:], *some[:turn]], place, wall)
        if passed is None:
            stop_command(words(_NOTHING_PASSED, slug=some[0].slug))
        return passed
    [chosen] = parse_exercises_option([name], place)
    if chosen not in some:
        others = ", ".join(e.slug.split("_")[0] for e in some)
        stop_command(words(_NO_DRILLS, slug=chosen.slug, others=others))
    if _find_drill_command_exercise([chosen], place, wall) is None:
        stop_command(words(_NOT_PASSED, slug=chosen.slug))
    return chosen


def _find_drill_command_exercise(
    exercises: Sequence[Exercise], place: Path, wall: Wall
) -> Exercise | None:
    """Return the first exercise whose points are all earned, except speed and what was not run."""
    from grader.cli.grade_command import find_kept_for_practice
    from grader.grading.session import judge_own_answer
    from grader.submission import answer_file

    kept = find_kept_for_practice(wall)
    for exercise in exercises:
        answer = answer_file.locate_submission(place, exercise.slug)
        if not answer.is_file() or answer_file.is_submission_file_untouched(answer):
            continue
        report = judge_own_answer(exercise, place, wall=wall, kept=kept)
        if report.score is not None and report.score.earned == report.score.possible > 0:
            return exercise
    return None
