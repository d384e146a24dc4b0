"""What float64 and half precision ask of attention, whose first checks are in float32."""

import torch
from torch import float64

from grader.judging import agree, gradcheck
from reference import raised

from .dropped import OpenWeights
from .given_scores import far, products_of_256_agree
from .modules import gradients, pair


def self_precision_agrees(student, draw, device, fused, dtype):
    """Self-attention in float64 or half precision: values, gradients, large numbers, far tokens."""
    module, right = pair(student, draw, device, "SelfAttention", 48, 4, True, 100.0, dtype=dtype)
    module.fused = fused
    x, keep = draw.normal(2, 33, 48, dtype=dtype), draw.keep(2, 1, 33, 33)
    agree(module(x, keep), right(x, keep))
    x, small = draw.normal(1, 9, 48, dtype=dtype, scale=500.0), draw.normal(2, 5, 12, dtype=dtype)
    answer = (right if dtype is float64 else _raised(right))(x, None)
    agree(module(x), answer, says="output for numbers of about 500")
    narrow, of_narrow = pair(student, draw, device, "SelfAttention", 12, 3, True, 10.0, dtype=dtype)
    narrow.fused = fused
    gradients(draw, narrow, of_narrow, small, keep=draw.keep(3, 5, 5) if fused else None)
    module, right = pair(student, draw, device, "SelfAttention", 64, 1, False, dtype=dtype)
    module.fused = fused
    x = torch.full((1, 5, 64), 256.0, dtype=dtype, device=device)
    products_of_256_agree(module, right, draw, dtype, (x,), x, "output for products of 256s")
    if dtype is float64:
        least, _ = pair(student, draw, device, "SelfAttention", 4, 2, True, 100.0, dtype=dtype)
        least.fused = fused
        gradcheck(least, draw.normal(1, 2, 4, dtype=dtype).requires_grad_())
        OpenWeights(student, draw, device, 0.0, dtype).evaluated(None, "where dropout is 0")
    elif fused:
        got, answer, says = far(student, draw, device, 2100, dtype)
        agree(got, answer, says=says)


def cross_precision_agrees(student, draw, device, image, dtype):
    """Cross-attention in float64 or half precision: values, gradients, large numbers."""
    module, right = pair(student, draw, device, "CrossAttention", 48, 4, image, dtype=dtype)
    x, context = draw.normal(2, 33, 48, dtype=dtype), draw.normal(2, 17, 48, dtype=dtype)
    keep = draw.keep(2, 4, 33, 17 - image)
    agree(module(x, context, keep), right(x, context, keep))
    x, context = (draw.normal(1, n, 48, dtype=dtype, scale=500.0) for n in (9, 17))
    answer = (right if dtype is float64 else _raised(right))(x, context, None)
    agree(module(x, context), answer, says="output for numbers of about 500")
    alike, total = torch.full_like(context, 3.0), torch.full_like(x, 6.0 if image else 3.0)
    says = "output for products of 256s"
    products_of_256_agree(module, right, draw, dtype, (x, alike), total, says)
    module, right = pair(student, draw, device, "CrossAttention", 12, 3, image, dtype=dtype)
    inputs = [draw.normal(2, n, 12, dtype=dtype) for n in (3, 9)]
    gradients(draw, module, right, *inputs, keep=draw.keep(3, 3, 9 - image))


def _raised(right):
    """Right answers to half precision whose projections are in float32, unlike the student's."""

    def answered(*inputs):
        answer = raised(right, *inputs)
        return answer._replace(magnitude=2 * answer.magnitude)

    return answered
