"""Causal masks, and attention under them: values first, then corner, future and manners."""

import sys

import pytest
import torch
from torch import bfloat16, float16, float32, float64

import reference
from grader.judging import Hard, agree, backward, check, expect, lasting, on_meta, untouched

from . import extremes, together

LENGTHS = [
    *[(3, 3), (2, 5), (5, 2), (1, 1), (1, 17), (4, 1), (17, 65), (65, 17)],
    *[(2, 5001), (2, 200_000)],
]
WINDOWS = [  # Lq, Lk, window
    *[(6, 6, window) for window in (2, 1, 5, 6, 7, 1000)],
    *[(3, 8, window) for window in (1, 3, 8, 9)],
    *[(8, 3, window) for window in (1, 2, 9)],
    *[(1, 1, 1), (1, 65, 16), (17, 65, 20), (65, 65, 64), (2, 200_000, 33_001)],
    *[(3, 5, 2**40), (3, 5, sys.maxsize)],
]
SHAPES = [  # leading dimensions, Lq, Lk, width of queries and keys, width of values
    *[((), 3, 3, 4, 2), ((), 1, 1, 1, 1), ((2, 3), 17, 17, 8, 5), ((1, 2, 2), 65, 65, 16, 24)],
    *[((3,), 130, 130, 3, 2), ((), 300, 300, 2, 2)],
]
UNEVEN = [
    (2, 3),
    (1, 17),
    (2, 9),
    (65, 130),
    (5, 3),
    (3, 1),
    (130, 65),
    (140, 3),
    (2, 4100),
    (2050, 3),
]
GRADIENTS = [((2,), 5, 5, 4, 3), ((2, 2), 3, 7, 4, 3), ((2,), 1, 6, 4, 3), ((), 2, 3, 4, 3)]
USUAL = {"B": 2, "H": 2, "Lq": 5, "Lk": 5, "D": 4, "Dv": 3}
HALVES = [float16, bfloat16]
PRECISE = [  # dtype, size of the scores; only float64 tells scores of thousands apart
    *[(float16, 1), (bfloat16, 1), (float32, 5), (float64, 1), (float64, 2500), (float64, 0)]
]


@check(points=1)
@pytest.mark.parametrize(
    "q_len, k_len", [*LENGTHS, (Hard.SQUARE, 4), (Hard.ONE, 4), (Hard.LONG, 4)]
)
def test_causal_mask(student, draw, device, q_len, k_len):
    """causal_mask keeps the keys up to the query's own: query i has key i + k_len - q_len; for any
    lengths, and on the device that is given."""
    for lengths in _lengths(draw, q_len, k_len):
        right = reference.causal_mask(*lengths)
        agree(student.causal_mask(*lengths), right)
        agree(student.causal_mask(*lengths, device=device), right)
    _on_meta(draw, student.causal_mask, 3, k_len)


@check(points=1)
@pytest.mark.parametrize(
    "q_len, k_len, window", [*WINDOWS, (Hard.SQUARE, 4, 2), (Hard.ONE, 4, 2), (Hard.LONG, 4, 3)]
)
def test_sliding_window_mask(student, draw, device, q_len, k_len, window):
    """sliding_window_mask keeps the query's own key and the window - 1 keys before it; for any
    lengths and windows, and on the device that is given."""
    for lengths in _lengths(draw, q_len, k_len):
        right = reference.sliding_window_mask(*lengths, window)
        agree(student.sliding_window_mask(*lengths, window), right)
        agree(student.sliding_window_mask(*lengths, window=window, device=device), right)
    for s in draw.hard(Hard.LONG, window=3) if window == 3 and k_len == 4 else []:
        right = reference.sliding_window_mask(3, 1100, **s)
        agree(student.sliding_window_mask(3, 1100, **s), right)
    _on_meta(draw, student.sliding_window_mask, 3, k_len, window)


def _lengths(draw, q_len, k_len):
    """The lengths of a case: those of a hard kind, or its own."""
    if not isinstance(q_len, Hard):
        return [(q_len, k_len)]
    return [(s["Lq"], s["Lk"]) for s in draw.hard(q_len, Lq=3, Lk=k_len)]


def _on_meta(draw, call, *args):
    draw.hard(Hard.DEVICE)
    on_meta(call, *args, device="meta")


@check(points=1)
@pytest.mark.parametrize("case", [*SHAPES, Hard.SQUARE, Hard.ONE, Hard.LONG])
def test_values(student, draw, case):
    """causal_attention is softmax(q k^T / sqrt(D)) v over each query's own key and those before:
    float32, as many queries as keys, any leading dimensions and widths."""
    for shape in _shapes(draw, case):
        _attends(student, *_inputs(draw, *shape))


