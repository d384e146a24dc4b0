"""Checks that options, sizes, layouts and precisions do not disturb each other."""

from torch import bfloat16, float16, float32, float64

from grader.judging import agree, backward, untouched
from reference import ex10_online_softmax as reference

DTYPES = float32, float16, float64, bfloat16


def attention_together(student, draw, dtype):
    """Compare outputs, lse and gradients of those calls in a dtype, of all in which three meet."""
    for call in draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        lengths=((5, 9), (9, 5), (4, 4), (1, 9)),  # Lq, Lk
        widths=((4, 3), (2, 7), (4, 4)),  # D, Dv
        lead=((), (4, 4), (2, 1, 2)),
        layout=("plain", "turned", "expanded"),
        scale=(None, 0.0, -0.7),
        block_size=(3, 1, None),
        causal=(False, True),
        learned=(True, False),
    ):
        one_attention(student, draw, **call)


def one_attention(
    student, draw, dtype, lengths, widths, lead, layout, scale, block_size, causal, learned
):
    """Compare both answers of a call, and the gradients through each."""
    shapes = (lengths[0], widths[0]), (lengths[1], widths[0]), (lengths[1], widths[1])
    q, k, v = (tensor(draw, *lead, *shape, dtype=dtype, layout=layout) for shape in shapes)
    options = {"causal": causal} | ({} if scale is None else {"scale": scale})
    blocks = {} if block_size is None else {"block_size": block_size}
    for x in (q, k, v):
        x.requires_grad_(learned)
    answer = untouched(lambda: student.flash_attention(q, k, v, **options, **blocks))
    agree(answer, reference.flash_attention(q, k, v, **options))
    if not learned:
        return
    for of, name in enumerate(("output", "lse")):
        upstream = draw.normal(*answer[of].shape, dtype=answer[of].dtype)
        got = backward(answer[of], *(q, k, v)[: 3 - of], upstream=upstream)
        right = reference.flash_attention_gradients(q, k, v, **options, upstream=upstream, of=of)
        for x, one, expected in zip("qkv", got, right, strict=False):
            agree(one, expected, says=f"gradient of {x} through the {name}")


def tensor(draw, *shape, dtype, layout):
    """Draw numbers, as they lie in memory."""
    if layout == "turned":
        return draw.strided(*shape, dtype=dtype)
    if layout == "expanded" and len(shape) > 2:
        return draw.normal(1, *shape[1:], dtype=dtype).expand(shape)
    return draw.normal(*shape, dtype=dtype)
