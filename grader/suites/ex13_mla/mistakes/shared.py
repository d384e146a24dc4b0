"""Steps that wrong answers to several tasks share."""

import torch

from reference.mla import PlainMultiHeadLatentAttention

OF = "MultiHeadLatentAttention"


class Layer(PlainMultiHeadLatentAttention):
    """A right layer, which goes on in float32 or better."""

    def up(self, x):
        return x.to(torch.promote_types(x.dtype, torch.float32))


def absorbed_with(layer, parts, w_k, w_v, scale=None):
    """The absorbed way with other matrices, and another scale."""
    q_nope, q_rope, latents, k_ropes = parts
    q_latent = layer.up(q_nope) @ w_k  # (B, H, t, R)
    scores = q_latent @ latents[:, None].mT + layer.up(q_rope) @ k_ropes[:, None].mT
    weights = layer.weights(scores * ((scale or layer.scale()) / layer.scale()))
    return weights @ latents[:, None] @ w_v.mT
