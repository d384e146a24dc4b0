"""Checks that sizes, chunks, layouts and dtypes of a pool do not disturb each other."""

from torch import bfloat16, float16, float32, float64

from .both import Both

BLOCKS = 16  # enough for two sequences of 8 tokens


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
