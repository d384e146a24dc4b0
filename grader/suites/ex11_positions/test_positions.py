"""Positions: sinusoidal embeddings, rotary ones in both pairings, and rotary ones on a grid.

Values first, at positions in no order, so that nothing passes by counting from 0.
"""

from itertools import product

import pytest
import torch
from torch import bfloat16, float16, float32, float64, int8, int32, int64

from grader.judging import Hard, agree, backward, check, gradcheck, lasting, rejects, untouched
from grader.suites.ex11_positions import together
from reference import ex11_positions as reference

HALVES = [float16, bfloat16]
EMBEDDINGS = [  # shape of the positions, dim, base (None: the default)
    *[((17,), 8, None), ((2, 5), 6, 500.0), ((3, 1, 4), 66, 1e6), ((), 2, None), ((1,), 16, 2.5)],
]
SHAPES = [  # leading dimensions, length, width, base
    *[((2, 3), 17, 8, None), ((), 65, 6, 500.0), ((3,), 1, 66, 1e6), ((2, 1, 2), 3, 2, None)],
]
BATCHES = [  # all but the length and the width: the positions differ along the first
    *[((3, 3), 5, 8), ((3,), 17, 6), ((2, 5), 3, 4), ((2, 1, 4), 3, 6), ((1, 4), 1, 8)],
    *[((3, 2), 3, 8), ((5,), 5, 6)],  # as many texts as tokens
]
GRIDS = [  # leading dimensions, grid, width, base
    *[((2,), (2, 3, 4), 16, None), ((), (3, 2, 5), 14, 500.0), ((2, 3), (4, 3, 2), 18, None)],
    *[((), (3, 2, 2), 6, None), ((3,), (1, 17, 1), 8, None), ((), (1, 1, 1), 66, 1e6)],
    *[((2,), (1, 7, 2), 12, None), ((), (1, 2, 9), 6, 500.0), ((2,), (5, 1, 3), 10, None)],
]
LONGEST = {"B": 0, "H": 128}  # more of them are more of the same


@check(points=1)
@pytest.mark.parametrize("dtype", [int64, float32])
@pytest.mark.parametrize("shape, dim, base", EMBEDDINGS)
def test_sinusoidal(student, draw, shape, dim, base, dtype):
    """sinusoidal_embedding writes sines on even and cosines on odd places, at every position, for
    as many positions and places as are wanted."""
    positions = draw.integers(1, 60, *shape).to(dtype)
    for sizes in [*draw.hard(Hard.ONE, B=2, L=3), *draw.hard(Hard.LONG, B=2, L=3, D=3)]:
        some = draw.integers(1, 60, sizes["B"], sizes["L"]).to(dtype)
        pairs = sizes.get("D", 1)
        expected = reference.sinusoidal_embedding(some, 2 * pairs)
        agree(student.sinusoidal_embedding(some, 2 * pairs), expected)
    given = {} if base is None else {"base": base}
    expected = reference.sinusoidal_embedding(positions, dim, **given)
    agree(student.sinusoidal_embedding(positions, dim, **given), expected)


@check(points=1, needs=[test_sinusoidal])
@pytest.mark.parametrize("dtype", [int32, int64, float32, *HALVES, "together"])
def test_sinusoidal_positions(student, draw, dtype):
    """sinusoidal_embedding takes far, negative and fractional positions, up to the ends of small
    integer dtypes, looks at them and at the base anew in every call, and leaves them alone; it
    refuses an odd dim; no dtypes, shapes, layouts and bases disturb each other."""
    if dtype == "together":
        together.embeddings_agree_together(student, draw, int64, int8, bfloat16, float32)
        together.embeddings_agree_at_the_ends(student, draw)
        return
    near = draw.integers(1, 60, 4, 5).to(dtype)
    for hard in Hard.OPTIONS, Hard.CHANGED:
        draw.hard(hard)
        for base in 10000.0, 500.0, 500.4:
            expected = reference.sinusoidal_embedding(near, 6, base)
            agree(student.sinusoidal_embedding(near, 6, base), expected)
        with lasting(student.sinusoidal_embedding, near, 6):
            near.neg_()
            expected = reference.sinusoidal_embedding(near, 6)
            agree(student.sinusoidal_embedding(near, 6), expected)
    some = draw.normal(4, 17, scale=300).to(dtype)
    for positions in (some, draw.integers(30_000, 60_000, 5, 13).to(dtype), some.mT, some[:0]):
        answer = untouched(lambda p=positions: student.sinusoidal_embedding(p, 16))
        agree(answer, reference.sinusoidal_embedding(positions, 16))
    if dtype is int64:
        far = draw.integers(30_000, 60_000, 6) * 2**18  # which float32 holds, and int32 does not
        expected = reference.sinusoidal_embedding(far, 2)  # whose angle is the position itself
        agree(student.sinusoidal_embedding(far, 2), expected._replace(magnitude=1.0))
    for dim in 7, 2 * draw.integer(10, 49) + 1:
        rejects(lambda n=dim: student.sinusoidal_embedding(some, n), dim)


