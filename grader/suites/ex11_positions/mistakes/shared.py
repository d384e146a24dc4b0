"""Steps that wrong answers to several tasks share."""

import torch

from reference.ex11_positions import (
    plain_angles,
    plain_beside,
    plain_coordinates,
    plain_rope_3d,
    plain_turn,
)

BASE = 10000.0


def pairs_of(width):
    """How many pairs there are, if the width is even."""
    if width % 2:
        raise ValueError(f"{width} is odd")
    return width // 2


def written_out(angles):
    """The embedding of the angles of every pair."""
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def angles_of(x, positions, base=BASE, dtype=None):
    """The right angles of x, in another dtype if one is given."""
    pairs = pairs_of(x.shape[-1])
    return plain_angles(plain_beside(positions, x), pairs, base, dtype or x.dtype)


# Task 3: a grid


def on_grid(x, coordinates, counts, base=BASE):
    """The pairs of x turned by `counts` pairs for each of the coordinates; the rest not at all."""
    angles = [plain_angles(p, n, base, x.dtype) for p, n in zip(coordinates, counts, strict=True)]
    angles.append(torch.zeros_like(angles[0][:, :1]).repeat(1, x.shape[-1] // 2 - sum(counts)))
    return plain_turn(x, torch.cat(angles, -1))


def counts_of(x):
    """How many pairs turn with the frame, the row and the column."""
    pairs = x.shape[-1] // 2
    return pairs - 2 * (pairs // 3), pairs // 3, pairs // 3


def coordinates_of(x, grid):
    """Frame, row and column, and a look at what does not fit."""
    plain_rope_3d(x.detach(), grid)
    return plain_coordinates(grid, x.device)


def grid_angles(x, grid, base, dtype):
    """The right angles, computed in `dtype`."""
    axes = zip(coordinates_of(x, grid), counts_of(x), strict=True)
    return torch.cat([plain_angles(at, n, base, dtype) for at, n in axes], -1)
