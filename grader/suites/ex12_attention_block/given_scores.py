"""Compares modules whose weights and inputs lead to chosen scores."""

import torch

from grader.judging import Hard, agree

from .modules import load, pair

HEADS, WIDTH = 3, 4
E = HEADS * WIDTH
LARGEST = 512.0  # what a chosen score is divided by before a norm, and multiplied with behind it
FIRST = slice(0, E, WIDTH)  # the first number of every head
LOWEST, ONE_SEEN = -1e32, "output where scores are -1e32, for one key seen"


def self_scores_agree(student, draw, device, fused):
    """Compare self-attention for scores that fall, rise, are (far) below 0, and jump."""
    module, right = pair(student, draw, device, "SelfAttention", E, HEADS, False)
    module.fused = fused
    state = right.state_dict()
    _ask_evenly(state)
    state["k.weight"] = _picked(state["k.weight"])
    state["k.bias"] = 0 * state["k.bias"]
    state["v.weight"][:, :HEADS] = 0.0
    _load(module, right, state)
    for name, scores in draw.scores(2, HEADS, 65).items():
        x, keep = draw.normal(2, 65, E), draw.keep(HEADS, 65, 65)
        x[..., :HEADS] = scores.mT
        for mask in (None, keep):
            agree(module(x, mask), right(x, mask), says=f"output for scores that are {name}")
    draw.hard(Hard.LOW)
    x[..., :HEADS] = LOWEST * (1 + draw.permutation(65)[:, None] / 65)
    one = torch.eye(65, dtype=torch.bool, device=device).roll(3, 0)
    agree(module(x, one), right(x, one), says=ONE_SEEN)
    agree(module(x), right(x), says="output for very low scores")


def cross_scores_agree(student, draw, device):
    """Compare cross-attention to text and image whose scores fall, rise, are negative, and jump."""
    module, right = pair(student, draw, device, "CrossAttention", E, HEADS, 33)
    state = right.state_dict()
    _ask_evenly(state)
    for ending in ("", "_img"):
        weight = _picked(state[f"k{ending}.weight"]) / LARGEST
        weight[1, HEADS] = 1.0
        state[f"k{ending}.weight"], state[f"k{ending}.bias"] = weight, 0 * weight[0]
        state[f"norm_k{ending}.weight"] = torch.full_like(weight[0], LARGEST)
        state[f"v{ending}.weight"][:, : HEADS + 1] = 0.0
    state["norm_q.weight"] = torch.ones_like(state["norm_q.weight"])
    _load(module, right, state)
    x, keep = draw.normal(2, 5, E), draw.keep(HEADS, 5, 65)
    texts, images = draw.scores(2, HEADS, 65), draw.scores(2, HEADS, 33)
    for name, text in texts.items():
        context = draw.normal(2, 98, E)
        scores = torch.cat([images[name], text], -1).mT  # (B, Lc, H)
        context[..., :HEADS] = scores
        rest = E - (scores / LARGEST).square().sum(-1)  # so that the mean square of keys is 1
        context[..., HEADS] = rest.sqrt()
        for mask in (None, keep):
            says = f"output for scores that are {name}"
            agree(module(x, context, mask), right(x, context, mask), says=says)
    draw.hard(Hard.LOW)
    state["norm_k.weight"][FIRST] = LOWEST  # of which each score is a 64th
    _load(module, right, state)
    small = (1 - draw.permutation(65)[:, None] / 260).expand(65, HEADS) / 64
    context[:, 33:, :HEADS] = LARGEST * small
    context[:, 33:, HEADS] = (E - small.square().sum(-1)) ** 0.5
    one = torch.eye(5, 65, dtype=torch.bool, device=device)
    agree(module(x, context, one), right(x, context, one), says=ONE_SEEN)
    agree(module(x, context), right(x, context), says="output for very low scores")


def products_of_256_agree(module, right, draw, dtype, inputs, output, says):
    """Compare the output with identity projections, and with norms of 256."""
    load(module, right, draw, dtype, identity=True)
    agree(module(*inputs), output, says=says)


def far(student, draw, device, length, dtype, fused=True):
    """Return the output at some tokens of a long text, the right one, and its name.

    One head has four pairs, and scores large enough for choosing single tokens.
    """
    sizes, options = (8, 1, False), {"rope_base": 10.0, "dtype": dtype}
    module, right = pair(student, draw, device, "SelfAttention", *sizes, **options)
    module.fused = fused
    x = draw.normal(1, length, 8, dtype=dtype, scale=2.0)
    places = [0, 1, *range(length // 4, length, length // 8), length - 1]
    return module(x)[:, places], right.rows(x, places), f"output at tokens {places}"


def _ask_evenly(state):
    """Set queries to 2, the root of the head width, at each head's first number, else to 0."""
    state["q.weight"] = 0 * state["q.weight"]
    state["q.bias"] = 0 * state["q.bias"]
    state["q.bias"][FIRST] = WIDTH**0.5


def _picked(weight):
    """Return a projection that takes the h-th number of a token to the first place of head h."""
    weight = 0 * weight
    weight[FIRST, :HEADS] = torch.eye(HEADS).to(weight)
    return weight


def _load(module, right, state):
    module.load_state_dict(state, strict=False)
    right.load_state_dict(state)
