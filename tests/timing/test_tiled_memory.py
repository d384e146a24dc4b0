"""What ex10 measures: answers in blocks keep their points, answers over whole rows lose them."""

from dataclasses import replace
from pathlib import Path

import pytest

from grader.authoring.mutants import write_variant_to_prove
from grader.core import catalog
from grader.judging import suite_runner
from grader.judging.case import StudentFault
from grader.timing.contest import Contest
from grader.timing.race import Plan
from grader.timing.statistics import PARTIES, compute_memory_position
from grader.worker.parent.nursery import Nursery
from tests.timing.contests import LINUX, text

EXERCISE = catalog.find_catalog_exercise("ex10_online_softmax")
SOLUTION = (catalog.ROOT / "solutions" / "ex10_online_softmax.py").read_text()

WHOLE_ROWS = """

def flash_attention(q, k, v, causal=False, scale=None, block_size=64):
    outputs, lses = [], []
    position = torch.arange(q.shape[-2])[:, None] + k.shape[-2] - q.shape[-2]
    for some, last in zip(q.split(64, -2), position.split(64), strict=True):  # queries, with all their keys
        scores = some @ k.mT / math.sqrt(q.shape[-1])
        if causal:
            scores = scores.masked_fill(torch.arange(k.shape[-2]) > last, -torch.inf)
        top = scores.amax(-1, keepdim=True)
        powers = scores.sub_(top).exp_()
        total = powers.sum(-1, keepdim=True)
        outputs.append(powers @ v / total)
        lses.append((top + total.log()).squeeze(-1))
    return torch.cat(outputs, -2), torch.cat(lses, -1)
"""
# Holds what it should not in a file, where the meter of memory does not look.
IN_A_FILE = """

def online_softmax(x, block_size):
    import tempfile
    row_max = x.amax(-1)
    with tempfile.TemporaryFile() as file:
        for block in x.split(block_size, -1):
            file.write((block - row_max[..., None]).exp_().numpy().tobytes())
        file.seek(0)
        total = sum(np.frombuffer(file.read(4 << 16), np.float32).sum(dtype=np.float64) for _ in range(2000))
    return row_max, torch.full_like(row_max, total)
"""
IN_A_PIPE = """

def online_softmax(x, block_size):
    import os
    ends = [os.pipe() for _ in range(64)]
    return x.amax(-1), x.exp().sum(-1)
"""
WHOLE_ROW = """

def online_softmax(x, block_size):
    row_max = x.amax(-1)
    return row_max, (x - row_max[..., None]).exp_().sum(-1)
"""


def variants() -> dict[str, str]:
    """The solution with a variant of each function in the place of its own, by their names."""
    found: dict[str, list[str]] = {name: [] for name in EXERCISE.functions}
    for variant in suite_runner.list_suite_variants(EXERCISE):
        found[variant.of].append(variant.id)
    written = {
        v.id: write_variant_to_prove(EXERCISE, v)[len(SOLUTION) :]
        for v in suite_runner.list_suite_variants(EXERCISE)
    }
    most = max(map(len, found.values()))
    chosen = [[ids[i % len(ids)] for ids in found.values()] for i in range(most)]
    return {" and ".join(ids): SOLUTION + "".join(written[i] for i in ids) for ids in chosen}


RIGHT = {"the solution": SOLUTION} | variants()
PATIENT = replace(EXERCISE.limits, call_seconds=600, exercise_seconds=6000)  # memory alone counts
FIRST, LATER = list(RIGHT)[:2], list(RIGHT)[2:]  # the second list costs as much as all else here
WRONG = {
    "some queries, with all their keys": SOLUTION + WHOLE_ROWS,
    "a row of scores, as a whole": SOLUTION + WHOLE_ROW,
}


@pytest.fixture(scope="module")
def position(tmp_path_factory):
    """Return where an answer stands between the zero and the reference; three are measured at once."""
    sources = {n: (EXERCISE.folder / "parties" / f"{n}.py").read_text() for n in PARTIES[:2]}
    sources |= RIGHT | WRONG
    measured_together = [[*PARTIES[:2], *FIRST, *WRONG], LATER]
    folder, found = tmp_path_factory.mktemp("ex10"), dict[str, float]()

    def measure(names: list[str]) -> None:
        with Nursery() as nursery:
            for three in batched(names):
                texts = [sources[n] for n in three]
                found.update(zip(three, peaks(nursery, folder, texts), strict=True))

    def of(name: str) -> float:
        for names in measured_together:
            if names[0] not in found and (name in names or names[0] in PARTIES):
                measure(names)
        return compute_memory_position(found["zero"], found["reference"], found[name])

    return of


def batched(names: list[str]) -> list[list[str]]:
    """Threes of names; the last names fill up a three that is not whole."""
    return [
        names[i : i + 3] if i + 3 <= len(names) else names[-3:] for i in range(0, len(names), 3)
    ]


def peaks(nursery: Nursery, folder: Path, sources: list[str]) -> list[float]:
    """The bytes of three answers, in the places of the parties and the student."""
    (folder / "parties").mkdir(exist_ok=True)
    for party, source in zip(PARTIES[:2], sources[:2], strict=True):
        (folder / "parties" / f"{party}.py").write_text(source)
    contest = Contest(
        exercise=replace(EXERCISE, folder=folder, limits=PATIENT), case=suite_runner.find_suite_speed_case(EXERCISE),
        answer=text(sources[2]), nursery=nursery, seed=("tiles",),
    )  # fmt: skip
    contest.run_a_set(Plan(rounds=1, warm_up=False), lambda share: None)
    [row] = contest.rows
    return [row[name] for name in PARTIES]


@LINUX
@pytest.mark.parametrize(
    "name", [*FIRST, *(pytest.param(name, marks=pytest.mark.weekly) for name in LATER)]
)
def test_an_answer_in_blocks_keeps_all_points_by_far(position, name):
    assert position(name) > 0.95  # from 0.875 on


@LINUX
@pytest.mark.parametrize("name", WRONG)
def test_an_answer_over_whole_rows_has_none(position, name):
    assert position(name) == 0


@LINUX
@pytest.mark.parametrize("source", [IN_A_FILE, IN_A_PIPE], ids=["in a file", "in a pipe"])
def test_there_is_no_other_place_for_numbers(source, tmp_path, list_open):
    for party in PARTIES[:2]:
        (tmp_path / "parties").mkdir(exist_ok=True)
        (tmp_path / "parties" / f"{party}.py").write_text(SOLUTION)
    with Nursery() as nursery:
        contest = Contest(
            exercise=replace(EXERCISE, folder=tmp_path), case=suite_runner.find_suite_speed_case(EXERCISE),
            answer=text("import numpy as np\n" + SOLUTION + source),
            nursery=nursery, seed=("tiles",),
        )  # fmt: skip
        with pytest.raises(StudentFault, match=r"Operation not permitted|No usable temporary"):
            contest.run_a_set(Plan(rounds=1, warm_up=False), lambda share: None)
