"""Checks that dtypes, positions, layouts and options do not disturb each other."""

from math import prod

import torch
from torch import bfloat16, float16, float32, float64, int8, int16, int64, uint8

from grader.judging import agree, backward, rejects, untouched
from reference import ex11_positions as reference

DTYPES = float32, float16, float64, bfloat16
PLACES = int64, int8, bfloat16, float64
LAYOUTS = "plain", "strided", "expanded"
WHERE = "near", "negative", "far"
LENGTH = 4


def embeddings_agree_together(student, draw, *dtypes):
    """Compare embeddings of positions of these dtypes, of all calls where any three meet."""
    for call in draw.combined(
        dtype=(*PLACES, float32), where=WHERE,
        shape=((LENGTH,), (), (3, 2), (2, 0)), layout=LAYOUTS, dim=(8, 2),
        options=({}, {"base": 500.0}, {"base": 3}),
    ):  # fmt: skip
        if call["dtype"] not in dtypes:
            continue
        positions = places(draw, call["dtype"], call["where"], *call["shape"])
        [positions] = laid_out(call["layout"], positions)
        asked = positions, call["dim"]
        answer = untouched(lambda a=asked, o=call["options"]: student.sinusoidal_embedding(*a, **o))
        agree(answer, reference.sinusoidal_embedding(*asked, **call["options"]))


def ropes_agree_together(student, draw, dtype):
    """Compare apply_rope and its gradient in a dtype, of all calls where any three choices meet."""
    for call in draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES, of_places=PLACES, where=WHERE, layout=LAYOUTS,
        lead=((), (LENGTH,), (LENGTH, 3), (2, LENGTH, 1)),  # as many texts, or heads, as tokens
        own=(True, False), length=(LENGTH, 1), width=(6, 2), interleaved=(True, False),
        options=({}, {"base": 1e7}), graph=(True, False),
    ):  # fmt: skip
        lead, length = call["lead"], call["length"]
        shape = (*lead[:1], length) if call["own"] else (length,)  # positions of their own
        positions = places(draw, call["of_places"], call["where"], *shape)
        x = draw.normal(*lead, length, call["width"], dtype=call["dtype"])
        x, positions = laid_out(call["layout"], x, positions)
        options = call["options"] | {"interleaved": call["interleaved"]}
        agree_in_full(draw, student, "apply_rope", x, positions, graph=call["graph"], **options)
    refused_together(student, draw, "apply_rope", dtype)


def ends(draw):
    """Positions at both ends of small integer dtypes, where no float32 angle loses its digits."""
    device = draw.integers(0, 1).device
    for dtype in int8, uint8, int16:
        of = torch.iinfo(dtype)
        yield torch.tensor([of.min, draw.integer(1, 100), of.max], dtype=dtype, device=device)


def embeddings_agree_at_the_ends(student, draw):
    """Compare embeddings of the lowest and the highest integers."""
    for positions in ends(draw):
        expected = reference.sinusoidal_embedding(positions, 6)
        agree(student.sinusoidal_embedding(positions, 6), expected)


def ropes_agree_at_the_ends(student, draw):
    """Compare apply_rope for the lowest and the highest integers, in both pairings."""
    for positions in ends(draw):
        x = draw.normal(2, 3, 6)
        for interleaved in True, False:
            expected = reference.apply_rope(x, positions, interleaved=interleaved)
            agree(student.apply_rope(x, positions, interleaved=interleaved), expected)


def grids_agree_together(student, draw, *dtypes):
    """Compare rope_3d and its gradient in dtypes, of all calls where any three choices meet."""
    for call in draw.combined(
        dtype=DTYPES, grid=((2, 3, 4), (3, 1, 2), (1, 1, 1)), pairs=(3, 4, 8),
        lead=((), (2,), (2, 1, 3)), layout=LAYOUTS, options=({}, {"base": 500.0}),
        graph=(True, False),
    ):  # fmt: skip
        if call["dtype"] not in dtypes:
            continue
        dtype, lead, grid, width = call["dtype"], call["lead"], call["grid"], 2 * call["pairs"]
        [x] = laid_out(call["layout"], draw.normal(*lead, prod(grid), width, dtype=dtype))
        agree_in_full(draw, student, "rope_3d", x, grid, graph=call["graph"], **call["options"])
    refused_together(student, draw, "rope_3d", *dtypes)


def refused_together(student, draw, name, *dtypes):
    """Have odd widths and wrong numbers of tokens refused in dtypes, where any two choices meet."""
    for call in draw.combined(
        strength=2, dtype=DTYPES, lead=((), (0,), (2,), (2, 1, 3)), length=(6, 1),
        given=({}, {"interleaved": False}, {"base": 500.0}),
    ):  # fmt: skip
        dtype, lead, length, given = call.values()
        if dtype not in dtypes:
            continue
        odd, other = 2 * draw.integer(10, 49) + 1, draw.integer(25, 99)
        x, fits = (draw.normal(*lead, length, width, dtype=dtype) for width in (odd, 6))
        if name == "apply_rope":
            positions = draw.integers(1, 60, length)
            rejects(lambda a=(x, positions), g=given: student.apply_rope(*a, **g), odd)
        else:
            rejects(lambda x=x, n=length: student.rope_3d(x, (1, n, 1)), odd)
            rejects(lambda x=fits, n=other: student.rope_3d(x, (1, 1, n)), length, other)


def places(draw, dtype, where, *shape):
    """Draw positions: whole numbers, or fractions if the dtype has them."""
    low, high = {"near": (1, 60), "negative": (-100, -1), "far": (30_000, 60_000)}[where]
    if dtype is int8 and where == "far":
        low, high = 100, 127
    positions = draw.integers(low, high, *shape)
    if dtype.is_floating_point and where != "far":
        return (positions + draw.normal(*shape, dtype=float64)).to(dtype)
    return positions.to(dtype)


def laid_out(layout, *inputs):
    """Return tensors with the same numbers in another memory layout, or expanded."""
    if layout == "strided":
        inputs = [x.repeat_interleave(2)[::2] if x.ndim == 1 else x for x in inputs]
        return [x.mT.contiguous().mT if x.ndim > 1 else x for x in inputs]
    if layout == "expanded":
        return [x[:1].expand(x.shape) if x.ndim > 1 else x for x in inputs]
    return list(inputs)


def agree_in_full(draw, student, name, x, *more, graph, **options):
    """Compare the answer of a call, and the gradient of x, or the answer without a graph."""
    ask, right = getattr(student, name), getattr(reference, name)
    x.requires_grad_(graph)
    with torch.set_grad_enabled(graph):
        answer = untouched(lambda: ask(x, *more, **options))
    agree(answer, right(x, *more, **options))
    if not graph:
        return
    upstream = draw.normal(*x.shape, dtype=x.dtype)
    [expected] = getattr(reference, f"{name}_gradients")(x, *more, **options, upstream=upstream)
    [got] = backward(answer, x, upstream=upstream)
    agree(got, expected, says="gradient of x")