def _shapes(draw, case, sizes=USUAL):
    """The shapes of a case: those of a hard kind, all with as many queries as keys, or its own."""
    if not isinstance(case, Hard):
        return [case]
    usual = {("L" if name == "Lk" else name): n for name, n in sizes.items() if name != "Lq"}
    return [((s["B"], s["H"]), s["L"], s["L"], s["D"], s["Dv"]) for s in draw.hard(case, **usual)]


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("case", [*UNEVEN, Hard.ONE, Hard.LONG])
def test_corner(student, draw, case):
    """The last query lines up with the last key, whatever the lengths; a query before the first key
    gets zeros, in every dtype, and causes no NaN in a gradient."""
    if isinstance(case, Hard):
        limits = {"B": 0, "H": 0, "D": 0, "Dv": 0}
        sizes = draw.hard(case, limits, **USUAL | {"Lq": 3})
        shapes = [((s["B"], s["H"]), s["Lq"], s["Lk"], s["D"], s["Dv"]) for s in sizes]
    else:
        shapes = [((2,), *case, 8, 5)]
    for shape in shapes:
        _attends(student, *_inputs(draw, *shape))
    if case == (2050, 3):
        extremes.long_text_agrees(student, draw)
    if case not in ((5, 3), (140, 3)):
        return
    for dtype in (float32, *HALVES):
        q, k, v = _inputs(draw, (2,), *case, 8, 5, dtype=dtype)
        right = reference.causal_attention(q, k, v)
        agree(student.causal_attention(q, k, v).to(dtype), right, says=f"output ({dtype})")
    _gradients_agree(student, draw, *_inputs(draw, (2,), *case, 8, 5))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float32, *HALVES])
@pytest.mark.parametrize("keys, values", [(None, None), (1e30, 1e30), (torch.nan, 1.0)])
@pytest.mark.parametrize(
    "q_len, k_len, seen",
    [(3, 3, 1), (17, 17, 9), (70, 75, 66), (9, 6, 7), (130, 130, 70), (300, 300, 261)],
)
def test_future(student, draw, q_len, k_len, seen, keys, values, dtype):
    """Later keys and values change nothing: not even 1e30 in both of them, or NaN in the keys."""
    q, k, v = _inputs(draw, (2,), q_len, k_len, 8, 5, dtype=dtype)
    past = seen + k_len - q_len  # the keys and values that the first queries see
    blind = max(q_len - k_len, 0)  # rows of nothing have a check of their own
    expected = reference.causal_attention(q[:, blind:seen], k[:, :past], v[:, :past])
    if dtype is float16 and keys == 1e30:  # beyond the end of float16
        keys = values = 6e4
    k[:, past:] = draw.normal(8, dtype=dtype) if keys is None else keys
    v[:, past:] = draw.normal(5, dtype=dtype) if values is None else values
    later = "changed" if keys is None else f"of {keys:g}"
    output = untouched(lambda: student.causal_attention(q, k, v))[:, blind:seen]
    agree(output.to(dtype), expected, says=f"output (later keys {later})")


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype, size", PRECISE)
@pytest.mark.parametrize("q_len, k_len", [(33, 33), (70, 140), (1, 17)])
def test_precision(student, draw, device, q_len, k_len, dtype, size):
    """Half precision is computed in float32 and given back as half precision, float64 keeps its
    digits, and no score is too large or too low: output and gradients."""
    q, k, v = _inputs(draw, (2, 4), q_len, k_len, 16, 17, dtype=dtype)
    _attends(student, q * size, k, v, says=f"output (queries times {size})")
    if size == 1:
        _gradients_agree(student, draw, *_inputs(draw, (2,), q_len, k_len, 4, 3, dtype=dtype))
    if size == q_len == 1 or (dtype is float32 and q_len == 1):
        extremes.same_tensor_learns(student, draw, dtype)
    if dtype is float64:
        extremes.small_weight_counts(student, draw, dtype)
        # No floor may be mistaken for a score, nor may scores that float32 cannot hold be equal.
        q[..., 0], k[..., 0] = 1e20, -1e20 * (1 + draw.permutation(k_len))
        with torch.set_grad_enabled(q_len != 33):
            _attends(student, q, k, v, says="output (all scores far below 0)")
    elif dtype is float32:
        eye = torch.eye(64, device=device)  # the scores are q / 8
        for name, scores in draw.scores(64, 64).items():
            for low in (0, 100):
                says = f"output ({name} scores)"
                _attends(student, (scores - low) * 8, eye, draw.normal(64, 3), says)
        extremes.small_weight_counts(student, draw, dtype)
        q, k = draw.low(q_len, k_len + 300, 4)
        v = draw.normal(k_len + 300, 3)
        with torch.set_grad_enabled(q_len != 33):
            _attends(student, q, k, v, says="output for very low scores")
    else:
        found = student.causal_attention(k, q[:, :, :1], v[:, :, :1]).dtype
        expect(found == dtype, f"output.dtype is {found} for more queries than keys")
        _nothing_overflows(student, draw, device, q_len, k_len, v[0, :2], dtype)
        extremes.ties_and_low_scores_agree(student, draw, q_len, k_len, dtype)
    if dtype is not float32 and size == q_len == 1:
        together.attention_agrees(student, draw, dtype)


