"""A race of real processes: fresh inputs, one party at a time, and wrong answers."""

import os
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace

import pytest
import torch

from grader.core.errors import GraderFault
from grader.judging import agree
from grader.judging.case import StudentFault
from grader.timing import meters
from grader.timing import race as racing
from grader.timing.contest import Contest
from grader.timing.race import Plan
from grader.timing.speed import measure_speed
from grader.timing.statistics import BLOCK_ROUNDS, PARTIES
from grader.timing.wait_idle import IdleWaiter
from tests.timing.contests import contest, echoes, feed

# Its answers look at threads, memory and other processes, which no list lets through.
pytestmark = pytest.mark.usefixtures("list_open")

COUNTS = """
import threading, time
count = 0
def forever():
    global count
    while True:
        time.sleep(0.001)
        count += 1
threading.Thread(target=forever, daemon=True).start()
def used(): return count
"""
WRONG_ONCE = """
asked = 0
def answer(x):
    global asked
    asked += 1
    return x + (asked == 3)
"""


class Seen:
    """A bench function that keeps what it saw: (party, what it was given, what it answered)."""

    def __init__(self) -> None:
        self.rounds: list[list[tuple[str, torch.Tensor, torch.Tensor]]] = []

    def __call__(self, race) -> None:
        for draw in race:
            x = draw.normal(3)
            self.rounds.append([(race.asked, x, found) for found in race.time("answer", x)])

    @property
    def inputs(self) -> list[tuple[float, ...]]:
        return [tuple(asked[0][1].tolist()) for asked in self.rounds]

    @property
    def orders(self) -> list[tuple[str, ...]]:
        return [tuple(name for name, _, _ in asked) for asked in self.rounds]


def run(contest: Contest, rounds: int = 2, *, warm_up: bool = False) -> Contest:
    contest.run_a_set(Plan(rounds=rounds, warm_up=warm_up), lambda share: None)
    return contest


def seen_by(contest: Contest) -> Seen:
    bench = contest.case.bench
    assert isinstance(bench, Seen)
    return bench


def test_the_three_are_given_the_same_and_in_every_round_something_new(nursery, tmp_path):
    it = run(run(contest(nursery, tmp_path, Seen()), 5, warm_up=True), 5, warm_up=True)
    seen = seen_by(it)
    assert len(set(seen.inputs)) == len(seen.inputs) == 12  # two sets, each with a warm-up
    for asked in seen.rounds:
        assert {name for name, _, _ in asked} == {"zero", "reference", "student"}
        assert all(torch.equal(x, found) for _, x, found in asked)


def test_inputs_repeat_for_the_same_seed_and_for_no_other(nursery, tmp_path):
    first, again, other = (
        seen_by(run(contest(nursery, tmp_path, Seen(), seed=seed))).inputs for seed in "aab"
    )
    assert first == again
    assert not set(first) & set(other)


def test_what_is_measured_again_is_given_other_inputs(nursery, tmp_path):
    first = contest(nursery, tmp_path, Seen())
    again = replace(first, rows=[], sets=0, again=True)
    inputs = seen_by(run(run(first) and again)).inputs
    assert len(set(inputs)) == len(inputs) == 4


def test_the_order_is_drawn_anew_in_every_round(nursery, tmp_path):
    orders = Counter(seen_by(run(contest(nursery, tmp_path, Seen()), 40)).orders)
    assert len(orders) == 6
    assert max(orders.values()) < 20


def test_a_warm_up_is_not_counted_and_the_rounds_of_all_sets_are(nursery, tmp_path, monkeypatch):
    feed(monkeypatch, zero=8.0, reference=1.0, student=2.0)
    it = contest(nursery, tmp_path, echoes)
    run(it, 3, warm_up=True)
    assert it.times.shape == (3, 3)
    run(it, 2)
    assert it.times.shape == (5, 3)
    assert it.sets == 2
    assert len(set(it.times.ravel())) == 15  # each of them measured, and none twice


