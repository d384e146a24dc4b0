"""Sinusoidal embeddings (Vaswani et al. 2017, section 3.5) and rotary ones (Su et al. 2021).

The 3-D form splits the pairs of a head as the video models do that are published as Wan 2.1.

A float32 angle of 100,000 radians is known to about 0.01: whoever rounds the frequency otherwise
gets another angle, rightly so. The magnitude of an answer therefore grows with its positions.
"""

from math import prod

import numpy as np
import torch
from torch import Tensor

from reference.expected import Array, Expected, f64, gradients, largest

# How much the floor of each dtype has to grow with the position, so that it allows for 16 roundings
# of a float32 angle (the floor of float32 is 16 of its own roundings, that of the halves is 2).
# Angles in float64 are exact enough as they are.
GROWTH = {torch.float32: 1.0, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-13, torch.float64: 0.0}


def sinusoidal_embedding(positions: Tensor, dim: int, base: float = 10000.0) -> Expected:
    """The embedding (..., dim) of positions (...)."""
    exact = exact_sinusoidal_embedding(f64(positions), dim, base)
    plain = plain_sinusoidal_embedding(positions, dim, base)
    return Expected(exact, plain, max(1.0, GROWTH[plain.dtype] * largest(positions)))


def apply_rope(
    x: Tensor, positions: Tensor, base: float = 10000.0, interleaved: bool = True
) -> Expected:
    """x (..., L, D), its pairs turned by the angles of the positions (L,) or (B, L)."""
    exact = exact_rope(f64(x), f64(positions), base, interleaved)
    plain = plain_apply_rope(x.detach(), positions, base, interleaved)
    return Expected(exact, plain, _size(x, largest(positions)))


def rope_3d(x: Tensor, grid: tuple[int, int, int], base: float = 10000.0) -> Expected:
    """x (..., frames * height * width, D), its pairs turned by frame, row and column."""
    plain = plain_rope_3d(x.detach(), grid, base)
    return Expected(exact_rope_3d(f64(x), grid, base), plain, _size(x, max(grid)))


def apply_rope_gradients(
    x: Tensor,
    positions: Tensor,
    base: float = 10000.0,
    interleaved: bool = True,
    *,
    upstream: Tensor,
) -> tuple[Expected, ...]:
    """The gradient of x alone, in a tuple, for the gradient `upstream` of the answer."""
    return gradients(
        lambda x: plain_apply_rope(x, positions, base, interleaved),
        x,
        upstream=upstream,
        magnitude=_size(upstream, largest(positions)),
    )


def rope_3d_gradients(
    x: Tensor, grid: tuple[int, int, int], base: float = 10000.0, *, upstream: Tensor
) -> tuple[Expected, ...]:
    """The gradient of x alone, in a tuple, for the gradient `upstream` of the answer."""
    return gradients(
        lambda x: plain_rope_3d(x, grid, base),
        x,
        upstream=upstream,
        magnitude=_size(upstream, max(grid)),
    )


def _size(x: Tensor, position: float) -> float:
    """The magnitude of a rotated x: its own, and the roundings of the largest angle."""
    return largest(x) * max(1.0, GROWTH[x.dtype] * position)


# The oracle: one frequency after the other, a rotation written into a new array.


def exact_angles(positions: Array, pairs: int, base: float) -> Array:
    """`position * base**(-i / pairs)`: positions (...) -> (..., pairs)."""
    frequencies = np.array([float(base) ** (-i / pairs) for i in range(pairs)])
    return np.asarray(positions[..., None] * frequencies)


