"""The tolerances, tried: thousands of right answers pass, and a scale 1 % off never does.

In bfloat16 it is 2 %: rounding alone, of weights and output, moves outputs there as far as 1 % does.

Each test function holds one way of computing attention to the rules over shapes, masks, dtypes and
draws; the counts are printed with `make test ARGS='tests/judging/test_tolerances.py -s'`.
"""

import math
import zlib
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import reference
from grader.judging.tolerance import (
    as_judged_numbers,
    compute_rounding_tolerance,
    judge_numbers,
)
from reference import Expected
from reference.expected import Errors, f64

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
# leading, Lq, Lk, D, Dv
SHAPES = [
    ((), 1, 1, 1, 1), ((3,), 1, 17, 8, 8), ((2, 3), 17, 17, 16, 16), ((2,), 65, 65, 32, 32),
    ((2, 2), 5, 33, 64, 24), ((1, 4), 33, 5, 64, 64), ((1, 2), 96, 96, 64, 64), ((1,), 3, 257, 8, 4),
    ((2, 2), 64, 64, 20, 20), ((), 40, 40, 128, 128), ((4,), 16, 16, 4, 70), ((1, 2), 1, 300, 64, 64),
]  # fmt: skip
MASKS = ["none", "causal", "random", "padding", "empty rows"]
DRAWS = 2
CASES = list(product(SHAPES, MASKS, DTYPES, range(DRAWS)))


@cache
def inputs(shape, mask, dtype, draw):
    leading, q_len, k_len, width, value_width = shape
    generator = torch.Generator().manual_seed(zlib.crc32(repr((shape, mask, draw)).encode()))
    q, k, v = (
        torch.randn(*leading, n, d, generator=generator, dtype=torch.float64).to(dtype)
        for n, d in ((q_len, width), (k_len, width), (k_len, value_width))
    )
    positions = torch.arange(q_len)[:, None] + k_len - q_len
    keep = {
        "none": None,
        "causal": torch.arange(k_len) <= positions,
        "random": torch.rand(q_len, k_len, generator=generator) < 0.7,
        "padding": (torch.arange(k_len) < max(1, k_len - 3)).expand(q_len, k_len),
        "empty rows": (torch.rand(q_len, 1, generator=generator) < 0.5).expand(q_len, k_len),
    }[mask]
    return q, k, v, keep


@cache
def expected(shape, mask, dtype, draw):
    output, _ = reference.scaled_dot_product_attention(*inputs(shape, mask, dtype, draw))
    return output


def wide(*xs: Tensor) -> list[Tensor]:
    """Half precision raised to float32."""
    return [x.to(torch.promote_types(x.dtype, torch.float32)) for x in xs]


def weights_of(scores: Tensor, keep: Tensor | None) -> Tensor:
    if keep is None:
        return scores.softmax(-1)
    return scores.masked_fill(~keep, -torch.inf).softmax(-1).nan_to_num()


def textbook(q, k, v, keep, scale):
    q, k, v = wide(q, k, v)
    return weights_of(q @ k.mT * scale, keep) @ v


def einsum(q, k, v, keep, scale):
    q, k, v = wide(q, k, v)
    scores = torch.einsum("...id,...jd->...ij", q * scale, k)
    return torch.einsum("...ij,...jd->...id", weights_of(scores, keep), v)


def in_float64(q, k, v, keep, scale):
    return textbook(q.double(), k.double(), v.double(), keep, scale)


def divided_last(q, k, v, keep, scale):
    q, k, v = wide(q, k, v)
    scores = q @ k.mT * scale
    scores = scores if keep is None else scores.masked_fill(~keep, -1e30)
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    powers = powers if keep is None else powers * keep
    return (powers @ v) / powers.sum(-1, keepdim=True).clamp_min(1e-30)


def query_by_query(q, k, v, keep, scale):
    rows = [
        textbook(q[..., i : i + 1, :], k, v, None if keep is None else keep[i : i + 1], scale)
        for i in range(q.shape[-2])
    ]
    return torch.cat(rows, -2)


