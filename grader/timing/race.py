"""A race as a bench function sees it: rounds in which three parties run the same calls.

    @speed(points=2)
    def bench_causal_attention(race):
        for draw in race:
            q, k, v = (draw.normal(1, 4, 1024, 64) for _ in range(3))
            for out in race.time("causal_attention", q, k, v):
                agree(out, ...)

The clock is the grader's own. It starts before the inputs are written to where the party can read
them and stops when the grader holds its own copy of the answer. While one party runs, the others
are stopped.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from grader.judging.case import CURRENT_CASE, Case
from grader.judging.draw import Draw
from grader.judging.student import Student
from grader.timing.meters import Meter, Party
from grader.timing.statistics import BLOCK_ROUNDS
from grader.timing.wait_idle import IdleWaiter
from grader.worker.child.chain import Chain

T = TypeVar("T")
STUDENT_PARTY = "student"
MIN_ROUNDS, MAX_ROUNDS = 20, 40  # of one set of processes
TARGET_REFERENCE_SECONDS = 0.1  # of a fifth of the rounds, the calls of the reference alone


@dataclass(frozen=True, slots=True)
class Plan:
    """How many rounds a set of processes runs."""

    rounds: int = 0  # 0: as many as the reference's speed in the warm-up allows
    warm_up: bool = True  # one round more, which is not counted


class Race:
    """The rounds of one set of processes; `rows` holds each round's measurements by party.

    `asked` is the party of the present call, or of the answer that is being verified.
    """

    def __init__(
        self,
        parties: Sequence[Party],
        plan: Plan,
        seed: Sequence[str],
        device: str,
        meter: Meter,
        progress: Callable[[float], None],
        calm: IdleWaiter,
        enough: Callable[[Sequence[Mapping[str, float]]], bool] = lambda rows: False,
    ) -> None:
        self.device = device
        self.draw = self._draw_for_round(seed, "preparation")
        self.rows: list[dict[str, float]] = []
        self.flops = 0.0  # most floating point operations that the device did in a second
        self.notes: dict[str, str] = {}  # for the report
        self.work = 0.0  # floating point operations of one call
        self._dtype = "float32"  # of the work
        self.asked = ""
        self._parties = parties
        self._plan = plan
        self._seed = seed
        self._order = random.Random(f"{seed} order")
        self._meter = meter
        self._progress = progress
        self._calm = calm
        self._enough = enough  # whether these rounds of the set, with those before, are enough
        self._row: dict[str, float] = {}
        self._keeps_inputs = False

    def each(self, prepare: Callable[[Student], T]) -> Mapping[Student, T]:
        """Prepare each party off the clock; the prepared objects live as long as the set."""
        self._keeps_inputs = True
        made = {}
        for party in self._parties:
            self._begin_call(party)
            with party.awake():
                made[party.student] = prepare(party.student)
        return made

    def __iter__(self) -> Iterator[Draw]:
        """Yield the draws of each round; the first round warms up and is not counted."""
        if self._plan.warm_up:
            yield self._draw_for_round(self._seed, "warm-up")
        rounds = self._plan.rounds or _choose_race_rounds(self._row["reference"])
        for number in range(rounds):
            self._row = {}
            yield self._draw_for_round(self._seed, str(number))
            self.flops = max(self.flops, _time_matrix_product(self.device, self._dtype))
            self.rows.append(self._row)
            self._progress((number + 1) / rounds)
            if self._is_hopeless() or self._enough(self.rows):
                return

    def time(
        self,
        what: str | Mapping[Student, Callable[..., Any]],
        *inputs: Tensor,
        work: float = 0.0,
        **named: Any,
    ) -> Iterator[Any]:
        """Time a call of each party; yield each answer for the bench function to verify.

        what  the name of a function, or a function for each party, as `each` returns them
        work  the floating point operations that any right answer needs
        """

        def call(student: Student) -> Any:
            function = getattr(student, what) if isinstance(what, str) else what[student]
            return function(*inputs, **named)

        return self._call_each_party(call, work)

    def chain(self, name: str, chain: Chain, *, work: float, **named: Any) -> Iterator[Any]:
        """Time a chain of calls of each party (see `worker.child.chain`); yield their digests."""
        self._dtype = chain.dtype
        return self._call_each_party(lambda s: s.run_chain(name, chain, **named), work)

    def _call_each_party(self, call: Callable[[Student], Any], work: float) -> Iterator[Any]:
        self.work = work
        for party in self._order.sample(self._parties, len(self._parties)):
            if not self._keeps_inputs:
                party.student.begin_case()
            self._begin_call(party)
            self._calm.wait()
            self._row[party.name], answer = self._meter(party, partial(call, party.student))
            yield answer

    def _begin_call(self, party: Party) -> None:
        self.asked = party.name
        CURRENT_CASE.set(Case())

    def _is_hopeless(self) -> bool:
        """Return whether the student is too slow for further rounds to change the points."""
        if len(self.rows) % BLOCK_ROUNDS:
            return False
        slowest = max(row["zero"] for row in self.rows)
        return min(row[STUDENT_PARTY] for row in self.rows) > 3 * slowest

    def _draw_for_round(self, seed: Sequence[str], name: str) -> Draw:
        first, *more = seed
        return Draw(first, *more, name, device=self.device)


def _choose_race_rounds(reference: float) -> int:
    """Return how many rounds to run for a reference that takes so many seconds; whole blocks."""
    return min(
        MAX_ROUNDS, max(MIN_ROUNDS, BLOCK_ROUNDS * int(TARGET_REFERENCE_SECONDS / reference))
    )


def _time_matrix_product(device: str, dtype: str) -> float:
    """Measure the floating point operations a second of a large matrix product.

    On CUDA it has the dtype of the timed work: bfloat16 runs on tensor cores, float32 does not.
    """
    if device == "cpu":  # one thread, as everybody here
        x = torch.ones(512, 512)
        started = time.perf_counter()
        x @ x
        return 2 * x.shape[0] ** 3 / (time.perf_counter() - started)
    x = torch.randn(8192, 8192, device=device, dtype=getattr(torch, dtype))
    x @ x
    torch.cuda.synchronize()
    started = time.perf_counter()
    x @ x
    torch.cuda.synchronize()
    return 2 * x.shape[0] ** 3 / (time.perf_counter() - started)
