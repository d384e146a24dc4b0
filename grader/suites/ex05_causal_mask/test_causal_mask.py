"""Causal masks, and attention under them: values first, then corner, future and manners."""

import pytest
import torch
from torch import bfloat16, float16, float32, float64

import reference
from grader.judging import agree, backward, check, gradcheck, untouched

LENGTHS = [(3, 3), (2, 5), (5, 2), (1, 1), (1, 17), (4, 1), (17, 65), (65, 17)]  # Lq, Lk
WINDOWS = [  # Lq, Lk, window
    *[(6, 6, window) for window in (2, 1, 5, 6, 7, 1000)],
    *[(3, 8, window) for window in (1, 3, 8, 9)],
    *[(8, 3, window) for window in (1, 2, 9)],
    *[(1, 1, 1), (1, 65, 16), (17, 65, 20), (65, 65, 64)],
]
SHAPES = [  # leading dimensions, length, width of queries and keys, width of values
    *[((), 3, 4, 2), ((), 1, 1, 1), ((2, 3), 17, 8, 5), ((1, 2, 2), 65, 16, 24)],
    *[((3,), 130, 3, 2), ((), 300, 2, 2)],
]
SIZES = [(float32, 1), (float64, 1), (float32, 5), (float64, 2500), (float64, 0)]  # of the scores
HALVES = [float16, bfloat16]
UNEVEN = [(2, 3), (1, 17), (2, 9), (65, 130), (5, 3), (3, 1), (130, 65), (140, 3)]  # Lq, Lk
GRADIENTS = [  # leading dimensions, Lq, Lk
    *[((2,), 5, 5), ((2,), 70, 70), ((2, 2), 3, 7), ((2,), 7, 3), ((2,), 1, 6), ((), 2, 3)],
]


@check(points=1)
@pytest.mark.parametrize("q_len, k_len", LENGTHS)
def test_causal_mask(student, device, q_len, k_len):
    """causal_mask keeps the keys up to the query's own: query i has key i + k_len - q_len."""
    agree(student.causal_mask(q_len, k_len), reference.causal_mask(q_len, k_len))
    keep = student.causal_mask(q_len, k_len, device=device)
    agree(keep, reference.causal_mask(q_len, k_len, device))


@check(points=1)
@pytest.mark.parametrize("q_len, k_len, window", WINDOWS)
def test_sliding_window_mask(student, device, q_len, k_len, window):
    """sliding_window_mask keeps the query's own key and the window - 1 keys before it."""
    keep = student.sliding_window_mask(q_len, k_len, window)
    agree(keep, reference.sliding_window_mask(q_len, k_len, window))
    keep = student.sliding_window_mask(q_len, k_len, window=window, device=device)
    agree(keep, reference.sliding_window_mask(q_len, k_len, window, device))


