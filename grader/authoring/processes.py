"""Runs the changes of right answers in processes of their own, which may die of them."""

import signal
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from grader.authoring.changes import Change
from grader.authoring.mechanical import SECONDS, Outcome, Proof, Verdict, changes_of
from grader.authoring.process_limits import limit_memory
from grader.core import catalog
from grader.core.errors import GraderFault

AT_ONCE = 40  # changes for one process: to start the next costs 4 s, and the last ones end alone
READY = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Changes of one right answer, by their numbers."""

    slug: str
    variant: str
    numbers: tuple[int, ...]
    inputs: int
    trials: bool
    seconds: float = SECONDS  # of the processor, for one case of a check, and for one input


def outcomes(jobs: Sequence[Job], processes: int) -> Iterator[Outcome]:
    """Run every job, so many at once, and yield what becomes of each change as it is known."""
    found: SimpleQueue[Outcome | BaseException | None] = SimpleQueue()
    with ThreadPoolExecutor(processes) as pool:
        for job in jobs:
            pool.submit(_follow, job, found)
        for _ in jobs:
            while (one := found.get()) is not None:
                if isinstance(one, BaseException):
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise one
                yield one


def split(job: Job, at_once: int = AT_ONCE) -> list[Job]:
    """The same changes in jobs of a size for one process."""
    n = job.numbers
    return [replace(job, numbers=n[i : i + at_once]) for i in range(0, len(n), at_once)]


def _follow(job: Job, found: "SimpleQueue[Outcome | BaseException | None]") -> None:
    try:
        for outcome in _one_after_another(job):
            found.put(outcome)
    except BaseException as error:  # carried to the thread that reads
        found.put(error)
    found.put(None)


def _one_after_another(job: Job) -> Iterator[Outcome]:
    """The outcomes of a job; where a process dies, the next one goes on after that change."""
    left = list(job.numbers)
    while left:
        context = get_context("spawn")
        here, there = context.Pipe(duplex=False)
        child = context.Process(
            target=_run, args=(there, replace(job, numbers=tuple(left))), daemon=True
        )
        child.start()
        there.close()
        ready = False
        for message in _messages(here):
            if message == READY:
                ready = True
            elif isinstance(message, Outcome):
                left.pop(0)
                yield message
            else:
                raise GraderFault(str(message))
        child.join()
        if left and not ready:
            raise GraderFault(f"{job.slug}: its process ended with {child.exitcode} at its start")
        if left:
            change = changes_of(catalog.find(job.slug), job.variant)[left.pop(0)]
            yield _dead(job, change, child.exitcode)


def _messages(pipe: Connection) -> Iterator[Any]:
    try:
        while True:
            yield pipe.recv()
    except EOFError:
        return


def _dead(job: Job, change: Change, code: int | None) -> Outcome:
    endless = code == -signal.SIGXCPU
    return Outcome(
        slug=job.slug, variant=job.variant, where=change.where, line=change.line,
        kind=change.kind.value, old=change.old, new=change.new, verdict=Verdict.CAUGHT,
        how="does not end" if endless else f"ends the process ({code})",
    )  # fmt: skip


def _run(pipe: Connection, job: Job) -> None:
    """What a process does: say that it is ready, then what becomes of each change."""
    try:
        exercise = catalog.find(job.slug)
        proof = Proof(exercise, job.variant, job.inputs, job.trials, job.seconds)
        found = changes_of(exercise, job.variant)
        limit_memory(exercise.limits.memory_gib)
        pipe.send(READY)
        for number in job.numbers:
            pipe.send(proof.outcome(found[number]))
    except GraderFault as fault:
        pipe.send(str(fault))
    except Exception:  # told to who waits, lest it be taken for a change that ends the process
        pipe.send(traceback.format_exc())