def test_the_rounds_are_whole_blocks_and_fewer_for_a_slow_reference():
    rounds = {
        seconds: racing._choose_race_rounds(seconds)
        for seconds in (1e-5, 0.01, 0.0199, 0.02, 0.1, 10.0)
    }
    assert all(n % BLOCK_ROUNDS == 0 for n in rounds.values())
    assert [rounds[s] for s in (1e-5, 0.01, 0.02, 10.0)] == [40, 40, 25, 20]


def test_the_times_are_those_of_the_party_that_was_asked(nursery, tmp_path, monkeypatch):
    feed(monkeypatch, zero=8.0, reference=1.0, student=2.0)
    times = run(contest(nursery, tmp_path, echoes), 3).times
    assert PARTIES == ("zero", "reference", "student")
    assert times.round(3).tolist() == [[8.0, 1.0, 2.0]] * 3


@pytest.mark.parametrize("student, rounds", [(25.0, BLOCK_ROUNDS), (23.0, 20)])
def test_a_race_without_hope_ends_after_one_block(nursery, tmp_path, monkeypatch, student, rounds):
    feed(monkeypatch, zero=8.0, reference=1.0, student=student)
    assert len(run(contest(nursery, tmp_path, echoes), 20).rows) == rounds


def test_a_race_ends_when_its_rounds_are_enough(nursery, tmp_path):
    seen: list[int] = []
    it = contest(nursery, tmp_path, echoes)
    for enough in (2, 5):

        def told(times, enough=enough):
            seen.append(len(times))
            return len(times) == enough

        it.run_a_set(Plan(rounds=20), lambda share: None, told)
        assert len(it.rows) == enough
    assert seen == [1, 2, 3, 4, 5]


def processor_time(party) -> int:
    """Nanoseconds that the process of a party has used, which one that stands still does not."""
    return party.worker.usage()["cpu_ns"]


def test_who_is_not_asked_stands_still(nursery, tmp_path):
    it = contest(nursery, tmp_path, echoes, COUNTS)
    with ExitStack() as stack:
        party = it._start_party("student", stack)
        for _ in range(2):
            with party.awake():
                before = party.student.used()
                while party.student.used() < before + 20:
                    time.sleep(0.01)
            asleep = processor_time(party)
            time.sleep(0.2)
            assert processor_time(party) == asleep


def test_who_is_not_asked_stands_still_in_a_race(nursery, tmp_path, monkeypatch):
    parties, moved = {}, []
    meter = meters.time_party_call

    def watching(party, call):
        parties[party.name] = party
        others = [other for name, other in parties.items() if name != party.name]
        before = [processor_time(other) for other in others]
        found = meter(party, lambda: (time.sleep(0.05), call())[1])
        moved.extend(processor_time(o) - b for o, b in zip(others, before, strict=True))
        return found

    monkeypatch.setattr(meters, "time_party_call", watching)
    answers = COUNTS + "def answer(x): return x\n"
    run(contest(nursery, tmp_path, Seen(), answers, zero=answers, reference=answers), 3)
    assert len(moved) >= 2 * 6 + 3  # in the first round, who has not been asked is not known
    assert set(moved) == {0}


def test_objects_live_through_the_set(nursery, tmp_path):
    box = (
        "class Box:\n    def __init__(self): self.opened = 0\n"
        "    def open(self, x):\n        self.opened += 1\n        return x + self.opened\n"
    )
    added: list[float] = []

    def made(party):
        box = party.Box()
        return lambda x: box.open(x)

    def bench(race):
        boxes = race.each(made)
        for draw in race:
            x = draw.normal(3)
            added.extend(float((found - x).mean().round()) for found in race.time(boxes, x))

    run(contest(nursery, tmp_path, bench, box, zero=box, reference=box), 4, warm_up=True)
    assert added == [float(turn) for turn in range(1, 6) for _ in range(3)]


def test_what_objects_were_given_stays_as_it_was(nursery, tmp_path):
    keeps = "class Box:\n    def open(self, x):\n        self.x = getattr(self, 'x', x)\n        return self.x\n"

    def bench(race):
        first = race.draw.normal(3)

        def made(party):
            box = party.Box()
            box.open(first)
            return lambda x: box.open(x)

        boxes = race.each(made)
        for draw in race:
            for found in race.time(boxes, draw.normal(3)):
                agree(found, first)

    run(contest(nursery, tmp_path, bench, keeps, zero=keeps, reference=keeps), 2)


