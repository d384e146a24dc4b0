"""What goes wrong with positions, by name."""

import math
from math import prod

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over
from reference.ex11_positions import (
    plain_angles,
    plain_apply_rope,
    plain_beside,
    plain_coordinates,
    plain_rope_3d,
    plain_sinusoidal_embedding,
    plain_turn,
)

from .test_positions import (
    test_float64,
    test_grid,
    test_grid_manners,
    test_rope,
    test_rope_batch,
    test_rope_half_precision,
    test_rope_halves,
    test_rope_manners,
    test_rope_relative,
    test_sinusoidal,
    test_sinusoidal_positions,
)

BASE = 10000.0


def _pairs(width):
    """How many pairs there are, if the width is even."""
    if width % 2:
        raise ValueError(f"{width} is odd")
    return width // 2


def _written(angles):
    """The embedding of the angles of every pair."""
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def _angles(x, positions, base=BASE, dtype=None):
    """The right angles of x, in another dtype if one is given."""
    pairs = _pairs(x.shape[-1])
    return plain_angles(plain_beside(positions, x), pairs, base, dtype or x.dtype)


def _counted(positions):
    """Positions from 0, whatever was given."""
    return torch.arange(positions.shape[-1], device=positions.device)


# Task 1: sinusoidal embeddings


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal)
def sines_then_cosines(positions, dim, base=BASE):
    """The sines fill the first half and the cosines the second, instead of taking turns.

    Sines on the even places, cosines on the odd ones: stack on a new last axis, then flatten(-2).
    """
    angles = plain_angles(positions, _pairs(dim), base, positions.dtype)
    return torch.cat([angles.sin(), angles.cos()], -1)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal)
def cosines_first(positions, dim, base=BASE):
    """The cosines are on the even places and the sines on the odd ones.

    Place 2i is the sine, place 2i + 1 the cosine.
    """
    angles = plain_angles(positions, _pairs(dim), base, positions.dtype)
    return torch.stack([angles.cos(), angles.sin()], -1).flatten(-2)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal)
def frequency_per_place(positions, dim, base=BASE):
    """Every place has a frequency of its own, so a sine and its cosine do not belong together.

    The places 2i and 2i + 1 share the exponent -2i/dim: use place // 2 * 2.
    """
    angles = plain_angles(positions, 2 * _pairs(dim), base, positions.dtype)
    return torch.stack([angles[..., 0::2].sin(), angles[..., 1::2].cos()], -1).flatten(-2)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal)
def embedding_exponent_halved(positions, dim, base=BASE):
    """The exponent of pair i is -i/dim, half of what it should be, so the angles are too large.

    It is -2i/dim if i counts pairs: torch.arange(0, dim, 2) / dim.
    """
    return _written(plain_angles(positions, _pairs(dim), math.sqrt(base), positions.dtype))


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal)
def exponent_reaches_one(positions, dim, base=BASE):
    """The frequencies are spread so that the last one is 1/base.

    Divide by the number of pairs, not by one less: the last exponent is -(dim - 2)/dim.
    """
    wider = base ** (dim / max(1, dim - 2))
    return _written(plain_angles(positions, _pairs(dim), wider, positions.dtype))


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal)
def embedding_base_ignored(positions, dim, base=BASE):
    """`base` is ignored: the frequencies are those of 10000.

    Use the argument, base**(-2i/dim).
    """
    return plain_sinusoidal_embedding(positions, dim)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal)
def embedding_counts_from_0(positions, dim, base=BASE):
    """The positions are counted from 0 instead of taken from `positions`.

    Compute the angles from the positions that came in, whatever they are.
    """
    places = torch.arange(positions.numel(), device=positions.device, dtype=positions.dtype)
    return plain_sinusoidal_embedding(places.reshape(positions.shape), dim, base)


@mistake(of="sinusoidal_embedding", caught_by=test_float64)
def float64_positions_lowered(positions, dim, base=BASE):
    """float64 positions give float32.

    Take the dtype from the positions: torch.promote_types(positions.dtype, torch.float32).
    """
    return plain_sinusoidal_embedding(positions.float(), dim, base)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal)
