"""Random calls that tell two kernels apart. Sizes are small: the interpreter takes 4 ms a tile."""

from torch import float16, float32

from grader.judging import called, trial


@trial(of="softmax")
def rows(student, draw):
    """Rows of any layout: moderate numbers, large ones, minus infinity, none at all."""
    sizes, dtype = draw.sizes(M=3, N=70), draw.choice(float32, float32, float16)
    shape = min(sizes["M"], 20), draw.choice(sizes["N"], sizes["N"], sizes["N"], 0)
    x = draw.choice(draw.normal, draw.strided)(*shape, dtype=dtype)
    x = draw.choice(x, x * 5, x - 50, x + draw.choice(-3e4, 3e4), x.expand(*x.shape), x[:, ::2])
    hidden = draw.integers(0, draw.choice(1, 3), *x.shape) == 0
    x = draw.choice(x, x.masked_fill(hidden, float("-inf")), x[:1].expand(x.shape), x[:0])
    yield from called(student.softmax, x)


@trial(of="flash_attention")
def attention(student, draw):
    """Queries and keys of any layout, with every option; scores small and large."""
    width = draw.choice(16, 16, 16, 32, 64, 128)
    sizes, dtype = draw.sizes(B=2, H=2, Lq=40, Lk=70), draw.choice(float32, float32, float16)
    lead = min(sizes["B"], 3), min(sizes["H"], 3)
    lengths = [min(sizes["Lq"], 130), sizes["Lk"], sizes["Lk"]]
    lengths = draw.choice(lengths, lengths, lengths, lengths, [lengths[0], 0, 0], [0, 3, 3])
    q, k, v = (
        draw.choice(draw.normal, draw.normal, draw.strided)(*lead, n, width, dtype=dtype)
        for n in lengths
    )
    loud = draw.choice(1.0, 1.0, 30.0)
    q = q * loud
    k = k * draw.choice(1.0, 1.0, 1.0 - k.shape[2] / 100)
    given = draw.choice(
        (q, k, v), (q, k, v), (q, q, q), (q[:0], k[:0], v[:0]),
        (q, k[:1].expand(k.shape), v[:, :1].expand(v.shape)),
        tuple(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)),
    )  # fmt: skip
    options = draw.choice({}, {"causal": False}, {"causal": True}, {"causal": True})
    scale = draw.choice(None, None, 0.0, 0.3, *([-0.5] if loud > 1 else [2.0, -0.5, -3.0]))
    yield from called(student.flash_attention, *given, **options, scale=scale)
