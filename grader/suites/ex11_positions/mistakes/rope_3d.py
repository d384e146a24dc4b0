"""Wrong answers to `rope_3d`."""

from math import prod

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over
from reference.ex11_positions import (
    plain_angles,
    plain_apply_rope,
    plain_coordinates,
    plain_rope_3d,
    plain_turn,
)

from ..test_positions import (
    test_float64,
    test_grid,
    test_grid_manners,
)
from .shared import BASE, coordinates_of, counts_of, grid_angles, on_grid


@mistake(of="rope_3d", caught_by=test_grid)
def height_fastest(x, grid, base=BASE):
    """The tokens are counted down the columns: the row runs fastest, not the column.

    Token t sits in column t % width, row t // width % height, frame t // (height * width).
    """
    coordinates_of(x, grid)
    frame, column, row = plain_coordinates((grid[0], grid[2], grid[1]), x.device)
    return on_grid(x, (frame, row, column), counts_of(x), base)


@mistake(of="rope_3d", caught_by=test_grid)
def tall_images_turned_over(x, grid, base=BASE):
    """In a single frame that is higher than wide, rows and columns change places.

    The grid is (frames, height, width), whichever of the two is larger.
    """
    frames, high, wide = grid
    return plain_rope_3d(x, (1, wide, high) if frames == 1 < wide < high else grid, base)


@mistake(of="rope_3d", caught_by=test_grid)
def rest_not_turned(x, grid, base=BASE):
    """Each axis gets c // 3 pairs, and what does not divide by three is left as it is.

    The frames take the rest: c - 2*(c//3) pairs.
    """
    return on_grid(x, coordinates_of(x, grid), [x.shape[-1] // 2 // 3] * 3, base)


@mistake(of="rope_3d", caught_by=test_grid)
def rest_to_the_columns(x, grid, base=BASE):
    """Frames and rows get c // 3 pairs each, and the columns take the rest.

    The frames take it: c - 2*(c//3), c//3, c//3.
    """
    return on_grid(x, coordinates_of(x, grid), counts_of(x)[::-1], base)


@mistake(of="rope_3d", caught_by=test_grid)
def rest_dealt_out(x, grid, base=BASE):
    """What does not divide by three is dealt out one by one, as array_split does.

    The frames take all of it: c - 2*(c//3), c//3, c//3.
    """
    pairs = x.shape[-1] // 2
    counts = [(pairs + 2) // 3, (pairs + 1) // 3, pairs // 3]
    return on_grid(x, coordinates_of(x, grid), counts, base)


@mistake(of="rope_3d", caught_by=test_grid)
def one_series_for_all(x, grid, base=BASE):
    """The three axes share one series of frequencies: rows begin where the frames left off.

    Each axis begins at 1 again: its i-th pair of n turns by position * base**(-i/n).
    """
    series = (plain_angles(at, x.shape[-1] // 2, base, x.dtype) for at in coordinates_of(x, grid))
    parts = [angles.split(counts_of(x), -1)[axis] for axis, angles in enumerate(series)]
    return plain_turn(x, torch.cat(parts, -1))


@mistake(of="rope_3d", caught_by=test_grid)
def exponent_over_all_pairs(x, grid, base=BASE):
    """The exponents are divided by all pairs, or by D, not by the number of pairs of the axis.

    The i-th of an axis's n pairs turns by position * base**(-i/n).
    """
    parts = zip(coordinates_of(x, grid), counts_of(x), strict=True)
    angles = [plain_angles(p, x.shape[-1] // 2, base, x.dtype)[:, :n] for p, n in parts]
    return plain_turn(x, torch.cat(angles, -1))


@mistake(of="rope_3d", caught_by=test_grid)
def grid_ignored(x, grid, base=BASE):
    """The tokens are numbered one after the other, as in a text.

    Split the number of a token into frame, row and column, each with pairs of its own.
    """
    coordinates_of(x, grid)
    return plain_apply_rope(x, torch.arange(x.shape[-2], device=x.device), base)


@mistake(of="rope_3d", caught_by=test_grid)
def grid_in_halves(x, grid, base=BASE):
    """Place i is paired with place i + D/2.

    Here the pairs are interleaved: the places (2i, 2i + 1).
    """
    return plain_turn(x, grid_angles(x, grid, base, x.dtype), interleaved=False)


@mistake(of="rope_3d", caught_by=test_grid)
def grid_base_ignored(x, grid, base=BASE):
    """`base` is ignored: the frequencies are those of 10000.

    Use the argument, base**(-i/n).
    """
    return plain_rope_3d(x, grid)


@mistake(of="rope_3d", caught_by=test_float64)
def grid_float64_lowered(x, grid, base=BASE):
    """For a float64 x the angles are computed in float32, and the digits are gone.

    Compute the angles in torch.promote_types(x.dtype, torch.float32).
    """
    return plain_turn(x, grid_angles(x, grid, base, torch.float32))


@mistake(of="rope_3d", caught_by=test_grid_manners)
def grid_angles_in_half_precision(x, grid, base=BASE):
    """The angles are computed in the half precision of x, which rounds them too far.

    Compute positions times frequencies in float32, and convert the result.
    """
    return plain_turn(x, grid_angles(x, grid, base, x.dtype).to(x.dtype))


@mistake(of="rope_3d", caught_by=test_grid_manners)
def columns_in_half_precision(x, grid, base=BASE):
    """Columns are counted in the dtype of x: beyond 256 bfloat16 rounds them.

    Keep coordinates whole, and compute their angles in float32.
    """
    frame, row, column = coordinates_of(x, grid)
    return on_grid(x, (frame, row, column.to(x.dtype)), counts_of(x), base)


@mistake(of="rope_3d", caught_by=test_grid_manners)
def one_token_fits_every_grid(x, grid, base=BASE):
    """A single token is let through with any grid, and turned as every place of it.

    Compare the number of tokens with frames * height * width, also if there is one.
    """
    places = grid[0] * grid[1] * grid[2]
    return plain_rope_3d(x.expand(*x.shape[:-2], places, -1) if x.shape[-2] == 1 else x, grid, base)


@mistake(of="rope_3d", caught_by=test_grid_manners)
def what_is_beyond_the_grid_left(x, grid, base=BASE):
    """Tokens beyond the grid come back as they were, without a word.

    Raise ValueError unless there are frames * height * width of them, with both numbers.
    """
    n = prod(grid)
    return torch.cat([plain_rope_3d(x[..., :n, :], grid, base), x[..., n:, :]], -2)


@mistake(of="rope_3d", caught_by=test_grid_manners)
def grid_overwritten(x, grid, base=BASE):
    """x itself is turned, in place.

    Build a new tensor; the caller may still need the old one.
    """
    x.data.copy_(plain_rope_3d(x.data, grid, base))
    return x + 0


@mistake(of="rope_3d", caught_by=test_grid_manners)
def grid_graph_cut(x, grid, base=BASE):
    """No gradient flows to x: the turn happens under no_grad, or on x.detach().

    Sines and cosines need no gradient, but x does.
    """
    return plain_rope_3d(x.detach(), grid, base)


@mistake(of="rope_3d", caught_by=test_grid, null=True)
def grid_nothing_turned(x, grid, base=BASE):
    """x comes back as it was.

    Turn every pair by its angle.
    """
    return x.clone()


@mistake(of="rope_3d", caught_by=test_grid_manners)
def grid_in_one_place(x, grid, base=BASE, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, plain_rope_3d(x, grid, base))