def float64_from_integers(positions, dim, base=BASE):
    """Positions that are whole numbers give float64.

    Only float64 positions do; all others give float32.
    """
    return plain_sinusoidal_embedding(positions.double(), dim, base)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal_positions)
def table_of_5000(positions, dim, base=BASE):
    """The embedding comes from a table with rows for 0 to 4999, and other positions exist.

    Compute it from the positions: these may lie further on, below 0, or between whole numbers.
    """
    dtype = torch.promote_types(positions.dtype, torch.float32)
    return plain_sinusoidal_embedding(positions.long().clamp(0, 4999).to(dtype), dim, base)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal_positions)
def embedding_in_half_precision(positions, dim, base=BASE):
    """Positions in half precision give angles in half precision, which are off by whole radians.

    Convert the positions to float32 first, and leave the answer there.
    """
    angles = plain_angles(positions, _pairs(dim), base, positions.dtype)
    narrow = positions.dtype if positions.is_floating_point() else torch.float32
    return _written(angles.to(narrow)).to(angles.dtype)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal_positions)
def odd_dim_cut(positions, dim, base=BASE):
    """An odd `dim` is answered with a sine too many.

    Raise ValueError, with `dim` in its message.
    """
    return plain_sinusoidal_embedding(positions, dim + dim % 2, base)[..., :dim]


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal_positions)
def sign_taken_off(positions, dim, base=BASE):
    """The sign is taken off integers, and the lowest number of an integer dtype keeps it.

    Convert to float32 first: abs() of -128 is -128 in int8.
    """
    signs = torch.ones(2, device=positions.device)
    signs = torch.where(positions[..., None] < 0, -signs, signs)
    answer = plain_sinusoidal_embedding(positions.abs(), dim, base)
    return torch.stack([answer[..., 0::2] * signs[..., :1], answer[..., 1::2]], -1).flatten(-2)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal, null=True)
def no_embedding(positions, dim, base=BASE):
    """Zeros.

    Nothing is computed yet.
    """
    dtype = torch.promote_types(positions.dtype, torch.float32)
    return torch.zeros(*positions.shape, dim, dtype=dtype, device=positions.device)


# Task 2: rotary embeddings


@mistake(of="apply_rope", caught_by=test_rope_batch)
def positions_of_the_first_text(x, positions, base=BASE, interleaved=True):
    """Where there are as many texts as tokens, all texts get the positions of the first.

    Positions (B, L) have a row for each text, whatever B is.
    """
    if positions.shape == (x.shape[-2],) * 2:
        positions = positions[0]
    return plain_apply_rope(x, positions, base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope)
def always_halves(x, positions, base=BASE, interleaved=True):
    """`interleaved` is ignored: place i is always paired with place i + D/2.

    By default the pairs are neighbours, (2i, 2i + 1): x[..., 0::2] and x[..., 1::2].
    """
    return plain_apply_rope(x, positions, base, interleaved=False)


@mistake(of="apply_rope", caught_by=test_rope_halves)
def always_neighbours(x, positions, base=BASE, interleaved=True):
    """`interleaved` is ignored: neighbours are always paired.

    If it is False, the pairs are (i, i + D/2): x.chunk(2, dim=-1).
    """
    return plain_apply_rope(x, positions, base, interleaved=True)


@mistake(of="apply_rope", caught_by=test_rope_halves)
def pairings_swapped(x, positions, base=BASE, interleaved=True):
    """The two pairings are exchanged.

    interleaved=True pairs the places (2i, 2i + 1), interleaved=False (i, i + D/2).
    """
    return plain_apply_rope(x, positions, base, not interleaved)


