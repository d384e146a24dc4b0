"""The speed case of latent attention."""

import torch

from grader.judging import agree, speed
from reference import ex13_mla as reference

CONTEXT, ROOM = 2048, 64  # tokens at the end, and room for as many rounds
WIDTH, HEADS, NOPE, ROPE, VALUE, RANK = 256, 8, 64, 32, 64, 128
CHUNK = 496
SIZES = (WIDTH, HEADS, NOPE, ROPE, VALUE, RANK)
SHAPES = {
    "q_proj": (HEADS * (NOPE + ROPE), WIDTH),
    "kv_a_proj_with_mqa": (RANK + ROPE, WIDTH),
    "kv_a_layernorm": (RANK,),
    "kv_b_proj": (HEADS * (NOPE + VALUE), RANK),
    "o_proj": (WIDTH, HEADS * VALUE),
}


@speed(points=3)
def bench_absorbed(race):
    """One token at context 2048, absorbed; expanding the whole latent at every step earns 0."""
    weights = {
        f"{name}.weight": race.draw.normal(*shape, scale=shape[-1] ** -0.5)
        for name, shape in SHAPES.items()
    }
    weights["kv_a_layernorm.weight"] = 1 + weights["kv_a_layernorm.weight"]
    text = race.draw.normal(1, CONTEXT - ROOM, WIDTH)

    def prefilled(party):
        layer = party.MultiHeadLatentAttention(*SIZES)
        layer.load_state_dict(weights)
        layer.requires_grad_(False)
        cache = party.LatentCache(1, CONTEXT, RANK, ROPE)
        for chunk in text.split(CHUNK, 1):
            layer(chunk, cache)
        return lambda x: layer(x, cache, absorbed=True)

    steps = race.each(prefilled)
    oracle, past = _oracle(weights, text)
    for draw in race:
        x = draw.normal(1, 1, WIDTH)
        expected = oracle.forward(x, past, absorbed=True)
        for found in race.time(steps, x):
            agree(found, expected)


def _oracle(weights, text):
    """Return the oracle, whose cache holds the text already."""
    oracle = reference.MultiHeadLatentAttention(*SIZES)
    oracle.load_state_dict(weights)
    past = reference.LatentCache(1, CONTEXT, RANK, ROPE)
    with torch.no_grad():
        oracle.remember(text, past)
    return oracle, past
