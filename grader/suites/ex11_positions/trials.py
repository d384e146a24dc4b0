"""How the three functions of positions are called on random inputs."""

from torch import bfloat16, float16, float32, float64, int8, int32, int64

from grader.judging import called, differentiated, trial

DTYPES = float16, bfloat16, float32, float64
BASES = {}, {"base": 10000.0}, {"base": 500.0}, {"base": 2.5}


def places(draw, *shape):
    """Positions of any dtype: near and far, negative, fractions."""
    dtype = draw.choice(int8, int32, int64, float16, bfloat16, float32, float64)
    if dtype.is_floating_point:
        return draw.normal(*shape, dtype=dtype, scale=draw.choice(0.5, 10.0))
    return draw.integers(-100, 120, *shape).to(dtype)


@trial(of="sinusoidal_embedding")
def embedded(student, draw):
    """Positions of any shape and dtype, with any width, odd ones too."""
    sizes = draw.sizes(B=3, L=5, D=4)
    shape = draw.choice((), (sizes["L"],), (sizes["B"], sizes["L"]))
    width = 2 * sizes["D"] + draw.choice(0, 0, 0, 1)
    positions, base = places(draw, *shape), draw.choice(*BASES)
    yield from called(student.sinusoidal_embedding, positions, width, **base)


@trial(of="apply_rope")
def turned(student, draw):
    """Tokens of any shape at positions of their own or of the batch, in both pairings."""
    sizes, dtype = draw.sizes(B=3, H=3, L=5, D=4), draw.choice(*DTYPES)
    batch, heads, length = sizes["B"], sizes["H"], sizes["L"]
    leading = draw.choice((), (batch,), (batch, heads), (batch, heads, 2))
    width = 2 * sizes["D"] + draw.choice(0, 0, 0, 0, 1)
    make = draw.choice(draw.normal, draw.strided)
    x = make(*leading, length, width, dtype=dtype)
    shape = draw.choice((length,), (batch, length)) if leading else (length,)
    options = draw.choice(*BASES) | draw.choice({}, {"interleaved": True}, {"interleaved": False})
    positions = places(draw, *shape)
    yield from differentiated(draw, lambda x: student.apply_rope(x, positions, **options), x)
    yield positions


@trial(of="rope_3d")
def on_a_grid(student, draw):
    """Tokens of a grid, now and then too many or too few."""
    sizes, dtype = draw.sizes(F=3, R=3, C=3, D=6), draw.choice(*DTYPES)
    grid = sizes["F"], sizes["R"], sizes["C"]
    length = grid[0] * grid[1] * grid[2] + draw.choice(0, 0, 0, 0, 0, 1)
    width = max(6, 2 * sizes["D"]) + draw.choice(0, 0, 0, 0, 1)
    x = draw.normal(*draw.choice((), (2,), (2, 1)), length, width, dtype=dtype)
    yield from differentiated(draw, student.rope_3d, x, grid, **draw.choice(*BASES))
