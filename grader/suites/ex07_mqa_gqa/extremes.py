"""Scores that half precision cannot tell apart, and scores below any fill: attention and layer."""

import torch

from grader.judging import agree
from reference import ex07_mqa_gqa as reference
from reference import raised

from .inputs import attends, layers

ATTENTION = reference.grouped_query_attention


def right_in_float32(q, k, v, keep=None):
    """The right output, which computes in float32 what half precision cannot."""
    wide = q.dtype.itemsize > 2
    return ATTENTION(q, k, v, keep) if wide else raised(ATTENTION, q, k, v, keep)


def heads_of(tensors, Hk, H=4):
    """Queries and keys without heads, for two sequences, H heads and Hk heads."""
    return [x.expand(2, n, *x.shape) for x, n in zip(tensors, (H, Hk), strict=True)]


def ties_agree(student, draw, dtype, Hk, masked):
    """Compare outputs for scores that half precision cannot tell apart."""
    close = heads_of(draw.ties(5, 24, dtype), Hk)
    v = draw.normal(2, Hk, 24, 3, dtype=dtype)
    keep = draw.keep(2, 4, 5, 24) if masked else None
    says = "output for scores of hundreds that lie close together"
    attends(student, *close, v, keep, says, right_in_float32)


def beyond_float32_agrees(student, draw, device, Hk, masked):
    """Compare outputs for scores in float64 that float32 cannot hold; with a mask, a layer's."""
    q, k = (draw.normal(8, 4, dtype=torch.float64) for _ in "qk")
    q[:, 0], k[:, 0] = 1e20, -1e20 * (1 + draw.permutation(8))
    v = draw.normal(2, Hk, 8, 3, dtype=torch.float64)
    keep = draw.keep(2, 4, 8, 8) if masked else None
    what = "scores below -1e40"
    attends(student, *heads_of((q, k), Hk), v, keep, f"output for {what}")
    if masked:
        layer_agrees(student, draw, device, torch.float64, q, k, what)


def layer_agrees(student, draw, device, dtype, q, k, what):
    """Compare both methods of a layer that reads q and k (L, D) as they are from its tokens.

    A token holds its query beside its key. Both query heads read the query, the one key/value head
    reads the key, which is its value too, and w_o adds nothing.
    """
    length, n = q.shape
    module, oracle = layers(student, draw, device, (1, 2), n, dtype=dtype)
    query, key = torch.eye(2 * n).split(n)  # (n, 2n) each
    state = {"w_q": torch.cat([query, query]), "w_k": key, "w_v": key, "w_o": torch.eye(2 * n)}
    state = {f"{name}.weight": weight.to(q) for name, weight in state.items()}
    module.load_state_dict(state, strict=False)
    oracle.load_state_dict(state)
    x = torch.cat([q, k], -1)[None]

    def right(keep):
        return oracle(x, keep) if dtype.itemsize > 2 else raised(oracle.forward, x, keep)

    keep = draw.keep(1, 2, length, length)
    agree(module(x, keep=keep), right(keep), says=f"output of the layer for {what}")
    first, past = module.step(x[:, : length // 2])
    rest, _ = module.step(x[:, length // 2 :], past)
    causal = torch.ones(length, length, dtype=torch.bool, device=device).tril()
    says = f"outputs of two steps for {what}"
    agree(torch.cat([first, rest], 1), right(causal), says=says)