@mistake(of="apply_rope", caught_by=test_rope)
def angles_of_the_other_pairing(x, positions, base=BASE, interleaved=True):
    """Places are paired in one way and the angles laid out in the other.

    cat([angles, angles]) belongs to (i, i + D/2), repeat_interleave(2) to the neighbours.
    """
    angles = _angles(x, positions, base)
    if interleaved:
        full = torch.cat([angles, angles], -1)
        other = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    else:
        full = angles.repeat_interleave(2, -1)
        other = torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1)
    return x * full.cos().to(x.dtype) + other * full.sin().to(x.dtype)


@mistake(of="apply_rope", caught_by=test_rope)
def clockwise(x, positions, base=BASE, interleaved=True):
    """The pairs turn the wrong way: the sign of the sine is flipped.

    (a, b) becomes (a cos - b sin, a sin + b cos).
    """
    return plain_turn(x, -_angles(x, positions, base), interleaved)


@mistake(of="apply_rope", caught_by=test_rope)
def minus_forgotten(x, positions, base=BASE, interleaved=True):
    """Both places of a pair get a plus, which is no rotation: a pair changes its length.

    The first place is a cos MINUS b sin. In the form x * cos + other * sin, other is (-b, a).
    """
    angles = _angles(x, positions, base)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    parts = a * cos + b * sin, a * sin + b * cos
    return torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)


@mistake(of="apply_rope", caught_by=test_rope)
def new_a_in_b(x, positions, base=BASE, interleaved=True):
    """The second place of a pair is computed from the first one after its turn.

    A slice of a tensor is a view: compute both places before either is written.
    """
    angles = _angles(x, positions, base)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    a = a * cos - b * sin
    parts = a, a * sin + b * cos
    return torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)


@mistake(of="apply_rope", caught_by=test_rope)
def exponent_halved(x, positions, base=BASE, interleaved=True):
    """The exponent of pair i is -i/D, half of what it should be, so the angles are too large.

    It is -2i/D if i counts pairs: torch.arange(0, D, 2) / D.
    """
    return plain_turn(x, _angles(x, positions, math.sqrt(base)), interleaved)


@mistake(of="apply_rope", caught_by=test_rope)
def base_ignored(x, positions, base=BASE, interleaved=True):
    """`base` is ignored: the frequencies are those of 10000.

    Use the argument, base**(-2i/D).
    """
    return plain_apply_rope(x, positions, interleaved=interleaved)


@mistake(of="apply_rope", caught_by=test_rope)
def counts_from_0(x, positions, base=BASE, interleaved=True):
    """The positions are counted from 0 instead of taken from `positions`.

    In decoding a call holds the newest tokens only, far from 0: use the positions given.
    """
    return plain_apply_rope(x, _counted(positions), base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope)
def starts_at_the_first(x, positions, base=BASE, interleaved=True):
    """The first position is used as an offset, and the others are counted on from it.

    Positions need not be consecutive: use each as it is.
    """
    return plain_apply_rope(x, positions[..., :1] + _counted(positions), base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope)
def starts_at_1(x, positions, base=BASE, interleaved=True):
    """Every position is taken one too large.

    The first position is 0, where nothing turns: take the positions as they are.
    """
    return plain_apply_rope(x, positions + 1, base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope)
def added_like_an_embedding(x, positions, base=BASE, interleaved=True):
    """The sines and cosines are added to x.

    RoPE adds nothing: it turns the pairs of x.
    """
    return x + _written(_angles(x, positions, base)).to(x.dtype)


@mistake(of="apply_rope", caught_by=test_float64)
def float64_lowered(x, positions, base=BASE, interleaved=True):
    """For a float64 x the angles are computed in float32, and the digits are gone.

    Compute the angles in torch.promote_types(x.dtype, torch.float32).
    """
    return plain_turn(x, _angles(x, positions, base, torch.float32), interleaved)


@mistake(of="apply_rope", caught_by=test_rope_batch)
def positions_of_the_heads(x, positions, base=BASE, interleaved=True):
    """Positions (B, L) are lined up with the heads: head h gets the positions of text h.

    Give the angles an axis of length 1 for every axis of x between B and L.
    """
    return plain_turn(x, plain_angles(positions, _pairs(x.shape[-1]), base, x.dtype), interleaved)