def online(q, k, v, keep, scale, block=16):
    q, k, v = wide(q, k, v)
    top = torch.full((*q.shape[:-1], 1), -1e30, dtype=q.dtype)
    total, mixed = torch.zeros_like(top), torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    for start in range(0, k.shape[-2], block):
        part = slice(start, start + block)
        scores = q @ k[..., part, :].mT * scale
        seen = torch.ones_like(scores) if keep is None else keep[:, part].to(q.dtype)
        scores = scores.masked_fill(seen == 0, -1e30)
        higher = torch.maximum(top, scores.amax(-1, keepdim=True))
        powers, shrink = (scores - higher).exp() * seen, (top - higher).exp()
        total = total * shrink + powers.sum(-1, keepdim=True)
        mixed, top = mixed * shrink + powers @ v[..., part, :], higher
    return mixed / total.clamp_min(1e-30)


def fused(q, k, v, keep, scale):
    q, k, v = (x[(None,) * (4 - x.ndim)] for x in (q, k, v))
    mask = keep if keep is None else keep | ~keep.any(-1, keepdim=True)
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return output if keep is None else output.masked_fill(~keep.any(-1, keepdim=True), 0.0)


def answer(way, shape, mask, dtype, draw, factor=1.0):
    q, k, v, keep = inputs(shape, mask, dtype, draw)
    output = way(q, k, v, keep, factor / math.sqrt(q.shape[-1])).to(dtype)
    return as_judged_numbers(output.reshape(*q.shape[:-1], v.shape[-1]))


def rounded_weights(q, k, v, keep, scale):
    narrow, (q, k, v) = q.dtype, wide(q, k, v)
    return weights_of(q @ k.mT * scale, keep).to(narrow).to(v.dtype) @ v


def root_on_both(q, k, v, keep, scale):
    q, k, v = wide(q, k, v)
    root = math.sqrt(scale)
    return weights_of((q * root) @ (k * root).mT, keep) @ v


def powers_of_two(q, k, v, keep, scale):
    q, k, v = wide(q, k, v)
    scores = (q * (scale * math.log2(math.e))) @ k.mT
    powers = (scores - scores.amax(-1, keepdim=True)).exp2() * (1 if keep is None else keep)
    return (powers @ v) / powers.sum(-1, keepdim=True).clamp_min(1e-30)


