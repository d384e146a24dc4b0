"""Wrong answers to `apply_rope`."""

import math

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over
from reference.ex11_positions import (
    plain_angles,
    plain_apply_rope,
    plain_turn,
)

from ..test_positions import (
    test_float64,
    test_rope,
    test_rope_batch,
    test_rope_half_precision,
    test_rope_halves,
    test_rope_manners,
    test_rope_relative,
)
from .shared import BASE, angles_of, pairs_of, written_out


def _counted(positions):
    """Positions from 0, whatever was given."""
    return torch.arange(positions.shape[-1], device=positions.device)


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
    angles = angles_of(x, positions, base)
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
    return plain_turn(x, -angles_of(x, positions, base), interleaved)


@mistake(of="apply_rope", caught_by=test_rope)
def neighbours_clockwise(x, positions, base=BASE, interleaved=True):
    """With interleaved=True the pairs turn the wrong way: the sign of the sine is flipped.

    (a, b) becomes (a cos - b sin, a sin + b cos), as with interleaved=False.
    """
    angles = angles_of(x, positions, base)
    return plain_turn(x, -angles if interleaved else angles, interleaved)


@mistake(of="apply_rope", caught_by=test_rope_halves)
def halves_clockwise(x, positions, base=BASE, interleaved=True):
    """With interleaved=False the pairs turn the wrong way: the sign of the sine is flipped.

    (a, b) becomes (a cos - b sin, a sin + b cos), as with interleaved=True.
    """
    angles = angles_of(x, positions, base)
    return plain_turn(x, angles if interleaved else -angles, interleaved)


@mistake(of="apply_rope", caught_by=test_rope)
def minus_forgotten(x, positions, base=BASE, interleaved=True):
    """Both places of a pair get a plus, which is no rotation: a pair changes its length.

    The first place is a cos MINUS b sin. In the form x * cos + other * sin, other is (-b, a).
    """
    angles = angles_of(x, positions, base)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    parts = a * cos + b * sin, a * sin + b * cos
    return torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)


@mistake(of="apply_rope", caught_by=test_rope)
def new_a_in_b(x, positions, base=BASE, interleaved=True):
    """The second place of a pair is computed from the first one after its turn.

    A slice of a tensor is a view: compute both places before either is written.
    """
    angles = angles_of(x, positions, base)
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
    return plain_turn(x, angles_of(x, positions, math.sqrt(base)), interleaved)


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
    return x + written_out(angles_of(x, positions, base)).to(x.dtype)


@mistake(of="apply_rope", caught_by=test_float64)
def float64_lowered(x, positions, base=BASE, interleaved=True):
    """For a float64 x the angles are computed in float32, and the digits are gone.

    Compute the angles in torch.promote_types(x.dtype, torch.float32).
    """
    return plain_turn(x, angles_of(x, positions, base, torch.float32), interleaved)


@mistake(of="apply_rope", caught_by=test_rope_batch)
def positions_of_the_heads(x, positions, base=BASE, interleaved=True):
    """Positions (B, L) are lined up with the heads: head h gets the positions of text h.

    Give the angles an axis of length 1 for every axis of x between B and L.
    """
    return plain_turn(x, plain_angles(positions, pairs_of(x.shape[-1]), base, x.dtype), interleaved)


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
    return plain_turn(x, angles_of(x, positions.to(x.dtype), base).to(x.dtype), interleaved)


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
        torch.view_as_complex(x.to(wide).unflatten(-1, (pairs_of(x.shape[-1]), 2)))
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
    angles = angles_of(x, positions, base, torch.promote_types(x.dtype, torch.float32))
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


@mistake(of="apply_rope", caught_by=test_rope_manners)
def rope_in_one_place(x, positions, base=BASE, interleaved=True, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, plain_apply_rope(x, positions, base, interleaved))
