"""Wrong answers to `sinusoidal_embedding`."""

import math

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over
from reference.ex11_positions import (
    plain_angles,
    plain_sinusoidal_embedding,
)

from ..test_positions import (
    test_float64,
    test_sinusoidal,
    test_sinusoidal_positions,
)
from .shared import BASE, pairs_of, written_out

# Task 1: sinusoidal embeddings


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal)
def sines_then_cosines(positions, dim, base=BASE):
    """The sines fill the first half and the cosines the second, instead of taking turns.

    Sines on the even places, cosines on the odd ones: stack on a new last axis, then flatten(-2).
    """
    angles = plain_angles(positions, pairs_of(dim), base, positions.dtype)
    return torch.cat([angles.sin(), angles.cos()], -1)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal)
def cosines_first(positions, dim, base=BASE):
    """The cosines are on the even places and the sines on the odd ones.

    Place 2i is the sine, place 2i + 1 the cosine.
    """
    angles = plain_angles(positions, pairs_of(dim), base, positions.dtype)
    return torch.stack([angles.cos(), angles.sin()], -1).flatten(-2)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal)
def frequency_per_place(positions, dim, base=BASE):
    """Every place has a frequency of its own, so a sine and its cosine do not belong together.

    The places 2i and 2i + 1 share the exponent -2i/dim: use place // 2 * 2.
    """
    angles = plain_angles(positions, 2 * pairs_of(dim), base, positions.dtype)
    return torch.stack([angles[..., 0::2].sin(), angles[..., 1::2].cos()], -1).flatten(-2)


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal)
def embedding_exponent_halved(positions, dim, base=BASE):
    """The exponent of pair i is -i/dim, half of what it should be, so the angles are too large.

    It is -2i/dim if i counts pairs: torch.arange(0, dim, 2) / dim.
    """
    return written_out(plain_angles(positions, pairs_of(dim), math.sqrt(base), positions.dtype))


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal)
def exponent_reaches_one(positions, dim, base=BASE):
    """The frequencies are spread so that the last one is 1/base.

    Divide by the number of pairs, not by one less: the last exponent is -(dim - 2)/dim.
    """
    wider = base ** (dim / max(1, dim - 2))
    return written_out(plain_angles(positions, pairs_of(dim), wider, positions.dtype))


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
    angles = plain_angles(positions, pairs_of(dim), base, positions.dtype)
    narrow = positions.dtype if positions.is_floating_point() else torch.float32
    return written_out(angles.to(narrow)).to(angles.dtype)


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


@mistake(of="sinusoidal_embedding", caught_by=test_sinusoidal_positions)
def embedding_in_one_place(positions, dim, base=BASE, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, plain_sinusoidal_embedding(positions, dim, base))
