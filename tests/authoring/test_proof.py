"""The proof asks only what changed, and tells what does not hold."""

import shutil
from dataclasses import replace

import pytest

from grader.authoring import proof, proof_store
from grader.authoring.mutants import CaughtMistake
from grader.authoring.proof import Proof, ProofTask, run_proofs
from grader.authoring.proof_store import ProofStore
from grader.authoring.proof_table import count_proof_results, list_unproved_mistake_problems
from grader.core import catalog
from grader.core.records import Verdict
from grader.judging import suite_runner

EXERCISE = catalog.find_catalog_exercise("ex00")
MISTAKE = suite_runner.list_suite_mistakes(EXERCISE)[0]
CAUGHT = {
    "verdict": "failed",
    "says": "is wrong",
    "earned": [],
    "faults": [],
    "named": [MISTAKE.id],
}


@pytest.fixture
def run(monkeypatch):
    """The tasks that were run, in place of processes."""
    tasks: list[ProofTask] = []

    def pretend(found):
        tasks.extend(found)
        return ((task, dict.fromkeys(task.names, CAUGHT)) for task in found)

    monkeypatch.setattr(proof, "_run_proof_tasks", pretend)
    return tasks


def test_what_was_proven_is_not_asked_again(run, tmp_path):
    first = run_proofs([EXERCISE], ("mistakes",), ProofStore(tmp_path))
    asked = [name for task in run for name in task.names]
    assert asked == [m.id for m in suite_runner.list_suite_mistakes(EXERCISE)]
    run.clear()
    assert run_proofs([EXERCISE], ("mistakes",), ProofStore(tmp_path)) == first
    assert run == []


def test_what_was_named_need_not_be_caught_again(run, tmp_path):
    run_proofs([EXERCISE], ("mistakes",), ProofStore(tmp_path))
    run.clear()
    assert run_proofs([EXERCISE], ("caught",), ProofStore(tmp_path))[0].results
    assert run == []


def test_without_a_store_everything_is_asked(run):
    for _ in range(2):
        run.clear()
        run_proofs([EXERCISE], ("mistakes",))
        assert run


def test_what_was_broken_off_is_gone_on_with(run, tmp_path):
    ProofStore(tmp_path).write_results("mistakes", EXERCISE, {MISTAKE.id: CAUGHT})
    run_proofs([EXERCISE], ("mistakes",), ProofStore(tmp_path))
    assert MISTAKE.id not in {name for task in run for name in task.names}
    assert run


@pytest.mark.parametrize("name", ["test_plain_python.py", "mistakes/matmul.py", "exercise.toml"])
def test_a_changed_suite_is_asked_again(tmp_path, name):
    folder = tmp_path / EXERCISE.slug
    shutil.copytree(EXERCISE.folder, folder)
    copy = replace(EXERCISE, folder=folder)
    before = proof_store.digest_proof(copy)
    (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
    assert proof_store.digest_proof(copy) != before


def test_the_solution_and_the_versions_count(tmp_path, monkeypatch):
    before = proof_store.digest_proof(EXERCISE)
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / EXERCISE.file).write_text("# another\n")
    assert proof_store.digest_proof(replace(EXERCISE, home=tmp_path)) != before
    proof_store._digest_code_of_proof.cache_clear()
    monkeypatch.setattr(proof_store, "_read_versions_of_proof", lambda: {"torch": "another"})
    try:
        assert proof_store.digest_proof(EXERCISE) != before
    finally:
        proof_store._digest_code_of_proof.cache_clear()


def test_a_store_that_cannot_be_read_is_as_good_as_none(tmp_path):
    one = ProofStore(tmp_path)
    one.write_results("mistakes", EXERCISE, {"a": CAUGHT})
    [file] = tmp_path.iterdir()
    file.write_text(file.read_text()[:-9])
    assert one.read_results("mistakes", EXERCISE) == {}


@pytest.mark.parametrize(
    "change, says",
    [
        ({}, []),
        ({"verdict": "passed"}, [f"{MISTAKE.id} is passed by {MISTAKE.caught_by}"]),
        ({"verdict": "blocked"}, [f"{MISTAKE.id} is blocked by {MISTAKE.caught_by}"]),
        ({"earned": ["test_x"]}, [f"{MISTAKE.id}, a null answer, passes test_x"]),
        ({"faults": ["test_x: no"]}, [f"{MISTAKE.id} is a fault of ours: test_x: no"]),
        ({"named": ["another"]}, [f"{MISTAKE.id} is called another"]),
        ({"named": []}, []),
    ],
)
def test_what_does_not_hold_about_a_mistake_is_told(change, says):
    one = CaughtMistake.from_dict(MISTAKE, CAUGHT | change)
    assert list_unproved_mistake_problems(one) == says
    assert one.right == (one.verdict is Verdict.FAILED and not one.earned and not one.faults)


@pytest.mark.parametrize(
    "kind, result, says",
    [
        ("variants", {"lost": ["test_x: why"]}, "ex00_plain_python variants it: test_x: why"),
        ("solution", {"lost": ["test_x: why"]}, "ex00_plain_python solution it: test_x: why"),
        ("skeleton", {"lost": ["it earns 3 points"]}, "ex00_plain_python skeleton it: it earns"),
        ("drills", {"fault": ""}, "ex00_plain_python drill it is right already"),
    ],
)
def test_whatever_else_does_not_hold_is_told(kind, result, says):
    found = count_proof_results([Proof(kind=kind, exercise=EXERCISE, results={"it": result})])
    assert [line[: len(says)] for line in found.wrong] == [says]


def test_a_mistake_is_proven_for_real():
    result = proof.run_proof_task(
        ProofTask(kind="mistakes", slug=EXERCISE.slug, names=(MISTAKE.id,))
    )
    assert CaughtMistake.from_dict(MISTAKE, result[MISTAKE.id]).right
