"""Runs changed and other wrong answers in child processes, which an answer may kill."""

import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Event
from typing import Any, Protocol

from grader.authoring.mechanical import (
    CASE_SECONDS,
    ChangeVerdict,
    MechanicalProof,
    Outcome,
    list_mechanical_changes,
)
from grader.authoring.process_limits import limit_memory_of_proof
from grader.core import catalog
from grader.core.errors import GraderFault, UserError
from grader.judging.author_error import tell_author_errors

CHANGES_PER_PROCESS = 40  # a process takes 4 s to start; too many, and the last one runs alone
READY = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Some changes of one right answer, by number."""

    slug: str
    variant: str
    numbers: tuple[int, ...]
    inputs: int
    trials: bool
    seconds: float = CASE_SECONDS  # of the processor, for one case of a check, and for one input


class NumberedJob(Protocol):
    """Some answers to one exercise, by number; a dataclass."""

    @property
    def slug(self) -> str: ...

    @property
    def numbers(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """How one kind of job is run.

    run    called in the child with a pipe and the job: sends READY, an outcome for each number in
           order, or a text that says why it cannot go on
    died   called with a job, a number and an exit code: the outcome if the child died there
    """

    run: Callable[[Connection, Any], None]
    died: Callable[[Any, int, int | None], Any]


def run_mechanical_jobs(jobs: Sequence[Job], processes: int) -> Iterator[Outcome]:
    """Run the jobs in so many processes at once; yield each outcome as it arrives."""
    kind = JobKind(run=_run_mechanical_process, died=_describe_dead_mechanical)
    return run_jobs_in_children(jobs, kind, processes)


def run_jobs_in_children(
    jobs: Sequence[NumberedJob], kind: JobKind, processes: int
) -> Iterator[Any]:
    """Run the jobs in so many processes at once; yield each outcome as it arrives."""
    found: SimpleQueue[Any] = SimpleQueue()
    ended = Event()
    with ThreadPoolExecutor(processes) as pool:
        try:
            for job in jobs:
                pool.submit(_collect_job_outcomes, job, kind, found, ended)
            for _ in jobs:
                while (one := found.get()) is not None:
                    if isinstance(one, BaseException):
                        raise one
                    yield one
        except BaseException:  # Ctrl-C too, or a reader that reads no further
            ended.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                child.terminate()
            raise


def split_numbered_job(job: Any, at_once: int = CHANGES_PER_PROCESS) -> list[Any]:
    """Split a job into jobs of at most `at_once` answers."""
    n = job.numbers
    return [replace(job, numbers=n[i : i + at_once]) for i in range(0, len(n), at_once)]


def _collect_job_outcomes(
    job: NumberedJob, kind: JobKind, found: "SimpleQueue[Any]", ended: Event
) -> None:
    try:
        for outcome in _run_job_in_children(job, kind, ended):
            found.put(outcome)
    except BaseException as error:  # carried to the thread that reads
        found.put(error)
    found.put(None)


def _run_job_in_children(job: Any, kind: JobKind, ended: Event) -> Iterator[Any]:
    """Yield the outcomes of a job; if a process dies, start another after that answer.

    ended  set when no outcome is wanted any more
    """
    left = list(job.numbers)
    while left and not ended.is_set():
        context = get_context("spawn")
        here, there = context.Pipe(duplex=False)
        child = context.Process(
            target=kind.run, args=(there, replace(job, numbers=tuple(left))), daemon=True
        )
        child.start()
        if ended.is_set():
            child.terminate()
        there.close()
        ready = False
        for message in _receive_job_outcomes(here):
            if message == READY:
                ready = True
            elif isinstance(message, str):
                raise GraderFault(message)
            elif isinstance(message, UserError):
                raise message
            else:
                left.pop(0)
                yield message
        child.join()
        if ended.is_set():
            return
        if left and not ready:
            raise GraderFault(f"{job.slug}: its process ended with {child.exitcode} at its start")
        if left:
            yield kind.died(job, left.pop(0), child.exitcode)


def _receive_job_outcomes(pipe: Connection) -> Iterator[Any]:
    try:
        while True:
            yield pipe.recv()
    except EOFError:
        return


def _describe_dead_mechanical(job: Job, number: int, code: int | None) -> Outcome:
    change = list_mechanical_changes(catalog.find_catalog_exercise(job.slug), job.variant)[number]
    endless = code == -signal.SIGXCPU
    return Outcome(
        slug=job.slug, variant=job.variant, where=change.where, line=change.line,
        kind=change.kind.value, old=change.old, new=change.new, verdict=ChangeVerdict.CAUGHT,
        how="does not end" if endless else f"ends the process ({code})",
    )  # fmt: skip


def _run_mechanical_process(pipe: Connection, job: Job) -> None:
    """Send READY, then the outcome of each change, to the parent process."""
    try:
        exercise = catalog.find_catalog_exercise(job.slug)
        with tell_author_errors(exercise):
            proof = MechanicalProof(exercise, job.variant, job.inputs, job.trials, job.seconds)
            found = list_mechanical_changes(exercise, job.variant)
        limit_memory_of_proof(exercise.limits.memory_gib)
        pipe.send(READY)
        for number in job.numbers:
            pipe.send(proof.judge_change(found[number]))
    except UserError as problem:  # before `GraderFault`: a broken suite is both
        pipe.send(UserError(str(problem)))
    except GraderFault as fault:
        pipe.send(str(fault))
    except Exception:  # sent, or the parent would take it for a change that ends the process
        pipe.send(traceback.format_exc())