def exact_sinusoidal_embedding(positions: Array, dim: int, base: float) -> Array:
    """Sines on the even places, cosines on the odd ones."""
    angles = exact_angles(positions, dim // 2, base)
    embedding = np.empty((*positions.shape, dim))
    embedding[..., 0::2] = np.sin(angles)
    embedding[..., 1::2] = np.cos(angles)
    return embedding


def exact_turn(x: Array, angles: Array, interleaved: bool = True) -> Array:
    """Every pair of x (..., L, D) turned by its angle, which broadcasts to (..., L, D/2)."""
    places = np.arange(x.shape[-1])
    first, second = (places[0::2], places[1::2]) if interleaved else np.split(places, 2)
    a, b = x[..., first], x[..., second]
    turned = np.empty(x.shape)
    turned[..., first] = a * np.cos(angles) - b * np.sin(angles)
    turned[..., second] = a * np.sin(angles) + b * np.cos(angles)
    return turned


def exact_rope(x: Array, positions: Array, base: float, interleaved: bool) -> Array:
    """The oracle of `apply_rope`."""
    if positions.ndim == 2:  # the same for every head between B and L
        positions = np.expand_dims(positions, tuple(range(1, x.ndim - 2)))
    return exact_turn(x, exact_angles(positions, x.shape[-1] // 2, base), interleaved)


def exact_rope_3d(x: Array, grid: tuple[int, int, int], base: float) -> Array:
    """The oracle of `rope_3d`."""
    pairs = x.shape[-1] // 2
    counts = pairs - 2 * (pairs // 3), pairs // 3, pairs // 3
    coordinates = np.indices(grid).reshape(3, -1)  # frame, row, column of every token
    angles = [exact_angles(p, n, base) for p, n in zip(coordinates, counts, strict=True)]
    return exact_turn(x, np.concatenate(angles, -1))


# The yardstick: angles as wide as the task says, sines, cosines and products in the dtype of x.


def plain_angles(positions: Tensor, pairs: int, base: float, dtype: torch.dtype) -> Tensor:
    """`position * base**(-i / pairs)`, in float32, or in float64 if `dtype` is that."""
    wide = torch.promote_types(dtype, torch.float32)
    exponents = torch.arange(pairs, device=positions.device, dtype=wide) / pairs
    return positions.to(wide).unsqueeze(-1) * base**-exponents


def plain_sinusoidal_embedding(positions: Tensor, dim: int, base: float = 10000.0) -> Tensor:
    """The yardstick of `sinusoidal_embedding`."""
    _even(dim)
    angles = plain_angles(positions, dim // 2, base, positions.dtype)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def plain_turn(x: Tensor, angles: Tensor, interleaved: bool = True) -> Tensor:
    """Every pair of x (..., L, D) turned by its angle, in the dtype of x."""
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = a * cos - b * sin, a * sin + b * cos
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


def plain_beside(positions: Tensor, x: Tensor) -> Tensor:
    """Positions that broadcast against x (..., L, D) without its last axis."""
    if positions.ndim < 2:
        return positions
    batch, length = positions.shape
    return positions.reshape(batch, *[1] * (x.ndim - 3), length)


def plain_apply_rope(
    x: Tensor, positions: Tensor, base: float = 10000.0, interleaved: bool = True
) -> Tensor:
    """The yardstick of `apply_rope`."""
    _even(x.shape[-1])
    angles = plain_angles(plain_beside(positions, x), x.shape[-1] // 2, base, x.dtype)
    return plain_turn(x, angles, interleaved)


def plain_coordinates(grid: tuple[int, int, int], device: torch.device) -> tuple[Tensor, ...]:
    """The frame, the row and the column of every token."""
    axes = [torch.arange(n, device=device) for n in grid]
    return tuple(axis.flatten() for axis in torch.meshgrid(*axes, indexing="ij"))


def plain_rope_3d(x: Tensor, grid: tuple[int, int, int], base: float = 10000.0) -> Tensor:
    """The yardstick of `rope_3d`."""
    length, width = x.shape[-2:]
    _even(width)
    if length != prod(grid):
        raise ValueError(f"{length} tokens do not fill a grid of {prod(grid)}")
    pairs = width // 2
    counts = pairs - 2 * (pairs // 3), pairs // 3, pairs // 3
    parts = zip(plain_coordinates(grid, x.device), counts, strict=True)
    return plain_turn(x, torch.cat([plain_angles(p, n, base, x.dtype) for p, n in parts], -1))


def _even(width: int) -> None:
    if width % 2:
        raise ValueError(f"{width} places do not make pairs")
