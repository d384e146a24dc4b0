"""The command that puts a skeleton back."""

import os
import stat
from pathlib import Path

import typer

from grader.cli.options import (
    Lang,
    One,
    Place,
    parse_exercise_option,
    parse_language_option,
    stop_command,
    stop_command_for_unwritable,
)
from grader.core.catalog import ANSWERS_FOLDER
from grader.core.records import Exercise
from grader.core.translation import Words
from grader.submission import answer_file as answers

commands = typer.Typer()


@commands.command()
def reset(name: One = None, submission: Place = ANSWERS_FOLDER, lang: Lang = None) -> None:
    """Put the skeleton of an exercise back, and keep the old answer beside it."""
    from grader.authoring.skeletons import NoSkeleton, make_untouched_skeleton
    from grader.practice.folder.handed_course import write_handed_skeleton
    from grader.practice.folder.handed_record import read_handed_record

    words, exercise = parse_language_option(lang), parse_exercise_option("reset", name, submission)
    if not submission.is_dir():
        told = "{place} is no folder: a skeleton is written into a folder of answers."
        stop_command(words(told, place=submission))
    path = submission / exercise.file
    handed = read_handed_record(submission.absolute().parent)
    try:
        skeleton = (
            write_handed_skeleton(exercise, handed.language or "en")
            if handed
            else make_untouched_skeleton(exercise)
        )
        _write_skeleton_for_command(exercise, path, skeleton, words)
    except NoSkeleton as problem:
        stop_command(words.said(str(problem)))
    except OSError as error:
        stop_command_for_unwritable(path, error)


def _write_skeleton_for_command(
    exercise: Exercise, path: Path, skeleton: str, words: Words
) -> None:
    from grader.core import backup

    notebook = path.with_name(f"{exercise.slug}.ipynb")
    there = [one for one in (path, notebook) if _is_reset_command_file(one, words)]
    fresh = answers.is_submission_file_untouched(path)
    aside = [one for one in there if one == notebook or not fresh]
    if fresh and not aside and path.read_text(encoding="utf-8") == skeleton:
        print(words("{path} is the skeleton already: nothing was done.", path=path))
        return
    for new in backup.write_with_backup(path, skeleton, aside):
        print(words("Your earlier answer is kept as {name}.", name=new.name))
    print(words("{path} is the skeleton.", path=path))
    if notebook in aside:
        told = "A notebook is not made anew: a fresh one is where yours came from."
        print(words(told))


def _is_reset_command_file(path: Path, words: Words) -> bool:
    """Return whether there is a file to keep; stop with a sentence if it is no plain file."""
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(kind):
        stop_command(words("{path} is a link: put a file in its place, then reset it.", path=path))
    if not stat.S_ISREG(kind):
        stop_command(words("{path} is no file: move it away, then reset the exercise.", path=path))
    return True