@check(points=1)
@pytest.mark.parametrize("leading, length, width, base", SHAPES)
def test_rope(student, draw, leading, length, width, base):
    """apply_rope turns the pair of places (2i, 2i + 1) by position * base**(-2i/D)."""
    x, positions = draw.normal(*leading, length, width), _places(draw, length)
    given = {} if base is None else {"base": base}
    expected = reference.apply_rope(x, positions, **given)
    agree(student.apply_rope(x, positions, **given), expected)


@check(points=1)
@pytest.mark.parametrize("leading, length, width, base", SHAPES)
def test_rope_halves(student, draw, leading, length, width, base):
    """With interleaved=False apply_rope turns the places (i, i + D/2), by the same angle."""
    x, positions = draw.normal(*leading, length, width), _places(draw, length)
    given = {"interleaved": False} if base is None else {"interleaved": False, "base": base}
    expected = reference.apply_rope(x, positions, **given)
    agree(student.apply_rope(x, positions, **given), expected)


@check(points=1, needs=[test_rope, test_rope_halves])
@pytest.mark.parametrize("leading, length, width", [*BATCHES, ((), 0, 0)])
def test_rope_batch(student, draw, leading, length, width):
    """apply_rope takes positions (B, L), which are the same for all heads of a text, for one or
    many texts, heads, tokens and pairs."""
    if not leading:
        ordinary = {"B": 2, "H": 3, "L": 4, "D": 3}
        for sizes in [*draw.hard(Hard.ONE, **ordinary), *draw.hard(Hard.LONG, LONGEST, **ordinary)]:
            batch, heads, some, pairs = sizes.values()
            x, positions = (
                draw.normal(batch, heads, some, 2 * pairs),
                draw.integers(1, 80, batch, some),
            )
            for interleaved in (True, False):
                expected = reference.apply_rope(x, positions, interleaved=interleaved)
                agree(student.apply_rope(x, positions, interleaved=interleaved), expected)
        return
    x = draw.normal(*leading, length, width)
    positions = draw.integers(1, 80, leading[0], length)
    for interleaved in (True, False):
        expected = reference.apply_rope(x, positions, interleaved=interleaved)
        agree(student.apply_rope(x, positions, interleaved=interleaved), expected)


@check(points=1, needs=[test_rope, test_rope_halves])
@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("start", [0, 7, -40, 0.25])
def test_rope_relative(student, draw, device, start, interleaved):
    """Scores of rotated queries and keys depend on the distance alone; a turn by -p undoes it."""
    q, k = draw.normal(9, 16), draw.normal(9, 16)
    near = torch.arange(9, device=device)
    far = near + start
    turned = [student.apply_rope(x, far, interleaved=interleaved) for x in (q, k)]
    for got, x in zip(turned, (q, k), strict=True):
        agree(got, reference.apply_rope(x, far, interleaved=interleaved))
        back = student.apply_rope(got, -far, interleaved=interleaved)
        agree(back, x, says="turned there and back, x", within=1e-4)
    scores = turned[0] @ turned[1].mT
    right = [reference.apply_rope(x, near, interleaved=interleaved).exact for x in (q, k)]
    agree(scores, right[0] @ right[1].T, says=f"scores from position {start} on", within=1e-3)


