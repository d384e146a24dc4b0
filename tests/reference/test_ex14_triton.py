"""Oracle, yardstick and solution of ex14 agree, and PyTorch's own operators agree with them."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

from grader.core import catalog
from grader.core.catalog import ROOT
from grader.worker.parent.in_process import load_file_without_wall
from reference import ex14_triton as reference
from reference.expected import f64

pytest.importorskip("triton", reason="the extra `gpu` is not installed")
EXERCISE = catalog.find_catalog_exercise("ex14_triton")
solution = load_file_without_wall(
    ROOT / "solutions" / "ex14_triton.py", "solution_ex14", EXERCISE.prelude
)

TOLERANCE = {torch.float32: 2e-6, torch.float16: 4e-3}
DTYPES = list(TOLERANCE)
# Around the solution's tiles of 128 and 64 queries and 128, 64 and 32 keys.
SIZES = [(1, 1), (3, 200), (31, 33), (64, 32), (65, 96), (128, 128), (129, 65), (200, 17), (2, 0)]


def draw(*shape, dtype=torch.float32, seed=14):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def qkv(q_len, k_len, width=16, lead=(1, 2), dtype=torch.float32):
    lengths = enumerate((q_len, k_len, k_len))
    return [draw(*lead, length, width, dtype=dtype, seed=i) for i, length in lengths]


def close(got, want, atol):
    torch.testing.assert_close(f64_tensor(got), f64_tensor(want), rtol=0, atol=atol)


def f64_tensor(x):
    return torch.as_tensor(x, dtype=torch.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 1024), (2, 1025), (0, 4), (4, 0)])
def test_softmax_is_that_of_pytorch(shape, dtype):
    x = draw(*shape, dtype=dtype)
    expected, got = reference.softmax(x), solution.softmax(x)
    assert got.dtype == expected.plain.dtype == dtype
    close(expected.exact, x.double().softmax(-1), 1e-15)
    close(expected.plain, expected.exact, TOLERANCE[dtype])
    close(got, expected.exact, TOLERANCE[dtype])


def test_a_row_of_minus_infinity_is_zero_and_the_rows_beside_it_are_not():
    x = draw(3, 7)
    x[1], x[2, 3] = -torch.inf, -torch.inf
    expected = reference.softmax(x)
    for y in (expected.exact, expected.plain, solution.softmax(x)):
        close(y[1], np.zeros(7), 0)
        close(y[[0, 2]].sum(-1), np.ones(2), 1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("q_len", "k_len"), SIZES)
def test_attention_is_that_of_the_fused_operator(q_len, k_len, causal):
    q, k, v = qkv(q_len, k_len)
    expected = reference.flash_attention(q, k, v, causal)
    keep = torch.ones(q_len, k_len, dtype=torch.bool)
    keep = keep.tril(k_len - q_len) if causal else keep
    if k_len:
        fused = F.scaled_dot_product_attention(*(x.double() for x in (q, k, v)), keep)
        close(expected.exact, fused, 1e-12)
    close(expected.plain, expected.exact, TOLERANCE[torch.float32])
    close(solution.flash_attention(q, k, v, causal), expected.exact, TOLERANCE[torch.float32])


def test_causal_is_aligned_as_pytorchs_lower_right():
    q, k, v = qkv(3, 9)
    fused = F.scaled_dot_product_attention(q, k, v, causal_lower_right(3, 9))
    close(solution.flash_attention(q, k, v, causal=True), fused, 1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [16, 32, 64, 128])
def test_every_width_has_tiles_of_its_own(width, dtype, causal):
    q, k, v = qkv(130, 140, width, (1, 1), dtype)
    expected = reference.flash_attention(q, k, v, causal)
    got = solution.flash_attention(q, k, v, causal)
    assert got.dtype == expected.plain.dtype == dtype
    close(f64(got), expected.exact, TOLERANCE[dtype])
    close(f64(expected.plain), expected.exact, 2 * TOLERANCE[dtype])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [0.6, 8.0, 0.0, -0.7])
def test_any_scale_is_honoured(scale, causal):
    q, k, v = qkv(40, 70)
    expected = reference.flash_attention(q, k, v, causal, scale)
    close(solution.flash_attention(q, k, v, causal, scale), expected.exact, 1e-4)


def test_strides_batches_and_heads_are_kept_apart():
    base = draw(2, 20, 3, 32)
    q, k = base[..., ::2].transpose(1, 2), base[:, :, :1, :16].transpose(1, 2).expand(2, 3, 20, 16)
    v, before = base.transpose(1, 2)[..., 16:], base.clone()
    expected = reference.flash_attention(q, k, v)
    close(solution.flash_attention(q, k, v), expected.exact, 2e-6)
    assert torch.equal(base, before)


def test_what_is_hidden_has_no_influence():
    q, k, v = qkv(70, 70)
    clean = solution.flash_attention(q, k, v, causal=True)[:, :, :66]
    k[:, :, 66:], v[:, :, 66:] = torch.nan, 1e30
    assert torch.equal(solution.flash_attention(q, k, v, causal=True)[:, :, :66], clean)


def test_products_of_256s_do_not_overflow():
    loud = torch.full((1, 1, 5, 32), 256.0, dtype=torch.float16)
    v = draw(1, 1, 5, 32, dtype=torch.float16)
    close(f64(solution.flash_attention(loud, loud, v)), f64(v).mean(-2, keepdims=True)
          .repeat(5, -2), 1e-3)  # fmt: skip
