"""Compares the gradients of ex03 through the output and through the weights."""

import torch
from torch import float32

import reference
from grader.judging import Hard, agree, backward, expect
from reference.expected import add_up

from .inputs import MASKED, inputs


def each_learns_alone(student, draw, masked):
    """Each of q, k and v has its gradient where the other two need none."""
    draw.hard(Hard.LEARN)
    tensors, keep = inputs(draw, MASKED), draw.keep(9, 17) if masked else None
    upstream = draw.normal(2, 3, 9, 5)
    expected = reference.attention_gradients(*tensors, keep, upstream=upstream)
    for name, x, right in zip("qkv", tensors, expected, strict=True):
        x.requires_grad_()
        output, _ = student.scaled_dot_product_attention(*tensors, keep)
        [got] = backward(output, x, upstream=upstream)
        x.requires_grad_(False)
        agree(got, right, says=f"gradient of {name} (which alone learns)")


def same_tensor_for_all(student, draw, masked, dtype=float32):
    """The gradient of a tensor that is query, key and value at once is the sum of the three; of one
    that is key and value, of the two."""
    draw.hard(Hard.SAME)
    x, q, upstream = (draw.normal(2, 5, 4, dtype=dtype) for _ in range(3))
    keep = draw.keep(5, 5) if masked else None
    x.requires_grad_()
    for given, names in ([x, x, x], "q, k and v"), ([q, x, x], "k and v"):
        output, _ = student.scaled_dot_product_attention(*given, keep)
        [got] = backward(output, x, upstream=upstream)
        parts = reference.attention_gradients(*given, keep, upstream=upstream)
        parts = [part for y, part in zip(given, parts, strict=True) if y is x]
        agree(got, add_up(parts), says=f"gradient of a tensor that is {names}")


def gradient_outlasts_a_call(student, draw, masked):
    """The gradients of a call that was followed by another call are its own."""
    given, others = ([x.requires_grad_() for x in inputs(draw, MASKED)] for _ in range(2))
    keep, upstream = draw.keep(9, 17) if masked else None, draw.normal(2, 3, 9, 5)
    output, _ = student.scaled_dot_product_attention(*given, keep)
    student.scaled_dot_product_attention(*others, keep)
    found = backward(output, *given, upstream=upstream)
    expected = reference.attention_gradients(*given, keep, upstream=upstream)
    for name, got, right in zip("qkv", found, expected, strict=True):
        agree(got, right, says=f"gradient of {name} (after a call for other inputs)")


def gradients_agree(student, draw, tensors, keep, scale=None):
    """The gradients through the weights, then those through the output."""
    leaves = [x.requires_grad_() for x in tensors]
    output, weights = student.scaled_dot_product_attention(*leaves, keep=keep, scale=scale)
    for what, answer in ("weights", weights), ("output", output):
        upstream = draw.normal(*answer.shape, dtype=answer.dtype)
        through = dict(zip("qk" if what == "weights" else "qkv", leaves, strict=False))
        if answer.requires_grad:  # `backward` would not say through which of the two
            reached = torch.autograd.grad(
                answer.sum(), list(through.values()), retain_graph=True, allow_unused=True
            )
            for name, one in zip(through, reached, strict=True):
                expect(one is not None, f"no gradient reaches {name} through the {what}")
        got = backward(answer, *through.values(), upstream=upstream)
        q, k, v = leaves
        if what == "weights":  # weights @ 1 = weights
            v = torch.eye(k.shape[-2], dtype=v.dtype, device=v.device).expand(*v.shape[:-1], -1)
        expected = reference.attention_gradients(q, k, v, keep, scale, upstream=upstream)
        for name, one, right in zip("qkv", got, expected, strict=False):
            agree(one, right, says=f"gradient of {name} through the {what}")
