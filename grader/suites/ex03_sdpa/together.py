"""Checks that sizes, masks, scales, layouts and precisions do not disturb each other."""

import torch
from torch import bfloat16, float16, float32, float64

import reference
from grader.judging import agree, backward
from reference.ex03_sdpa import plain_attention
from reference.expected import gradients, largest

from .answers import right_in_value

DTYPES = float32, float16, float64, bfloat16
BATCH = 3  # sequences, and as many heads
FAR = 300.0  # times as large as ordinary scores: hundreds apart, so that exp alone overflows
FACTORS = {
    "keep": (None, "loud", "nan", "heads", "rows", "row", "open"),
    "lead": ((BATCH, BATCH), (), (2, BATCH, BATCH)),
    "lengths": ((9, 5), (4, 4), (1, 9), (4, 1), (70, 9), (3, 70)),  # Lq, Lk
    "widths": ((3, 5), (5, 2), (4, 4)),  # D, Dv
    "scale": (None, 0.0, -0.7),
    "scores": (1.0, FAR),
    "layout": ("rows", "columns", "expanded"),
    "learns": ("all", "one", "none"),
}


def answers_agree(student, draw, name, dtype):
    """Compare the answers of a function in a dtype, of all calls in which any three meet."""
    ask = arrays_agree if name == "attention_numpy" else tensors_agree
    ask(student, draw, dtype)


def arrays_agree(student, draw, dtype):
    """Compare output and weights of NumPy's calls in a dtype, of all in which any three meet."""
    for call in draw.combined(only={"dtype": dtype}, dtype=(float32, float16, float64), **FACTORS):
        given, right, keep = inputs_of(draw, **call)
        given, right = ([x.cpu().numpy() for x in xs] for xs in (given, right))
        options = {"scale": call["scale"], "keep": None if keep is None else keep.cpu().numpy()}
        answer = student.attention_numpy(*given, **options)
        right_in_value(answer, reference.attention_numpy(*right, **options))


def tensors_agree(student, draw, dtype):
    """Compare answers and gradients of PyTorch's calls in a dtype, of all in which three meet."""
    calls = draw.combined(only={"dtype": dtype}, dtype=DTYPES, **FACTORS)
    for i, call in enumerate(calls):
        given, clean, keep = inputs_of(draw, **call)
        only = {"all": "qkv", "one": "qkv"[i % 3], "none": ""}[call["learns"]]
        if only and call["keep"] != "nan":  # of NaN no gradient is promised
            one_call_agrees(student, draw, given, clean, keep, call["scale"], only)
        else:
            with torch.no_grad():
                answer = student.scaled_dot_product_attention(*given, keep, call["scale"])
            right_in_value(
                answer, reference.scaled_dot_product_attention(*clean, keep, call["scale"])
            )


def inputs_of(draw, dtype, keep, lead, lengths, widths, layout, scores, **_):
    """Return q, k and v as they are given, the same without what the mask hides, and the mask."""
    (Lq, Lk), (D, Dv) = lengths, widths
    shapes = (Lq, D), (Lk, D), (Lk, Dv)
    clean = [draw.normal(*lead, *shape, dtype=dtype) for shape in shapes]
    clean[0] *= scores
    if layout == "columns":
        clean = [x.mT.contiguous().mT for x in clean]
    if layout == "expanded" and lead:
        clean = [x[..., :1, :, :].expand(x.shape) for x in clean]
    mask = mask_of(draw, keep, lead, Lq, Lk)
    given = clean
    if keep == "loud":
        large = 6e4 if dtype is float16 else 1e30
        given = [clean[0], *(x.masked_fill(~mask.mT, large) for x in clean[1:])]
    if keep == "nan":
        given = [clean[0], clean[1].masked_fill(~mask.mT, torch.nan), clean[2]]
    return given, clean, mask


def mask_of(draw, kind, lead, Lq, Lk):
    """Draw a mask of a kind; in one of all rows one query of each head sees nothing."""
    if kind is None:
        return None
    shapes = {
        "loud": (*lead[:1], *[1] * len(lead[1:]), 1, Lk), "heads": (*lead[-1:], Lq, Lk),
        "rows": (*lead, Lq, Lk), "row": (Lk,),
    }  # fmt: skip
    if kind == "open":
        return draw.keep(Lq, Lk) | True
    keep = draw.keep(*shapes["loud" if kind == "nan" else kind])
    if kind == "rows":
        keep[..., Lq // 2, :] = False
    return keep


def one_call_agrees(student, draw, given, clean, keep, scale, only):
    """Compare output, weights, and the gradients, of all or of one, through both at once."""
    given = [x.requires_grad_(name in only) for name, x in zip("qkv", given, strict=True)]
    answer = student.scaled_dot_product_attention(*given, keep, scale)
    right_in_value(answer, reference.scaled_dot_product_attention(*clean, keep, scale))
    both = side_by_side(answer)
    upstream = draw.normal(*both.shape, dtype=both.dtype)
    q, k, v = clean
    rights = gradients(
        lambda q, k, v: side_by_side(plain_attention(q, k, v, keep, scale)),
        *(x.detach() for x in clean),
        upstream=upstream,
        magnitude=largest(upstream) * max(1.0, largest(v)) * max(1.0, largest(q, k)),
    )
    leaves = [x for x in given if x.requires_grad]
    rights = [right for name, right in zip("qkv", rights, strict=True) if name in only]
    alone = " (which alone learns)" if len(only) == 1 else ""
    found = backward(both, *leaves, upstream=upstream)
    for name, got, right in zip(only, found, rights, strict=True):
        agree(got, right, says=f"gradient of {name}{alone}")


def side_by_side(answer):
    """Return the numbers of output and weights in one row."""
    return torch.cat([x.flatten() for x in answer])
