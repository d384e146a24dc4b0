"""The commands for those who teach, write exercises, or look after the project."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from grader.cli.options import (
    BELOW,
    Device,
    Lang,
    Names,
    check_device_option,
    check_whole_project,
    find_course_option,
    parse_exercises_sans_drafts,
    parse_language_option,
    stop_command,
)
from grader.core.catalog import ROOT
from grader.core.records import Exercise

ChangedOnly = Annotated[
    bool, typer.Option("--changed-only", help="Only exercises that differ from main's.")
]

commands = typer.Typer()


@commands.command()
def release(
    names: Names = None,
    output: Annotated[Path, typer.Option("-o", help="The folder to build in.")] = Path("out"),
    device: Device = "cpu",
    speed: Annotated[bool, typer.Option(help="With the points for speed.")] = True,
    sealed: Annotated[
        bool, typer.Option("--sealed", help="A bundle of stored cases, without right answers.")
    ] = False,
    lang: Lang = None,
) -> None:
    """Build a nbgrader course, its notebooks, and the bundle for students."""
    from grader.release import course_release as building

    words = parse_language_option(lang)
    check_whole_project("release")
    exercises = parse_exercises_sans_drafts(names or [], ROOT / "solutions", words)
    if device != "cuda":  # the machine that builds needs none
        check_device_option(device)
    terms = building.ReleaseTerms(
        language=words.language,
        device=device,
        speed=speed,
        sealed=sealed,
        course=find_course_option(),
    )
    try:
        for what, path in building.release_course(output, exercises, terms):
            print(f"{what:14} {path}")
    except OSError as error:
        stop_command(f"{error.filename or output} cannot be used: {error.strerror}.")


@commands.command()
def skeletons() -> None:
    """Write exercises/ and docs/lessons/ from solutions/; a changed answer is left alone."""
    from grader.authoring.skeletons import write_all_skeletons

    check_whole_project("skeletons")
    try:
        for path, what in write_all_skeletons():
            print(f"{what:10} {path}")
    except UnicodeDecodeError:
        stop_command(
            "A solution or a skeleton is not UTF-8 text. `make house` says which: save it anew."
        )
    except OSError as error:
        stop_command(
            f"{error.filename} cannot be used: {error.strerror}. `make house` says what is due."
        )


def _list_exercises_for_command(goal: str, names: list[str]) -> list[Exercise]:
    """Return the exercises whose suites can run here; print what the others lack.

    Stop at a source that cannot be read.
    """
    from grader.authoring.exercise_rules import check_sources_law
    from grader.worker.parent import requirements

    check_whole_project(goal)
    found = []
    for exercise in parse_exercises_sans_drafts(
        names, ROOT / "solutions", parse_language_option(None)
    ):
        if lacking := requirements.find_unmet_worker_requirement(
            requirements.list_worker_requirements(exercise, on_cuda=False)
        ):
            print(f"{exercise.slug}: {lacking}")
        else:
            found.append(exercise)
    if not found:
        stop_command("Nothing was asked: install what is missing first.")
    for exercise in found:
        if breach := next(check_sources_law(exercise), ""):
            stop_command(f"{exercise.slug}: {breach}")
    return found


@commands.command()
def mutants(
    names: Names = None,
    each: Annotated[bool, typer.Option("--each", help="A line for each mistake.")] = False,
    changed_only: ChangedOnly = False,
    write: Annotated[bool, typer.Option("--write", help="Write docs/evidence.md.")] = False,
) -> None:
    """Prove that wrong answers fail as named, and that right ones earn everything."""
    from grader.authoring.changed import list_exercises_to_name
    from grader.authoring.proof_store import ProofStore
    from grader.authoring.proof_table import print_proof

    exercises = _list_exercises_for_command("mutants", names or [])
    if changed_only:
        exercises = list_exercises_to_name(exercises, ROOT)
        print(f"Changed: {', '.join(e.slug for e in exercises) or 'no exercise'}.")
    if not print_proof(exercises, Console(), ProofStore(), each=each, write=write):
        raise typer.Exit(BELOW)


@commands.command()
def headroom(
    names: Names = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 20,
    solutions: Annotated[bool, typer.Option(help="Measure the solutions.")] = True,
    variants: Annotated[bool, typer.Option(help="Measure the right variants.")] = True,
    write: Annotated[bool, typer.Option("--write", help="Write docs/evidence.md.")] = False,
) -> None:
    """Print how near right answers come to being rejected: error / allowance of every check."""
    from grader.authoring.headroom_table import print_headroom

    exercises = _list_exercises_for_command("headroom", names or [])
    if not print_headroom(
        exercises, seeds, Console(), solutions=solutions, variants=variants, write=write
    ):
        raise typer.Exit(BELOW)


@commands.command()
def mechanical(
    names: Names = None,
    inputs: Annotated[int, typer.Option(help="For each change that no check catches.")] = 1000,
    variants: Annotated[int, typer.Option(help="How many right variants to change too.")] = 0,
    shard: Annotated[str, typer.Option(help="A part of all changes: 1/4 is the first of 4.")] = "",
    changed_only: ChangedOnly = False,
    trials: Annotated[
        bool, typer.Option("--trials", help="Also say which caught changes no trial tells apart.")
    ] = False,
    processes: Annotated[int, typer.Option(help="How many at once; 0: one per processor.")] = 0,
    write: Annotated[bool, typer.Option("--write", help="Write docs/evidence.md.")] = False,
) -> None:
    """Change the solutions one place at a time: a check must catch every change that matters."""
    from grader.authoring import mechanical_command

    exercises = _list_exercises_for_command("mechanical", names or [])
    try:
        terms = mechanical_command.parse_mechanical_options(
            inputs, variants, shard, trials, processes
        )
    except ValueError as problem:
        stop_command(str(problem))
    if not mechanical_command.print_mechanical(exercises, terms, changed_only, write, Console()):
        raise typer.Exit(BELOW)


@commands.command(name="diagnose-trial")
def diagnose_trial(
    names: Names = None,
    changes: Annotated[str, typer.Option(help="Changes of each solution; or: all.")] = "60",
    pairs: Annotated[int, typer.Option(help="Pairs of changes of each solution.")] = 30,
    written: Annotated[bool, typer.Option(help="Try the written answers.")] = True,
    seed: Annotated[str, typer.Option(help="Of the draw of changes and pairs.")] = "1",
    inputs: Annotated[int, typer.Option(help="On which a name is compared.")] = 60,
    listed: Annotated[
        str, typer.Option("--list", help="Print answers of a class: nothing, helped, false, ...")
    ] = "",
    processes: Annotated[int, typer.Option(help="How many at once; 0: one per processor.")] = 0,
    write: Annotated[bool, typer.Option("--write", help="Write docs/evidence.md.")] = False,
) -> None:
    """Try the reports on wrong answers that are in no catalogue: no name may be false."""
    from grader.authoring import feedback_command

    exercises = _list_exercises_for_command("diagnose-trial", names or [])
    try:
        sample, kinds = feedback_command.parse_feedback_options(
            changes, pairs, written, seed, inputs, listed
        )
    except ValueError as problem:
        stop_command(str(problem))
    if not feedback_command.print_feedback_trial(
        exercises, sample, Console(), listed=kinds, processes=processes, write=write
    ):
        raise typer.Exit(BELOW)


@commands.command()
def house(
    laws: Annotated[bool, typer.Option("--laws", help="Print the laws, and ask nothing.")] = False,
) -> None:
    """Say what is not in order in this house, and the cure for each."""
    from grader.authoring.project_rules import check_project_laws, state_project_laws

    if laws:
        for number, law in enumerate(state_project_laws(), 1):
            print(f"{number:2}. {law}")
        return
    check_whole_project("house")
    found = check_project_laws()
    for line in (*found.breaches, *found.drafts, *found.notes, *found.unchecked):
        print(line)
    if found.breaches:
        raise typer.Exit(BELOW)
    print("What was checked is in order." if found.unchecked else "The house is in order.")


@commands.command()
def doctor(lang: Lang = None) -> None:
    """Say what this machine can do, and the cure for every problem that is found on it."""
    from grader.doctor.doctor import print_doctor_report

    if not print_doctor_report(Console(), parse_language_option(lang)):
        raise typer.Exit(BELOW)
