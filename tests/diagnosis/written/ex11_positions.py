"""Wrong answers to ex11_positions, written with nothing but the skeleton in sight."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import torch

from tests.diagnosis.written import wrong

if TYPE_CHECKING:  # the name that an answer finds in the rest of its file
    from exercises.ex11_positions import apply_rope


@wrong(of="sinusoidal_embedding", mistakes=1)
def sines_then_cosines(positions: torch.Tensor, dim: int, base: float = 10000.0) -> torch.Tensor:
    """All sines stand in the first half and all cosines in the second, instead of side by side."""
    if dim % 2:
        raise ValueError(f"dim {dim} is odd")
    dtype = torch.float64 if positions.dtype == torch.float64 else torch.float32
    i = torch.arange(dim // 2, dtype=torch.float64, device=positions.device)
    freq = base ** (-2 * i / dim)
    angles = positions[..., None].to(torch.float64) * freq
    return torch.cat([angles.sin(), angles.cos()], dim=-1).to(dtype)


@wrong(of="sinusoidal_embedding", mistakes=1)
def factor_two_missing(positions: torch.Tensor, dim: int, base: float = 10000.0) -> torch.Tensor:
    """The exponent of the frequencies is -i/dim: the 2 is missing, and they fall too slowly."""
    if dim % 2 == 1:
        raise ValueError(f"dim must be even, not {dim}")
    wide = torch.promote_types(positions.dtype, torch.float32)
    i = torch.arange(dim // 2, device=positions.device, dtype=wide)
    angles = positions.to(wide).unsqueeze(-1) * torch.pow(base, -i / dim)
    out = torch.zeros(*positions.shape, dim, dtype=wide, device=positions.device)
    out[..., 0::2] = torch.sin(angles)
    out[..., 1::2] = torch.cos(angles)
    return out


@wrong(of="sinusoidal_embedding", mistakes=1)
def positions_rounded_to_half(
    positions: torch.Tensor, dim: int, base: float = 10000.0
) -> torch.Tensor:
    """The angles of positions in half precision are computed in half precision."""
    if dim % 2:
        raise ValueError(f"dim is {dim}, which is odd")
    p = positions if positions.is_floating_point() else positions.to(torch.float32)
    i = torch.arange(dim // 2, dtype=torch.float32, device=p.device)
    freq = (base ** (-2.0 * i / dim)).to(p.dtype)
    angles = p[..., None] * freq
    pairs = torch.stack([torch.sin(angles), torch.cos(angles)], dim=-1)
    result = torch.float64 if positions.dtype == torch.float64 else torch.float32
    return pairs.flatten(-2).to(result)


@wrong(of="sinusoidal_embedding", mistakes=2)
def cosine_first_and_odd_widths(
    positions: torch.Tensor, dim: int, base: float = 10000.0
) -> torch.Tensor:
    """The cosines stand on the even places and the sines on the odd ones.

    An odd dim is not refused; the last place stays 0.
    """
    wide = torch.promote_types(positions.dtype, torch.float32)
    table = torch.zeros(*positions.shape, dim, dtype=wide, device=positions.device)
    for i in range(dim // 2):
        angle = positions.to(wide) * base ** (-2 * i / dim)
        table[..., 2 * i] = torch.cos(angle)
        table[..., 2 * i + 1] = torch.sin(angle)
    return table


@wrong(of="sinusoidal_embedding", mistakes=2)
def growing_frequency_in_float32(
    positions: torch.Tensor, dim: int, base: float = 10000.0
) -> torch.Tensor:
    """The exponent has the wrong sign, so the frequencies grow instead of falling.

    float64 positions are computed in float32.
    """
    if dim % 2:
        raise ValueError(f"dim has to be even, got {dim}")
    exponent = torch.arange(0, dim, 2, dtype=torch.float32, device=positions.device) / dim
    angles = torch.einsum("...,f->...f", positions.to(torch.float32), base**exponent)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).reshape(*positions.shape, dim)


@wrong(of="apply_rope", mistakes=1)
def always_in_halves(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0, interleaved: bool = True
) -> torch.Tensor:
    """The pairs are always (i, i + D/2), as in LLaMA's code; `interleaved` is not looked at."""
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"D is odd: {d}")
    wide = torch.promote_types(x.dtype, torch.float32)
    freq = base ** (-torch.arange(0, d, 2, dtype=wide, device=x.device) / d)
    angle = positions.to(wide)[..., None] * freq
    while positions.dim() == 2 and angle.dim() < x.dim():
        angle = angle.unsqueeze(1)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    y = x.to(wide)
    a, b = y.chunk(2, dim=-1)
    rotated = torch.cat([-b, a], dim=-1)
    return (y * cos + rotated * sin).to(x.dtype)


