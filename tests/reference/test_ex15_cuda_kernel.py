"""The oracle of ex15 against PyTorch's own operator, and the solution against the oracle."""

import pytest
import torch
import torch.nn.functional as F

import reference.ex15_cuda_kernel as reference
from grader.core import catalog
from grader.diagnosis import solution_modules
from grader.judging import agree

EXERCISE = catalog.find_catalog_exercise("ex15_cuda_kernel")
SIZES = [(1, 1, 1, 1), (3, 7, 40, 31), (2, 40, 7, 64), (1, 33, 33, 128), (2, 64, 96, 4)]


def drawn(heads, q_len, k_len, width):
    generator = torch.Generator().manual_seed(heads + 10 * q_len + k_len)
    return [torch.randn(heads, n, width, generator=generator) for n in (q_len, k_len, k_len)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_the_oracle_is_pytorchs_operator(size, causal):
    q, k, v = (x.double() for x in drawn(*size))
    keep = torch.ones(size[1], size[2], dtype=torch.bool).tril(size[2] - size[1])
    seen = keep.any(-1) if causal else torch.ones(size[1], dtype=torch.bool)
    right = F.scaled_dot_product_attention(q, k, v, keep if causal else None, scale=0.3)
    found = torch.from_numpy(reference.naive_attention(q, k, v, 0.3, causal).exact)
    assert torch.allclose(found[:, seen], right[:, seen], atol=1e-12)
    assert (found[:, ~seen] == 0).all()


@pytest.mark.parametrize("name", ["naive_attention", "tiled_attention"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_the_solution_agrees_with_the_oracle(name, size, causal):
    asked = (*drawn(*size), -0.4, causal)
    agree(
        getattr(solution_modules.load_solution_for_judging(EXERCISE), name)(*asked),
        reference.naive_attention(*asked),
    )


def test_the_last_row_is_that_of_all_rows():
    q, k, v = (x[0] for x in drawn(1, 5, 9, 6))
    whole = reference.naive_attention(q[None], k[None], v[None], 0.3, False)
    agree(reference.last_row(q[-1], k, v, 0.3).plain, whole.exact[0, -1])
