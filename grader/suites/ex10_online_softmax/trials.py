"""How the online softmax, the merging and the tiled attention are called on random inputs."""

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import called, differentiated, trial

DTYPES = float16, bfloat16, float32, float64


@trial(of="online_softmax")
def statistics(student, draw):
    """Rows of any size, with hidden scores in some, in blocks of any size."""
    sizes, dtype = draw.sizes(B=3, L=3, n=9), draw.choice(*DTYPES)
    make = draw.choice(draw.normal, draw.strided)
    x = make(*sizes.values(), dtype=dtype)
    if draw.integer(0, 1):
        x = torch.where(draw.integers(0, 2, *x.shape) > 0, x, -torch.inf)
    x = x + draw.choice(0.0, -300.0, 300.0)
    block_size = draw.choice(1, 2, 4, 64, 0, -1)
    yield from differentiated(draw, student.online_softmax, x, block_size)


@trial(of="merge_partials")
def merged(student, draw):
    """Parts of any size, some of which saw nothing."""
    sizes, dtype = draw.sizes(B=3, L=4, D=4), draw.choice(*DTYPES)
    parts = []
    for _ in range(2):
        output = draw.normal(*sizes.values(), dtype=dtype)
        wide = torch.promote_types(dtype, float32)
        lse = draw.normal(sizes["B"], sizes["L"], dtype=wide, scale=draw.choice(1.0, 100.0))
        empty = draw.integers(0, draw.choice(0, 1, 1), *lse.shape) > 0
        rubbish = draw.choice(0.0, torch.nan, torch.inf)
        parts += [torch.where(empty[..., None], rubbish, output)]
        parts += [torch.where(empty, -torch.inf, lse)]

    def merge(*four):
        return student.merge_partials(tuple(four[:2]), tuple(four[2:]))

    yield from differentiated(draw, merge, *parts)


@trial(of="flash_attention")
def close_or_low(student, draw):
    """Scores that half precision cannot tell apart, and scores below what people fill in."""
    dtype = draw.choice(*DTYPES)
    q, k = draw.choice(draw.ties(8, 8, dtype), draw.low(8, 8, 8, dtype))
    v, causal = draw.normal(8, 3, dtype=dtype), draw.choice(False, True)
    yield from called(student.flash_attention, q, k, v, causal, block_size=draw.choice(3, 64))


@trial(of="flash_attention")
def tiled(student, draw):
    """Attention of any sizes, causal or not, with any scale, in tiles of any size."""
    sizes, dtype = draw.sizes(B=2, H=2, Lq=6, Lk=6, D=4, Dv=4), draw.choice(*DTYPES)
    leading = (sizes["B"], sizes["H"])[: draw.integer(0, 2)]
    make = draw.choice(draw.normal, draw.strided)
    q, k, v = (
        make(*leading, sizes[length], sizes[width], dtype=dtype)
        for length, width in (("Lq", "D"), ("Lk", "D"), ("Lk", "Dv"))
    )
    options = draw.choice({}, {"causal": True}, {"causal": False})
    options |= draw.choice({}, {"scale": draw.choice(0.0, -0.5, 0.7)})
    options |= draw.choice({}, {"block_size": draw.choice(1, 2, 4, 100, 0)})
    yield from differentiated(draw, student.flash_attention, q, k, v, **options)
