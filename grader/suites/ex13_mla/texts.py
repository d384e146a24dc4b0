"""Compares layers of latent attention that read texts in chunks, near position 0 and far."""

import torch
from torch import float32

from grader.judging import agree, same, untouched

from .caches import append, new_caches
from .cases import FAR, long_text
from .layers import new_layers

START, BETWEEN = 16, 4992  # tokens at the beginning, and those that nobody attends to
LOUD = 4.0


def read_texts(student, draw, device, sizes, chunks, dtype, ways):
    """Read two texts in turn, each into a cache that fills, and one without; then one anew."""
    layer, right = new_layers(student, draw, device, sizes, dtype)
    layer.requires_grad_(False)
    rank, rope = sizes[5], sizes[3]
    texts = [new_caches(student, device, 3, sum(chunks), rank, rope, dtype) for _ in range(2)]
    for cache, _ in texts if dtype is float32 else ():  # what a reset leaves is read by nobody
        nan = torch.full((3, sum(chunks), rank + rope), torch.nan, device=device)
        cache.append(nan[..., :rank], nan[..., rank:])
        cache.reset()
    for number, t in enumerate([*chunks, min(2, sum(chunks))]):
        if number == len(chunks):
            for one in texts[0]:
                one.reset()
            texts = texts[:1]
        absorbed = ways[number % len(ways)]
        for cache, seen in (*texts, (None, None)):
            when = f"after {seen.length} earlier token(s)" if seen else "without a cache"
            x = draw.normal(3, t, sizes[0], dtype=dtype)
            expected = right(x, cache=seen, absorbed=absorbed)
            output = untouched(
                lambda x=x, cache=cache, way=absorbed: layer(x, cache=cache, absorbed=way)
            )
            agree(output, expected, says=f"{when}, output")
            if cache is not None:
                same(cache.length, seen.length)


def read_text(student, draw, device, sizes, chunks, dtype, absorbed):
    """Read texts as `read_texts` does, with `absorbed` the same in every call."""
    read_texts(student, draw, device, sizes, chunks, dtype, [absorbed])


def read_long(student, draw, device, absorbed):
    """Read one text of many tokens, into a cache that fills."""
    chunks = long_text(draw)
    sizes = (4, 1, 2, 2, 2, 2)
    layer, right = new_layers(student, draw, device, sizes, float32)
    layer.requires_grad_(False)
    cache, seen = new_caches(student, device, 1, sum(chunks), 2, 2)
    for t in chunks:
        x = draw.normal(1, t, 4)
        says = f"after {seen.length} earlier token(s), output"
        agree(layer(x, cache, absorbed), right(x, seen, absorbed), says=says)


def read_far(student, draw, device, dtype, absorbed):
    """Read a few tokens at the beginning, then seven and one after position 5,000.

    Scores are moderate. The thousands of tokens between get no weight: otherwise they would drown
    all others.
    """
    layer, right = new_layers(student, draw, device, FAR, dtype, _told_by_the_latent(FAR))
    layer.requires_grad_(False)
    sizes = (1, START + BETWEEN + 8, FAR[5], FAR[3], dtype)
    cache, seen = new_caches(student, device, *sizes)
    between = torch.zeros(1, BETWEEN, FAR[5], dtype=dtype, device=device)
    between[..., -1] = -10 * LOUD
    nothing = torch.zeros(1, BETWEEN, FAR[3], dtype=dtype, device=device)
    for t in (START, 7, 1):
        x = draw.normal(1, t, FAR[0], dtype=dtype, scale=1.5)
        x[..., 0] = 1.0
        expected, output = right(x, seen, absorbed), layer(x, cache, absorbed)
        if t == START:
            for held in (cache, seen):
                held.append(between, nothing)
            continue
        if dtype is float32:
            # An angle of 5,000 keeps that much less of its fraction, however it is computed.
            expected = expected._replace(magnitude=expected.magnitude * (START + BETWEEN))
        agree(output, expected)


def read_scores(student, draw, device, sizes, absorbed):
    """Read a text whose scores fall, rise, are all negative, or jump by hundreds."""
    layer, right = new_layers(student, draw, device, sizes, float32, _told_by_the_latent(sizes))
    layer.requires_grad_(False)
    rank, rope = sizes[5], sizes[3]
    for kind, wanted in draw.scores(2, 40).items():
        cache, seen = new_caches(student, device, 2, 42, rank, rope)
        # No rotary keys: in which order their places are kept is the layer's own business.
        latents, k_ropes = draw.normal(2, 40, rank), torch.zeros(2, 40, rope, device=device)
        latents[..., -1] = wanted * (sizes[2] + rope) ** 0.5 / LOUD
        append(cache, seen, latents, k_ropes)
        x = draw.normal(2, 2, sizes[0])
        x[..., 0] = 1.0
        # One rounding of a score changes its weight by as much.
        expected, size = right(x, seen, absorbed), float(wanted.abs().max())
        expected = expected._replace(magnitude=expected.magnitude * max(1.0, size))
        agree(layer(x, cache, absorbed), expected, says=f"output for scores that are {kind}")


def _told_by_the_latent(sizes):
    """Return a change of weights: a latent's last place is a score, and no part of a value.

    The first place of every token is 1, and makes the first place of each query. The latents of
    tokens have 0 in the last place: only latents appended by hand have another score.
    """

    def change(state):
        state["kv_a_layernorm.weight"][-1] = 0.0
        queries = state["q_proj.weight"].unflatten(0, (sizes[1], -1))
        queries[:, 0] = 0.0
        queries[:, 0, 0] = LOUD
        expansion = state["kv_b_proj.weight"].unflatten(0, (sizes[1], -1))
        expansion[..., -1] = 0.0
        expansion[:, 0] = 0.0
        expansion[:, 0, -1] = 1.0
        return {}

    return change
