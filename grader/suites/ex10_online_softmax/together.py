"""Checks that options, sizes, layouts and precisions do not disturb each other."""

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import agree, backward, untouched
from reference import ex10_online_softmax as reference

DTYPES = float32, float16, float64, bfloat16
FAR = 300.0  # times as large as ordinary scores: hundreds apart, so that exp alone overflows


def attention_together(student, draw, dtype):
    """Compare outputs, lse and gradients of those calls in a dtype, of all in which three meet."""
    calls = draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        lengths=((3, 70), (70, 9), (4, 4), (1, 9)),  # Lq, Lk
        widths=((4, 3), (2, 7), (4, 4)),  # D, Dv
        lead=((), (4, 4), (2, 1, 2)),
        layout=("plain", "turned", "expanded"),
        scale=(None, 0.0, -0.7),
        block_size=(16, 5, None),
        causal=(False, True),
        learns=("all", "none", "one"),
        scores=(1.0, FAR),
        later=("ordinary", "huge"),  # the last key and value, where only the last query sees them
    )
    for number, call in enumerate(calls):
        one_attention(student, draw, number, **call)


def one_attention(
    student, draw, number, dtype, lengths, widths, lead, layout, scale, block_size, causal,
    learns, scores, later,
):  # fmt: skip
    """Compare both answers of a call, and the gradients of what learns: all, or one in turn."""
    shapes = (lengths[0], widths[0]), (lengths[1], widths[0]), (lengths[1], widths[1])
    clean = [tensor(draw, *lead, *shape, dtype=dtype, layout=layout) for shape in shapes]
    clean[0] = scores * clean[0]
    options = {"causal": causal} | ({} if scale is None else {"scale": scale})
    blocks = {} if block_size is None else {"block_size": block_size}
    given, but = clean, 0
    if causal and later == "huge" and lengths[0] > 1:
        given, but = [clean[0].clone(), *(loud(x) for x in clean[1:])], 1
        clean = [x[..., :-1, :] for x in clean]
    names = {"all": "qkv", "none": ""}.get(learns, "qkv"[number % 3])
    leaves = {
        name: x.requires_grad_() for name, x in zip("qkv", given, strict=True) if name in names
    }
    with torch.set_grad_enabled(bool(names)):
        answer = untouched(lambda: student.flash_attention(*given, **options, **blocks))
    if but:
        answer = answer[0][..., :-1, :], answer[1][..., :-1]
    agree(answer, reference.flash_attention(*clean, **options))
    for of, what in enumerate(("output", "lse")):
        through = [name for name in leaves if name in "qkv"[: 3 - of]]
        if not through:
            continue
        upstream = draw.normal(*answer[of].shape, dtype=answer[of].dtype)
        got = backward(answer[of], *(leaves[name] for name in through), upstream=upstream)
        right = reference.flash_attention_gradients(*clean, **options, upstream=upstream, of=of)
        right = dict(zip("qkv", right, strict=False))
        for name, one in zip(through, got, strict=True):
            one = one[..., :-1, :] if but else one
            agree(one, right[name], says=f"gradient of {name} through the {what}")


def loud(x):
    """Return x with huge numbers in its last row."""
    x = x.clone()
    x[..., -1, :] = 1e4 if x.dtype == float16 else 1e30
    return x


def tensor(draw, *shape, dtype, layout):
    """Draw numbers, as they lie in memory."""
    if layout == "turned":
        return draw.strided(*shape, dtype=dtype)
    if layout == "expanded" and len(shape) > 2:
        return draw.normal(1, *shape[1:], dtype=dtype).expand(shape)
    return draw.normal(*shape, dtype=dtype)
