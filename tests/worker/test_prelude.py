"""What a prelude readies is there when the submission runs, behind every wall."""

import pytest
import torch

from grader.core import catalog
from grader.worker.child.chain import Chain
from grader.worker.parent.faults import AnswerRaised, NurseryFailed, UnmetRequirement, WorkerDied
from grader.worker.parent.in_process import call_without_wall, load_file_without_wall
from tests.worker.asking import call, worker

PRELUDE = """
import math
math.answer = 42
kept = {"asked": 0}

def count():
    kept["asked"] += 1
    return math.answer

math.count = count
"""
SOURCE = """
import math
import os

first = math.answer

def ask():
    return math.count()

def end():
    os._exit(0)
"""


def test_it_runs_before_the_submission_and_keeps_what_the_suite_asks_for(nursery):
    with worker(nursery, SOURCE, prelude=PRELUDE) as (client, _):
        assert client.get(None, "first") == 42
        assert [call(client, "ask"), call(client, "ask")] == [42, 42]
        assert client.told("kept") == {"asked": 2}


def test_it_runs_again_in_a_fresh_worker(nursery):
    with worker(nursery, SOURCE, prelude=PRELUDE) as (client, _):
        call(client, "ask")
        with pytest.raises(WorkerDied):
            call(client, "end")
        assert call(client, "ask") == 42
        assert client.told("kept") == {"asked": 1}


def test_it_leaves_no_name_in_the_submission(nursery):
    with worker(nursery, "def names(): return sorted(globals())", prelude=PRELUDE) as (client, _):
        assert not {"kept", "count", "math"} & set(call(client, "names"))


def test_what_it_needs_is_said_before_anything_of_the_submission_runs(nursery):
    with (
        worker(nursery, "1 / 0", prelude="needs = 'needs a telescope'") as (_, supervisor),
        pytest.raises(UnmetRequirement, match="needs a telescope"),
    ):
        supervisor.load()


def test_a_prelude_that_fails_is_a_fault_of_ours(nursery):
    with (
        worker(nursery, SOURCE, prelude="1 / 0") as (_, supervisor),
        pytest.raises(NurseryFailed, match=r"prelude of ex99_test failed \(ZeroDivisionError"),
    ):
        supervisor.load()


def test_in_our_own_process_it_runs_once(tmp_path):
    path = tmp_path / "answer.py"
    path.write_text(SOURCE)
    clients = [
        call_without_wall(load_file_without_wall(path, "answer", PRELUDE), PRELUDE)
        for _ in range(2)
    ]
    for client in clients:
        call(client, "ask")
    assert [client.told("kept") for client in clients] == [{"asked": 2}] * 2


COMPUTES = """
import torch

def moves(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    y.copy_(x.mT.contiguous().mT)
    return torch.cat([y[..., :1], y[..., 1:]], -1).view(x.shape)

def adds(x): return x + x
def multiplies(x): return x @ x.mT
def exponentiates(x): return x.exp()
def reads(x): return float(x[0, 0])
def branches(x): return bool(x.any())
def prints(x): return f"{x}"
def scripts(x): return torch.jit.CompilationUnit("def f(x):\\n    return x.relu()\\n").f(x)
def attends(q, k, v): return v * 2
def passes_on(q, k, v): return q.clone()
"""
REFUSED = catalog.FORBIDDEN_GROUPS["arithmetic"]


@pytest.fixture(scope="module")
def arithmetic(nursery):
    refused = [*(f"aten::{o}" for o in REFUSED[2]), *(n for n in REFUSED[1] if n[-1] != "*")]
    with worker(nursery, COMPUTES, refuse=refused) as (client, _):
        yield client


@pytest.mark.parametrize(
    "name", ["adds", "multiplies", "exponentiates", "reads", "branches", "prints", "scripts"]
)
def test_where_only_kernels_compute_a_function_does_not(arithmetic, name):
    with pytest.raises(AnswerRaised, match=r"is not allowed in this exercise|in the TorchScript"):
        call(arithmetic, name, torch.randn(2, 3))


def test_where_only_kernels_compute_a_function_still_moves_numbers(arithmetic):
    x = torch.randn(2, 3)
    assert torch.equal(call(arithmetic, "moves", x), x)


def test_a_chain_computes_between_its_links_where_the_submission_may_not(arithmetic):
    chain = Chain(seed=1, shape=(1, 2, 4, 8), dtype="float32", links=3, device="cpu")
    right = chain.run(lambda q, k, v: q)
    assert torch.equal(arithmetic.chain("passes_on", chain, {}), right)
    with pytest.raises(AnswerRaised, match="is not allowed in this exercise"):
        arithmetic.chain("attends", chain, {})