@mistake(of="apply_rope", caught_by=test_rope_batch)
def positions_of_the_first(x, positions, base=BASE, interleaved=True):
    """All texts of a batch get the positions of the first.

    Each row of positions (B, L) belongs to one text.
    """
    return plain_apply_rope(x, positions.reshape(-1, x.shape[-2])[0], base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope_relative)
def table_of_4096(x, positions, base=BASE, interleaved=True):
    """The angles come from a table with rows for 0 to 4095, and other positions exist.

    Compute them from the positions: these may lie further on, below 0, or between whole numbers.
    """
    return plain_apply_rope(x, positions.long().clamp(0, 4095), base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope_half_precision)
def angles_in_half_precision(x, positions, base=BASE, interleaved=True):
    """The angles are computed in the half precision of x, which cannot tell far positions apart.

    Compute positions times frequencies in float32, and convert the result.
    """
    return plain_turn(x, _angles(x, positions.to(x.dtype), base).to(x.dtype), interleaved)


@mistake(of="apply_rope", caught_by=test_rope_half_precision)
def output_left_in_float32(x, positions, base=BASE, interleaved=True):
    """Half precision comes back as float32.

    Convert the answer to the dtype of x: .to(x.dtype).
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    return plain_apply_rope(x.to(wide), positions, base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope_manners)
def x_overwritten(x, positions, base=BASE, interleaved=True):
    """x itself is turned, in place.

    Build a new tensor; the caller may still need the old one.
    """
    x.data.copy_(plain_apply_rope(x.data, positions, base, interleaved))
    return x + 0


@mistake(of="apply_rope", caught_by=test_rope_manners)
def complex_view(x, positions, base=BASE, interleaved=True):
    """`view_as_complex` refuses pairs that do not lie side by side in memory.

    Make them contiguous first, or take slices with a step: torch.complex(x[..., 0::2], ...).
    """
    if interleaved:
        wide = torch.promote_types(x.dtype, torch.float32)
        torch.view_as_complex(x.to(wide).unflatten(-1, (_pairs(x.shape[-1]), 2)))
    return plain_apply_rope(x, positions, base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope_manners)
def graph_cut(x, positions, base=BASE, interleaved=True):
    """No gradient flows to x: the turn happens under no_grad, or on x.detach().

    Sines and cosines need no gradient, but x does.
    """
    return plain_apply_rope(x.detach(), positions, base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope_manners)
def odd_width_accepted(x, positions, base=BASE, interleaved=True):
    """A last place that has no partner is left as it is, without a word.

    Raise ValueError if D is odd, with D in its message.
    """
    even = x.shape[-1] // 2 * 2
    turned = plain_apply_rope(x[..., :even], positions, base, interleaved)
    return torch.cat([turned, x[..., even:]], -1)


@mistake(of="apply_rope", caught_by=test_rope_manners)
def small_integers_overflow(x, positions, base=BASE, interleaved=True):
    """Positions of int8 are doubled as they are, and are negative from 64 on.

    Convert positions to the dtype of the angles before anything is computed with them.
    """
    if positions.dtype == torch.int8:
        positions = positions * 2 / 2
    return plain_apply_rope(x, positions, base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope_manners)
def negated_as_they_came(x, positions, base=BASE, interleaved=True):
    """Positions are negated in the dtype that they came in, and uint8 has no negative numbers.

    Convert positions to the dtype of the angles before anything is computed with them.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    return plain_apply_rope(x, -(-positions).to(wide), base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope_manners)
def angles_kept_by_their_ends(x, positions, base=BASE, interleaved=True, kept={}):  # noqa: B006
    """The angles are kept under the number, the first and the last of the positions.

    Positions between the same ends may be others: keep nothing, or compare them all.
    """
    angles = _angles(x, positions, base, torch.promote_types(x.dtype, torch.float32))
    ends = tuple(positions.flatten()[[0, -1]].tolist()) if positions.numel() else ()
    angles = kept.setdefault((angles.shape, angles.dtype, base, ends), angles)
    return plain_turn(x.to(angles.dtype), angles, interleaved).to(x.dtype)


