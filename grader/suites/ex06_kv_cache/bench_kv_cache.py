"""The speed case of the key/value cache."""

import torch

import reference
from grader.judging import agree, speed

CONTEXT, ROOM = 4096, 64  # tokens at the end, and room for as many rounds
WIDTH, HEADS, CHUNK = 256, 4, 576


@speed(points=3)
def bench_decode(race):
    """One token at context 4096 as fast as a preallocated cache; full recomputation earns 0."""
    weights = {f"w_{name}.weight": race.draw.normal(WIDTH, WIDTH, scale=1 / 16) for name in "qkvo"}
    text = race.draw.normal(1, CONTEXT - ROOM, WIDTH)

    def prefilled(party):
        layer = party.CachedAttention(WIDTH, HEADS)
        layer.load_state_dict(weights)
        cache = party.KVCache(1, HEADS, CONTEXT, WIDTH // HEADS)
        with torch.no_grad():
            for chunk in text.split(CHUNK, 1):
                layer(chunk, cache)
        return lambda x: layer(x, cache)

    steps = race.each(prefilled)
    oracle, past = _oracle(weights, text)
    for draw in race:
        x = draw.normal(1, 1, WIDTH)
        expected = oracle.forward(x, past)
        for found in race.time(steps, x):
            agree(found, expected)


def _oracle(weights, text):
    """Return the oracle, whose cache holds the text already."""
    oracle = reference.CachedAttention(WIDTH, HEADS)
    oracle.load_state_dict(weights)
    past = reference.KVCache(1, HEADS, CONTEXT, WIDTH // HEADS)
    k, v = (
        (text.double() @ weights[f"w_{name}.weight"].double().mT)
        .unflatten(-1, (HEADS, -1))
        .transpose(1, 2)
        for name in "kv"
    )
    past.append(k, v)
    return oracle, past
