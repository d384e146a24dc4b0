"""Checks that sizes, layouts and dtypes, of pools and of packed sequences, do not disturb."""

import torch
from torch import bfloat16, float16, float32, float64, int32, int64

from grader.judging import agree, backward
from reference import ex16_paged_cache as reference

from .both import Both, packed

BLOCKS = 16  # enough for two sequences of 8 tokens
FAR = 300.0  # times as large as ordinary scores: hundreds apart, so that exp alone overflows


def ragged_together(student, draw, device, dtype):
    """Compare packed sequences and their gradients in a dtype, where any three choices meet."""
    calls = draw.combined(
        only={"dtype": dtype},
        dtype=(float32, float16, float64, bfloat16),
        lens=(((3, 4, 0, 2), (3, 2, 2, 5)), ((5, 5), (5, 5)), ((2, 70), (70, 70)), ((3,), (70,))),
        layout=("plain", "turned", "expanded"),
        learns=("all", "none", "one"),
        heads=(2, 1),
        widths=((4, 3), (2, 5)),
        whole=(int32, int64),
        scores=(1.0, FAR),
    )
    for number, call in enumerate(calls):
        one_batch(student, draw, device, number, **call)


def one_batch(
    student, draw, device, number, dtype, lens, layout, learns, heads, widths, whole, scores
):
    """Compare the output for packed sequences, and the gradients of what learns."""
    *given, cu_q, cu_k = packed(draw, device, *lens, heads, *widths, dtype, whole)
    given[0] *= scores
    if layout == "turned":
        given = [x.mT.contiguous().mT for x in given]
    if layout == "expanded":
        given = [x[:, :1].expand(x.shape) for x in given]
    names = {"all": "qkv", "none": ""}.get(learns, "qkv"[number % 3])
    learned = [x.requires_grad_() for x, name in zip(given, "qkv", strict=True) if name in names]
    with torch.set_grad_enabled(bool(names)):
        output = student.ragged_attention(*given, cu_q, cu_k)
    agree(output, reference.ragged_attention(*given, cu_q, cu_k))
    if not names:
        return
    upstream = draw.normal(*output.shape, dtype=output.dtype)
    rights = reference.ragged_attention_gradients(*given, cu_q, cu_k, upstream=upstream)
    rights = dict(zip("qkv", rights, strict=True))
    for name, got in zip(names, backward(output, *learned, upstream=upstream), strict=True):
        agree(got, rights[name], says=f"gradient of {name}")


def pools_together(student, draw, device):
    """Compare two sequences in a pool, in whose calls any three choices meet."""
    for call in draw.combined(
        dtype=(float32, float64, bfloat16),
        given=(float32, float16, float64),
        layout=("plain", "turned", "expanded"),
        chunks=((3, 4), (1, 0, 5), (8,)),
        block_size=(4, 1),
        heads=(2, 1),
        width=(4, 1),
        used=(False, True),
    ):
        one_pool(student, draw, device, **call)


def one_pool(student, draw, device, dtype, given, layout, chunks, block_size, heads, width, used):
    """Compare what is in the pool after every chunk; NaN may lie in blocks that were used."""
    both = Both(student, device, BLOCKS, block_size, heads, width, dtype)
    if used:
        both.spoil()
    numbers = both.add(), both.add()
    for t in chunks:
        for number in numbers:
            both.append(number, *(laid_out(draw, heads, t, width, given, layout) for _ in "kv"))
        both.agree()
    both.agree_pools()


def laid_out(draw, heads, t, width, dtype, layout):
    """Draw keys or values, as they lie in memory."""
    if layout == "turned":
        return draw.normal(t, heads, width, dtype=dtype).transpose(0, 1)
    x = draw.normal(heads, t, width, dtype=dtype)
    return x[:1].expand(x.shape) if layout == "expanded" else x