@wrong(of="apply_rope", mistakes=1)
def turned_clockwise(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0, interleaved: bool = True
) -> torch.Tensor:
    """The pairs turn the other way round: (a cos + b sin, b cos - a sin)."""
    d = x.shape[-1]
    if d % 2 != 0:
        raise ValueError(f"the width {d} is odd")
    wide = torch.promote_types(x.dtype, torch.float32)
    i = torch.arange(d // 2, dtype=wide, device=x.device)
    angle = positions.to(wide).unsqueeze(-1) * base ** (-2 * i / d)
    if positions.dim() == 2:
        angle = angle.view(angle.shape[0], *([1] * (x.dim() - 3)), *angle.shape[1:])
    cos, sin = torch.cos(angle), torch.sin(angle)
    if interleaved:
        a, b = x[..., 0::2].to(wide), x[..., 1::2].to(wide)
    else:
        a, b = x[..., : d // 2].to(wide), x[..., d // 2 :].to(wide)
    new_a, new_b = a * cos + b * sin, b * cos - a * sin
    if interleaved:
        return torch.stack([new_a, new_b], dim=-1).flatten(-2).to(x.dtype)
    return torch.cat([new_a, new_b], dim=-1).to(x.dtype)


@wrong(of="apply_rope", mistakes=1)
def row_numbers_for_positions(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0, interleaved: bool = True
) -> torch.Tensor:
    """The tokens are counted from 0; the positions that are given are not looked at."""
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"D={d} is odd")
    wide = torch.promote_types(x.dtype, torch.float32)
    index = torch.arange(x.shape[-2], dtype=wide, device=x.device)
    freq = base ** (-2 * torch.arange(d // 2, dtype=wide, device=x.device) / d)
    angle = torch.outer(index, freq)
    cos, sin = angle.cos(), angle.sin()
    y = x.to(wide)
    if interleaved:
        a, b = y.unflatten(-1, (d // 2, 2)).unbind(-1)
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)
    a, b = y.split(d // 2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)


@wrong(of="apply_rope", mistakes=1)
def second_place_from_the_turned_first(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0, interleaved: bool = True
) -> torch.Tensor:
    """The second place of a pair is computed from the first one after it has been turned."""
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"D={d} is odd")
    wide = torch.promote_types(x.dtype, torch.float32)
    freq = base ** (-2 * torch.arange(d // 2, dtype=wide, device=x.device) / d)
    angle = positions.to(wide)[..., None] * freq
    if positions.dim() == 2:
        for _ in range(x.dim() - 3):
            angle = angle[:, None]
    first = slice(0, None, 2) if interleaved else slice(0, d // 2)
    second = slice(1, None, 2) if interleaved else slice(d // 2, None)
    y = x.to(wide)
    a = y[..., first] * angle.cos() - y[..., second] * angle.sin()
    b = a * angle.sin() + y[..., second] * angle.cos()
    out = torch.empty_like(y)
    out[..., first] = a
    out[..., second] = b
    return out.to(x.dtype)


@wrong(of="apply_rope", mistakes=2)
def pairs_come_back_in_halves(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0, interleaved: bool = True
) -> torch.Tensor:
    """Interleaved pairs are turned rightly but joined in halves, so the places change order.

    The angles are computed in half precision if x is in half precision.
    """
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"D={d} is odd")
    freq = base ** (-2 * torch.arange(d // 2, dtype=x.dtype, device=x.device) / d)
    angle = positions.to(x.dtype).unsqueeze(-1) * freq
    if positions.dim() == 2:
        angle = angle.reshape(angle.shape[0], *([1] * (x.dim() - 3)), *angle.shape[1:])
    cos, sin = angle.cos(), angle.sin()
    if interleaved:
        a, b = x[..., ::2], x[..., 1::2]
    else:
        a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


@wrong(of="apply_rope", mistakes=2)
def flag_swapped_and_slow(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0, interleaved: bool = True
) -> torch.Tensor:
    """The flag is read the wrong way round: interleaved gives halves and the other way about.

    The exponent of the frequencies is -i/D, without the 2.
    """
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"D={d} is odd")
    half = d // 2
    wide = torch.promote_types(x.dtype, torch.float32)
    angle = positions.to(wide)[..., None] * base ** (
        -torch.arange(half, dtype=wide, device=x.device) / d
    )
    if positions.dim() == 2:
        angle = angle[(slice(None),) + (None,) * (x.dim() - 3)]
    turn = torch.polar(torch.ones_like(angle), angle)
    y = x.to(wide)
    if interleaved:
        z = torch.complex(y[..., :half].contiguous(), y[..., half:].contiguous()) * turn
        return torch.cat([z.real, z.imag], dim=-1).to(x.dtype)
    z = torch.complex(y[..., 0::2].contiguous(), y[..., 1::2].contiguous()) * turn
    return torch.view_as_real(z).flatten(-2).to(x.dtype)


@wrong(of="apply_rope", mistakes=2)
def changes_x_and_base_ignored(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0, interleaved: bool = True
) -> torch.Tensor:
    """The turned places are written into x itself, which the caller still has.

    The base is always 10000, whatever is given.
    """
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"D={d} is odd")
    wide = torch.promote_types(x.dtype, torch.float32)
    freq = 1.0 / 10000.0 ** (torch.arange(0, d, 2, dtype=wide, device=x.device) / d)
    angle = positions.to(wide)[..., None] * freq
    if positions.dim() == 2:
        angle = angle.reshape(len(positions), *([1] * (x.dim() - 3)), *angle.shape[1:])
    cos, sin = torch.cos(angle), torch.sin(angle)
    even = slice(0, d, 2) if interleaved else slice(0, d // 2)
    odd = slice(1, d, 2) if interleaved else slice(d // 2, d)
    a, b = x[..., even].to(wide, copy=True), x[..., odd].to(wide, copy=True)
    with torch.no_grad():
        x[..., even] = (a * cos - b * sin).to(x.dtype)
        x[..., odd] = (a * sin + b * cos).to(x.dtype)
    return x


@wrong(of="rope_3d", mistakes=1)
def rows_and_columns_swapped(
    x: torch.Tensor, grid: tuple[int, int, int], base: float = 10000.0
) -> torch.Tensor:
    """The pairs of the row turn with the column and those of the column with the row."""
    frames, height, width = grid
    length, d = x.shape[-2:]
    if d % 2:
        raise ValueError(f"D is odd: {d}")
    if length != frames * height * width:
        raise ValueError(f"{length} tokens, but the grid has {frames * height * width}")
    wide = torch.promote_types(x.dtype, torch.float32)
    c = d // 2
    n = c // 3
    token = torch.arange(length, device=x.device)
    f = token // (height * width)
    r = token // width % height
    w = token % width
    angles = []
    for position, count in ((f, c - 2 * n), (w, n), (r, n)):
        i = torch.arange(count, dtype=wide, device=x.device)
        angles.append(position.to(wide)[:, None] * base ** (-i / count))
    angle = torch.cat(angles, dim=-1)
    a, b = x.to(wide).unflatten(-1, (c, 2)).unbind(-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


@wrong(of="rope_3d", mistakes=1)
def one_ladder_of_frequencies(
    x: torch.Tensor, grid: tuple[int, int, int], base: float = 10000.0
) -> torch.Tensor:
    """The frequencies go on through all pairs instead of beginning anew at each axis."""
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"D is odd: {d}")
    if x.shape[-2] != prod(grid):
        raise ValueError(f"{x.shape[-2]} tokens, but the grid has {prod(grid)}")
    wide = torch.promote_types(x.dtype, torch.float32)
    c = d // 2
    sizes = (c - 2 * (c // 3), c // 3, c // 3)
    axes = torch.meshgrid(*(torch.arange(g, device=x.device) for g in grid), indexing="ij")
    positions = [a.reshape(-1, 1).expand(-1, s) for a, s in zip(axes, sizes, strict=True)]
    freq = base ** (-torch.arange(c, dtype=wide, device=x.device) / c)
    angle = torch.cat(positions, dim=1).to(wide) * freq
    a, b = x[..., 0::2].to(wide), x[..., 1::2].to(wide)
    out = torch.stack(
        [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1
    )
    return out.reshape(x.shape).to(x.dtype)


@wrong(of="rope_3d", mistakes=1)
def remainder_to_the_column(
    x: torch.Tensor, grid: tuple[int, int, int], base: float = 10000.0
) -> torch.Tensor:
    """The pairs left over go to the column instead of the frame."""
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"D is odd: {d}")
    frames, height, width = grid
    if x.shape[-2] != frames * height * width:
        raise ValueError(f"{x.shape[-2]} tokens, not {frames * height * width}")
    c = d // 2
    third = c // 3
    t = torch.arange(frames, device=x.device).repeat_interleave(height * width)
    h = torch.arange(height, device=x.device).repeat_interleave(width).repeat(frames)
    w = torch.arange(width, device=x.device).repeat(frames * height)
    parts = x.split([2 * third, 2 * third, 2 * (c - 2 * third)], dim=-1)
    turned = [apply_rope(part, p, base) for part, p in zip(parts, (t, h, w), strict=True)]
    return torch.cat(turned, dim=-1)


@wrong(of="rope_3d", mistakes=2)
def width_slowest_and_unchecked(
    x: torch.Tensor, grid: tuple[int, int, int], base: float = 10000.0
) -> torch.Tensor:
    """The tokens are counted with the frame fastest and the width slowest.

    A number of tokens that is not the product of the grid is not refused.
    """
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"D is odd: {d}")
    frames, height, width = grid
    c = d // 2
    third = c // 3
    token = torch.arange(x.shape[-2], device=x.device)
    f, h, w = token % frames, token // frames % height, token // (frames * height) % width
    first, second, last = x.split([2 * (c - 2 * third), 2 * third, 2 * third], dim=-1)
    return torch.cat(
        [apply_rope(first, f, base), apply_rope(second, h, base), apply_rope(last, w, base)], -1
    )


@wrong(of="rope_3d", mistakes=2)
def halves_from_one(
    x: torch.Tensor, grid: tuple[int, int, int], base: float = 10000.0
) -> torch.Tensor:
    """The pairs of each axis are in halves instead of interleaved.

    Frames, rows and columns are counted from 1 instead of 0.
    """
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"D is odd: {d}")
    if x.shape[-2] != prod(grid):
        raise ValueError(f"{x.shape[-2]} tokens, not {prod(grid)}")
    c = d // 2
    n = c // 3
    ranges = [torch.arange(1, size + 1, device=x.device) for size in grid]
    places = torch.cartesian_prod(*ranges)
    outs, start = [], 0
    for axis, pairs in enumerate((c - 2 * n, n, n)):
        part = x[..., start : start + 2 * pairs]
        outs.append(apply_rope(part, places[:, axis], base, interleaved=False))
        start += 2 * pairs
    return torch.cat(outs, dim=-1)
