# Skeleton ex11_positions 5662d92851ec4d82. The lesson: docs/lessons/ex11_positions.en.md
"""Positions: write the bodies, then run `make grade EX=ex11_positions`.

Not allowed: PyTorch's fused attention operator and its attention modules. Write it with
torch.sin, torch.cos and arithmetic.
"""

from math import prod

import torch


def sinusoidal_embedding(positions: torch.Tensor, dim: int, base: float = 10000.0) -> torch.Tensor:
    """Write sines on the even and cosines on the odd places, a frequency for each pair.

    positions  integers or floats of any dtype and shape (...), near or far, of either sign
    dim        how many places, an even number
    returns    (..., dim): place 2i is sin(position * base**(-2i/dim)), place 2i + 1 the cosine of
               the same angle; float64 for float64 positions, float32 for all others
    raises     ValueError if `dim` is odd, naming it
    """
    raise NotImplementedError(
        "Write sines on the even and cosines on the odd places, a frequency for each pair."
    )


def apply_rope(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0, interleaved: bool = True
) -> torch.Tensor:
    """Turn every pair of places by its angle, the position times the frequency of the pair.

    x            (..., L, D), queries or keys
    positions    integers or floats of any dtype, (L,); or (B, L) if the first dimension of x is B
    interleaved  True: pair i of D/2 is the places (2i, 2i + 1); False: (i, i + D/2)
    returns      (..., L, D) in the dtype of x: (a cos - b sin, a sin + b cos) for every pair
                 (a, b), whose angle is position * base**(-2i/D), computed in float32 at least and
                 in float64 for a float64 x. x stays as it was; gradients flow to it
    raises       ValueError if D is odd, naming it
    """
    raise NotImplementedError(
        "Turn every pair of places by its angle, the position times the frequency of the pair."
    )


def rope_3d(x: torch.Tensor, grid: tuple[int, int, int], base: float = 10000.0) -> torch.Tensor:
    """Turn the first pairs by the token's frame, the next by its row, the last by its column.

    x        (..., frames * height * width, D), the tokens of the grid, width fastest
    grid     (frames, height, width)
    returns  (..., frames * height * width, D) in the dtype of x, which stays as it was; gradients
             flow to it, and float64 is computed in float64. Of the c = D/2 (3 or more) interleaved
             pairs the first c - 2*(c//3) turn with the frame, the next c//3 with the row, the last
             c//3 with the column; the i-th of an axis's n pairs by position * base**(-i/n)
    raises   ValueError if the number of tokens is not the product of the grid, naming both numbers,
             or if D is odd, naming it
    """
    raise NotImplementedError(
        "Turn the first pairs by the token's frame, the next by its row, the last by its column."
    )
