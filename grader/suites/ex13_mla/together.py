"""Checks that options, sizes, layouts, modes and precisions do not disturb each other."""

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import agree, backward, rejects, same, untouched

from .caches import append, multiply, new_caches
from .layers import new_layers, parameters

DTYPES = float32, float16, float64, bfloat16
FAR = 300.0  # times as large as ordinary scores: hundreds apart, so that exp alone overflows
WIDTHS = (4, 6, 2, 9), (2, 2, 5, 6), (4, 4, 4, 4)  # nope, rope, value, kv_rank
E = 8


def caches_together(student, draw, device):
    """Compare what caches return, in whose calls any three choices meet."""
    for call in draw.combined(
        dtype=(float32, float64, bfloat16),
        given=(float32, float16, float64),
        layout=("plain", "turned", "expanded"),
        chunks=((2, 3), (0, 1, 4), (1, 0, 4)),
        sizes=((2, 5, 4), (1, 1, 2)),  # B, kv_rank, rope_dim
        again=(False, True),
    ):
        one_cache(student, draw, device, **call)


def one_cache(student, draw, device, dtype, given, layout, chunks, sizes, again):
    """Compare the answers while a cache fills, again after a reset if asked."""
    batch, *widths = sizes
    cache, right = new_caches(student, device, batch, 5, *widths, dtype)
    for _ in range(1 + again):
        for t in chunks:
            make = draw.normal if layout == "plain" else draw.strided
            new = [make(batch, t, width, dtype=given) for width in widths]
            if layout == "expanded":
                new = [x[:1].expand(x.shape) for x in new]
            append(cache, right, *new)
        if again:
            cache.reset()
            right.reset()
    same(cache.nbytes, right.nbytes)


def texts_together(student, draw, device, dtype=float32, absorbed=None):
    """Compare outputs and gradients without a cache, in which any three choices meet."""
    calls = draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        shape=((3, 3, 3), (1, 4, 1), (1, 70, 2)),  # B, t, H
        widths=WIDTHS,
        q_rank=(None, 7),
        layout=("turned", "expanded"),
        learns=("all", "none", "x"),
        base=(None, 50.0, 50.4),
        absorbed=(False, True),
        training=(True, False),
        # Half precision rounds queries, which moves far scores by 1: any weights are right.
        scores=(1.0, FAR) if dtype.itemsize > 2 else (1.0,),
    )
    for call in calls:
        if absorbed in (None, call["absorbed"]):
            one_text(student, draw, device, **call)


def one_text(
    student, draw, device, dtype, shape, widths, q_rank, layout, learns, base, absorbed, training,
    scores,
):  # fmt: skip
    """Compare the output for a text, and the gradients of what learns."""
    batch, t, heads = shape
    sizes = sizes_of(heads, widths, q_rank, base)

    def larger(state):
        state["q_proj.weight" if q_rank is None else "q_b_proj.weight"] *= scores
        return {}

    layer, right = new_layers(student, draw, device, sizes, dtype, larger)
    layer.train(training)
    layer.requires_grad_(learns == "all")
    x = draw.strided(batch, t, E, dtype=dtype)
    if layout == "expanded":
        x = x[:1].expand(batch, t, E)
    x.requires_grad_(learns != "none")
    with torch.set_grad_enabled(learns != "none"):
        output = untouched(lambda: layer(x, absorbed=absorbed))
    agree(output, right(x, absorbed=absorbed))
    if learns == "none":
        return
    upstream = draw.normal(batch, t, E, dtype=dtype)
    first, *rest = right.gradients(x, absorbed, upstream=upstream)
    [got] = backward(output, x, upstream=upstream)
    agree(got, first._replace(magnitude=scores * first.magnitude), says="gradient of x")
    names = list(parameters(sizes)) if learns == "all" else []
    found = layer.read_each(f"{name}.grad" for name in names)
    for name, got, one in zip(names, found, rest, strict=False):
        agree(got, one._replace(magnitude=scores * one.magnitude), says=f"gradient of {name}")


def chunks_together(student, draw, device, dtype=float32, absorbed=None):
    """Compare texts read in three chunks, in which any three choices meet."""
    for call in draw.combined(
        only={"dtype": dtype},
        event=("append", "numbers", "refusal", "reset"),
        dtype=DTYPES,
        chunks=((3, 1, 2), (1, 4)),
        shape=((2, 3), (1, 1)),  # B, H
        ways=((False,), (True,), (False, True)),
        widths=WIDTHS[:2],
        q_rank=(None, 7),
        base=(None, 50.0),
        room=(8, 11),
        training=(True, False),
        learns=(False, True),
    ):
        if absorbed not in (None, True in call["ways"]):
            continue
        chunked_text(student, draw, device, **call)


def chunked_text(
    student, draw, device, event, dtype, chunks, shape, ways, widths, q_rank, base, room, training,
    learns,
):  # fmt: skip
    """Compare the output of each chunk, with an event between the first and the second."""
    sizes = sizes_of(shape[1], widths, q_rank, base)
    layer, right = new_layers(student, draw, device, sizes, dtype)
    layer.requires_grad_(learns)
    layer.train(training)
    caches = new_caches(student, device, shape[0], room, sizes[5], sizes[3], dtype)
    for number, t in enumerate(chunks):
        if number == 1:
            happen(draw, event, layer, right, caches, room)
        x, way = draw.normal(shape[0], t, E, dtype=dtype), ways[number % len(ways)]
        expected = right(x, caches[1], way)
        with torch.set_grad_enabled(learns):
            output = untouched(lambda x=x, way=way: layer(x, caches[0], way))
        agree(output, expected, says=f"after {caches[1].length - t} earlier token(s), output")
        same(caches[0].length, caches[1].length)


def happen(draw, event, layer, right, caches, room):
    """Let something happen to both layers or caches between two chunks."""
    seen = caches[1].plain
    batch, _, rank = seen.latents.shape
    dtype = seen.latents.dtype
    match event:
        case "append":
            # No rotary keys: in which order their places are kept is the layer's own business.
            new = draw.normal(batch, 2, rank, dtype=dtype), seen.k_ropes[:, -2:] * 0
            for cache in caches:
                cache.append(*new)
        case "numbers":  # of a weight, and of what lies in the cache
            multiply(*caches, 0.5)
            getattr(layer, "kv_b_proj.weight.data.mul_")(-2)
            right.multiply("kv_b_proj.weight", -2)
        case "refusal":
            rejects(lambda: layer(draw.normal(batch, room + 1, E, dtype=dtype), caches[0]))
        case "reset":
            for cache in caches:
                cache.reset()


def sizes_of(heads, widths, q_rank, base):
    """Return the sizes of a layer; a base of None is the usual one."""
    sizes = (E, heads, *widths, q_rank)
    return sizes if base is None else (*sizes, base)
