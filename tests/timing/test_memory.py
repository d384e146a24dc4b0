"""The peak of a process's memory: what it shows, wherever it was, and whether it was set back."""

import os

import pytest

from grader.judging.case import StudentFault
from grader.timing.meters import MAX_UNSEEN_BYTES, PAGE_BYTES, build_peak_memory_meter
from grader.timing.race import Plan
from grader.timing.speed import measure_speed
from tests.timing.contests import ECHO, LINUX, contest, echoes, party

# Its answers look at threads, memory and other processes, which no list lets through.
pytestmark = pytest.mark.usefixtures("list_open")

MIB = 1 << 20
EMPTY = {"peak_bytes": 200 * MIB, "mapped_bytes": 900 * MIB, "faults": 1000, "child_faults": 0}
MUCH = (
    MIB + MAX_UNSEEN_BYTES
) // PAGE_BYTES  # pages, the most that may go unseen beside a rise of one MiB


@pytest.mark.parametrize(
    "peak, mapped, faults, child_faults, rise",
    [
        (64 * MIB, 64 * MIB, 64 * MIB // PAGE_BYTES, 0, 64 * MIB),
        (0, 0, 0, 0, PAGE_BYTES),
        (-MIB, 0, -100, 0, PAGE_BYTES),  # no less than nothing
        (MIB, MIB, 9 * MUCH, 0, MIB),  # the same room taken and given back time and again
        (MIB, 9 * MUCH * PAGE_BYTES, 100, 0, MIB),  # room that nobody has used
        (MIB, MUCH * PAGE_BYTES, MUCH, 0, MIB),
        (
            MIB,
            (MUCH + 1) * PAGE_BYTES,
            MUCH + 1,
            0,
            None,
        ),  # more was there and touched than is shown
        (MIB, 0, 0, MUCH, MIB),
        (MIB, 0, 0, MUCH + 1, None),  # by a process that it waited for
    ],
)
def test_a_peak_is_what_an_empty_process_has_not(peak, mapped, faults, child_faults, rise):
    more = dict(zip(EMPTY, (peak, mapped, faults, child_faults), strict=True))
    one = party({name: EMPTY[name] + more[name] for name in EMPTY})
    if rise is None:
        with pytest.raises(StudentFault, match="the peak of its memory was set back"):
            build_peak_memory_meter(EMPTY)(one, lambda: 7)
    else:
        assert build_peak_memory_meter(EMPTY)(one, lambda: 7) == (rise, 7)


def test_what_was_sent_is_none_of_it():
    one = party(EMPTY | {"peak_bytes": EMPTY["peak_bytes"] + 64 * MIB})
    one.worker.inputs.most = 48 * MIB
    assert build_peak_memory_meter(EMPTY)(one, lambda: 7) == (16 * MIB, 7)


def test_who_ends_after_the_answer_is_at_fault():
    with pytest.raises(StudentFault):
        build_peak_memory_meter(EMPTY)(party({}), lambda: 7)


def peaks(nursery, folder, student: str) -> dict[str, float]:
    """The one row of a set that measures memory, in MiB."""
    it = contest(nursery, folder, echoes, student, measures="memory")
    it.run_a_set(Plan(rounds=1, warm_up=False), lambda share: None)
    [row] = it.rows
    return {name: size / MIB for name, size in row.items()}


FILLED = "import torch\nlarge = torch.ones(64 << 18)\n"  # 64 MiB


@LINUX
@pytest.mark.parametrize(
    "source",
    [
        "def answer(x):\n    import torch\n    large = torch.ones(64 << 18)\n    del large\n    return x\n",
        FILLED + ECHO,
        FILLED + "del large\n" + ECHO,
    ],
    ids=["in the call", "at import", "freed at import"],
)
def test_the_peak_of_a_process_is_seen_wherever_it_was(wall, tmp_path, source):
    row = peaks(wall, tmp_path, source)
    assert 60 < row["student"] - row["reference"] < 72
    assert max(row["zero"], row["reference"]) < 24  # what any first call takes


VARIED = """
import torch
def answer(x):
    kept = []
    for step in range(1, 101):
        one = torch.ones(20_000 * step)  # at most 8 MB
        other = torch.exp(one)
        kept.append(torch.ones(500))
    return x
"""
LARGE = """
import torch
def answer(x):
    large = [torch.ones(step << 12) for step in range(1, 129)]  # 129 MiB in all
    return x + 0 * len(large)
"""


@LINUX
def test_what_a_call_has_given_back_does_not_count(wall, tmp_path):
    row = peaks(wall, tmp_path, VARIED)
    assert row["student"] - row["reference"] < 32  # three are there at once, of 8 MB


@LINUX
def test_what_a_call_holds_at_once_counts(wall, tmp_path):
    row = peaks(wall, tmp_path, LARGE)
    assert 120 < row["student"] - row["reference"] < 138


SETS_BACK = """
import mmap
import os
def answer(x):
    large = mmap.mmap(-1, 128 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, 128 << 20, 4096):
        large[at] = 1
    large.close()
    try:
        os.write(os.open("/proc/self/clear_refs", os.O_WRONLY), b"5")
    except OSError:
        pass
    return x
"""


@LINUX
def test_a_peak_that_is_set_back_earns_nothing(wall, tmp_path):
    try:
        row = peaks(wall, tmp_path, SETS_BACK)
    except StudentFault:
        return
    assert row["student"] > 100  # it could not be set back


@LINUX
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may set back what is closed to others")
def test_a_peak_that_was_set_back_is_failed(nursery, tmp_path):
    speed = measure_speed(contest(nursery, tmp_path, echoes, SETS_BACK, measures="memory"))
    assert (speed.verdict, speed.earned) == ("failed", 0)
    assert speed.why == "the peak of its memory was set back while it ran"


@LINUX
def test_memory_is_scored_from_fresh_processes(nursery, tmp_path):
    zero = FILLED + ECHO
    half = zero.replace("64 <<", "32 <<")
    speed = measure_speed(contest(nursery, tmp_path, echoes, half, measures="memory", zero=zero))
    assert (speed.verdict, speed.measured.unit, len(speed.measured.rounds)) == (
        "scored",
        "bytes",
        3,
    )
    assert 0.4 < speed.fraction < 0.7
