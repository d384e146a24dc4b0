"""Checks close scores of hundreds, scores far below 0, and inputs that learn alone."""

import math
from functools import partial

import torch
from torch import float32, float64

from grader.judging import Hard, agree, backward
from reference import ex16_paged_cache as reference
from reference import raised

from .both import Both, packed

KEYS, QUERIES = 16, 5
TIES = "output for close scores of hundreds"
LOW = "output for scores far below 0"


def close_scores_agree(student, draw, device, dtype):
    """Compare all three functions where scores of hundreds lie closer than half precision tells."""
    q, k = draw.ties(KEYS, KEYS, dtype)
    v = draw.normal(KEYS, KEYS, dtype=dtype)
    both = Both(student, device, 8, 4, 1, KEYS, dtype)
    old, new = both.add(), both.add()
    both.append(old, k[None], v[None])
    numbers = [old] * QUERIES
    step = q[:QUERIES, None]
    expected = raised(both.step, step, numbers)
    agree(student.paged_attention(step, both.cache, numbers), expected, says=TIES)
    prompt = [x[None] for x in (q, k, v)]
    expected = raised(lambda *x: both.prefill(*x, new, 7), *prompt)
    agree(student.chunked_prefill(*prompt, both.cache, new, 7), expected, says=TIES)
    bounds = [torch.tensor([0, n], device=device) for n in (QUERIES, KEYS)]
    given = step, k[:, None], v[:, None]
    expected = raised(lambda *x: reference.ragged_attention(*x, *bounds), *given)
    agree(student.ragged_attention(*given, *bounds), expected, says=TIES)


def low(draw, rows, keys, width, dtype):
    """Draw queries and keys of very low scores; in float64, below the lowest number of float32."""
    return [x * (1e4 if dtype is float64 else 1.0) for x in draw.low(rows, keys, width, dtype)]


def many(dtype):
    """Return how many keys have very low scores: in half precision more of them would tie."""
    return 300 if dtype.itemsize > 2 else 9


def exactly(answer, dtype):
    """Return the oracle, which computes in float32 what half precision cannot."""
    return partial(raised, answer) if dtype.itemsize == 2 else answer


def low_steps_agree(student, draw, device, dtype=float32):
    """Compare a decoding step of sequences of several lengths where every score is very low."""
    both = Both(student, device, 80, 4, 1, 5, dtype)
    numbers, (q, k) = [], low(draw, 3, many(dtype), 5, dtype)
    for t in (many(dtype), 1, 4):
        numbers.append(both.add())
        both.append(numbers[-1], k[None, :t], draw.normal(1, t, 5, dtype=dtype))
    answer = student.paged_attention(q[:, None], both.cache, numbers)
    agree(answer, exactly(both.step, dtype)(q[:, None], numbers), says=LOW)


def low_packed_agree(student, draw, device, dtype=float32):
    """Compare packed sequences where every score is very low."""
    lens = (2, 3), (many(dtype), 3)
    _, _, v, *bounds = packed(draw, device, *lens, 1, 5, 3, dtype)
    q, k = (x[:, None] for x in low(draw, 5, many(dtype) + 3, 5, dtype))
    answer = student.ragged_attention(q, k, v, *bounds)
    right = exactly(lambda *x: reference.ragged_attention(*x, *bounds), dtype)
    agree(answer, right(q, k, v), says=LOW)


def low_prompts_agree(student, draw, device, dtype=float32):
    """Compare a prompt where every score is very low."""
    both = Both(student, device, 80, 4, 1, 5, dtype)
    n = many(dtype)
    number, (q, k) = both.add(), low(draw, n, n, 5, dtype)
    given = q[None], k[None], draw.normal(1, n, 5, dtype=dtype)
    answer = student.chunked_prefill(*given, both.cache, number, n // 6)
    right = exactly(lambda *x: both.prefill(*x, number, n // 6), dtype)
    agree(answer, right(*given), says=LOW)


def wide_past_agrees(student, draw, device, dtype):
    """Compare queries in half precision with a cache in float32, whose keys no half holds."""
    both = Both(student, device, 8, 4, 2, 8)
    number = both.add()
    both.append(number, 1e5 * draw.normal(2, 9, 8), draw.normal(2, 9, 8))
    says = f"output for q in {dtype} and a cache in float32".replace("torch.", "")
    q = draw.normal(1, 2, 8, dtype=dtype, scale=2e-5)
    expected = raised(both.step, q, [number])
    agree(student.paged_attention(q, both.cache, [number]), expected, says=says)
    given = [draw.normal(2, 5, 8, dtype=dtype, scale=scale) for scale in (2e-5, 1.0, 1.0)]
    expected = raised(lambda *x: both.prefill(*x, number, 3), *given)
    output = student.chunked_prefill(*given, both.cache, number, 3)
    agree(output, expected, says=says)


def each_learns_alone(student, draw, device):
    """Compare the gradient of each of q, k and v where the other two need none."""
    draw.hard(Hard.LEARN)
    *tensors, cu_q, cu_k = packed(draw, device, (3, 2), (5, 2), 2, 4, 3)
    upstream = draw.normal(5, 2, 3, dtype=float32)
    bounds = cu_q, cu_k
    expected = reference.ragged_attention_gradients(*tensors, *bounds, upstream=upstream)
    for name, x, right in zip("qkv", tensors, expected, strict=True):
        x.requires_grad_()
        output = student.ragged_attention(*tensors, *bounds)
        [got] = backward(output, x, upstream=upstream)
        x.requires_grad_(False)
        agree(got, right, says=f"gradient of {name} (which alone learns)")


def small_weights_count(student, device, dtype):
    """Compare outputs in which a weight of exp(-60), or of exp(-300) in float64, counts for its
    large value, in all three functions."""
    score, value = (300.0, 1e130) if dtype is float64 else (60.0, 1e26)
    k, v = (torch.tensor([x, 0.0], dtype=dtype, device=device) for x in (-score, value))
    ones, bounds = torch.ones_like(k), [torch.tensor([0, n], device=device) for n in (1, 2)]
    right = torch.full_like(ones[:1], math.exp(-score) * value)
    says, within = "output for a small weight and a large value", 1e-3 * float(right)
    both = Both(student, device, 2, 4, 1, 1, dtype)
    old, new = both.add(), both.add()
    both.append(old, k[None, :, None], v[None, :, None])
    for output in (
        student.paged_attention(ones[:1, None, None], both.cache, [old]),
        student.ragged_attention(*(x[:, None, None] for x in (ones[:1], k, v)), *bounds),
        student.chunked_prefill(*(x[None, :, None] for x in (ones, k, v)), both.cache, new, 2),
    ):
        agree(output.flatten()[-1:], right, says=says, within=within)
