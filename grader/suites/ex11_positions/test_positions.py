"""Positions: sinusoidal embeddings, rotary ones in both pairings, and rotary ones on a grid.

Values first, at positions in no order, so that nothing passes by counting from 0.
"""

import pytest
import torch
from torch import bfloat16, float16, float32, float64, int32, int64

from grader.judging import agree, backward, check, gradcheck, rejects, untouched
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
]
GRIDS = [  # leading dimensions, grid, width, base
    *[((2,), (2, 3, 4), 16, None), ((), (3, 2, 5), 14, 500.0), ((2, 3), (4, 3, 2), 18, None)],
    *[((), (3, 2, 2), 6, None), ((3,), (1, 17, 1), 8, None), ((), (1, 1, 1), 66, 1e6)],
]


@check(points=1)
@pytest.mark.parametrize("dtype", [int64, float32, float64])
@pytest.mark.parametrize("shape, dim, base", EMBEDDINGS)
def test_sinusoidal(student, draw, shape, dim, base, dtype):
    """sinusoidal_embedding writes sines on even and cosines on odd places, at every position."""
    positions = draw.integers(1, 60, *shape).to(dtype)
    given = {} if base is None else {"base": base}
    expected = reference.sinusoidal_embedding(positions, dim, **given)
    agree(student.sinusoidal_embedding(positions, dim, **given), expected)


@check(points=1, needs=[test_sinusoidal])
@pytest.mark.parametrize("dtype", [int32, int64, float32, float64, *HALVES])
def test_sinusoidal_positions(student, draw, dtype):
    """sinusoidal_embedding takes far, negative and fractional positions; it refuses an odd dim."""
    some = draw.normal(4, 17, scale=300).to(dtype)
    for positions in (some, draw.integers(30_000, 60_000, 5, 13).to(dtype), some.mT, some[:0]):
        answer = untouched(lambda p=positions: student.sinusoidal_embedding(p, 16))
        agree(answer, reference.sinusoidal_embedding(positions, 16))
    rejects(lambda: student.sinusoidal_embedding(some, 7), 7)


@check(points=1)
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("leading, length, width, base", SHAPES)
def test_rope(student, draw, leading, length, width, base, dtype):
    """apply_rope turns the pair of places (2i, 2i + 1) by position * base**(-2i/D)."""
    x, positions = draw.normal(*leading, length, width, dtype=dtype), _places(draw, length)
    given = {} if base is None else {"base": base}
    expected = reference.apply_rope(x, positions, **given)
    agree(student.apply_rope(x, positions, **given), expected)


@check(points=1)
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("leading, length, width, base", SHAPES)
def test_rope_halves(student, draw, leading, length, width, base, dtype):
    """With interleaved=False apply_rope turns the places (i, i + D/2), by the same angle."""
    x, positions = draw.normal(*leading, length, width, dtype=dtype), _places(draw, length)
    given = {"interleaved": False} if base is None else {"interleaved": False, "base": base}
    expected = reference.apply_rope(x, positions, **given)
    agree(student.apply_rope(x, positions, **given), expected)


@check(points=1, needs=[test_rope, test_rope_halves])
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("leading, length, width", BATCHES)
def test_rope_batch(student, draw, leading, length, width, dtype):
    """apply_rope takes positions (B, L), which are the same for all heads of a text."""
    x = draw.normal(*leading, length, width, dtype=dtype)
    positions = draw.integers(1, 80, leading[0], length)
    for interleaved in (True, False):
        expected = reference.apply_rope(x, positions, interleaved=interleaved)
        agree(student.apply_rope(x, positions, interleaved=interleaved), expected)


