"""Runs the contest of one exercise: rounds in sets of fresh processes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from grader.core.errors import GraderFault
from grader.core.records import Exercise, Submission
from grader.judging.case import StudentFault
from grader.judging.marks import SpeedCase
from grader.judging.student import Student
from grader.submission import admission
from grader.timing import meters
from grader.timing.meters import Meter, Party
from grader.timing.race import STUDENT_PARTY, Plan, Race
from grader.timing.statistics import PARTIES, Times
from grader.timing.wait_idle import IdleWaiter
from grader.worker.parent.faults import WorkerFault
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.supervisor import Supervisor


class Disturbed(Exception):
    """Raised if a process was killed, perhaps not by the submission: measure again."""


@dataclass(slots=True, kw_only=True)
class Contest:
    """The participants, and the measurements so far."""

    exercise: Exercise
    case: SpeedCase
    answer: Submission
    nursery: Nursery
    seed: tuple[str, ...]
    device: str = "cpu"
    rows: list[dict[str, float]] = field(default_factory=list)
    sets: int = 0
    flops: float = 0.0  # most floating point operations that this device did in a second
    work: float = 0.0  # floating point operations of one call
    notes: dict[str, str] = field(default_factory=dict)  # for the report
    calm: IdleWaiter = field(default_factory=IdleWaiter)
    again: bool = False  # this is the second try, after a process was killed
    made: dict[str, Submission] = field(default_factory=dict)  # admitted answers, by digest

    @property
    def times(self) -> Times:
        """Return the measurements of each round: (rounds, 3)."""
        return _convert_race_times(self.rows)

    @property
    def rounds(self) -> tuple[tuple[float, ...], ...]:
        """Return the measurements of each round as tuples, for a report."""
        return tuple(tuple(map(float, row)) for row in self.times)

    def run_a_set(
        self,
        plan: Plan,
        progress: Callable[[float], None],
        enough: Callable[[Times], bool] = lambda times: False,
    ) -> None:
        """Run the rounds of three fresh processes; raise a `StudentFault` for a wrong answer.

        The set ends early when `enough` accepts the times of all rounds so far, shape (rounds, 3).
        """
        self.calm.choose()
        calm = self.calm
        with ExitStack() as stack:
            parties = [self._start_party(name, stack) for name in PARTIES]
            meter: Meter = (
                meters.time_party_call if self.device == "cpu" else meters.time_elapsed_seconds
            )
            if self.case.measures == "memory":
                meter = meters.build_peak_memory_meter(self._measure_empty_process(stack))
                calm = IdleWaiter(patience=0.0)  # memory is the same on a busy machine
            seed = (*self.seed, "speed", f"{self.sets} {self.again}")
            earlier = self.rows
            race = Race(
                parties, plan, seed, self.device, meter, progress, calm,
                lambda rows: enough(_convert_race_times([*earlier, *rows])),
            )  # fmt: skip
            self._run_bench(race)
        self.rows += race.rows
        self.flops, self.work = max(self.flops, race.flops), race.work
        self.notes |= race.notes
        self.sets += 1

    def _run_bench(self, race: Race) -> None:
        try:
            self.case.bench(race)
        except StudentFault as fault:
            if race.asked != STUDENT_PARTY:
                raise GraderFault(f"the {race.asked} of {self.exercise.slug}: {fault}") from None
            raise

    def _start_party(self, name: str, stack: ExitStack) -> Party:
        if name == STUDENT_PARTY:
            return self._start_process(name, self.answer, self.exercise.refused, stack)
        [path] = (self.exercise.folder / "parties").glob(f"{name}.*")
        text = path.read_text(encoding="utf-8")
        party = Submission(slug=self.exercise.slug, path=path, sha256=name, source=text)
        return self._start_process(name, party, (), stack)

    def _measure_empty_process(self, stack: ExitStack) -> dict[str, int]:
        """Return the usage of a process that has loaded no answer."""
        nothing = Submission(slug=self.exercise.slug, path=Path(), sha256="", source="")
        return self._start_process("empty", nothing, (), stack).worker.usage()

    def _start_process(
        self, name: str, answer: Submission, refused: tuple[str, ...], stack: ExitStack
    ) -> Party:
        on_cuda = self.device != "cpu"
        if answer.sha256 not in self.made:  # compiled once, where it is compiled
            given = answer, self.exercise, self.nursery.wall
            self.made[answer.sha256] = (
                admission.admit_submission(*given, on_cuda=on_cuda).runs
                if name == STUDENT_PARTY
                else admission.prepare_own_submission(*given, on_cuda=on_cuda)
            )
        worker = Supervisor(
            self.nursery, self.made[answer.sha256], self.exercise.limits, on_cuda=on_cuda,
            refuse=refused, preload=self.exercise.preload, prelude=self.exercise.prelude,
            core=self.calm.core, gives_back=self.case.measures == "memory",
        )  # fmt: skip
        stack.enter_context(closing(worker))
        stack.callback(self._look_for_kills, worker)
        client = worker.client(watch=False)
        party = Party(name, Student(self.exercise, client, answer=answer), worker, client)
        try:
            worker.load()
        except WorkerFault as fault:
            if name != STUDENT_PARTY:
                problem = f"the {name} of {self.exercise.slug} cannot be loaded: {fault}"
                raise GraderFault(problem) from None
            raise StudentFault(f"the file cannot be imported again: {fault}") from None
        worker.stop()
        return party

    def _look_for_kills(self, worker: Supervisor) -> None:
        if worker.disturbed and not self.again:
            raise Disturbed


def _convert_race_times(rows: Sequence[Mapping[str, float]]) -> Times:
    return np.array([[row[name] for name in PARTIES] for row in rows])
