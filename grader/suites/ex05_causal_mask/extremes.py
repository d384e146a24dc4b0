"""Checks extremes of causal_attention, what learns alone, and masks that a caller changes."""

import math

import torch

import reference
from grader.judging import Hard, agree, backward, lasting
from reference.expected import add_up

SHAPES_OF_MASKS = (3, 5), (4, 4), (1, 4), (4, 1), (1, 1)


def ties_and_low_scores_agree(student, draw, q_len, k_len, dtype):
    """Compare outputs in half precision for scores that tie in it, and for very low ones; where
    gradients are switched off, too."""
    q_len, k_len = min(q_len, 9), min(k_len, 17)
    for q, k in (draw.ties(q_len, k_len, dtype), draw.low(q_len, k_len, 4, dtype)):
        v = draw.normal(k_len, 3, dtype=dtype)
        expected = reference.raised(reference.causal_attention, q, k, v)
        agree(student.causal_attention(q, k, v), expected)
        with torch.no_grad():
            agree(student.causal_attention(q, k, v), expected, says="output under torch.no_grad()")


def long_text_agrees(student, draw):
    """Queries of 0 get the running means of the values, in a text that is no multiple of a block's
    length."""
    length = 64 * draw.integer(32, 35) + draw.integer(1, 63)
    q, k, v = (draw.normal(length, 1) for _ in range(3))
    v = v + 1
    counts = torch.arange(1, length + 1, dtype=torch.float64, device=v.device)[:, None]
    right = (v.double().cumsum(0) / counts).float()
    says = f"output for {length} queries of 0 and as many keys"
    agree(student.causal_attention(0 * q, k, v), right, says=says, within=1e-3)


def small_weight_counts(student, draw, dtype):
    """A weight of exp(-60), or of exp(-300) in float64, counts where its value is large."""
    low, value = (300, 1e130) if dtype is torch.float64 else (60, 1e26)
    score = float(draw.integer(low, low + 9))
    q, k, v = (torch.tensor(x, dtype=dtype).mT for x in ([[1.0]], [[-score, 0.0]], [[value, 0.0]]))
    right = torch.tensor([[math.exp(-score) * value]], dtype=dtype)
    says = "output for a small weight and a large value"
    agree(student.causal_attention(q, k, v), right, says=says, within=1e-3 * right.item())


def each_learns_alone(student, draw, inputs):
    """Each of q, k and v has its gradient where the other two need none."""
    draw.hard(Hard.LEARN)
    upstream = draw.normal(*inputs[0].shape[:-1], inputs[2].shape[-1])
    expected = reference.causal_attention_gradients(*inputs, upstream=upstream)
    for name, x, right in zip("qkv", inputs, expected, strict=True):
        x.requires_grad_()
        [got] = backward(student.causal_attention(*inputs), x, upstream=upstream)
        x.requires_grad_(False)
        agree(got, right, says=f"gradient of {name} (which alone learns)")


def same_tensor_learns(student, draw, dtype):
    """Compare the gradient of a tensor that is key and value, and perhaps the query, at once."""
    draw.hard(Hard.SAME)
    x, q, upstream = (draw.normal(2, 5, 4, dtype=dtype) for _ in range(3))
    x.requires_grad_()
    for given, names in ([x, x, x], "q, k and v"), ([q, x, x], "k and v"):
        [got] = backward(student.causal_attention(*given), x, upstream=upstream)
        parts = reference.causal_attention_gradients(*given, upstream=upstream)
        parts = [part for y, part in zip(given, parts, strict=True) if y is x]
        agree(got, add_up(parts), says=f"gradient of a tensor that is {names}")


def gradients_outlast_a_call(student, draw, inputs):
    """Compare the gradients of a call that was followed by another call."""
    upstream = draw.normal(*inputs[0].shape[:-1], inputs[2].shape[-1])
    others = [draw.normal(*x.shape).requires_grad_() for x in inputs]
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    output, _ = student.causal_attention(*inputs), student.causal_attention(*others)
    found = backward(output, *inputs, upstream=upstream)
    expected = reference.causal_attention_gradients(*inputs, upstream=upstream)
    for name, got, right in zip("qkv", found, expected, strict=True):
        agree(got, right, says=f"gradient of {name} (after a call for other inputs)")


def answers_last(attend, inputs, learns):
    """An answer stays when the inputs change, and may be written into by its caller."""
    inputs = [x.detach().clone().requires_grad_(learns) for x in inputs]
    right = reference.causal_attention
    with lasting(attend, *inputs):
        for x in inputs if inputs[0].dtype is torch.float32 and not learns else inputs[:1]:
            x.data.neg_()
            agree(attend(*inputs), right(*inputs), says="output for a changed input")
    if not learns:
        attend.held(*inputs).change("fill_", 2.0)
        says = "output (after the caller wrote into that of an earlier call)"
        agree(attend(*inputs), right(*inputs), says=says)


def masks_may_be_changed(mask, right, *args):
    """A caller who writes into a mask of any form changes that mask alone."""
    for shape in SHAPES_OF_MASKS:
        mask.held(*shape, *args).change("logical_not_")
    for shape in SHAPES_OF_MASKS:
        says = "a mask (after an earlier one was changed)"
        agree(mask(*shape, *args), right(*shape, *args), says=says)