def test_one_wrong_answer_of_the_student_earns_nothing_and_is_named(nursery, tmp_path):
    it = contest(nursery, tmp_path, echoes, WRONG_ONCE)
    with pytest.raises(StudentFault, match=r"out\[0\] is .*, but should be .*  \[answer\(float32"):
        run(it, 5)
    assert it.rows == []
    speed = measure_speed(it)
    assert (speed.verdict, speed.earned, speed.measured) == ("failed", 0, None)
    assert "[answer(float32 (3,))]" in speed.why


@pytest.mark.parametrize("name", ["zero", "reference"])
def test_one_wrong_answer_of_ours_is_our_fault(nursery, tmp_path, name):
    with pytest.raises(GraderFault, match=f"^the {name} of ex05_causal_mask: out"):
        measure_speed(contest(nursery, tmp_path, echoes, **{name: WRONG_ONCE}))


BROKEN = "raise RuntimeError('broken')\n"


def test_a_file_that_cannot_be_imported_again_earns_nothing(nursery, tmp_path):
    speed = measure_speed(contest(nursery, tmp_path, echoes, BROKEN))
    assert (speed.verdict, speed.earned) == ("failed", 0)
    assert "the file cannot be imported again" in speed.why


def test_a_file_of_ours_that_cannot_be_imported_is_our_fault(nursery, tmp_path):
    with pytest.raises(GraderFault):
        measure_speed(contest(nursery, tmp_path, echoes, zero=BROKEN))


def test_a_kill_is_measured_again_and_only_once(nursery, tmp_path):
    sets: list[int] = []

    def bench(race):
        sets.append(1)
        echoes(race)

    killed = "import os\ndef answer(x): os.kill(os.getpid(), 9)\n"
    speed = measure_speed(contest(nursery, tmp_path, bench, killed))
    assert speed.verdict == "failed"
    assert "the process was killed" in speed.why
    assert len(sets) == 2


def test_all_three_are_bound_to_one_and_the_same_processor(nursery, tmp_path):
    asks = "import os, torch\ndef answer(x): return torch.tensor(sorted(os.sched_getaffinity(0)))\n"
    it = contest(nursery, tmp_path, Seen(), asks, zero=asks, reference=asks)
    found = {tuple(found.tolist()) for asked in seen_by(run(it, 1)).rounds for *_, found in asked}
    assert found == {(max(os.sched_getaffinity(0)),)}


def test_every_call_waits_until_the_processor_is_calm(nursery, tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr(IdleWaiter, "wait", lambda self: waits.append(self.core))
    run(contest(nursery, tmp_path, Seen()), 3)
    assert waits == [max(os.sched_getaffinity(0))] * 9


def test_what_is_faster_than_physics_is_told_from_the_fastest_matrix_product(
    nursery, tmp_path, monkeypatch
):
    speeds = iter([3e9, 5e9, 4e9])
    monkeypatch.setattr(racing, "_time_matrix_product", lambda device, dtype: next(speeds))
    assert run(contest(nursery, tmp_path, Seen()), 3).flops == 5e9


@pytest.mark.weekly
def test_the_matrix_product_is_one(nursery, tmp_path):
    """It measures, so that its outcome depends on what else the machine does."""
    found = run(contest(nursery, tmp_path, Seen()), 10).flops
    assert 0.2 < found / max(racing._time_matrix_product("cpu", "float32") for _ in range(10)) < 5


def test_more_work_than_a_matrix_product_does_is_faster_than_physics(
    nursery, tmp_path, monkeypatch
):
    feed(monkeypatch, zero=0.003, reference=0.001, student=0.001)

    def bench(race):
        for draw in race:
            for out in race.time("answer", draw.normal(3), work=1e15):
                assert out.shape == (3,)

    speed = measure_speed(contest(nursery, tmp_path, bench))
    assert (speed.verdict, speed.earned) == ("failed", 0)
    assert speed.why.startswith("faster than physics")
