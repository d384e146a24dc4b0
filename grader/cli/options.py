"""The options that several commands share, and the values that they stand for."""

import sys
from collections.abc import Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from grader.classroom.course.settings import NO_COURSE, CourseSettings
from grader.core import catalog, sealed_bundle
from grader.core.advice import RECORD_FILE, name_place_in_advice
from grader.core.catalog import ANSWERS_FOLDER
from grader.core.installed_copies import describe_cuda_installation
from grader.core.records import Exercise
from grader.core.this_python import SCRIPT, find_own_command
from grader.core.translation import LANGUAGES, Words, choose_translation_language
from grader.worker.parent import walls
from grader.worker.parent.walls import Wall

REPORT_FORMATS = ("terminal", "json", "html", "junit", "github", "gradescope", "classroom50")
ACTIVE_COURSE = ContextVar("course", default=NO_COURSE)  # of the running command
GRADED, BELOW, USAGE, FAULT = 0, 1, 2, 3

Names = Annotated[
    list[str] | None, typer.Argument(metavar="[EX]...", help="Exercises; all by default.")
]
One = Annotated[str | None, typer.Argument(metavar="EX", help="One exercise.")]


def _name_place_in_advice(context: typer.Context, place: Path) -> Path:
    """Let sentences name the place; a report of `grade` may be read on another machine."""
    if context.command.name != "grade":
        context.with_resource(name_place_in_advice(place, ANSWERS_FOLDER))
    return place


Place = Annotated[
    Path,
    typer.Option(help="A folder of answers, or one file.", callback=_name_place_in_advice),
]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Seed = Annotated[str, typer.Option(help="Repeat the inputs of an earlier run.")]
Lang = Annotated[str | None, typer.Option(help="en or zh; that of the environment by default.")]
Isolation = Annotated[str, typer.Option(help="The wall: auto, process, locked or contained.")]


def find_course_option() -> CourseSettings:
    """Return the course that `--course` named, or the defaults."""
    return ACTIVE_COURSE.get()


def parse_exercises_option(names: list[str], place: Path) -> list[Exercise]:
    """Resolve names; without any, take the exercise of the file, or those of the course."""
    if not _check_path_option(place):
        begin = _name_learner_folder() if place == ANSWERS_FOLDER else ""
        stop_command(f"{place} is not there. Name a folder of answers, or one file.{begin}")
    if len(set(names)) > 1 and place.is_file():
        stop_command(f"{place} is one file, so it answers one exercise: name that one.")
    try:
        if names:
            return _check_course_option(
                {e.slug: e for e in map(catalog.find_catalog_exercise, names)}.values()
            )
        if place.is_file():
            return _check_course_option([catalog.find_catalog_exercise(place.stem)])
        return find_course_option().exercises
    except catalog.UnknownExercise as error:
        hint = "" if names else " Name the exercise as well: `grade EX --submission FILE`."
        stop_command(f"{error}{hint}")


def _name_learner_folder() -> str:
    """Say where answers are, or what writes a folder for them."""
    if (Path(SCRIPT) / ANSWERS_FOLDER).is_dir():
        return f" Yours are in the folder {SCRIPT}: `cd {SCRIPT}` goes there."
    return f" `{find_own_command()} init` writes one."


def parse_exercises_sans_drafts(names: list[str], place: Path, words: Words) -> list[Exercise]:
    """Do as `parse_exercises_option`, but drop unnamed drafts and print which."""
    found = parse_exercises_option(names, place)
    if not names and (drafts := [e for e in found if e.draft]):
        left_out = ", ".join(e.slug for e in drafts)
        print(
            words("Left out, since a draft is taken by its name alone: {drafts}.", drafts=left_out)
        )
        found = [e for e in found if not e.draft]
    return found


def _check_course_option(named: Iterable[Exercise]) -> list[Exercise]:
    """Return the named exercises, if all of them are of the course."""
    found, known = list(named), [e.slug for e in find_course_option().exercises]
    for exercise in found:
        if exercise.slug not in known:
            course, others = find_course_option().path, ", ".join(known)
            stop_command(f"{exercise.slug} is no part of {course}, which has {others}.")
    return [find_course_option().counted(exercise) for exercise in found]


