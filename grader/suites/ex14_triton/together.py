"""Checks that options, sizes, layouts and precisions do not disturb each other."""

import torch
from torch import float16, float32

from grader.judging import agree, untouched
from reference import ex14_triton as reference


def rows_together(student, draw, dtype):
    """Compare softmaxes in whose calls any two choices meet."""
    for call in draw.combined(
        only={"dtype": dtype},
        strength=2,
        layout=("plain", "turned", "third", "one row", "one column"),
        rows=(1, 3),
        cols=(1, 7, 64),
        kind=("moderate", "loud", "-inf"),
        dtype=(float32, float16),
    ):
        x = rows_of(draw, **call)
        agree(untouched(lambda x=x: student.softmax(x)), reference.softmax(x))


def rows_of(draw, layout, rows, cols, kind, dtype):
    """Draw rows of numbers, as they lie in memory."""
    scale = 2500.0 if kind == "loud" else 2.0
    match layout:
        case "turned":
            x = draw.strided(rows, cols, dtype=dtype)
        case "third":
            x = draw.normal(2 * rows, 3 * cols, dtype=dtype)[::2, ::3]
        case _:
            x = draw.normal(rows, cols, dtype=dtype)
    x *= scale
    if kind == "-inf":
        x[rows // 2], x[:, ::2] = -torch.inf, -torch.inf
    if layout == "one row":
        return x[:1].expand(rows, cols)
    return x[:, :1].expand(rows, cols) if layout == "one column" else x


def attention_together(student, draw, dtype):
    """Compare outputs of attention in whose calls any three choices meet."""
    for call in draw.combined(
        only={"dtype": dtype},
        lengths=((9, 5), (4, 4)),  # Lq, Lk
        q=("turned", "strided"),
        k=("strided", "expanded"),
        v=("turned", "one column"),
        scale=(None, -0.7),
        lead=((2, 1), (1, 2)),  # B, H
        width=(16, 128),
        dtype=(float32, float16),
        causal=(False, True),
    ):
        inputs, options = call_of(draw, **call)
        output = untouched(lambda a=inputs, b=options: student.flash_attention(*a, **b))
        agree(output, reference.flash_attention(*inputs, **options))


def call_of(draw, lengths, lead, width, dtype, scale, causal, **layouts):
    """Draw the inputs of a call, each with strides of its own, and its options."""
    options = {"causal": causal} if scale is None else {"causal": causal, "scale": scale}
    if dtype is float16 and layouts["v"] == "one column":
        # Alike columns would be rounded alike, and their mean error would be that of one.
        layouts["v"] = "turned"
    inputs = []
    for n, layout in zip((*lengths, lengths[1]), layouts.values(), strict=True):
        match layout:
            case "turned":
                x = draw.normal(lead[0], n, lead[1], width, dtype=dtype).transpose(1, 2)
            case "strided":
                x = draw.strided(*lead, n, width, dtype=dtype)
            case "expanded":
                x = draw.normal(1, lead[1], n, width, dtype=dtype).expand(*lead, n, width)
            case _:
                x = draw.normal(*lead, n, 1, dtype=dtype).expand(*lead, n, width)
        inputs.append(x)
    return inputs, options
