"""The table exercise x mistake -> check that caught it, and the right variants below it."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from grader.course.mutants import Caught, against_mistakes, variant_source
from grader.judging import suite
from grader.judging.check import Variant
from grader.judging.grade import Run, grade
from grader.records import Exercise, ExerciseReport
from grader.worker import packages
from grader.worker.nursery import Nursery


def show(exercises: Sequence[Exercise], console: Console) -> bool:
    """Print the table; True if every mistake is caught as named and every variant earns all."""
    caught: list[Caught] = []
    whole: list[bool] = []
    with Nursery() as nursery:
        run = Run(nursery=nursery, student="variants", secret="mutants", speed=False)
        for exercise in exercises:
            console.print(f"\n[bold]{exercise.slug}[/bold]")
            if lacking := packages.lacking(packages.required(exercise, on_cuda=False)):
                console.print(lacking, highlight=False, soft_wrap=True)
                continue
            for one in against_mistakes(exercise):
                caught.append(one)
                console.print(_caught(one), highlight=False, soft_wrap=True)
            for variant in suite.variants(exercise):
                report = graded(exercise, variant, run)
                whole.append(earns_all(report))
                console.print(_variant(variant, report), highlight=False, soft_wrap=True)
    right = sum(c.right for c in caught)
    told = sum(c.mistake.id in (c.named or ()) for c in caught)
    alone = sum(c.named == (c.mistake.id,) for c in caught)
    falsely = sum(bool(c.named) and c.mistake.id not in (c.named or ()) for c in caught)
    console.print(
        f"\n{told} of {len(caught)} mistakes are named to the student, {alone} of them alone and "
        f"{told - alone} with one that answers alike; {falsely} are given a false name."
    )
    console.print(
        f"{right} of {len(caught)} mistakes caught by the check that they name; "
        f"{sum(whole)} of {len(whole)} right variants earn everything."
    )
    return right == len(caught) and all(whole)


def graded(exercise: Exercise, variant: Variant, run: Run) -> ExerciseReport:
    """The report on a variant, graded as a student's file is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / exercise.file
        path.write_text(variant_source(exercise, variant), encoding="utf-8")
        return grade(exercise, path, run)


def earns_all(report: ExerciseReport) -> bool:
    return report.score is not None and report.score.earned == report.score.possible > 0


def _caught(one: Caught) -> str:
    mistake = one.mistake
    sign = "[green]caught [/green]" if one.right else "[red]MISSED [/red]"
    note = "  (a null answer)" if mistake.null else ""
    if mistake.null and one.earned:
        note = f"  [red](a null answer that passes {', '.join(one.earned)})[/red]"
    others = [name for name in one.failed if name != mistake.caught_by]
    also = f"  [dim]also {', '.join(others)}[/dim]" if others else ""
    told = (
        ""
        if one.named == (mistake.id,)
        else f"  named: {', '.join(one.named or ()) or 'not at all'}"
    )
    return f"  {sign} {mistake.of}: {mistake.id} -> {mistake.caught_by}{note}{also}{told}"


def _variant(variant: Variant, report: ExerciseReport) -> str:
    if earns_all(report):
        return f"  [green]right  [/green] {variant.of}: {variant.id}"
    lost = [f"{c.id}: {c.why}" for c in report.checks if c.earned < c.points]
    return f"  [red]WRONGED[/red] {variant.of}: {variant.id}  {report.sentence}{lost}"
