"""Compares attention in float64 and half precision, beside the first checks in float32.

The norms have such a check of their own, so that one habit in them costs one point: in float64 the
numbers here are those that a norm in float32 gives, too, and in half precision they are moderate.
"""

import torch
from torch import float64

from grader.judging import agree, gradcheck

from .close_scores import close_scores_of_contexts, hard_scores_of_tokens
from .dropped import OpenWeights
from .given_scores import far, products_of_256_agree
from .modules import gradients, load, pair

EVEN = 4096.0  # the size of numbers beside whose squares, exact in float32, eps is nothing


def self_precision_agrees(student, draw, device, fused, dtype):
    """Compare self-attention in float64 or half: values, gradients, large numbers, far tokens."""
    module, right = pair(student, draw, device, "SelfAttention", 48, 4, True, 100.0, dtype=dtype)
    module.fused = fused
    keep = draw.keep(2, 1, 33, 33)
    for mask in (None, keep):
        [x] = even_inputs(module, right, draw, dtype, (2, 33, 48))
        agree(module(x, mask), right(x, mask))
    narrow, of_narrow = pair(
        student, draw, device, "SelfAttention", 12, 3, False, 10.0, dtype=dtype
    )
    narrow.fused = fused
    mask = draw.keep(3, 5, 5) if fused else None
    gradients(draw, narrow, of_narrow, draw.normal(2, 5, 12, dtype=dtype), keep=mask)
    wide, of_wide = pair(student, draw, device, "SelfAttention", 64, 1, False, dtype=dtype)
    wide.fused = fused
    x = torch.full((1, 5, 64), 256.0, dtype=dtype, device=device)
    products_of_256_agree(wide, of_wide, draw, dtype, (x,), x, "output for products of 256s")
    if dtype is float64:
        least, _ = pair(student, draw, device, "SelfAttention", 4, 2, False, 100.0, dtype=dtype)
        least.fused = fused
        gradcheck(least, draw.normal(1, 2, 4, dtype=dtype).requires_grad_())
        converted, of_converted = pair(student, draw, device, "SelfAttention", 12, 3, False, 10.0)
        converted.fused = fused
        x = draw.normal(2, 5, 12)
        converted(x)
        converted.double()
        x = x.double()
        agree(converted(x), of_converted(x), says="output after .double()")
        load(converted, of_converted, draw, dtype)
        x = draw.normal(2, 5, 12, dtype=dtype)
        agree(converted(x), of_converted(x), says="output once other weights are loaded")
        OpenWeights(student, draw, device, 0.0, dtype).evaluated(None, "where dropout is 0")
    hard_scores_of_tokens(student, draw, device, fused, dtype)
    if dtype is not float64 and fused:
        got, answer, says = far(student, draw, device, 2100, dtype, fused)
        agree(got, answer, says=says)


def cross_precision_agrees(student, draw, device, image, dtype):
    """Compare cross-attention in float64 or half: values, gradients, large numbers."""
    module, right = pair(student, draw, device, "CrossAttention", 48, 4, image, dtype=dtype)
    x, context = even_inputs(module, right, draw, dtype, (2, 33, 48), (2, 17, 48))
    for keep in (None, draw.keep(2, 4, 33, 17 - image)):
        agree(module(x, context, keep), right(x, context, keep))
    alike, total = torch.full_like(context, 3.0), torch.full_like(x, 6.0 if image else 3.0)
    says = "output for products of 256s"
    products_of_256_agree(module, right, draw, dtype, (x, alike), total, says)
    module, right = pair(student, draw, device, "CrossAttention", 12, 3, image, dtype=dtype)
    inputs = even_inputs(module, right, draw, dtype, (2, 3, 12), (2, 9, 12))
    keep = draw.keep(3, 3, 9 - image)
    gradients(draw, module, right, *inputs, keep=keep, but=through_norms(dtype))
    if dtype is not float64:
        close_scores_of_contexts(student, draw, device, image, dtype)


def through_norms(dtype):
    """Return the parameters that for `even_inputs` have gradients with the errors of the norms.

    In float64 these hold the rounding errors of the norms, times the size of the inputs.
    """
    return tuple(f"{name}.weight" for name in ("q", "k", "k_img") if dtype is float64)


def even_inputs(module, right, draw, dtype, *shapes):
    """Draw normal numbers for half precision; for float64, in which the modules get projections
    to match, numbers of one size: the norms' answers to these are exact, whatever their dtype."""
    if dtype is not float64:
        return [draw.normal(*shape, dtype=dtype) for shape in shapes]
    state = right.state_dict()
    for name in {"q", "k", "k_img"} & {name.partition(".")[0] for name in state}:
        state[f"{name}.weight"] = torch.eye(shapes[0][-1]).to(state[f"{name}.weight"])
        state[f"{name}.bias"] = 0 * state[f"{name}.bias"]
    module.load_state_dict(state, strict=False)
    right.load_state_dict(state)
    return [(draw.integers(0, 1, *shape).to(dtype) * 2 - 1) * EVEN for shape in shapes]