@mistake(of="apply_rope", caught_by=test_rope, null=True)
def nothing_turned(x, positions, base=BASE, interleaved=True):
    """x comes back as it was.

    Turn every pair by its angle.
    """
    return x.clone()


@mistake(of="apply_rope", caught_by=test_rope, null=True)
def no_rope(x, positions, base=BASE, interleaved=True):
    """Zeros.

    Nothing is computed yet.
    """
    return torch.zeros_like(x)


# Task 3: a grid


def _on_grid(x, coordinates, counts, base=BASE):
    """The pairs of x turned by `counts` pairs for each of the coordinates; the rest not at all."""
    angles = [plain_angles(p, n, base, x.dtype) for p, n in zip(coordinates, counts, strict=True)]
    angles.append(torch.zeros_like(angles[0][:, :1]).repeat(1, x.shape[-1] // 2 - sum(counts)))
    return plain_turn(x, torch.cat(angles, -1))


def _counts(x):
    """How many pairs turn with the frame, the row and the column."""
    pairs = x.shape[-1] // 2
    return pairs - 2 * (pairs // 3), pairs // 3, pairs // 3


def _coordinates(x, grid):
    """Frame, row and column, and a look at what does not fit."""
    plain_rope_3d(x.detach(), grid)
    return plain_coordinates(grid, x.device)


def _grid_angles(x, grid, base, dtype):
    """The right angles, computed in `dtype`."""
    axes = zip(_coordinates(x, grid), _counts(x), strict=True)
    return torch.cat([plain_angles(at, n, base, dtype) for at, n in axes], -1)


@mistake(of="rope_3d", caught_by=test_grid)
def height_fastest(x, grid, base=BASE):
    """The tokens are counted down the columns: the row runs fastest, not the column.

    Token t sits in column t % width, row t // width % height, frame t // (height * width).
    """
    _coordinates(x, grid)
    frame, column, row = plain_coordinates((grid[0], grid[2], grid[1]), x.device)
    return _on_grid(x, (frame, row, column), _counts(x), base)


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
    return _on_grid(x, _coordinates(x, grid), [x.shape[-1] // 2 // 3] * 3, base)


@mistake(of="rope_3d", caught_by=test_grid)
def rest_dealt_out(x, grid, base=BASE):
    """What does not divide by three is dealt out one by one, as array_split does.

    The frames take all of it: c - 2*(c//3), c//3, c//3.
    """
    pairs = x.shape[-1] // 2
    counts = [(pairs + 2) // 3, (pairs + 1) // 3, pairs // 3]
    return _on_grid(x, _coordinates(x, grid), counts, base)


@mistake(of="rope_3d", caught_by=test_grid)
def one_series_for_all(x, grid, base=BASE):
    """The three axes share one series of frequencies: rows begin where the frames left off.

    Each axis begins at 1 again: its i-th pair of n turns by position * base**(-i/n).
    """
    series = (plain_angles(at, x.shape[-1] // 2, base, x.dtype) for at in _coordinates(x, grid))
    parts = [angles.split(_counts(x), -1)[axis] for axis, angles in enumerate(series)]
    return plain_turn(x, torch.cat(parts, -1))


@mistake(of="rope_3d", caught_by=test_grid)
def exponent_over_all_pairs(x, grid, base=BASE):
    """The exponents are divided by all pairs, or by D, not by the number of pairs of the axis.

    The i-th of an axis's n pairs turns by position * base**(-i/n).
    """
    parts = zip(_coordinates(x, grid), _counts(x), strict=True)
    angles = [plain_angles(p, x.shape[-1] // 2, base, x.dtype)[:, :n] for p, n in parts]
    return plain_turn(x, torch.cat(angles, -1))


@mistake(of="rope_3d", caught_by=test_grid)
def grid_ignored(x, grid, base=BASE):
    """The tokens are numbered one after the other, as in a text.

    Split the number of a token into frame, row and column, each with pairs of its own.
    """
    _coordinates(x, grid)
    return plain_apply_rope(x, torch.arange(x.shape[-2], device=x.device), base)


@mistake(of="rope_3d", caught_by=test_grid)
def grid_in_halves(x, grid, base=BASE):
    """Place i is paired with place i + D/2.

    Here the pairs are interleaved: the places (2i, 2i + 1).
    """
    return plain_turn(x, _grid_angles(x, grid, base, x.dtype), interleaved=False)


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
    return plain_turn(x, _grid_angles(x, grid, base, torch.float32))


@mistake(of="rope_3d", caught_by=test_grid_manners)
def grid_angles_in_half_precision(x, grid, base=BASE):
    """The angles are computed in the half precision of x, which rounds them too far.

    Compute positions times frequencies in float32, and convert the result.
    """
    return plain_turn(x, _grid_angles(x, grid, base, x.dtype).to(x.dtype))


@mistake(of="rope_3d", caught_by=test_grid_manners)
def columns_in_half_precision(x, grid, base=BASE):
    """Columns are counted in the dtype of x: beyond 256 bfloat16 rounds them.

    Keep coordinates whole, and compute their angles in float32.
    """
    frame, row, column = _coordinates(x, grid)
    return _on_grid(x, (frame, row, column.to(x.dtype)), _counts(x), base)


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


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal_positions)
def embedding_in_one_place(positions, dim, base=BASE, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, plain_sinusoidal_embedding(positions, dim, base))


@mistake(of="apply_rope", caught_by=test_rope_manners)
def rope_in_one_place(x, positions, base=BASE, interleaved=True, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, plain_apply_rope(x, positions, base, interleaved))


@mistake(of="rope_3d", caught_by=test_grid_manners)
def grid_in_one_place(x, grid, base=BASE, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, plain_rope_3d(x, grid, base))


# Wrong under two or three conditions at once


@mistake(of="sinusoidal_embedding", caught_by=test_float64)
def frequencies_of_the_first_dtype(positions, dim, base=BASE, kept={}):  # noqa: B006 (that is the mistake)
    """The frequencies are kept for each dim and base, in the dtype of the first call.

    Compute them anew, or keep them for each dtype as well: float64 needs its own.
    """
    wide = torch.promote_types(positions.dtype, torch.float32)
    exponents = torch.arange(_pairs(dim), dtype=wide, device=positions.device) / (dim // 2)
    frequencies = kept.setdefault((dim, base), base**-exponents)
    return _written(positions.to(wide)[..., None] * frequencies.to(wide))


@mistake(of="apply_rope", caught_by=test_rope_manners)
def base_forgotten_text_by_text(x, positions, base=BASE, interleaved=True):
    """With positions (B, L) every text is turned by a call of its own, which is not given the base.

    Pass everything on: apply_rope(text, row, base, interleaved).
    """
    given = BASE if positions.ndim == 2 else base
    return plain_apply_rope(x, positions, given, interleaved)


@mistake(of="apply_rope", caught_by=test_float64)
def angles_as_narrow_as_the_positions(x, positions, base=BASE, interleaved=True):
    """Positions in half precision are raised to float32, and the angles of a float64 x with them.

    Whatever the positions are, the angles of a float64 x are float64.
    """
    narrow = positions.is_floating_point() and positions.dtype.itemsize == 2
    angles = _angles(x, positions, base, torch.float32 if narrow else None)
    return plain_turn(x, angles, interleaved)


@mistake(of="rope_3d", caught_by=test_float64)
def grid_table_of_the_first_dtype(x, grid, base=BASE, kept={}):  # noqa: B006 (that is the mistake)
    """The angles are kept for each grid, width and base, in the precision of the first call.

    Compute them anew, or keep them for each dtype as well: float64 needs its own.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    angles = _grid_angles(x, grid, base, wide)
    angles = kept.setdefault((tuple(grid), x.shape[-1], base), angles)
    return plain_turn(x.to(wide), angles.to(wide)).to(x.dtype)


@mistake(of="rope_3d", caught_by=test_float64)
def grid_float64_beside_the_graph(x, grid, base=BASE):
    """No gradient flows to a float64 x, which is turned with NumPy or under no_grad.

    Keep to PyTorch's operators in every dtype: a graph goes through all of them.
    """
    return plain_rope_3d(x.detach() if x.dtype == torch.float64 else x, grid, base)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal_positions)
def frequencies_kept_by_the_rounded_base(positions, dim, base=BASE, kept={}):  # noqa: B006
    """The frequencies are kept under the base rounded to a whole number: another base near it gets
    them too.

    Keep them under the base as it is, or compute them anew.
    """
    return plain_sinusoidal_embedding(positions, dim, kept.setdefault((dim, round(base)), base))


@mistake(of="apply_rope", caught_by=test_float64)
def positions_of_int32(x, positions, base=BASE, interleaved=True):
    """Whole positions are lowered to int32, in which 2**31 and beyond become others.

    Convert to the dtype of the angles and to no other.
    """
    if not positions.is_floating_point():
        positions = positions.to(torch.int32)
    return plain_apply_rope(x, positions, base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope_manners)
def angles_of_the_rounded_base(x, positions, base=BASE, interleaved=True, kept={}):  # noqa: B006
    """The frequencies are kept under the base rounded to a whole number: another base near it gets
    them too.

    Keep them under the base as it is, or compute them anew.
    """
    base = kept.setdefault((x.shape[-1], round(base)), base)
    return plain_apply_rope(x, positions, base, interleaved)


@mistake(of="rope_3d", caught_by=test_grid_manners)
def grid_angles_of_the_rounded_base(x, grid, base=BASE, kept={}):  # noqa: B006
    """The angles are kept for each grid under the base rounded to a whole number: another base near
    it gets them too.

    Keep them under the base as it is, or compute them anew.
    """
    return plain_rope_3d(x, grid, kept.setdefault((tuple(grid), x.shape[-1], round(base)), base))


@mistake(of="rope_3d", caught_by=test_grid)
def frames_and_rows_exchanged(x, grid, base=BASE):
    """The frame runs faster than the row, as with torch.meshgrid(..., indexing="xy").

    The order of the tokens is frame, row, column, the last the fastest: indexing="ij".
    """
    _coordinates(x, grid)
    row, frame, column = plain_coordinates((grid[1], grid[0], grid[2]), x.device)
    return _on_grid(x, (frame, row, column), _counts(x), base)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal_positions)
def embedded_positions_of_int32(positions, dim, base=BASE):
    """Whole positions are lowered to int32, in which 2**31 and beyond become others.

    Convert to the dtype of the angles and to no other.
    """
    whole = not positions.is_floating_point()
    return plain_sinusoidal_embedding(positions.to(torch.int32) if whole else positions, dim, base)


@mistake(of="apply_rope", caught_by=test_float64)
def whole_positions_through_float32(x, positions, base=BASE, interleaved=True):
    """Whole positions become float32 for a float64 x, too: 2**24 + 1 becomes 2**24.

    Convert them to the dtype of the angles at once.
    """
    positions = positions if positions.is_floating_point() else positions.float()
    return plain_apply_rope(x, positions, base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope_manners)
def first_text_asked_of_no_texts(x, positions, base=BASE, interleaved=True):
    """Where all texts have the same positions those of the first are taken, and an empty batch has
    no first.

    Leave (B, L) as it is: of no texts come no angles.
    """
    if positions.ndim == 2 and (positions == positions[:1]).all():
        positions = positions[0]
    return plain_apply_rope(x, positions, base, interleaved)


@mistake(of="apply_rope", caught_by=test_rope_manners)
def graph_cut_where_nothing_turns(x, positions, base=BASE, interleaved=True):
    """Where all positions are 0 a detached x is returned: its gradient is lost.

    Turn by angles of 0 as by any others.
    """
    answer = plain_apply_rope(x, positions, base, interleaved)
    return answer if positions.any() else answer.detach()
