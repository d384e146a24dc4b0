"""Shows latent attention for `make show`: a small layer, expanded step by step."""

import math

import torch

from reference.ex02_masking import plain_masked_softmax
from reference.mla import PlainMultiHeadLatentAttention

HEADS, NOPE, ROPE, VALUE, RANK, WIDTH = 2, 4, 2, 4, 3, 8


def inputs(sentence):
    """Return the tokens' embeddings."""
    return {"x": sentence.embeddings(WIDTH)}


def steps(x):
    """Return the latent and the rotary key; keys, scores and values of every head; both ways."""
    layer = _layer(x.shape[-1])
    q_nope, q_rope = layer.parts_of_queries(layer.queries(x))
    latents, k_rope = layer.compress(x)
    q_rope, k_rope = layer.rotate(q_rope, 0), layer.rotate(k_rope, 0)
    w_k, w_v = layer.expansion()
    content = q_nope @ (latents[:, None] @ w_k.mT).mT
    position = q_rope @ k_rope[:, None].mT
    scores = (content + position) / math.sqrt(NOPE + ROPE)
    keep = layer.keep(*scores.shape[-2:])
    weights = plain_masked_softmax(scores, keep)
    return {
        "x": ("B L E", x),
        "latent": ("B L R", latents),
        "rotary key": ("B L Dr", k_rope),
        "k": ("B H L Dn", latents[:, None] @ w_k.mT),
        "q absorbed": ("B H L R", q_nope @ w_k),
        "q rotated": ("B H L Dr", q_rope),
        "scores": ("B H Lq Lk", scores),
        "mask": ("Lq Lk", keep),
        "weights": ("B H Lq Lk", weights),
        "latents mixed": ("B H Lq R", weights @ latents[:, None]),
        "heads": ("B H Lq Dv", weights @ latents[:, None] @ w_v.mT),
        "output": ("B L E", layer(x)),
    }


def asked(student, x):
    """Return the latents that the student's layer leaves in its cache, and its output."""

    def layer():
        found = student.MultiHeadLatentAttention(x.shape[-1], HEADS, NOPE, ROPE, VALUE, RANK)
        found.load_state_dict(_layer(x.shape[-1]).state_dict())
        return found

    def cached():
        cache = student.LatentCache(len(x), x.shape[1] + 1, RANK, ROPE)
        one = layer()
        one.requires_grad_(False)
        one(x.detach(), cache)
        latents, _ = cache.append(torch.zeros(len(x), 1, RANK), torch.zeros(len(x), 1, ROPE))
        return latents[:, :-1]

    return {
        "latent": cached,
        "output": lambda: layer()(x),
    }


def _layer(width):
    """Return one layer for a width, its weights large enough for heads to choose tokens."""
    layer = PlainMultiHeadLatentAttention(width, HEADS, NOPE, ROPE, VALUE, RANK)
    generator = torch.Generator().manual_seed(width)
    for weight in layer.parameters():
        weight.requires_grad_(False)
        if weight.ndim == 2:
            weight.copy_(torch.randn(weight.shape, generator=generator))
            weight *= 2 / math.sqrt(weight.shape[-1])
    return layer