def parse_exercise_option(command: str, name: str | None, place: Path) -> Exercise:
    """Return the named exercise, or that of the file."""
    if name is None and not place.is_file():
        stop_command(f"Which exercise? `make {command} EX=ex03_sdpa`, for instance.")
    [exercise] = parse_exercises_option([name] if name else [], place)
    return exercise


def _check_path_option(place: Path) -> bool:
    try:
        place.stat()
    except OSError:  # it is missing, its name is too long, or a folder above it is closed
        return False
    return True


def parse_wall_option(name: str, device: str) -> Wall:
    names = ["auto", *walls.WALL_NAMES]
    if name not in names:
        close = catalog.suggest_close_name(name, names)
        stop_command(f"There is no wall called {name!r}: {', '.join(names)}.{close}")
    try:
        return walls.choose_wall(
            name, on_cuda=device == "cuda", weakest=find_course_option().wall or "process"
        )
    except walls.NoSuchWall as problem:
        stop_command(f"{problem} `make doctor` says what this machine can do.")


def check_device_option(device: str) -> None:
    if device == "cpu":
        return
    if device != "cuda":
        stop_command(f"There is no device called {device!r}: cpu or cuda.")
    import torch

    if not torch.cuda.is_available():
        how = describe_cuda_installation()
        stop_command(
            f"This torch sees no CUDA device. Grade on the CPU, or install another: {how}."
        )


def check_command_unsealed(command: str, words: Words) -> None:
    """Stop if the command needs solutions, which a sealed bundle lacks."""
    if sealed_bundle.is_core_sealed():
        stop_command(words("This bundle is sealed: it has no right answers, and so no `{command}`.",
                   command=command))  # fmt: skip


def is_project_whole() -> bool:
    """Return whether the solutions are here, which a wheel or a bundle lacks."""
    return (catalog.ROOT / "solutions").is_dir()


def check_whole_project(command: str) -> None:
    """Stop if the command needs the whole project, of which a wheel or a bundle is a part."""
    check_command_unsealed(command, find_command_words())
    if not is_project_whole():
        stop_command(
            f"`{command}` needs the whole project, and this is a part of it: clone the project."
        )


def check_seed_option(device: str, seed: str, words: Words) -> None:
    """Stop if a sealed bundle is asked for other cases than its own."""
    if sealed_bundle.is_core_sealed() and (seed or device != "cpu"):
        stop_command(words("This bundle is sealed: it grades its stored cases, on the CPU. Leave "
                           "out SEED= "
                   "and DEVICE=."))  # fmt: skip


_COMMAND_WORDS: ContextVar[Words | None] = ContextVar("_COMMAND_WORDS", default=None)


def parse_language_option(language: str | None) -> Words:
    """Return the language of this command, in which errors are told too."""
    default = Words(_read_handed_language() or choose_translation_language())
    _COMMAND_WORDS.set(default)
    if language not in (None, *LANGUAGES):
        close = catalog.suggest_close_name(language, LANGUAGES)
        stop_command(f"There is no language called {language!r}: {' or '.join(LANGUAGES)}.{close}")
    words = Words(language) if language else default
    _COMMAND_WORDS.set(words)
    return words


def find_command_words() -> Words:
    """Return the language of this command, as far as it is known yet."""
    return _COMMAND_WORDS.get() or Words()


def _read_handed_language() -> str:
    """Return the language in which `init` wrote the folder that we stand in; "" elsewhere."""
    if not Path(RECORD_FILE).exists():  # nobody else waits for the import
        return ""
    from grader.practice.folder.handed_record import read_handed_record

    record = read_handed_record(Path())
    return record.language if record else ""


def stop_command(sentence: str) -> NoReturn:
    """Print an error in the language of this command, and stop."""
    print(find_command_words().said(sentence), file=sys.stderr)
    raise typer.Exit(USAGE)


def stop_command_for_unwritable(path: Path | str, error: OSError) -> NoReturn:
    """Say which file cannot be written, and why; stop."""
    stop_command(f"{error.filename or path} cannot be written: {error.strerror}.")
