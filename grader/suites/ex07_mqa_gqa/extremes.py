"""Scores that half precision cannot tell apart, and scores below any fill: attention and layer."""

import math

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
    for learns in True, False:
        with torch.set_grad_enabled(learns):
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


def small_weight_counts(student, draw, device, dtype):
    """Compare answers in which a weight of exp(-60), or of exp(-300) in float64, counts for its
    large value: of the attention, with a mask and without, and of both methods of a layer."""
    low, value = (300, 1e130) if dtype is torch.float64 else (60, 1e26)
    score = float(draw.integer(low, low + 9))
    right = math.exp(-score) * value
    x = torch.tensor([[-score, value], [0.0, 0.0]], dtype=dtype, device=device)
    k, v = x[None, :, :1], x[None, :, 1:]
    says = "output for a small weight and a large value"
    for keep in None, torch.ones(1, 2, dtype=torch.bool, device=device):
        output = student.grouped_query_attention(torch.ones_like(k[:, 1:]), k, v, keep)
        agree(output, torch.full_like(output, right), says=says, within=1e-3 * right)
    module, _ = layers(student, draw, device, (1, 1), 2, dtype=dtype)
    state = {f"w_{name}.weight": torch.zeros(2, 2, dtype=dtype) for name in "qkvo"}
    state["w_q.weight"][0, 0], state["w_k.weight"][0, 0] = math.sqrt(2), 1.0
    state["w_v.weight"][1, 1] = state["w_o.weight"][1, 1] = 1.0
    module.load_state_dict(state, strict=False)
    x[1, 0] = 1.0  # the query, whose own score is 1
    right *= math.exp(-1)
    _, past = module.step(x[None, :1])
    for output in module(x[None])[:, 1:], module.step(x[None, 1:], past)[0]:
        agree(output[..., 1], torch.full_like(output[..., 1], right), says, within=1e-3 * right)
