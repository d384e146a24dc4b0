"""Wrong answers that show under a few conditions only."""

import torch

from grader.judging import mistake
from reference.ex11_positions import (
    plain_apply_rope,
    plain_coordinates,
    plain_rope_3d,
    plain_sinusoidal_embedding,
    plain_turn,
)

from ..test_positions import (
    test_float64,
    test_grid,
    test_grid_manners,
    test_rope_manners,
    test_sinusoidal_positions,
)
from .shared import (
    BASE,
    angles_of,
    coordinates_of,
    counts_of,
    grid_angles,
    on_grid,
    pairs_of,
    written_out,
)

# Wrong under two or three conditions at once


@mistake(of="sinusoidal_embedding", caught_by=test_float64)
def frequencies_of_the_first_dtype(positions, dim, base=BASE, kept={}):  # noqa: B006 (that is the mistake)
    """The frequencies are kept for each dim and base, in the dtype of the first call.

    Compute them anew, or keep them for each dtype as well: float64 needs its own.
    """
    wide = torch.promote_types(positions.dtype, torch.float32)
    exponents = torch.arange(pairs_of(dim), dtype=wide, device=positions.device) / (dim // 2)
    frequencies = kept.setdefault((dim, base), base**-exponents)
    return written_out(positions.to(wide)[..., None] * frequencies.to(wide))


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
    angles = angles_of(x, positions, base, torch.float32 if narrow else None)
    return plain_turn(x, angles, interleaved)


@mistake(of="rope_3d", caught_by=test_float64)
def grid_table_of_the_first_dtype(x, grid, base=BASE, kept={}):  # noqa: B006 (that is the mistake)
    """The angles are kept for each grid, width and base, in the precision of the first call.

    Compute them anew, or keep them for each dtype as well: float64 needs its own.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    angles = grid_angles(x, grid, base, wide)
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
    coordinates_of(x, grid)
    row, frame, column = plain_coordinates((grid[1], grid[0], grid[2]), x.device)
    return on_grid(x, (frame, row, column), counts_of(x), base)


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
