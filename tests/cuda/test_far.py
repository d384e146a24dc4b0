"""Arrays too large to exist: which blocks are run, and what is said of the last row."""

from functools import cache

import pytest
import torch

from tests.cuda.kernels import compiled, file_with

HEAD = "__global__ void f(const float* q, float* out, size_t rows, int D) {\n"
EACH = "for (int d = 0; d < D; ++d) out[row * D + d] = q[row * D + d];"
THREAD = "  size_t row = PLACE; if (row < rows) "
CALL = "(q, out, (size_t)heads * Lq, D);"
PLAIN = "blockIdx.x * (size_t)blockDim.x + threadIdx.x"
ALL = "size_t blocks = ((size_t)heads * Lq + 255) / 256; "


def rows(place):
    return f"{THREAD.replace('PLACE', place)}{EACH}\n"


LOOP = f"  for (TYPE row = {PLAIN}; row < rows; row += gridDim.x * blockDim.x)\n    {EACH}\n"

# name: a kernel's body and its launch
FOUND = {
    "the last block": (rows(PLAIN), f"{ALL}f<<<blocks, 256>>>{CALL}"),
    "the first block": (
        rows(f"rows - 1 - ({PLAIN})").replace("row < rows", "row < rows && row + 1"),
        f"{ALL}f<<<blocks, 256>>>{CALL}",
    ),
    "a block behind which others are idle": (
        rows("(blockIdx.y * (size_t)gridDim.x + blockIdx.x) * 256 + threadIdx.x"),
        f"{ALL}f<<<dim3(64, (blocks + 63) / 64), 256>>>{CALL}",
    ),
    "a block behind which others work": (
        rows("((blockIdx.x ^ 4) * (size_t)blockDim.x + threadIdx.x)"),
        f"{ALL}f<<<(blocks + 7) / 8 * 8, 256>>>{CALL}",
    ),
}
UNKNOWN = {
    "a loop over all rows": (
        LOOP.replace("TYPE", "size_t"), f"f<<<1000, 256>>>{CALL}",
    ),
    "a large copy": (
        rows(PLAIN), f"float* t; cudaMalloc(&t, (size_t)heads * Lq * 4); {ALL}f<<<blocks, 256>>>{CALL}",
    ),
}  # fmt: skip
LOST = {
    "a place in 32 bits": (
        rows(PLAIN).replace("out[row * D", "out[(unsigned)row * (unsigned)D"),
        f"{ALL}f<<<blocks, 256>>>{CALL}",
    ),
    "only the first rows": (rows(PLAIN), f"f<<<100, 256>>>{CALL}"),
}
IN_INT = (LOOP.replace("TYPE", "int"), f"f<<<64, 256>>>{CALL}")


@cache
def modules():
    """All kernels of this page, compiled once."""
    kernels = FOUND | UNKNOWN | LOST | {"in int": IN_INT}
    return compiled({n: file_with(f"{HEAD}{body}}}", call) for n, (body, call) in kernels.items()})


def last_row(name):
    q = torch.arange(128.0)
    return modules()[name].last_row("tiled_attention", q, q[None], q[None], 59_400, 1025, 0.1)


@pytest.mark.parametrize("name", FOUND)
def test_the_last_row_is_found(name):
    assert last_row(name).tolist() == list(range(128))


@pytest.mark.weekly
@pytest.mark.parametrize("name", UNKNOWN)
def test_where_too_much_would_have_to_be_run_nothing_is_known(name):
    assert last_row(name) is None


@pytest.mark.parametrize("name", LOST)
def test_a_row_that_no_block_writes_is_told_from_one_that_was_not_run(name):
    assert torch.isnan(last_row(name)).all()


def test_a_loop_of_few_blocks_is_followed_to_its_overflow():
    with pytest.raises(Exception, match="does not fit into its type"):
        last_row("in int")
