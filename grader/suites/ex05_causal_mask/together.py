"""Checks that lengths, widths, windows, layouts and precisions do not disturb each other."""

import torch
from torch import bfloat16, float16, float32, float64

import reference
from grader.judging import agree, backward

DTYPES = float32, float16, float64, bfloat16
SOME = 5, 1, 8, 0
FAR = 300.0  # times as large as ordinary scores: hundreds apart, so that exp alone overflows


def masks_agree(student, draw):
    """Compare the masks of all lengths and windows with each other."""
    for call in draw.combined(q_len=SOME, k_len=SOME, window=(1, 2, 5, 8, 1000)):
        agree(student.sliding_window_mask(**call), reference.sliding_window_mask(**call))


def attention_agrees(student, draw, dtype):
    """Compare outputs and gradients of calls in a dtype, of all calls in which any three meet."""
    calls = draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        lengths=((5, 5), (3, 7), (7, 3), (1, 6), (75, 70), (3, 70)),  # Lq, Lk
        widths=((3, 5), (5, 2), (4, 4)),  # D, Dv
        lead=((2,), (), (2, 3)),
        layout=("plain", "turned", "expanded"),
        scores=(1.0, FAR),
        learns=("all", "one", "none"),
    )
    for i, call in enumerate(calls):
        call["learns"] = {"all": "qkv", "one": "qkv"[i % 3], "none": ""}[call["learns"]]
        one_call_agrees(student, draw, **call)


def one_call_agrees(student, draw, dtype, lengths, widths, lead, layout, scores, learns):
    """Compare the output of a call, and the gradients of those of q, k and v that learn."""
    (Lq, Lk), (D, Dv) = lengths, widths
    shapes = (Lq, D), (Lk, D), (Lk, Dv)
    sizes = scores, 1.0, 1.0
    inputs = [
        laid_out(draw, (*lead, *shape), dtype, layout, size)
        for shape, size in zip(shapes, sizes, strict=True)
    ]
    if not learns:
        with torch.no_grad():
            output = student.causal_attention(*inputs)
        agree(output.to(dtype), reference.causal_attention(*inputs), says="output")
        return
    for name, x in zip("qkv", inputs, strict=True):
        x.requires_grad_(name in learns)
    output = student.causal_attention(*inputs)
    # Another check asks for the dtype of the output.
    agree(output.to(dtype), reference.causal_attention(*inputs), says="output")
    upstream = draw.normal(*lead, Lq, Dv, dtype=dtype)
    found = backward(output, *(x for x in inputs if x.requires_grad), upstream=upstream)
    rights = reference.causal_attention_gradients(*inputs, upstream=upstream)
    rights = [right for name, right in zip("qkv", rights, strict=True) if name in learns]
    alone = " (which alone learns)" if len(learns) == 1 else ""
    for name, got, right in zip(learns, found, rights, strict=True):
        agree(got, right, says=f"gradient of {name}{alone}")


def laid_out(draw, shape, dtype, layout, size):
    """Draw a tensor; transposed in memory, or with one entry for all along its first dimension."""
    x = draw.normal(*shape, dtype=dtype, scale=size)
    if layout == "turned":
        return x.mT.contiguous().mT
    return x[:1].expand(shape) if layout == "expanded" else x
