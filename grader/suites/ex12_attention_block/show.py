"""Shows the block for `make show`: self-attention with norms and rotary positions."""

import math

import torch

from reference.blocks import PlainSelfAttention, plain_weights
from reference.ex04_heads import plain_merge_heads, plain_split_heads

HEADS, WIDTH, BASE = 2, 8, 100.0


def inputs(sentence):
    """Return the tokens' embeddings."""
    return {"x": sentence.embeddings(WIDTH)}


def steps(x):
    """Return the steps: project, normalize the width, split, rotate, attend, merge, project."""
    layer = _layer(x.shape[-1])
    projected = layer.project(x)
    normed = layer.normalise(*projected)
    split = [plain_split_heads(y, HEADS) for y in normed]
    q, k, v = layer.rotate(*split)
    weights = plain_weights(q, k, None)
    return {
        "x": ("B L E", x),
        "q": ("B L E", projected[0]),
        "norm_q": ("B L E", normed[0]),
        "split q": ("B H L D", split[0]),
        "RoPE q": ("B H L D", q),
        "RoPE k": ("B H L D", k),
        "v": ("B H L D", v),
        "scores": ("B H L L", q @ k.mT / math.sqrt(q.shape[-1])),
        "weights": ("B H L L", weights),
        "heads": ("B H L D", weights @ v),
        "output": ("B L E", layer.o(plain_merge_heads(weights @ v))),
    }


def asked(student, x):
    """Return the student's answers; the norm gets the reference's own queries."""
    layer = _layer(x.shape[-1])

    def norm():
        module = student.RMSNorm(x.shape[-1])
        module.load_state_dict(layer.norm_q.state_dict())
        return module(layer.q(x))

    def output():
        module = student.SelfAttention(x.shape[-1], HEADS, rope_base=BASE)
        module.load_state_dict(layer.state_dict(), strict=False)
        return module(x)

    return {"norm_q": norm, "output": output}


def _layer(width):
    """Return one layer for a width, its weights large enough for heads to choose tokens."""
    layer = PlainSelfAttention(width, HEADS, rope_base=BASE)
    generator = torch.Generator().manual_seed(width)
    for weight in layer.parameters():
        weight.requires_grad_(False)
        weight.copy_(torch.randn(weight.shape, generator=generator))
        weight *= 2 if weight.ndim == 1 else 2 / math.sqrt(width)
    return layer
