"""The table exercise x mechanical changes: caught, equivalent, holes."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress

from grader.authoring.mechanical import (
    CASE_SECONDS,
    ChangeVerdict,
    Outcome,
    list_mechanical_changes,
)
from grader.authoring.processes import Job, run_mechanical_jobs, split_numbered_job
from grader.core.records import Exercise
from grader.judging import suite_runner

_MECHANICAL_HEAD = (
    f"{'':22}{'changes':>8}{'caught':>8}{'equivalent':>12}{'inputs':>10}{'holes':>7}"
    f"{'untried':>9}{'GPU only':>10}{'faults':>8}{'seconds':>9}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanicalOptions:
    """The options of a run."""

    inputs: int = 1000  # for each change that no check catches
    variants: int = 0  # right variants of each exercise that are changed besides
    shard: tuple[int, int] = (1, 1)  # the first of one: all changes
    trials: bool = False  # try the caught changes as well
    processes: int = 0  # as many as there are processors, if 0
    seconds: float = CASE_SECONDS  # of the processor, for one case of a check, and for one input


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanicalRow:
    """The counts of one exercise's changes by verdict."""

    slug: str
    changes: int
    caught: int
    equivalent: int
    inputs: int  # on which equivalent changes were compared
    holes: int
    untried: int
    gpu_only: int
    faults: int
    seconds: float  # of the processor


def run_mechanical_changes(
    exercises: Sequence[Exercise], terms: MechanicalOptions, console: Console,
    keep: Callable[[MechanicalRow], None] = lambda row: None,
) -> list[Outcome]:  # fmt: skip
    """Run every change; print what is wrong as it is found, and a row for each exercise's end.

    keep  called with each row, so that what took an hour is not lost if the next exercise fails
    """
    jobs = make_mechanical_jobs(exercises, terms)
    if not jobs:
        return []
    left = Counter(job.slug for job in jobs for _ in job.numbers)
    found: list[Outcome] = []
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("changing", total=left.total())
        console.print(_MECHANICAL_HEAD, highlight=False, soft_wrap=True)
        for outcome in run_mechanical_jobs(jobs, terms.processes or os.cpu_count() or 1):
            found.append(outcome)
            progress.advance(bar)
            if text := _write_mechanical_outcome(outcome, terms):
                console.print(text, highlight=False, markup=False, soft_wrap=True)
            left[outcome.slug] -= 1
            if not left[outcome.slug]:
                done = [o for o in found if o.slug == outcome.slug]
                row = count_mechanical_outcomes(outcome.slug, done)
                console.print(build_mechanical_line(row), highlight=False, soft_wrap=True)
                keep(row)
    total = count_mechanical_outcomes("all", found)
    console.print(build_mechanical_line(total), highlight=False, soft_wrap=True)
    return found


def make_mechanical_jobs(exercises: Sequence[Exercise], terms: MechanicalOptions) -> list[Job]:
    """Return the jobs with the shard's changes of every exercise in Python."""
    found: list[Job] = []
    for exercise in exercises:
        if exercise.language != "python" or exercise.hunts:
            continue
        variants = (
            [v.id for v in suite_runner.list_suite_variants(exercise)] if terms.variants else []
        )
        for answer in ["", *variants[: terms.variants]]:
            this, of = terms.shard
            numbers = range(this - 1, len(list_mechanical_changes(exercise, answer)), of)
            job = Job(
                slug=exercise.slug, variant=answer, numbers=tuple(numbers), inputs=terms.inputs,
                trials=terms.trials,
                seconds=terms.seconds,
            )  # fmt: skip
            found += split_numbered_job(job)
    return found


def count_mechanical_outcomes(name: str, found: Sequence[Outcome]) -> MechanicalRow:
    """Return a table row with this name: how many outcomes there are of each verdict."""

    def count(verdict: ChangeVerdict) -> int:
        return sum(o.verdict is verdict for o in found)

    return MechanicalRow(
        slug=name, changes=len(found), caught=count(ChangeVerdict.CAUGHT),
        equivalent=count(ChangeVerdict.EQUIVALENT),
        inputs=sum(o.inputs for o in found if o.verdict is ChangeVerdict.EQUIVALENT),
        holes=count(ChangeVerdict.HOLE), untried=count(ChangeVerdict.UNTRIED),
        gpu_only=count(ChangeVerdict.GPU_ONLY),
        faults=count(ChangeVerdict.FAULT),
        seconds=sum(o.seconds for o in found),
    )  # fmt: skip


def build_mechanical_line(r: MechanicalRow) -> str:
    """Return a row as a line of text, under `_MECHANICAL_HEAD`."""
    left = f"{r.slug:22}{r.changes:8,}{r.caught:8,}{r.equivalent:12,}{r.inputs:10,}{r.holes:7}"
    return f"{left}{r.untried:9}{r.gpu_only:10}{r.faults:8}{r.seconds:9.0f}"


COLUMNS = (
    "exercise", "changes", "caught", "equivalent", "inputs", "holes", "untried", "GPU only",
    "faults",
)  # fmt: skip
_SOUND = (ChangeVerdict.CAUGHT, ChangeVerdict.EQUIVALENT, ChangeVerdict.GPU_ONLY)


def build_mechanical_evidence(found: MechanicalRow) -> list[str]:
    """Return the cells of a row in docs/evidence.md."""
    counts = (
        *(found.changes, found.caught, found.equivalent, found.inputs, found.holes),
        *(found.untried, found.gpu_only, found.faults),
    )
    return [found.slug, *(f"{n:,}" for n in counts)]


def is_mechanical_proof_whole(found: Iterable[Outcome]) -> bool:
    """Return whether every change is caught, equals the right answer, or runs only on a GPU."""
    return all(o.verdict in _SOUND for o in found)


def _write_mechanical_outcome(outcome: Outcome, terms: MechanicalOptions) -> str:
    """Return the lines about one change; "" if nothing is wrong with it."""
    answer = f" variant {outcome.variant}" if outcome.variant else ""
    what = f"{outcome.slug}{answer}, line {outcome.line}, {outcome.where}: {outcome.kind}"
    lines = [what, f"  - {outcome.old}", f"  + {outcome.new}"]
    match outcome.verdict:
        case ChangeVerdict.HOLE:
            told = outcome.told
            assert told is not None
            lines = [f"HOLE {lines[0]}", *lines[1:]]
            lines.append(f"  {told.why}  [{told.calls}]")
            lines.append(f"  trial {told.trial}, draw {told.number}, {told.elements} numbers")
        case ChangeVerdict.UNTRIED:
            lines = [f"NOT TOLD APART (no trials) {lines[0]}", *lines[1:]]
        case ChangeVerdict.FAULT:
            lines = [f"FAULT OF THE SUITE {lines[0]}", *lines[1:], f"  {outcome.how}"]
        case ChangeVerdict.CAUGHT if terms.trials and outcome.told is None and outcome.inputs:
            lines = [f"TOLD BY NO TRIAL {lines[0]}", *lines[1:], f"  caught by {outcome.how}"]
        case _:
            return ""
    return "\n".join(lines)
