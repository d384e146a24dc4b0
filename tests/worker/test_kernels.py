"""Triton's kernels without a GPU: they run behind every wall, and nowhere outside their tensors."""

from importlib.metadata import version

import pytest
import torch
from packaging.version import Version

from grader.core import catalog
from grader.worker.parent.faults import AnswerRaised
from tests.worker.asking import call, worker

pytest.importorskip("triton", reason="the extra `gpu` is not installed")
EXERCISE = catalog.find_catalog_exercise("ex14_triton")
SOURCE = """
import torch
import triton
import triton.language as tl

@triton.jit
def copies(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n + cols
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=cols < n), mask=cols < n)

@triton.jit
def loads_without_a_mask(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n + cols
    tl.store(y_ptr + at, tl.load(x_ptr + at), mask=cols < n)

@triton.jit
def stores_without_a_mask(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n + cols
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=cols < n))

@triton.jit
def masks_one_too_many(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n + cols
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=cols <= n), mask=cols < n)

@triton.jit
def begins_too_early(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n + cols
    tl.store(y_ptr + at, tl.load(x_ptr + at - 2, mask=cols < n), mask=cols < n)

@triton.jit
def forgets_the_edge_of_a_block(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (3, n), (n, 1), (0, 0), (4, BLOCK), (1, 0))
    tl.store(y_ptr, tl.sum(tl.load(x)))

@triton.jit
def describes_too_much(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[3 * n + 5], strides=[1], block_shape=[4 * BLOCK])
    tl.store(y_ptr, tl.sum(x.load([0])))

@triton.jit
def adds_elsewhere(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.atomic_add(y_ptr + 3 * n + tl.program_id(0), 1.0)

@triton.jit
def compares_in_a_chain(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    at: tl.tensor = tl.program_id(0) * n + cols
    inside = (0 <= cols) & (cols < n)
    if 0 < n <= BLOCK:
        tl.store(y_ptr + at, tl.load(x_ptr + at, mask=inside), mask=inside)

@triton.jit
def fails(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.arange(0, 3)

KERNELS = {kernel.__name__: kernel for kernel in (
    copies, loads_without_a_mask, stores_without_a_mask, masks_one_too_many, begins_too_early,
    forgets_the_edge_of_a_block, describes_too_much, adds_elsewhere, fails, compares_in_a_chain,
)}

def run(name, x):
    y = torch.empty(x.shape, dtype=x.dtype)
    KERNELS[name][(len(x),)](x, y, x.shape[1], BLOCK=16)
    return y

def knows_numpy():
    return "np" in globals()
"""
OUTSIDE = {  # what becomes of x and y of 3 rows of 13
    "loads_without_a_mask": "program (2, 0, 0), reads 3 elements past the end of x_ptr (3 x 13)",
    "stores_without_a_mask": "program (2, 0, 0), writes 3 elements past the end of y_ptr (3 x 13)",
    "masks_one_too_many": "program (2, 0, 0), reads 1 element past the end of x_ptr (3 x 13)",
    "begins_too_early": "program (0, 0, 0), reads 2 elements before the beginning of x_ptr",
    "forgets_the_edge_of_a_block": "program (0, 0, 0), reads 16 elements past the end of x_ptr",
    "describes_too_much": "program (0, 0, 0), reads 5 elements past the end of x_ptr (3 x 13)",
    "adds_elsewhere": "program (0, 0, 0), writes 1 element past the end of y_ptr (3 x 13)",
}


@pytest.fixture(scope="module")
def ready(nursery):
    with worker(
        nursery, SOURCE, refuse=EXERCISE.refused, preload=EXERCISE.preload,
        prelude=EXERCISE.prelude, memory_gib=EXERCISE.limits.memory_gib,
    ) as ready:  # fmt: skip
        yield ready


@pytest.fixture(scope="module")
def client(ready):
    return ready[0]


HAS_BLOCK_POINTERS = Version(version("triton")) < Version("3.8")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                name == "forgets_the_edge_of_a_block" and not HAS_BLOCK_POINTERS,
                reason="Triton 3.8 removed block pointers",
            ),
        )
        for name in OUTSIDE
    ],
)
def test_an_access_outside_is_told_with_its_program_and_its_line(client, name):
    with pytest.raises(AnswerRaised) as caught:
        call(client, "run", name, torch.randn(3, 13))
    assert caught.value.kind == "IndexError"
    assert caught.value.message.startswith(f"{name}, {OUTSIDE[name]}")
    line = SOURCE.splitlines()[caught.value.line - 1]
    assert "load(" in line or "store(" in line or "atomic" in line


def test_a_view_is_no_larger_than_itself(client):
    whole = torch.randn(4, 13)
    with pytest.raises(AnswerRaised, match=r"3 elements past the end of x_ptr \(3 x 13\)"):
        call(client, "run", "loads_without_a_mask", whole[:3])


def test_what_a_kernel_raises_itself_has_its_own_name_and_line(client):
    with pytest.raises(AnswerRaised, match="power of 2") as caught:
        call(client, "run", "fails", torch.randn(3, 13))
    assert "tl.arange(0, 3)" in SOURCE.splitlines()[caught.value.line - 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_kernel_that_stays_inside_runs_and_is_counted(client, dtype):
    before = client.told("launches").get("copies", 0)
    for rows in (1, 3, 5):
        x = torch.randn(rows, 13).to(dtype)
        assert torch.equal(call(client, "run", "copies", x), x)
    assert client.told("launches")["copies"] - before == 3
    assert client.told("largest")["copies"] == 16  # what one program asks for, masked or not


def test_what_rewriting_a_kernel_adds_is_there_when_it_runs(client):
    x = torch.randn(3, 13)
    assert torch.equal(call(client, "run", "compares_in_a_chain", x), x)


def test_triton_leaves_none_of_its_names_in_the_submission(client):
    call(client, "run", "copies", torch.randn(3, 13))
    assert call(client, "knows_numpy") is False


def test_a_warning_of_triton_is_not_what_the_submission_printed(ready, client):
    with pytest.raises(AnswerRaised):  # the kernel is wrong, and block pointers are deprecated
        call(client, "run", "forgets_the_edge_of_a_block", torch.randn(3, 13))
    assert ready[1].output() == ""