def _nothing_overflows(student, draw, device, q_len, k_len, v, dtype):
    """Products of 256s, of some tokens and of many, and a sum of 70,000 numbers, which float16
    cannot hold."""
    large = torch.full((2, k_len, 64), 256.0, dtype=dtype, device=device)
    ask = [(large[:, :1].expand(2, q_len, 64), large, v)]
    if q_len == 1:
        many = large[0, :1].expand(1030, 64)
        ask.append((many, many, draw.normal(1030, 3, dtype=dtype)))
    for given in ask:
        expected = reference.raised(reference.causal_attention, *given)
        agree(student.causal_attention(*given), expected, says="output for products of 256s")
    if q_len == 1:
        q, k, v = _inputs(draw, (), 1, 70_000, 1, 1, dtype=dtype)
        output = student.causal_attention(0 * q, k, torch.ones_like(v))
        agree(output, torch.ones(1, 1), says="mean of 70,000 ones", within=0.02)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize(
    "case",
    [*GRADIENTS, ((2,), 70, 70, 4, 3), ((2,), 65, 300, 4, 3), Hard.SQUARE, Hard.ONE],
)
def test_gradient(student, draw, case):
    """The gradients of q, k and v flow and are right, for lengths that are equal or not."""
    for shape in _shapes(draw, case):
        _gradients_agree(student, draw, *_inputs(draw, *shape))
    if shape in GRADIENTS:
        extremes.each_learns_alone(student, draw, _inputs(draw, *shape))
        extremes.gradients_outlast_a_call(student, draw, _inputs(draw, *shape))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("q_len", [9, 1, 12, "masks together", "together"])
def test_manners(student, draw, device, q_len):
    """Inputs and earlier answers are left alone; strided, expanded and empty inputs work, on any
    device; calls do not interfere; a mask that was returned may be changed. No lengths, widths,
    windows, layouts and dtypes disturb each other."""
    if q_len == "masks together":
        together.masks_agree(student, draw)
        return
    if q_len == "together":
        together.attention_agrees(student, draw, float32)
        return
    attend = student.causal_attention
    for dtype in (float64, *HALVES, float32):
        inputs = _inputs(draw, (2, 3), q_len, 9, 4, 5, dtype=dtype)
        untouched(lambda inputs=inputs: attend(*inputs))
        if q_len == 9 or (q_len == 1 and dtype is float32):
            draw.hard(Hard.CHANGED)
            extremes.answers_last(attend, inputs, learns=False)
        if q_len == 9:
            extremes.answers_last(attend, inputs, learns=True)
    if q_len == 12:  # rows of nothing have a check of their own
        return
    with lasting(attend, *inputs):
        _calls_agree(student, draw, *inputs)
    _layouts_agree(student, draw, q_len)
    none = torch.empty(0, 3, q_len, 5, device=device)
    agree(attend(*(x[:0] for x in inputs)), none)
    draw.hard(Hard.DEVICE)
    on_meta(attend, *(x.to("meta") for x in inputs))
    for mask, args in (student.causal_mask, ()), (student.sliding_window_mask, (2,)):
        for lengths in (0, 4), (4, 0), (0, 0):
            agree(mask(*lengths, *args), torch.ones(lengths, dtype=torch.bool))
        right = reference.sliding_window_mask if args else reference.causal_mask
        extremes.masks_may_be_changed(mask, right, *args)


def _layouts_agree(student, draw, q_len):
    """Inputs that lie in memory in other ways."""
    q = draw.strided(2, 3, q_len, 4)
    k, v = (draw.strided(2, 3, 9, n) for n in (4, 5))
    _attends(student, q, k, v)
    k, v = k[:, :1].expand(2, 3, 9, 4), v[:1].expand(2, 3, 9, 5)
    _attends(student, q, k, v)


def _calls_agree(student, draw, q, k, v):
    """Another call, and one tensor given twice."""
    _attends(student, *(draw.normal(*x.shape) for x in (q, k, v)))
    draw.hard(Hard.SAME)
    _attends(student, q, k, k, says="output where k and v are one tensor")
    _attends(student, k, k, k, says="output where q, k and v are one tensor")


def _attends(student, q, k, v, says=None):
    agree(student.causal_attention(q, k, v), reference.causal_attention(q, k, v), says)


def _gradients_agree(student, draw, q, k, v):
    """The gradients of q, k and v, held to the right ones."""
    upstream = draw.normal(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    expected = reference.causal_attention_gradients(q, k, v, upstream=upstream)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    got = backward(student.causal_attention(*leaves), *leaves, upstream=upstream)
    for name, one, right in zip("qkv", got, expected, strict=True):
        agree(one, right, says=f"gradient of {name}")


def _inputs(draw, leading, q_len, k_len, width, v_width, *, dtype=float32):
    """Normal q (..., Lq, D), k (..., Lk, D) and v (..., Lk, Dv)."""
    q = draw.normal(*leading, q_len, width, dtype=dtype)
    k = draw.normal(*leading, k_len, width, dtype=dtype)
    return q, k, draw.normal(*leading, k_len, v_width, dtype=dtype)
