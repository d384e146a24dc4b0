"""Checks that masks, sizes, layouts, hidden numbers and precisions do not disturb each other."""

import math

import torch
from torch import bfloat16, float16, float32, float64

import reference
from grader.judging import agree, backward

DTYPES = float16, bfloat16, float32, float64
BATCH = 3  # sequences, and as many heads
PARTS = None, (BATCH, 1, 1, 5), (BATCH, 4, 5), (5,)  # no mask, or its shape


def masks_agree(student, draw):
    """Compare what is combined of any three kinds of masks, in any order."""
    for call in draw.combined(first=PARTS, second=PARTS, third=PARTS):
        masks = [None if shape is None else draw.keep(*shape) for shape in call.values()]
        if any(mask is not None for mask in masks):
            agree(student.combine_masks(*masks), reference.combine_masks(*masks))


def softmax_agrees(student, draw, dtype):
    """Compare weights and gradients of calls in a dtype, of all calls in which any three meet."""
    for call in draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        keep=(None, "padding", "heads", "rows", "row", "open"),
        lead=((BATCH, BATCH), (), (2, BATCH, BATCH)),
        lengths=((5, 5), (1, 5), (70, 3), (4, 70)),  # Lq, Lk
        layout=("plain", "turned", "expanded"),
        hidden=(0.0, math.nan, math.inf),
        size=(1.0, 1000.0),
        learns=(True, False),
    ):
        one_call_agrees(student, draw, **call)


def one_call_agrees(student, draw, dtype, keep, lead, lengths, layout, hidden, size, learns):
    """Compare the weights of a call, and the gradient, with any number where the mask hides."""
    scores = draw.normal(*lead, *lengths, dtype=dtype, scale=size)
    mask = mask_of(draw, keep, lead, *lengths)
    if layout == "expanded":
        scores = scores[:1].expand(scores.shape)
    given = scores if mask is None else scores.masked_fill(~mask, hidden)
    if layout == "turned":
        given = given.mT.contiguous().mT
    given = given.detach().requires_grad_(learns)
    with torch.set_grad_enabled(learns):
        weights = student.masked_softmax(given, mask)
    agree(weights, reference.masked_softmax(scores, mask))
    if not learns:
        return
    upstream = draw.normal(*scores.shape, dtype=dtype)
    [got] = backward(weights, given, upstream=upstream)
    [expected] = reference.masked_softmax_gradients(scores, mask, upstream=upstream)
    agree(got, expected, says="gradient of scores")


def mask_of(draw, kind, lead, Lq, Lk):
    """Draw a mask of a kind; in one of all rows one query of several sees nothing."""
    if kind is None:
        return None
    shapes = {
        "padding": (*lead[:1], *[1] * len(lead[1:]), 1, Lk), "heads": (*lead[-1:], Lq, Lk),
        "rows": (*lead, Lq, Lk), "row": (Lk,),
    }  # fmt: skip
    if kind == "open":
        return draw.keep(Lq, Lk) | True
    keep = draw.keep(*shapes[kind])
    if kind == "rows" and Lq > 1:  # where nothing is kept at all, no gradient need flow
        keep[..., Lq // 2, :] = False
    return keep
