"""Who stops reading the outcomes of jobs, as by Ctrl-C, waits for no child."""

import time
from dataclasses import dataclass
from multiprocessing import active_children

from grader.authoring.processes import READY, JobKind, run_jobs_in_children


@dataclass(frozen=True)
class Job:
    slug: str
    numbers: tuple[int, ...]


def answer_once_and_sleep(pipe, job):
    pipe.send(READY)
    pipe.send(job.numbers[0])
    time.sleep(3600)


def test_no_child_outlives_a_reader_that_stops():
    before = set(active_children())
    jobs = [Job(slug="made_up", numbers=(n, n + 1)) for n in (0, 2, 4)]
    kind = JobKind(run=answer_once_and_sleep, died=lambda job, number, code: "died")
    outcomes = run_jobs_in_children(jobs, kind, 2)
    assert next(outcomes) in (0, 2)
    outcomes.close()
    assert set(active_children()) <= before
