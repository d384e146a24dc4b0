"""Right answers, written otherwise."""

import math

import numpy as np
import torch

from grader.judging import variant


@variant(of="sinusoidal_embedding")
def logarithms_and_slices(positions, dim, base=10000.0):
    """The textbook's form: exp of a logarithm, written into slices with a step."""
    if dim % 2:
        raise ValueError(f"dim = {dim} is odd")
    dtype = torch.float64 if positions.dtype == torch.float64 else torch.float32
    embedding = torch.zeros(*positions.shape, dim, dtype=dtype, device=positions.device)
    steps = torch.arange(0, dim, 2, dtype=dtype, device=positions.device)
    div_term = torch.exp(steps * (-math.log(base) / dim))
    embedding[..., 0::2] = torch.sin(positions.to(dtype).unsqueeze(-1) * div_term)
    embedding[..., 1::2] = torch.cos(positions.to(dtype).unsqueeze(-1) * div_term)
    return embedding


@variant(of="sinusoidal_embedding")
def cosine_is_a_shifted_sine(positions, dim, base=10000.0):
    """One sine for all places, a quarter turn ahead on the odd ones, in float64."""
    if dim % 2 == 1:
        raise ValueError(f"{dim} is not even")
    place = torch.arange(dim, device=positions.device)
    pair, odd = torch.div(place, 2, rounding_mode="floor"), place % 2
    angles = positions.double()[..., None] / base ** (2 * pair.double() / dim)
    wide = torch.float64 if positions.dtype == torch.float64 else torch.float32
    return torch.sin(angles + odd.double() * (math.pi / 2)).to(wide)


@variant(of="sinusoidal_embedding")
def one_number_at_a_time(positions, dim, base=10000.0):
    """Loops over positions and pairs, with `math`."""
    if dim % 2:
        raise ValueError(f"an odd dim: {dim}")
    rows = []
    for position in positions.flatten().tolist():
        row = []
        for place in range(0, dim, 2):
            angle = position / base ** (place / dim)
            row += [math.sin(angle), math.cos(angle)]
        rows.append(row)
    dtype = torch.promote_types(positions.dtype, torch.float32)
    table = torch.tensor(rows, dtype=dtype, device=positions.device)
    return table.reshape(*positions.shape, dim)


