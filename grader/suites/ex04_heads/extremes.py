"""Compares answers whose rows may attend to nothing, in every dtype."""

import numpy as np
from torch import float32

from grader.judging import backward, expect
from reference import ex04_heads as reference

from .inputs import matrices
from .layers import empty_rows_are_zero, gradients_agree, values_agree


def empty_rows_of_a_layer(draw, module, oracle, x, context, keep):
    answer = module(x, context, keep)
    empty_rows_are_zero(answer[1], keep)
    if x.dtype == float32:
        values_agree(answer, oracle(x, context, keep))
        gradients_agree(draw, module, oracle, keep, x=x, context=context)
    else:
        gradients_are_finite(draw, module, x, context, keep)


def empty_rows_of_arrays(student, draw, x, context, keep):
    weights = [w.cpu().numpy() for w in matrices(draw, dtype=x.dtype).values()]
    args = [*(t.cpu().numpy() for t in (x, context, context)), *weights, 4]
    mask = keep.cpu().numpy()
    answer = student.multi_head_attention_numpy(*args, keep=mask)
    empty_rows_are_zero(answer[1], keep)
    expect(bool(np.isfinite(answer[0]).all()), "the output of rows that see nothing is not finite")
    if x.dtype == float32:
        values_agree(answer, reference.multi_head_attention_numpy(*args, mask))


def gradients_are_finite(draw, module, x, context, keep):
    leaves = [t.detach().clone().requires_grad_() for t in (x, context)]
    output, _ = module(*leaves, keep)
    upstream = draw.normal(*output.shape, dtype=output.dtype)
    grads = backward(output, *leaves, upstream=upstream)
    for what, gradient in zip(("x", "the context"), grads, strict=True):
        expect(bool(gradient.isfinite().all()), f"the gradient of {what} is not finite")
