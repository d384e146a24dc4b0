"""Draws inputs for the checks of ex04: tokens, weights, masks, and the sizes of hard kinds."""

import torch
from torch import float16, float32

from grader.judging import Hard

NAMES = ("w_q", "w_k", "w_v", "w_o")
USUAL = {"B": 2, "H": 3, "Lq": 5, "Lk": 7, "D": 4}
# As many heads as batch items: a mask (H, Lq, Lk) or (B, 1, Lq, Lk) is easily taken for the other.
MASKED = {"batch": 4, "q_len": 3, "k_len": 5}
HALF = {"q_len": 17, "k_len": 17, "width": 32}  # outputs of more than 1024 numbers
LIMITS = {"H": 64, "D": 128}  # a layer has (H * D) ** 2 weights


def tokens(draw, batch=2, q_len=3, k_len=5, width=12, dtype=float32):
    """Draw x (B, Lq, E) and a context (B, Lk, E)."""
    return [draw.normal(batch, length, width, dtype=dtype) for length in (q_len, k_len)]


def matrices(draw, width=12, dtype=float32):
    """Draw the weights of the four projections."""
    return {name: draw.normal(width, width, dtype=dtype, scale=width**-0.5) for name in NAMES}


def arrays(draw, batch=2, q_len=3, k_len=5, width=12, dtype=float32):
    """Draw the first seven arguments of multi_head_attention_numpy, as arrays."""
    query, key = tokens(draw, batch, q_len, k_len, width, dtype)
    value = draw.normal(batch, k_len, width, dtype=dtype)
    return [x.cpu().numpy() for x in (query, key, value, *matrices(draw, width, dtype).values())]


def calls(draw, case, limits=LIMITS):
    """Return B, Lq, Lk, E and H of a case: the sizes of a hard kind, or the case's own."""
    if not isinstance(case, Hard):
        return [case]
    found = draw.hard(case, limits, **USUAL)
    return [(s["B"], s["Lq"], s["Lk"], s["H"] * s["D"], s["H"]) for s in found]


def loud(draw, dtype):
    """Draw x, a context and weights with scores beyond float16; each token matches its own copy."""
    signs = draw.integers(0, 1, 1, 9, 32) * 2 - 1
    context = (signs * 256).to(dtype)
    return context[:, draw.permutation(9)], context, passing(draw, 32, dtype)


def near(draw, dtype):
    """Draw x, a context and weights with scores near 362 that differ by less than half can show."""
    x, context = tokens(draw, 2, 9, 9, 32, dtype)
    for some in x, context:
        some[..., ::8] = 32
    return x, context, passing(draw, 32, dtype)


def tied(draw, dtype):
    """Draw x, a context and weights with scores of hundreds that tie in half precision."""
    q, k = draw.ties(9, 9, dtype)
    return tokens_with(q), tokens_with(k, draw), passing(draw, 32, dtype)


def low(draw, dtype, k_len=9):
    """Draw x, a context and weights with scores below any number for hidden ones.

    The values know nothing of the first number of a token, which makes the scores so low.
    """
    q, k = draw.low(9, k_len, 8, dtype)
    weights = passing(draw, 32, dtype)
    weights["w_v"][0] = weights["w_v"][:, 0] = 0.0
    return tokens_with(q), tokens_with(k, draw), weights


def faint(draw, dtype, below):
    """Draw x, a context and weights with scores so far below the last that they count together."""
    scores = (draw.normal(1, dtype=dtype) - below).repeat(10_000)
    scores[-1] += below  # last, so that a sum from left to right loses nothing
    return torch.ones_like(scores[:1])[None, None], scores[None, :, None], passing(draw, 1, dtype)


def tokens_with(first, draw=None):
    """Return tokens (1, L, 32) that begin with these numbers, and end with zeros or drawn ones."""
    length, width = first.shape
    rest = torch.zeros(length, 32 - width, dtype=first.dtype, device=first.device)
    rest = draw.normal(*rest.shape, dtype=rest.dtype) if draw else rest
    return torch.cat([first, rest], -1)[None]


def passing(draw, width, dtype=float32):
    """Return weights with which queries and keys are the tokens themselves."""
    eye = torch.eye(width, dtype=dtype, device=draw.normal(1).device)
    return matrices(draw, width, dtype) | {"w_q": eye, "w_k": eye}


def overflowing(draw):
    """Draw x, a context and weights in float16 whose queries and values float16 cannot hold."""
    x, context = (draw.normal(2, n, 32, dtype=float16, scale=50) for n in (5, 9))
    weights = passing(draw, 32, float16)
    sizes = {"w_q": 6e4, "w_k": 2.0**-20, "w_v": 6e4, "w_o": 2.0**-10}
    weights["w_v"] = weights["w_q"]
    return x, context, {name: weights[name] * size for name, size in sizes.items()}


def hard_scores(draw):
    """Yield x, a context and weights with which the scores of one head are hard, bit by bit.

    The rows lie hundreds apart as well, and some of the rows far below the others.
    """
    context = torch.eye(64, device=draw.normal(1).device)[None]
    for scores in draw.scores(1, 5, 64).values():
        scores = scores + 200 * draw.normal(1, 5, 1)
        yield 8 * scores, context, passing(draw, 64)  # 8 is the square root of the width


def spoilt(draw, size, dtype=float32):
    """Draw x, a context, a padding mask, and the context with numbers of a size where hidden."""
    x, context = tokens(draw, dtype=dtype)
    lengths = draw.integers(1, 4, 2, 1, 1, 1)
    keep = torch.arange(5, device=lengths.device) < lengths  # (B, 1, 1, Lk)
    return x, context, keep, torch.where(keep[:, 0, 0, :, None], context, size)


def empty_rows(draw):
    """Return masks for `MASKED` under which rows see nothing: in every head, in one, in any."""
    keep = draw.keep(4, 4, 3, 5)
    keep[0, :, 1] = keep[1, 2] = keep[2] = False
    return keep, draw.keep(4, 1, 1, 3).mT, draw.keep(5) & False  # the second is (B, 1, Lq, 1)


def masks_of(draw, batch, q_len, k_len, heads):
    """Return masks for any sizes; if all lengths are alike, also two that are easily mistaken."""
    keep = [draw.keep(batch, heads, q_len, k_len), draw.keep(batch, 1, 1, k_len)]
    if q_len == k_len:
        causal = torch.ones(q_len, k_len, dtype=torch.bool, device=keep[0].device).tril()
        keep += [causal, causal.mT, draw.keep(k_len)]
    return keep