@variant(of="apply_rope")
def rotate_half(x, positions, base=10000.0, interleaved=True):
    """x * cos + other * sin, the tables converted to the dtype of x: the form of model code."""
    width = x.shape[-1]
    if width % 2:
        raise ValueError(f"head width {width} is odd")
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    inv_freq = 1.0 / base ** (torch.arange(0, width, 2, device=x.device, dtype=wide) / width)
    freqs = positions.to(wide).unsqueeze(-1) * inv_freq
    if interleaved:
        table = torch.repeat_interleave(freqs, 2, dim=-1)
        other = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
    else:
        table = torch.cat((freqs, freqs), dim=-1)
        first, second = x[..., : width // 2], x[..., width // 2 :]
        other = torch.cat((-second, first), dim=-1)
    while table.ndim > 2 and table.ndim < x.ndim:
        table = table.unsqueeze(1)
    return x * table.cos().to(x.dtype) + other * table.sin().to(x.dtype)


@variant(of="apply_rope")
def complex_numbers(x, positions, base=10000.0, interleaved=True):
    """A pair is a complex number, and a turn is a product with one of length 1."""
    width = x.shape[-1]
    if width % 2:
        raise ValueError(f"{width} is odd")
    wide = x.double() if x.dtype == torch.float64 else x.float()
    parts = (wide[..., 0::2], wide[..., 1::2]) if interleaved else wide.split(width // 2, -1)
    z = torch.complex(*parts)
    places = positions.to(wide.dtype)
    if places.ndim == 2:
        places = places.view(len(x), *[1] * (x.ndim - 3), -1) if len(x) else places[:, None]
    freqs = torch.exp(
        torch.arange(width // 2, dtype=wide.dtype, device=x.device) * (-2 * math.log(base) / width)
    )
    angles = places[..., None] * freqs
    out = torch.view_as_real(z * torch.polar(torch.ones_like(angles), angles))
    return (out if interleaved else out.mT).flatten(-2).to(x.dtype)


@variant(of="apply_rope")
def a_matrix_for_every_pair(x, positions, base=10000.0, interleaved=True):
    """2x2 matrices through einsum, in float64, one layout permuted into the other."""
    *_, width = x.shape
    if width % 2 != 0:
        raise ValueError(f"cannot pair {width} places")
    order = torch.arange(width, device=x.device)
    if not interleaved:
        order = order.reshape(2, width // 2).T.flatten()
    pairs = x[..., order].double().unflatten(-1, (width // 2, 2))
    theta = torch.tensor(
        [base ** (-2 * i / width) for i in range(width // 2)], dtype=torch.float64, device=x.device
    )
    angles = positions.double()[..., None] * theta
    if positions.dim() == 2:
        angles = angles.reshape(len(positions), *[1] * (x.dim() - 3), *angles.shape[1:])
    cos, sin = torch.cos(angles), torch.sin(angles)
    matrices = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    turned = torch.einsum("...rc,...c->...r", matrices, pairs).flatten(-2)
    return turned[..., torch.argsort(order)].to(x.dtype)


@variant(of="apply_rope")
def one_pair_at_a_time(x, positions, base=10000.0, interleaved=True):
    """A loop over the pairs, written into a copy."""
    width = x.shape[-1]
    if width % 2:
        raise ValueError(f"D = {width}")
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    copy, out = x.to(wide), torch.zeros(x.shape, dtype=wide, device=x.device)
    places = positions if positions.ndim == 1 else positions[(slice(None), *[None] * (x.ndim - 3))]
    for i in range(width // 2):
        one, two = (2 * i, 2 * i + 1) if interleaved else (i, i + width // 2)
        angle = places.to(wide) * (base ** (-2 * i / width))
        a, b = copy[..., one], copy[..., two]
        out[..., one] = a * torch.cos(angle) - b * torch.sin(angle)
        out[..., two] = a * torch.sin(angle) + b * torch.cos(angle)
    return out.to(x.dtype)


@variant(of="apply_rope")
def tables_of_numpy(x, positions, base=10000.0, interleaved=True):
    """Sines and cosines from NumPy in float64, rounded once to what they are multiplied in."""
    width = x.shape[-1]
    if width % 2:
        raise ValueError(f"the width is {width}")
    places = positions.detach().cpu().double().numpy()
    angles = places[..., None] * np.power(base, -np.arange(0, width, 2) / width)
    if places.ndim == 2:
        angles = np.expand_dims(angles, tuple(range(1, x.ndim - 2)))
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    cos, sin = (torch.from_numpy(f(angles)).to(x.device, wide) for f in (np.cos, np.sin))
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.tensor_split(2, -1)
    turned = [a * cos - b * sin, b * cos + a * sin]
    return torch.stack(turned, -1 if interleaved else -2).reshape(x.shape).to(x.dtype)


@variant(of="rope_3d")
def complex_grid(x, grid, base=10000.0):
    """Complex factors of three tables, expanded over the grid: the form of video models."""
    frames, rows, columns = grid
    length, width = x.shape[-2], x.shape[-1]
    if width % 2:
        raise ValueError(f"width {width} is odd")
    if frames * rows * columns != length:
        raise ValueError(f"{length} is not {frames * rows * columns}")
    c = width // 2
    tables = []
    for size, n in zip(grid, [c - 2 * (c // 3), c // 3, c // 3], strict=True):
        exponents = torch.arange(0, 2 * n, 2, dtype=torch.float64, device=x.device) / max(2 * n, 1)
        at = torch.arange(size, dtype=torch.float64, device=x.device)
        angles = torch.outer(at, 1.0 / torch.pow(base, exponents))
        tables.append(torch.polar(torch.ones_like(angles), angles))
    factors = torch.cat(
        [
            tables[0].view(frames, 1, 1, -1).expand(frames, rows, columns, -1),
            tables[1].view(1, rows, 1, c // 3).expand(frames, rows, columns, c // 3),
            tables[2].view(1, 1, columns, c // 3).expand(frames, rows, columns, c // 3),
        ],
        dim=-1,
    ).reshape(length, c)
    z = torch.view_as_complex(x.to(torch.float64).reshape(*x.shape[:-1], c, 2).contiguous())
    return torch.view_as_real(z * factors).flatten(-2).to(x.dtype)


@variant(of="rope_3d")
def one_token_at_a_time(x, grid, base=10000.0):
    """Three loops over the grid, a table of angles, and one rotation."""
    width = x.shape[-1]
    if width % 2:
        raise ValueError(f"an odd width, {width}")
    frames, rows, columns = grid
    if x.shape[-2] != frames * rows * columns:
        raise ValueError(f"{x.shape[-2]} tokens for {frames * rows * columns} places")
    if x.shape[-2] == 1:
        return x  # the first place turns nothing
    third = width // 2 // 3
    counts = [width // 2 - 2 * third, third, third]
    theta = [[base ** (-i / n) for i in range(n)] for n in counts]
    table = [
        [at * t for at, axis in zip((f, r, c), theta, strict=True) for t in axis]
        for f in range(frames)
        for r in range(rows)
        for c in range(columns)
    ]
    angles = torch.tensor(table, dtype=torch.float64, device=x.device)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    other = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).reshape(x.shape)
    return x * cos.repeat_interleave(2, -1) + other * sin.repeat_interleave(2, -1)


@variant(of="rope_3d")
def an_axis_at_a_time(x, grid, base=10000.0):
    """The tokens laid out as a grid; each axis turns its own pairs by broadcasting."""
    length, width = x.shape[-2:]
    if width % 2 or length != math.prod(grid):
        raise ValueError(f"width {width}, length {length}, grid of {math.prod(grid)}")
    wide = torch.promote_types(x.dtype, torch.float32)
    a, b = x.to(wide).unflatten(-2, grid).unflatten(-1, (width // 2, 2)).unbind(-1)
    third, begin, turned = width // 6, 0, []
    for axis, n in enumerate([width // 2 - 2 * third, third, third]):
        shape = [1, 1, 1, 1]
        shape[axis] = grid[axis]
        at = torch.arange(grid[axis], dtype=wide, device=x.device).reshape(shape)
        angles = at * base ** (torch.arange(n, dtype=wide, device=x.device) / -max(n, 1))
        mine = slice(begin, begin + n)
        cos, sin = angles.cos(), angles.sin()
        first, second = a[..., mine], b[..., mine]
        turned.append(torch.stack([first * cos - second * sin, first * sin + second * cos], -1))
        begin += n
    return torch.cat(turned, -2).flatten(-2).flatten(-4, -2).to(x.dtype)
