"""The command line: `python -m grader`, or `grader` where it is installed."""

import atexit
import gc
import signal
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from grader.cli.class_commands import commands as class_commands
from grader.cli.collect_command import commands as collect_commands
from grader.cli.course_commands import commands as course_commands
from grader.cli.debug_command import commands as debug_commands
from grader.cli.drill_command import commands as drill_commands
from grader.cli.folder_commands import commands as folder_commands
from grader.cli.global_options import GroupWithGlobalOptions, begin
from grader.cli.grade_command import find_kept_for_practice, grade
from grader.cli.interview_command import commands as interview_commands
from grader.cli.learn_command import commands as learn_commands
from grader.cli.maintainer import commands
from grader.cli.new_command import commands as new_commands
from grader.cli.options import (
    BELOW,
    USAGE,
    Device,
    Isolation,
    Lang,
    Names,
    One,
    Place,
    Seed,
    check_command_unsealed,
    check_device_option,
    find_course_option,
    is_project_whole,
    parse_exercise_option,
    parse_exercises_option,
    parse_language_option,
    parse_wall_option,
)
from grader.cli.progress_command import commands as progress_commands
from grader.cli.reset_command import commands as reset_commands
from grader.cli.similar_command import commands as similar_commands
from grader.cli.translated_help import translate_typer_help
from grader.core.catalog import ANSWERS_FOLDER
from grader.core.progress import show_progress_bar
from grader.core.running_sentence import RUNNING_SENTENCE

app = typer.Typer(
    cls=GroupWithGlobalOptions, callback=begin, add_completion=False, no_args_is_help=True,
    pretty_exceptions_enable=False,
)  # fmt: skip


app.command()(grade)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench(
    context: typer.Context,
    names: Names = None,
    submission: Place = ANSWERS_FOLDER,
    device: Device = "cpu",
    seed: Seed = "",
    isolation: Isolation = "auto",
    lang: Lang = None,
) -> None:
    """Time answers, and show the rounds as pytest-benchmark does, whose options may follow."""
    from grader.reporting import speed_text as reporting
    from grader.timing.bench_command import benchmark_all_exercises
    from grader.timing.benchmark_options import split_benchmark_options
    from grader.timing.benchmark_table import print_benchmark_table

    check_command_unsealed("bench", parse_language_option(lang))
    chosen, options = split_benchmark_options([*(names or []), *context.args])
    exercises = parse_exercises_option(chosen, submission)
    check_device_option(device)
    words, wall = parse_language_option(lang), parse_wall_option(isolation, device)
    with show_progress_bar() as progress:
        speeds = benchmark_all_exercises(
            exercises, submission, seed=seed or None, device=device, wall=wall, progress=progress
        )
    console = Console()
    untimed = [e.slug for e in exercises if e.slug not in speeds]
    if chosen and untimed:
        told = "There is no speed to measure in {exercises}."
        print(words(told, exercises=", ".join(untimed)), file=sys.stderr)
    if not speeds:
        raise typer.Exit(USAGE)
    for slug, verdict in speeds.items():
        console.print(
            f"[bold]{slug}[/]", reporting.render_speed_report(verdict, slug, words), "", sep="\n"
        )
    if print_benchmark_table(speeds, options):
        raise typer.Exit(BELOW)


@app.command()
def show(
    name: One = None,
    submission: Place = ANSWERS_FOLDER,
    tokens: Annotated[str, typer.Option(help="A sentence of your own.")] = RUNNING_SENTENCE,
    embedding: Annotated[str, typer.Option(help="drawn or one-hot.")] = "drawn",
    head: Annotated[
        int | None, typer.Option(help="One head; by default the first, all with -o.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", help="Heat maps: .png, .svg or .pdf.")
    ] = None,
    isolation: Isolation = "auto",
    lang: Lang = None,
) -> None:
    """Show every step of an example, your answer beside the reference."""
    from grader.practice.show import show_command

    words = parse_language_option(lang)
    check_command_unsealed("show", words)
    exercise = parse_exercise_option("show", name, submission)
    wall = parse_wall_option(isolation, "cpu")
    show_command.show_example(
        exercise, submission, Console(), wall=wall, words=words, tokens=tokens,
        embedding=embedding, head=head, output=output,
    )  # fmt: skip


@app.command()
def watch(
    name: Annotated[str | None, typer.Argument(metavar="[EX]", help="Begin with this one.")] = None,
    submission: Place = ANSWERS_FOLDER,
    isolation: Isolation = "auto",
    lang: Lang = None,
) -> None:
    """Grade on every save, and show the exercise that is being worked on. Ctrl-C ends it."""
    from grader.practice.watch.watch_session import watch_answers as begin

    words, named = (
        parse_language_option(lang),
        parse_exercises_option([name] if name else [], submission),
    )
    others = [e for e in find_course_option().exercises if not e.draft or (name and e in named)]
    exercises = named if submission.is_file() else others
    begin(
        exercises, submission, words=words, console=Console(), start=named[0] if name else None,
        wall=parse_wall_option(isolation, "cpu"), shows=find_course_option().shows,
    )  # fmt: skip


@app.command()
def hint(
    name: One = None,
    submission: Place = ANSWERS_FOLDER,
    level: Annotated[int | None, typer.Option(help="A certain hint, not the next.")] = None,
    solution: Annotated[
        bool,
        typer.Option(
            help="Show a solution of what is passed.",
            hidden=not is_project_whole(),
        ),
    ] = False,
    isolation: Isolation = "auto",
    lang: Lang = None,
) -> None:
    """Print the next hint on the first failed check; each hint tells more."""
    from grader.practice import hints

    words, exercise = parse_language_option(lang), parse_exercise_option("hint", name, submission)
    wall = parse_wall_option(isolation, "cpu")
    told = hints.find_next_hint(
        exercise, submission, words=words, level=level, solution=solution, wall=wall,
        shows=find_course_option().shows, kept=find_kept_for_practice(wall),
    )  # fmt: skip
    print(*told, sep="\n")


app.add_typer(class_commands)
app.add_typer(collect_commands)
app.add_typer(similar_commands)
app.add_typer(drill_commands)
app.add_typer(learn_commands)
app.add_typer(folder_commands)
app.add_typer(course_commands)
app.add_typer(interview_commands)
app.add_typer(progress_commands)
app.add_typer(reset_commands)
app.add_typer(debug_commands)
app.add_typer(new_commands)
app.add_typer(commands)
translate_typer_help(app)


def run_command_line() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what a terminal cannot show becomes "?"
            stream.reconfigure(errors="replace")
    # Who is asked to end clears away what is running, as after Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    atexit.register(gc.freeze)  # at its end Python would search for garbage for half a second
    app()
