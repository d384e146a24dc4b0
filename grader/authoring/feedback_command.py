"""The command `diagnose-trial`: how good reports are on wrong answers that no catalogue has."""

import os
from collections.abc import Collection, Sequence

from rich.console import Console

from grader.authoring import evidence
from grader.authoring.feedback_class import FeedbackClass
from grader.authoring.feedback_run import (
    FEEDBACK_JOBS,
    Feedback,
    FeedbackJob,
    FeedbackSample,
    list_feedback_answers,
)
from grader.authoring.feedback_table import (
    GOALS,
    NUMBERS,
    build_feedback_table,
    describe_feedback,
    describe_feedback_goals,
    list_feedback_rows,
)
from grader.authoring.processes import run_jobs_in_children, split_numbered_job
from grader.core.records import Exercise

ANSWERS_PER_PROCESS = 30
LISTED = {"named": FeedbackClass.NAMED} | {
    kind.value: kind for kind in FeedbackClass if kind is not FeedbackClass.NAMED
}
SKIPPED = "skipped"


def parse_feedback_options(
    changes: str, pairs: int, written: bool, seed: str, inputs: int, listed: str
) -> tuple[FeedbackSample, set[FeedbackClass | None]]:
    """Parse the options. Raise `ValueError` for a count or a class that is none."""
    if changes != "all" and not changes.isdecimal():
        raise ValueError(f"{changes!r} is no count: write --changes 60, or --changes all.")
    names = [name for name in listed.split(",") if name]
    if wrong := [name for name in names if name not in LISTED and name != SKIPPED]:
        known = ", ".join((*LISTED, SKIPPED))
        raise ValueError(f"{wrong[0]!r} is no class: write some of {known}, with commas between.")
    count = None if changes == "all" else int(changes)
    sample = FeedbackSample(changes=count, pairs=pairs, written=written, seed=seed, inputs=inputs)
    return sample, {LISTED.get(name) for name in names}


def print_feedback_trial(
    exercises: Sequence[Exercise],
    sample: FeedbackSample,
    console: Console,
    *,
    listed: Collection[FeedbackClass | None] = (),
    processes: int = 0,
    write: bool = False,
) -> bool:
    """Grade and diagnose a sample of answers, and print the tables.

    Returns True if every mistake that a report names is one that the answer makes.


    listed     the classes whose answers are printed too; None stands for skipped answers
    processes  how many run at once; 0 for one on each processor
    write      write the rows of the tables into docs/evidence.md
    """
    jobs = make_feedback_jobs(exercises, sample)
    found = []
    for one in run_jobs_in_children(jobs, FEEDBACK_JOBS, processes or os.cpu_count() or 1):
        found.append(one)
        if one.kind is FeedbackClass.FALSE or one.kind in listed:
            _print_trial_line(console, describe_feedback(one))
    if not found:
        _print_trial_line(
            console, "Nothing was tried: only answers in Python are, and no bug hunts."
        )
        return False
    for mistakes in GOALS:
        console.print(build_feedback_table(found, mistakes))
    for line in describe_feedback_goals(found):
        _print_trial_line(console, line)
    if write:
        _write_feedback_evidence(found)
    return not any(one.kind is FeedbackClass.FALSE for one in found)


def make_feedback_jobs(exercises: Sequence[Exercise], sample: FeedbackSample) -> list[FeedbackJob]:
    """Return the jobs with the answers to every exercise in Python."""
    found: list[FeedbackJob] = []
    for exercise in exercises:
        if exercise.language == "python" and not exercise.hunts:
            count = len(list_feedback_answers(exercise, sample))
            job = FeedbackJob(slug=exercise.slug, numbers=tuple(range(count)), sample=sample)
            found += split_numbered_job(job, ANSWERS_PER_PROCESS)
    return found


def _write_feedback_evidence(found: Sequence[Feedback]) -> None:
    for mistakes, name in ((1, "diagnose-trial"), (2, "diagnose-trial pairs")):
        rows = list(list_feedback_rows(found, mistakes))
        evidence.write_evidence_rows(name, ("exercise", *NUMBERS), rows, sums=NUMBERS)


def _print_trial_line(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
