"""The commands for whole classes."""

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from grader.cli.options import (
    BELOW,
    FAULT,
    Device,
    Isolation,
    Lang,
    Names,
    check_command_unsealed,
    check_device_option,
    find_course_option,
    parse_exercises_option,
    parse_exercises_sans_drafts,
    parse_language_option,
    parse_wall_option,
    stop_command,
)
from grader.core.records import Exercise
from grader.core.translation import Words

if TYPE_CHECKING:
    from grader.classroom.run.class_grading import ClassGraded

commands = typer.Typer()
Results = Annotated[Path, typer.Option("-o", help="The folder of results.")]
Jobs = Annotated[int, typer.Option(min=0, help="Processes that judge; one each processor if 0.")]


@commands.command("class")
def class_(
    submissions: Annotated[Path, typer.Argument(help="submissions/<student>/<slug>.py")],
    names: Names = None,
    output: Results = Path("results"),
    jobs: Jobs = 0,
    cluster: Annotated[str | None, typer.Option(help="A Dask scheduler's address.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with a run that was ended.")] = False,
    device: Device = "cpu",
    isolation: Isolation = "auto",
    speed: Annotated[bool, typer.Option(help="Time what is right, for the speed points.")] = True,
    lang: Lang = None,
) -> None:
    """Grade a class: a report for each student, the grades, and a page about all of them."""
    from grader.classroom.run.class_grading import ClassRequest, grade_class
    from grader.classroom.run.class_progress import ClassProgress

    words = parse_language_option(lang)
    check_command_unsealed("class", words)
    exercises = parse_exercises_sans_drafts(names or [], Path("."), words)
    asked = ClassRequest(
        submissions=submissions, results=output, exercises=exercises,
        device=_choose_class_device_option(device, cluster),
        wall=_choose_class_wall_option(isolation, device, words), speed=speed,
        jobs=jobs or count_processors_for_command(), cluster=cluster, words=words,
        course=find_course_option(),
    )  # fmt: skip
    try:
        with ClassProgress(Console(stderr=True), words) as progress:
            done = grade_class(asked, progress, resume=resume)
    except KeyboardInterrupt:
        stop_command(words("Stopped. What was graded is kept: `--resume` goes on."))
    _print_class_command_progress(done, output, words)
    if done.faults:
        raise typer.Exit(FAULT)


@commands.command()
def diff(
    graded: Annotated[Path, typer.Argument(help="A folder of results, or a nbgrader course.")],
    names: Names = None,
    jobs: Jobs = 0,
    lang: Lang = None,
) -> None:
    """Grade what was handed in again, and say whose score would change and why."""
    from grader.classroom.run.regrade import is_class_results_folder

    words = parse_language_option(lang)
    if is_class_results_folder(graded):
        _regrade_class_by_command(graded, jobs or count_processors_for_command(), words)
    else:
        _regrade_course_by_command(graded, parse_exercises_option(names or [], Path(".")), words)


def _regrade_class_by_command(results: Path, jobs: int, words: Words) -> None:
    from grader.classroom.run import regrade
    from grader.classroom.run.class_progress import ClassProgress
    from grader.grading.report_diff import describe_grade_changes

    asked = regrade.repeat_class_request(results, jobs, words, find_course_option())
    with ClassProgress(Console(stderr=True), words) as progress:
        changes = list(regrade.find_class_changes(asked, progress))
    cure = "Nothing was written: `make class` does that, without grading again."
    print(*describe_grade_changes(changes, words, cure), sep="\n")


def _regrade_course_by_command(course: Path, exercises: list[Exercise], words: Words) -> None:
    from grader.grading.report_diff import describe_grade_changes

    try:
        from grader.release.nbgrader_bridge import score_diff
    except ModuleNotFoundError as error:
        stop_command(f"{error.name} is not installed: `make release` installs what notebooks need.")
    changes = list(score_diff.list_changed_nbgrader_scores(course, exercises))
    cure = "Nothing was written: `nbgrader autograde ASSIGNMENT --force` does that."
    print(*describe_grade_changes(changes, words, cure), sep="\n")


@commands.command()
def replay(
    report: Annotated[Path, typer.Argument(help="A report as JSON.")],
    submission: Annotated[
        Path | None, typer.Option(help="Where the answers lie, if not where they were graded.")
    ] = None,
    secret: Annotated[
        Path | None, typer.Option(help="The file with a course's secret, for an official report.")
    ] = None,
    isolation: Isolation = "auto",
) -> None:
    """Grade a report's answers again with the same inputs, and say whether verdicts differ."""
    from grader.classroom.run.regrade import (
        find_class_report_secret,
        find_full_class_report,
        open_class_report_answers,
    )
    from grader.grading.replay import find_graded_report_secret, replay_graded_report
    from grader.reporting.from_json import parse_report_json

    try:
        report = find_full_class_report(report)
        read = parse_report_json(report.read_text(encoding="utf-8"))
        seed = find_graded_report_secret(read, secret or find_class_report_secret(report))
    except (OSError, UnicodeDecodeError):
        stop_command(f"{report} cannot be read.")
    check_device_option(read.device)
    wall = parse_wall_option(isolation, read.device)
    alike = True
    with nullcontext(submission) if submission else open_class_report_answers(report) as found:
        copied = found is not None and submission is None
        for sentence, same in replay_graded_report(read, seed, found, wall, copied=copied):
            print(sentence)
            alike &= same
    if not alike:
        raise typer.Exit(BELOW)


def _choose_class_device_option(device: str, cluster: str | None) -> str:
    if cluster is None or device not in ("cpu", "cuda"):  # the workers have what it takes
        check_device_option(device)
    return device


def _choose_class_wall_option(isolation: str, device: str, words: Words) -> str:
    """Return the wall of a class, which is never the weakest, because its marks count."""
    wall = parse_wall_option(isolation, device).name
    if wall == "process":
        stop_command(
            words(
                "Behind the wall 'process' an answer can reach what grades it, so a class is "
                "graded behind locked or contained: `make doctor` says how to get one."
            )
        )
    return wall


def count_processors_for_command() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _print_class_command_progress(done: "ClassGraded", output: Path, words: Words) -> None:
    from grader.classroom.run.results_folder import STUDENTS
    from grader.classroom.run.write_results import CANVAS, GRADES, PAGE

    for remark in done.remarks:
        print(words.said(remark))
    rows = done.summary.rows
    looks = sum(bool(row.reasons) for row in rows)
    files = {"grades": output / GRADES, "canvas": output / CANVAS, "students": output / STUDENTS}
    print(
        words(
            "Students: {students}. Graded by this run: {graded}. What it knew before was kept.",
            students=len(rows), graded=done.graded,
        )
    )  # fmt: skip
    print(words("{count} need a look. The class: {page}", count=looks, page=output / PAGE))
    print(words("Grades: {grades}, for Canvas {canvas}; reports in {students}", **files))
