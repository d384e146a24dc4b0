"""What ex10 measures: answers in blocks keep their points, answers over whole rows lose them."""

from dataclasses import replace
from pathlib import Path

import pytest

from grader import catalog
from grader.course.mutants import variant_source
from grader.judging import suite
from grader.timing.contest import Contest
from grader.timing.race import Plan
from grader.timing.statistics import PARTIES, memory_position
from grader.worker.nursery import Nursery
from tests.timing.contests import LINUX, text

EXERCISE = catalog.find("ex10_online_softmax")
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
WHOLE_ROW = """

def online_softmax(x, block_size):
    row_max = x.amax(-1)
    return row_max, (x - row_max[..., None]).exp_().sum(-1)
"""


def variants() -> dict[str, str]:
    """The solution with a variant of each function in the place of its own, by their names."""
    found: dict[str, list[str]] = {name: [] for name in EXERCISE.functions}
    for variant in suite.variants(EXERCISE):
        found[variant.of].append(variant.id)
    written = {v.id: variant_source(EXERCISE, v)[len(SOLUTION) :] for v in suite.variants(EXERCISE)}
    most = max(map(len, found.values()))
    chosen = [[ids[i % len(ids)] for ids in found.values()] for i in range(most)]
    return {" and ".join(ids): SOLUTION + "".join(written[i] for i in ids) for ids in chosen}


RIGHT = dict([("the solution", SOLUTION), *variants().items()][: None if ALL else 2])
WRONG = {
    "some queries, with all their keys": SOLUTION + WHOLE_ROWS,
    "a row of scores, as a whole": SOLUTION + WHOLE_ROW,
}


@pytest.fixture(scope="module")
def positions(tmp_path_factory) -> dict[str, float]:
    """Where each answer stands between the zero and the reference; three are measured at once."""
    sources = {n: (EXERCISE.folder / "parties" / f"{n}.py").read_text() for n in PARTIES[:2]}
    sources |= RIGHT | WRONG
    folder, names, found = tmp_path_factory.mktemp("ex10"), iter(sources), dict[str, float]()
    with Nursery() as nursery:
        for three in zip(names, names, names, strict=True):
            found |= zip(three, peaks(nursery, folder, [sources[n] for n in three]), strict=True)
    return {n: memory_position(found["zero"], found["reference"], found[n]) for n in sources}


def peaks(nursery: Nursery, folder: Path, sources: list[str]) -> list[float]:
    """The bytes of three answers, in the places of the parties and the student."""
    (folder / "parties").mkdir(exist_ok=True)
    for party, source in zip(PARTIES[:2], sources[:2], strict=True):
        (folder / "parties" / f"{party}.py").write_text(source)
    contest = Contest(
        exercise=replace(EXERCISE, folder=folder), case=suite.speed_case(EXERCISE),
        answer=text(sources[2]), nursery=nursery, seed=("tiles",),
    )  # fmt: skip
    contest.run_a_set(Plan(rounds=1, warm_up=False), lambda share: None)
    [row] = contest.rows
    return [row[name] for name in PARTIES]


@LINUX
@pytest.mark.parametrize("name", RIGHT)
def test_an_answer_in_blocks_keeps_all_points_by_far(positions, name):
    assert positions[name] > 0.95  # from 0.875 on


@LINUX
@pytest.mark.parametrize("name", WRONG)
def test_an_answer_over_whole_rows_has_none(positions, name):
    assert positions[name] == 0