@check(points=1)
@pytest.mark.parametrize("dtype, size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_values(student, draw, shape, dtype, size):
    """causal_attention is softmax(q k^T / sqrt(D)) v over each query's own key and those before."""
    q, k, v = _inputs(draw, *shape, dtype=dtype)
    expected = reference.causal_attention(q * size, k, v)
    says = None if size == 1 else f"output (queries times {size})"
    agree(student.causal_attention(q * size, k, v), expected, says)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype, size", [(float32, 1), (float64, 1), (float64, 2500)])
@pytest.mark.parametrize("q_len, k_len", UNEVEN)
def test_corner(student, draw, q_len, k_len, dtype, size):
    """The last query lines up with the last key; a query before the first key gets zeros."""
    q, k, v = _inputs(draw, (2,), k_len, 8, 5, q_len=q_len, dtype=dtype)
    says = None if size == 1 else f"output (queries times {size})"
    agree(
        student.causal_attention(q * size, k, v), reference.causal_attention(q * size, k, v), says
    )


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float32, float64, *HALVES])
@pytest.mark.parametrize("keys, values", [(None, None), (1e30, 1e30), (torch.nan, 1.0)])
@pytest.mark.parametrize("q_len, k_len, seen", [(3, 3, 1), (17, 17, 9), (70, 75, 66), (9, 6, 7)])
def test_future(student, draw, q_len, k_len, seen, keys, values, dtype):
    """Later keys and values change nothing: not even 1e30 in both of them, or NaN in the keys."""
    q, k, v = _inputs(draw, (2,), k_len, 8, 5, q_len=q_len, dtype=dtype)
    past = seen + k_len - q_len  # the keys and values that the first queries see
    expected = reference.causal_attention(q[:, :seen], k[:, :past], v[:, :past])
    if dtype is float16 and keys == 1e30:  # beyond the end of float16
        keys = values = 6e4
    k[:, past:] = draw.normal(8, dtype=dtype) if keys is None else keys
    v[:, past:] = draw.normal(5, dtype=dtype) if values is None else values
    later = "changed" if keys is None else f"of {keys:g}"
    output = student.causal_attention(q, k, v)
    agree(output[:, :seen], expected, says=f"output (later keys {later})")
    q, k, v = _inputs(draw, (2,), 9, 8, 5, dtype=float64)
    q[..., 0], k[..., 0] = 1.0, -1e5  # no floor under the scores may be mistaken for a score
    expected = reference.causal_attention(q, k, v)
    agree(student.causal_attention(q, k, v), expected, says="output (all scores far below 0)")


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("q_len, k_len", [(33, 33), (70, 140), (140, 70), (1, 17)])
def test_half_precision(student, draw, device, q_len, k_len, dtype):
    """Half precision is given back as half precision, and nothing overflows on the way."""
    q, k, v = _inputs(draw, (2, 4), k_len, 16, 17, q_len=q_len, dtype=dtype)
    agree(student.causal_attention(q, k, v), reference.causal_attention(q, k, v))
    large, v = torch.full((2, k_len, 64), 256.0, dtype=dtype, device=device), v[0, :2]
    new = large[:, :1].expand(2, q_len, 64)
    expected = reference.raised(reference.causal_attention, new, large, v)
    output = student.causal_attention(new, large, v)
    agree(output, expected, says="output for products of 256s")
    if q_len == 1:
        q, k, v = _inputs(draw, (), 70_000, 1, 1, q_len=1, dtype=dtype)
        output = student.causal_attention(0 * q, k, torch.ones_like(v))
        agree(output, torch.ones(1, 1), says="mean of 70,000 ones", within=0.02)


@check(points=1, needs=[test_values, test_corner])
@pytest.mark.parametrize("dtype", [float32, float64, *HALVES])
@pytest.mark.parametrize("lead, q_len, k_len", GRADIENTS)
def test_gradient(student, draw, lead, q_len, k_len, dtype):
    """The gradients of q, k and v flow and are right; a query that sees nothing causes no NaN."""
    inputs = _inputs(draw, lead, k_len, 4, 3, q_len=q_len, dtype=dtype)
    upstream = draw.normal(*lead, q_len, 3, dtype=dtype)
    expected = reference.causal_attention_gradients(*inputs, upstream=upstream)
    leaves = [x.requires_grad_() for x in inputs]
    got = backward(student.causal_attention(*leaves), *leaves, upstream=upstream)
    for name, one, right in zip("qkv", got, expected, strict=True):
        agree(one, right, says=f"gradient of {name}")
    if not lead and dtype is float64:
        small = _inputs(draw, (), 3, 2, 1, q_len=2, dtype=float64)
        gradcheck(student.causal_attention, *(x.requires_grad_() for x in small))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float32, float64, *HALVES])
@pytest.mark.parametrize("q_len", [9, 1, 12])
def test_manners(student, draw, device, q_len, dtype):
    """Inputs are left alone; strided, expanded and empty batches work; calls do not interfere."""
    inputs, others = (_inputs(draw, (2, 3), 9, 4, 5, q_len=q_len, dtype=dtype) for _ in range(2))
    output = untouched(lambda: student.causal_attention(*inputs))
    agree(student.causal_attention(*others), reference.causal_attention(*others))
    agree(output, reference.causal_attention(*inputs))
    q = draw.strided(2, 3, q_len, 4, dtype=dtype)
    k, v = (draw.strided(2, 3, 9, n, dtype=dtype) for n in (4, 5))
    agree(student.causal_attention(q, k, v), reference.causal_attention(q, k, v))
    k, v = k[:, :1].expand(2, 3, 9, 4), v[:1].expand(2, 3, 9, 5)
    agree(student.causal_attention(q, k, v), reference.causal_attention(q, k, v))
    none = torch.empty(0, 3, q_len, 5, device=device)
    agree(student.causal_attention(q[:0], k[:0], v[:0]), none)


def _inputs(draw, leading, k_len, width, v_width, *, q_len=None, dtype):
    """Normal q (..., Lq, D), k (..., Lk, D) and v (..., Lk, Dv); Lq is Lk unless it is given."""
    q = draw.normal(*leading, k_len if q_len is None else q_len, width, dtype=dtype)
    k = draw.normal(*leading, k_len, width, dtype=dtype)
    return q, k, draw.normal(*leading, k_len, v_width, dtype=dtype)