@check(points=1, needs=[test_rope, test_rope_halves])
@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("start", [0, 7, 100_000, -40, 0.25])
def test_rope_relative(student, draw, device, start, interleaved):
    """Scores of rotated queries and keys depend on the distance alone; a turn by -p undoes it."""
    q, k = draw.normal(9, 16, dtype=float64), draw.normal(9, 16, dtype=float64)
    near = torch.arange(9, device=device)
    far = near + start
    turned = [student.apply_rope(x, far, interleaved=interleaved) for x in (q, k)]
    for got, x in zip(turned, (q, k), strict=True):
        agree(got, reference.apply_rope(x, far, interleaved=interleaved))
        back = student.apply_rope(got.double(), -far, interleaved=interleaved)
        agree(back, x, says="turned there and back, x", within=1e-7)
    scores = turned[0].double() @ turned[1].double().mT
    right = [reference.apply_rope(x, near, interleaved=interleaved).exact for x in (q, k)]
    agree(scores, right[0] @ right[1].T, says=f"scores from position {start} on", within=1e-7)


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


@check(points=1, needs=[test_rope, test_rope_halves])
@pytest.mark.parametrize("dtype", [float32, float64, *HALVES])
@pytest.mark.parametrize("interleaved", [True, False])
def test_rope_manners(student, draw, interleaved, dtype):
    """apply_rope leaves x alone, takes it strided or empty, has the right gradient, checks D."""
    wide, places = draw.normal(1, 3, 6, 8, dtype=dtype), draw.normal(6, 2, scale=50)[:, 0]
    xs = wide, draw.strided(2, 3, 6, 8, dtype=dtype), wide.expand(2, 3, 6, 8), wide[:0]
    for x, positions in zip(xs, (places, places.double(), places.to(int32), places), strict=True):
        answer = untouched(
            lambda x=x, p=positions: student.apply_rope(x, p, interleaved=interleaved)
        )
        agree(answer, reference.apply_rope(x, positions, interleaved=interleaved))
    upstream, given = draw.normal(1, 3, 6, 8, dtype=dtype), {"interleaved": interleaved}
    [right] = reference.apply_rope_gradients(wide, places, **given, upstream=upstream)
    output = student.apply_rope(wide.requires_grad_(), places, **given)
    [got] = backward(output, wide, upstream=upstream)
    agree(got, right, says="gradient of x")
    if dtype is float64:
        small = draw.normal(2, 4, dtype=float64).requires_grad_()
        gradcheck(lambda x: student.apply_rope(x, places[:2], **given), small)
    x = draw.normal(6, 7, dtype=dtype)
    rejects(lambda: student.apply_rope(x, places, interleaved=interleaved), 7)


@check(points=1)
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("leading, grid, width, base", GRIDS)
def test_grid(student, draw, leading, grid, width, base, dtype):
    """rope_3d turns pairs by frame, row and column, each axis with frequencies of its own."""
    frames, rows, columns = grid
    x = draw.normal(*leading, frames * rows * columns, width, dtype=dtype)
    given = {} if base is None else {"base": base}
    agree(student.rope_3d(x, grid, **given), reference.rope_3d(x, grid, **given))


@check(points=1, needs=[test_grid])
@pytest.mark.parametrize("dtype", [float32, float64, *HALVES])
def test_grid_manners(student, draw, dtype):
    """rope_3d keeps the dtype, leaves x alone, has right gradients, refuses what does not fit."""
    grid, shape = (1, 300, 1), (2, 300, 44)
    wide = draw.normal(1, *shape[1:], dtype=dtype)
    for x in (draw.normal(*shape, dtype=dtype), draw.strided(*shape, dtype=dtype),
              wide.expand(shape), wide[:0]):  # fmt: skip
        agree(untouched(lambda x=x: student.rope_3d(x, grid)), reference.rope_3d(x, grid))
    x, upstream = draw.normal(3, 24, 10, dtype=dtype), draw.normal(3, 24, 10, dtype=dtype)
    [right] = reference.rope_3d_gradients(x, (2, 3, 4), upstream=upstream)
    [got] = backward(student.rope_3d(x.requires_grad_(), (2, 3, 4)), x, upstream=upstream)
    agree(got, right, says="gradient of x")
    for length, width, named in ((23, 10, (23, 24)), (48, 10, (48, 24)), (24, 7, (7,))):
        x = draw.normal(2, length, width, dtype=dtype)
        rejects(lambda x=x: student.rope_3d(x, (2, 3, 4)), *named)


def _places(draw, length):
    """Positions in no order, none of them 0."""
    return draw.integers(1, 80, length)