@check(points=1)
@pytest.mark.parametrize("start", [0, 100_000, -40.5])
def test_float64(student, draw, device, start):
    """All three functions compute float64 in float64, to its last digits, however far away."""
    positions, x = torch.arange(6, device=device) + start, draw.normal(2, 6, 12, dtype=float64)
    # What is kept of a call in float32 is no use for the next one.
    student.sinusoidal_embedding(positions.to(float32), 8)
    student.rope_3d(x.float(), (1, 2, 3))
    expected = reference.sinusoidal_embedding(positions.to(float64), 8)
    agree(student.sinusoidal_embedding(positions.to(float64), 8), expected)
    for interleaved in (True, False):
        expected = reference.apply_rope(x, positions, interleaved=interleaved)
        agree(student.apply_rope(x, positions, interleaved=interleaved), expected)
        places, small = draw.normal(2, dtype=float64), draw.normal(2, 4, dtype=float64)
        gradcheck(
            lambda x, p=places, i=interleaved: student.apply_rope(x, p, interleaved=i),
            small.requires_grad_(),
        )
    agree(student.rope_3d(x, (1, 2, 3)), reference.rope_3d(x, (1, 2, 3)))
    if not start:
        far = draw.integers(30_000, 60_000, 6) * 2**18 + 1  # which int32 and float32 do not hold
        pair = x[..., :2]  # whose angle is the position itself, without a rounding error
        agree(student.apply_rope(pair, far), reference.apply_rope(pair, far))
        together.embeddings_agree_together(student, draw, float64)
        together.ropes_agree_together(student, draw, float64)
        together.grids_agree_together(student, draw, float64)


@check(points=1, needs=[test_rope, test_rope_halves])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("interleaved", [True, False])
def test_rope_half_precision(student, draw, interleaved, dtype):
    """apply_rope keeps half precision; its angles, at far positions too, are float32 or better."""
    for farthest, leading in ((4000, (33,)), (4000, (2, 33)), (100_000, (33,))):
        x = draw.normal(2, 4, 33, 16, dtype=dtype)
        positions = draw.integers(1, farthest, *leading)
        expected = reference.apply_rope(x, positions, interleaved=interleaved)
        agree(student.apply_rope(x, positions, interleaved=interleaved), expected)
    if interleaved:
        together.ropes_agree_together(student, draw, dtype)


@check(points=1, needs=[test_rope, test_rope_halves])
@pytest.mark.parametrize(
    "interleaved, dtype",
    [*product((True, False), (float32, *HALVES)), ("together", None)],
)
def test_rope_manners(student, draw, interleaved, dtype):
    """apply_rope leaves x alone, takes it strided or empty, with positions of any dtype, looks at
    both anew in every call, has the right gradient, checks D; no dtypes, positions, pairings and
    layouts disturb each other."""
    if interleaved == "together":
        together.ropes_agree_together(student, draw, float32)
        together.ropes_agree_at_the_ends(student, draw)
        return
    wide, places = draw.normal(1, 3, 6, 8, dtype=dtype), draw.normal(6, 2, scale=50)[:, 0]
    xs = wide, draw.strided(2, 3, 6, 8, dtype=dtype), wide.expand(2, 3, 6, 8), wide[:0], wide[:0]
    at = places, places.double(), places.to(int32), places, places.expand(0, 6)
    for x, positions in zip(xs, at, strict=True):
        answer = untouched(
            lambda x=x, p=positions: student.apply_rope(x, p, interleaved=interleaved)
        )
        agree(answer, reference.apply_rope(x, positions, interleaved=interleaved))
    upstream, given = draw.normal(1, 3, 6, 8, dtype=dtype), {"interleaved": interleaved}
    for positions in places, torch.zeros_like(places):
        [right] = reference.apply_rope_gradients(wide, positions, **given, upstream=upstream)
        output = student.apply_rope(wide.requires_grad_(), positions, **given)
        [got] = backward(output, wide, upstream=upstream)
        agree(got, right, says="gradient of x")
    x, few = draw.normal(2, 6, 8, dtype=dtype), draw.integers(60, 120, 6).to(int8)
    agree(student.apply_rope(x, few, **given), reference.apply_rope(x, few, **given))
    draw.hard(Hard.CHANGED)
    with lasting(student.apply_rope, x, places, **given):
        for changed in x, places[1:-1], x:  # positions between the same ends
            changed *= -1.5
            agree(student.apply_rope(x, places, **given), reference.apply_rope(x, places, **given))
    draw.hard(Hard.OPTIONS)
    for base in 500.0, 500.4, 10000.0:
        expected = reference.apply_rope(x, places, base, **given)
        agree(student.apply_rope(x, places, base, **given), expected)
    for width in 1, 7, 2 * draw.integer(10, 49) + 1:
        x = draw.normal(6, width, dtype=dtype)
        rejects(lambda x=x: student.apply_rope(x, places, interleaved=interleaved), width)


