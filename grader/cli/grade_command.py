"""The command `grade`: what is right, how fast it is, and what has not changed since."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from grader.classroom.course.settings import CourseSettings
from grader.cli.options import (
    BELOW,
    FAULT,
    REPORT_FORMATS,
    Device,
    Isolation,
    Lang,
    Names,
    Place,
    Seed,
    check_device_option,
    check_seed_option,
    find_course_option,
    parse_exercises_option,
    parse_language_option,
    parse_wall_option,
    stop_command,
    stop_command_for_unwritable,
)
from grader.core import catalog, sealed_bundle
from grader.core.catalog import ANSWERS_FOLDER
from grader.core.progress import show_progress_bar
from grader.core.records import Report
from grader.core.translation import Words
from grader.grading.kept_results import KeptResults, open_kept_results
from grader.grading.session import Session
from grader.reporting import terminal
from grader.reporting.redact import redact_report
from grader.worker.parent.walls import Wall

KEPT_FOLDER = ".grades"  # in the working folder
_KEPT_FOLDER_VARIABLE = "GRADER_KEPT"  # of the environment: another folder
_PLATFORM_FORMATS = (
    "junit",
    "gradescope",
    "classroom50",
)  # formats that a machine takes marks from
_FORMATS_FOR_PEOPLE = ("terminal", "html")


def grade(
    names: Names = None,
    submission: Place = ANSWERS_FOLDER,
    device: Device = "cpu",
    seed: Seed = "",
    isolation: Isolation = "auto",
    speed: Annotated[bool, typer.Option(help="Time what is right, for the speed points.")] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Judge what has not changed too.")] = False,
    format: Annotated[
        str, typer.Option(help=f"{', '.join(REPORT_FORMATS[:-1])} or {REPORT_FORMATS[-1]}.")
    ] = "terminal",
    output: Annotated[Path | None, typer.Option("-o", help="Write the report to a file.")] = None,
    lang: Lang = None,
    min_score: Annotated[int, typer.Option(help="Exit with 1 below this many points.")] = 0,
) -> None:
    """Grade answers: what is right, what is not, and what to look at next."""
    exercises = parse_exercises_option(names or [], submission)
    course = find_course_option()
    _check_format_option(format, min_score, course)
    words = parse_language_option(lang)
    check_seed_option(device, seed, words)
    check_device_option(device)
    wall = parse_wall_option(isolation, device)
    mine = is_own_grade_command(format, min_score, course, os.environ)
    kept = open_kept_for_command(wall, device, course) if mine else None
    with Session(
        exercises=exercises, place=submission, seed=seed or None, device=device, wall=wall,
        speed=speed, kept=kept, fresh=fresh, together=True,
    ) as session:  # fmt: skip
        on_screen = format == "terminal" and output is None and sys.stdout.isatty()
        shown = _judge_for_grade_command(session, words, on_screen=on_screen)
        report = redact_report(_time_for_grade_command(session), course.shows)
        if shown:
            terminal.print_timed_report(report, Console(), words)
        else:
            _write_report_for_command(report, format, output, words)
        if mine and format == "terminal":
            _follow_report_for_command(session, report, words, shown=output is None)
        _rejudge_for_grade_command(session, words)
    if report.faulted:
        raise typer.Exit(FAULT)
    if report.score.earned < min_score:
        raise typer.Exit(BELOW)


def is_own_grade_command(
    format: str, min_score: int, course: CourseSettings, environment: Mapping[str, str]
) -> bool:
    """Return whether a run is a student's own; such a run may show results of earlier runs.

    A run that gives marks is not: one in a format that machines read, with a score to reach, or in
    continuous integration. Nor is a run that hides something: in a course with `help`, in an exam,
    in a sealed bundle.
    """
    for_a_person = format in _FORMATS_FOR_PEOPLE and min_score <= 0 and not environment.get("CI")
    return for_a_person and course.shows == "open" and not sealed_bundle.is_core_sealed()


def find_kept_for_practice(wall: Wall) -> KeptResults | None:
    """Return where `grade` keeps a learner's results; None where it would keep none."""
    course = find_course_option()
    mine = is_own_grade_command("terminal", 0, course, os.environ)
    return open_kept_for_command(wall, "cpu", course) if mine else None


def _check_format_option(format: str, min_score: int, course: CourseSettings) -> None:
    """Stop if there is no such format, or if it would tell what the course does not show."""
    if format not in REPORT_FORMATS:
        close = catalog.suggest_close_name(format, REPORT_FORMATS)
        stop_command(f"There is no format called {format!r}.{close}")
    if format in _PLATFORM_FORMATS and course.shows == "nothing":
        stop_command(
            f"An exam that shows nothing has no marks for {format}: grade it with `make class`."
        )
    if min_score > 0 and course.shows == "nothing":
        stop_command("An exam that shows nothing tells no points: grade it without --min-score.")
    if format == "classroom50":
        from grader.reporting.classroom50 import read_report_runner_context

        read_report_runner_context(os.environ)


def open_kept_for_command(wall: Wall, device: str, course: CourseSettings) -> KeptResults:
    folder = Path(os.environ.get(_KEPT_FOLDER_VARIABLE) or KEPT_FOLDER)
    return open_kept_results(folder, wall, device, repr(course))


def _judge_for_grade_command(session: Session, words: Words, *, on_screen: bool) -> bool:
    """Judge everything; show the verdicts now if timing follows, and return whether they are."""
    with show_progress_bar() as progress:
        report = session.judge(progress)
    if not session.untimed or not on_screen:
        return False
    terminal.print_terminal_verdicts(
        redact_report(report, find_course_option().shows), Console(), words
    )
    return True


def _time_for_grade_command(session: Session) -> Report:
    with show_progress_bar(with_seconds=True) as progress:
        return session.time(progress)


def _follow_report_for_command(
    session: Session, report: Report, words: Words, *, shown: bool
) -> None:
    """Record the learner's progress; of one exercise that passed, print what was learned."""
    from grader.practice.passed_exercise import follow_practice_report

    others = find_course_option().exercises
    for exercise, graded in zip(session.exercises, report.exercises, strict=True):
        lines = follow_practice_report(exercise, session.place, graded, others, words)
        if shown and len(report.exercises) == 1 and lines:
            print("", *lines, sep="\n")


def _rejudge_for_grade_command(session: Session, words: Words) -> None:
    """Judge one kept result with new inputs, now that the report can be read; say if it differs."""
    sys.stdout.flush()
    try:
        with show_progress_bar() as progress:
            found = session.judge_one_again(progress)
    except KeyboardInterrupt:  # whoever has read the report need not wait
        return
    if found is not None:
        terminal.print_terminal_difference(found.before, found.again, found.seed, Console(), words)


def _write_report_for_command(
    report: Report, format: str, output: Path | None, words: Words
) -> None:
    from grader.reporting import write_reports

    try:
        if format != "terminal":
            write_reports.write_report(report, format, output, words)
        elif output:
            with output.open("w", encoding="utf-8") as file:
                terminal.print_terminal_report(report, Console(file=file, width=100), words)
        else:
            terminal.print_terminal_report(report, Console(), words)
    except OSError as error:
        stop_command_for_unwritable(output or "The report", error)