WAYS = [
    textbook, einsum, in_float64, divided_last, query_by_query, online, fused, rounded_weights,
    root_on_both, powers_of_two,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_right_answer_is_rejected(way):
    rejected = [
        (*case, found)
        for case in CASES
        if (found := judge_numbers(answer(way, *case), expected(*case))) is not None
    ]
    print(f"\n{way.__name__}: {len(CASES)} right answers, {len(rejected)} rejected")
    assert rejected == []


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_large_scores_may_be_rounded_elsewhere(way):
    """Queries and keys for which the textbook's scores of hundreds are exact."""
    rejected = []
    for draw in range(100):
        generator = torch.Generator().manual_seed(draw)
        scores = torch.randn(5, 64, generator=generator)
        scores = scores + 200 * torch.randn(5, 1, generator=generator)
        q, k, v = 8 * scores, torch.eye(64), torch.randn(64, 3, generator=generator)
        right, _ = reference.scaled_dot_product_attention(q, k, v)
        output = way(q, k, v, None, 1 / 8).reshape(5, 3)
        rejected += [draw] if judge_numbers(as_judged_numbers(output), right) else []
    assert rejected == []


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_right_gradient_is_rejected(way):
    cases = [c for c in CASES if c[3] == 0 and c[1] in ("none", "random")]
    rejected = []
    for case in cases:
        q, k, v, keep = inputs(*case)
        upstream = torch.randn(
            *q.shape[:-1], v.shape[-1], generator=torch.Generator().manual_seed(1)
        )
        upstream = upstream.to(q.dtype)
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        output = way(*leaves, keep, 1 / math.sqrt(q.shape[-1])).to(q.dtype).reshape(upstream.shape)
        got = torch.autograd.grad((output * upstream).sum(), leaves)
        right = reference.attention_gradients(q, k, v, keep, upstream=upstream)
        found = [judge_numbers(as_judged_numbers(g), r) for g, r in zip(got, right, strict=True)]
        rejected += [
            (*case, name, f) for name, f in zip("qkv", found, strict=True) if f is not None
        ]
    print(f"\n{way.__name__}: {3 * len(cases)} right gradients, {len(rejected)} rejected")
    assert rejected == []


def enough(shape) -> bool:
    """Whether a scale can tell: many outputs, each a mixture of more than a handful of values.

    Two or three keys share the weight much as before when their scores grow by 1 %.
    """
    leading, q_len, k_len, _, value_width = shape
    return k_len > 8 and math.prod(leading) * q_len * value_width >= 1024


@pytest.mark.parametrize("sign", [1, -1], ids=["up", "down"])
@pytest.mark.parametrize("way", [textbook, in_float64, fused], ids=lambda way: way.__name__)
def test_a_scale_that_is_slightly_off_is_always_rejected(way, sign):
    cases = [c for c in CASES if enough(c[0]) and c[1] != "empty rows"]
    off = {c: 1 + sign * (0.02 if c[2] is torch.bfloat16 else 0.01) for c in cases}
    accepted = [c for c in cases if judge_numbers(answer(way, *c, off[c]), expected(*c)) is None]
    print(f"\n{way.__name__}: {len(cases)} answers with a wrong scale, {len(accepted)} accepted")
    assert accepted == []


def test_there_are_thousands_of_them():
    assert len(CASES) * len(WAYS) >= 3000


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_an_early_verdict_is_that_of_all_rules(dtype):
    """Errors below, at and above what rounding explains, with good and bad yardsticks."""
    draws, found = np.random.default_rng(0), set()
    least = compute_rounding_tolerance(str(dtype).removeprefix("torch."), 1.0)
    for _ in range(2000):
        shape = [(4,), (3, 5), (40, 40)][draws.integers(3)]
        exact = draws.choice([1, 1e-3]) * draws.normal(size=shape)
        plain = torch.as_tensor(exact + least * draws.choice([0, 1, 9]) * draws.normal(size=shape))
        right = Expected(exact, plain.to(dtype), 1.0, gradient=bool(draws.integers(2)))
        got = exact + least * draws.choice([0, 0.05, 0.24, 0.26, 0.9, 1.1, 9]) * (
            draws.choice([-1, 1], shape) if draws.integers(2) else draws.normal(size=shape)
        )
        early, late = judge_numbers(got, right), judge_numbers(got, right, [])
        assert (early is None) == (late is None)
        found.add(early is None)
    assert found == {True, False}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_no_number_that_is_rounded_once_is_pointed_at(dtype):
    """A mean error may be broken by entries of which the first wrong one is not the first."""
    exact = np.random.default_rng(0).random((40, 40))
    plain = torch.as_tensor(exact).to(dtype)
    got = f64(plain)
    got[20:] *= 1 + float(torch.finfo(dtype).eps)
    found = judge_numbers(got, Expected(exact, plain, 1.0))
    assert found is not None
    assert found.measure == "mean error"
    assert found.index[0] >= 20
    assert not found.where[:20].any()


@pytest.mark.parametrize("factor, asked", [(1.0, []), (3.0, [5, 16]), (1e3, [5])])
def test_many_nudged_yardsticks_are_asked_only_where_an_error_is_near(factor, asked):
    """The yardstick has no error, and ones may lose 16 rounding errors."""
    counts = []
    expected = Expected(
        np.ones(2), torch.ones(2), 1.0, nudged=lambda count: counts.append(count) or Errors()
    )
    judge_numbers(1 + np.full(2, factor * compute_rounding_tolerance("float32", 0.3)), expected)
    assert counts == asked
