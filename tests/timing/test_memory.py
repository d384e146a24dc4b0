"""The peak of a process's memory: what it shows, wherever it was, and whether it was set back."""

import os

import pytest

from grader.judging.case import StudentFault
from grader.timing.meters import PAGE, UNSEEN, peak_bytes
from grader.timing.race import Plan
from grader.timing.speed import measure
from tests.timing.contests import ECHO, LINUX, contest, echoes, party

MIB = 1 << 20
EMPTY = {"peak_bytes": 200 * MIB, "faults": 1000}


@pytest.mark.parametrize(
    "peak, faults, rise",
    [
        (264 * MIB, 1000 + 64 * MIB // PAGE, 64 * MIB),
        (200 * MIB, 1000, PAGE),
        (199 * MIB, 900, PAGE),  # no less than nothing
        (201 * MIB, 1000 + (MIB + UNSEEN) // PAGE, MIB),
        (201 * MIB, 1000 + (MIB + UNSEEN) // PAGE + 1, None),  # more was touched than is shown
    ],
)
def test_a_peak_is_what_an_empty_process_has_not(peak, faults, rise):
    one = party({"peak_bytes": peak, "faults": faults})
    if rise is None:
        with pytest.raises(StudentFault, match="the peak of its memory was set back"):
            peak_bytes(EMPTY)(one, lambda: 7)
    else:
        assert peak_bytes(EMPTY)(one, lambda: 7) == (rise, 7)


def test_who_ends_after_the_answer_is_at_fault():
    with pytest.raises(StudentFault):
        peak_bytes(EMPTY)(party({}), lambda: 7)


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


SETS_BACK = """
import mmap
def answer(x):
    large = mmap.mmap(-1, 128 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, 128 << 20, 4096):
        large[at] = 1
    large.close()
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
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
    speed = measure(contest(nursery, tmp_path, echoes, SETS_BACK, measures="memory"))
    assert (speed.verdict, speed.earned) == ("failed", 0)
    assert speed.why == "the peak of its memory was set back while it ran"


@LINUX
def test_memory_is_scored_from_fresh_processes(nursery, tmp_path):
    zero = FILLED + ECHO
    half = zero.replace("64 <<", "32 <<")
    speed = measure(contest(nursery, tmp_path, echoes, half, measures="memory", zero=zero))
    assert (speed.verdict, speed.measured.unit, len(speed.measured.rounds)) == (
        "scored",
        "bytes",
        5,
    )
    assert 0.4 < speed.fraction < 0.7
