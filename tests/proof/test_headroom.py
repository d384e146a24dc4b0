"""No right answer comes near to being rejected."""

from grader.authoring.headroom import measure_headroom
from grader.authoring.headroom_table import build_headroom_table
from grader.authoring.proof_store import ProofStore
from grader.worker.parent import requirements
from tests.proof.conftest import EXERCISES

SEEDS = 3  # the weekly workflow asks more, and the variants too
SHOWN = f"{SEEDS} seeds"
HERE = [
    e
    for e in EXERCISES
    if not requirements.find_unmet_worker_requirement(
        requirements.list_worker_requirements(e, on_cuda=False)
    )
]


def test_the_solutions_keep_far_from_their_limits():
    store = ProofStore()
    waiting = [e for e in HERE if SHOWN not in store.read_results("headroom", e)]
    found = measure_headroom(waiting, SEEDS, variants=False)
    assert [
        line for line in build_headroom_table(found) if "BEYOND" in line or "REJECTED" in line
    ] == []
    assert found.right
    assert found.cases > len(waiting) or not waiting
    for exercise in waiting:
        store.write_results("headroom", exercise, {SHOWN: {"right": True}})