@check(points=1)
@pytest.mark.parametrize("leading, grid, width, base", GRIDS)
def test_grid(student, draw, leading, grid, width, base):
    """rope_3d turns pairs by frame, row and column, each axis with frequencies of its own."""
    frames, rows, columns = grid
    x = draw.normal(*leading, frames * rows * columns, width)
    given = {} if base is None else {"base": base}
    agree(student.rope_3d(x, grid, **given), reference.rope_3d(x, grid, **given))


@check(points=1, needs=[test_grid])
@pytest.mark.parametrize("dtype", [float32, *HALVES, "together"])
def test_grid_manners(student, draw, dtype):
    """rope_3d keeps the dtype, leaves x alone, looks at it anew in every call, takes grids of any
    size, has right gradients, and refuses what does not fit; no dtypes, grids, widths and layouts
    disturb each other."""
    if dtype == "together":
        together.grids_agree_together(student, draw, float32, *HALVES)
        return
    grid, shape = (1, 300, 1), (2, 300, 44)
    wide = draw.normal(1, *shape[1:], dtype=dtype)
    for x in (draw.normal(*shape, dtype=dtype), draw.strided(*shape, dtype=dtype),
              wide.expand(shape), wide[:0]):  # fmt: skip
        agree(untouched(lambda x=x: student.rope_3d(x, grid)), reference.rope_3d(x, grid))
    for grid in (300, 1, 1), (1, 1, 300):
        agree(student.rope_3d(x := wide[0], grid), reference.rope_3d(x, grid))
    ordinary = {"B": 2, "F": 2, "R": 3, "C": 2, "D": 4}
    many = draw.hard(Hard.LONG, LONGEST, **ordinary) if dtype is float32 else []
    for sizes in [*draw.hard(Hard.ONE, **ordinary), *many]:
        batch, *grid, pairs = sizes.values()
        x = draw.normal(batch, grid[0] * grid[1] * grid[2], 2 * max(3, pairs), dtype=dtype)
        for given in {}, {"base": 500.0}, {"base": 500.4}:
            draw.hard(Hard.OPTIONS)
            agree(student.rope_3d(x, tuple(grid), **given), reference.rope_3d(x, grid, **given))
    draw.hard(Hard.CHANGED)
    x, grid = draw.normal(2, 12, 10, dtype=dtype), (2, 3, 2)  # one token may come back as it is
    with lasting(student.rope_3d, x, grid):
        agree(student.rope_3d(x.neg_(), grid), reference.rope_3d(x, grid))
    x, upstream = draw.normal(3, 24, 10, dtype=dtype), draw.normal(3, 24, 10, dtype=dtype)
    [right] = reference.rope_3d_gradients(x, (2, 3, 4), upstream=upstream)
    [got] = backward(student.rope_3d(x.requires_grad_(), (2, 3, 4)), x, upstream=upstream)
    agree(got, right, says="gradient of x")
    other, odd = draw.integer(25, 99), 2 * draw.integer(10, 49) + 1
    for length, width, named in (
        (23, 10, (23, 24)), (48, 10, (48, 24)), (other, 10, (other, 24)), (24, 7, (7,)),
        (24, odd, (odd,)), (1, 10, (1, 24)), (24, 1, (1,)),
    ):  # fmt: skip
        x = draw.normal(2, length, width, dtype=dtype)
        rejects(lambda x=x: student.rope_3d(x, (2, 3, 4)), *named)


def _places(draw, length):
    """Positions in no order, none of them 0."""
    return draw.integers(1, 80, length)
