"""Checks that the absorbed way expands no latents to keys or values, which no answer shows.

In prefill keys and values of all heads are no larger than queries and outputs, and cost as many
products: neither sizes nor counts would tell. So weights are chosen with which an expanded key or
value is infinite, or at least so large that the rest of it is rounded away, while no number of the
absorbed way is. Latents are loud in their last place, which makes only some places of the keys or
of the values, and these so many times:
"""

import torch
from torch import bfloat16, float32, float64

from grader.judging import agree

from .caches import append, new_caches
from .layers import new_layers

EXPANDED = {float32: 2.0**123, bfloat16: 2.0**123, float64: 2.0**1019}  # times LOUD infinite
LOUD, SOFT = 100.0, 2.0**-8


def never_expanded(student, draw, device):
    """Check that with absorbed=True the layer expands neither keys nor values, in any call."""
    for call in draw.combined(
        earlier=(None, 0, 8, 66),  # tokens in the cache; None without one
        t=(1, 2, 40),
        part=("keys", "values"),
        q_rank=(None, 7),
        heads=(3, 1),
        batch=(2, 1),
        training=(True, False),
        learns=(True, False),
        rank=(8, 40),  # of less and of more numbers than the keys and values of a token
    ):
        _not_expanded(student, draw, device, float32, **call)
    usual = {"t": 600, "heads": 1, "batch": 1, "q_rank": None, "training": True, "rank": 8}
    usual["learns"] = False
    for earlier, part in (None, "keys"), (8, "values"):  # a long prompt
        _not_expanded(student, draw, device, float32, earlier, part=part, **usual)


def not_expanded_in(student, draw, device, dtype, absorbed):
    """Check the absorbed way in float64 or bfloat16; float16 holds no number that is so large."""
    usual = {"t": 2, "heads": 3, "batch": 2, "training": False, "rank": 8}
    for part in ("keys", "values") if absorbed and dtype in EXPANDED else ():
        for earlier, q_rank in ((8, None), (None, 7)):
            call = {"part": part, "earlier": earlier, "q_rank": q_rank} | usual
            call["learns"] = earlier is None
            _not_expanded(student, draw, device, dtype, **call)


def _not_expanded(
    student, draw, device, dtype, earlier, t, part, q_rank, heads, batch, training, learns, rank
):
    """Check one call; where the weights learn and there is no cache, x does too."""
    sizes = (10, heads, 6, 4, 5, rank, q_rank)

    def changed(state):
        change = {"keys": _loud_keys, "values": _loud_values}[part]
        return _apart(state, sizes) | change(state, sizes, EXPANDED[dtype])

    layer, right = new_layers(student, draw, device, sizes, dtype, changed)
    layer.requires_grad_(learns)
    layer.train(training)
    cache = seen = None
    if earlier is not None:
        cache, seen = new_caches(student, device, batch, earlier + t, rank, 4, dtype)
    if earlier:
        latents = _cancelling(draw, batch, earlier, rank, dtype)
        k_ropes = torch.zeros(batch, earlier, 4, dtype=dtype, device=device)
        append(cache, seen, latents, k_ropes)
    x = _tokens(draw, batch, t, 10, dtype).requires_grad_(learns and cache is None)
    expected, output = right(x, seen, True), layer(x, cache, True)
    if t > 1:  # the first sees one of a pair, and its values are really infinite
        exact, plain = expected.exact[:, 1:], expected.plain[:, 1:]
        expected, output = expected._replace(exact=exact, plain=plain), output[:, 1:]
    when = "without a cache" if earlier is None else f"after {earlier} token(s)"
    says = f"with weights with which expanded {part} would overflow, output {when}"
    agree(output, expected, says=says)


def _tokens(draw, batch, t, width, dtype):
    """Draw tokens, the first two of them alike but for the sign of a loud first place."""
    x = draw.normal(batch, t, width, dtype=dtype)
    x[..., 0] = 0.0
    if t > 1:
        x[:, 1] = x[:, 0]
        x[:, 0, 0], x[:, 1, 0] = 4.0, -4.0
    return x


def _cancelling(draw, batch, tokens, rank, dtype):
    """Draw latents in pairs, alike but for the sign of a loud last place."""
    latents = draw.normal(batch, tokens // 2, rank, dtype=dtype).repeat_interleave(2, dim=1)
    latents[:, 0::2, -1], latents[:, 1::2, -1] = LOUD, -LOUD
    return latents


def _apart(state, sizes):
    """Change weights: only a token's first place makes the last place of its latent.

    Rotary keys are zero, so that both tokens of a pair get the same weight, and cancel in the mix.
    In the reference's layer the last place of a latent makes nothing.
    """
    down, rank = state["kv_a_proj_with_mqa.weight"], sizes[5]
    down[:, 0] = 0.0
    down[rank - 1 :] = 0.0
    down[rank - 1, 0] = 1.0
    state["kv_a_layernorm.weight"][-1] = LOUD
    state["kv_b_proj.weight"][:, -1] = 0.0
    return {}


def _loud_keys(state, sizes, number):
    """Return weights that make two places of a key loud; both cancel in the absorbed query.

    They cancel bit by bit. A key scaled down in time has still lost the rest of these two places.
    """
    queries = state["q_proj.weight" if "q_proj.weight" in state else "q_b_proj.weight"]
    queries = queries.unflatten(0, (sizes[1], -1))
    queries[:, :2] = 0.0
    queries[:, 0, 1], queries[:, 1, 1] = SOFT, -SOFT
    return _expansion(state, sizes, [0, 1], number)


def _loud_values(state, sizes, number):
    """Return weights that make a value's first place loud, which no output uses."""
    state["o_proj.weight"].unflatten(1, (sizes[1], -1))[..., 0] = 0.0
    return _expansion(state, sizes, [sizes[2]], number)


def _expansion(state, sizes, places, number):
    """Return weights that expand latents, with a huge number at these places of each head."""
    theirs = state["kv_b_proj.weight"].unflatten(0, (sizes[1], -1)).clone()  # (H, nope + value, R)
    theirs[:, places, -1] = number
    return {"kv_b_proj.weight": theirs.flatten(0, 1)}
