"""Compares scores that half precision cannot tell apart; and gradients where one tensor learns."""

import torch

from grader.judging import Hard, agree, backward
from reference import raised

from .modules import pair

WIDTH = 16
CLOSE, LOW = "output for close scores of hundreds", "output for very low scores"


def hard_scores_of_tokens(student, draw, device, fused, dtype):
    """Compare self-attention where scores of hundreds are as close as neighbours in half precision,
    and where all scores are very low."""
    if dtype.itemsize == 2:
        tokens_agree(student, draw, device, fused, draw.ties(WIDTH, WIDTH, dtype), CLOSE)
    tokens_agree(student, draw, device, fused, draw.low(5, 5, 5, dtype), LOW)


def tokens_agree(student, draw, device, fused, tokens, says):
    """Compare self-attention of one head for these queries and keys, with a mask and without.

    A token holds its query, its key and its value side by side, and each projection takes one.
    """
    length, width = tokens[0].shape
    dtype, three = tokens[0].dtype, 3 * width
    module, right = pair(student, draw, device, "SelfAttention", three, 1, False, dtype=dtype)
    module.fused = fused
    state = {name: torch.zeros_like(x) for name, x in right.state_dict().items()}
    for i, name in enumerate("qkv"):
        state[f"{name}.weight"][:width, i * width : (i + 1) * width] = torch.eye(width)
    state["o.weight"] += torch.eye(three, device=device)
    _load(module, right, state)
    x = torch.cat([*tokens, draw.normal(length, width, dtype=dtype)], -1)[None]
    wide = raised if dtype.itemsize == 2 else lambda answer, *given: answer(*given)
    for keep in None, draw.keep(length, length):
        agree(module(x, keep), wide(right, x, keep), says=says)


def close_scores_of_contexts(student, draw, device, image, dtype):
    """Compare cross-attention for such scores, which the weights of its norms make.

    All numbers are as large as each other, so that the norms divide without a remainder. The first
    place gives 128 * 128 to every product, 4,096 to its score; the others add up to some units.
    """
    draw.hard(Hard.TIES)
    module, right = pair(student, draw, device, "CrossAttention", WIDTH, 1, image, dtype=dtype)
    state = {name: torch.zeros_like(x) for name, x in right.state_dict().items()}
    for name, x in state.items():
        if x.ndim == 2:
            x += torch.eye(WIDTH, device=device)
        elif "norm" in name:
            x += 1.0
            x[0] = 128.0
    _load(module, right, state)
    x, context = ((draw.integers(0, 1, 1, n, WIDTH).to(dtype) * 2 - 1) * 64 for n in (5, 17))
    x[..., 0] = context[..., 0] = 64.0
    agree(module(x, context), raised(right, x, context), says=CLOSE)


def each_learns_alone(draw, module, right, *inputs, keep=None):
    """Compare the gradient of every input and parameter where no other needs one."""
    draw.hard(Hard.LEARN)
    upstream, masks = draw.normal(*inputs[0].shape), [] if keep is None else [keep]
    expected = right.gradients(*inputs, keep=keep, upstream=upstream)
    inputs = [x.detach().clone() for x in inputs]
    module.zero_grad()
    module.requires_grad_(False)
    for name, leaf, one in zip(("x", "the context"), inputs, expected, strict=False):
        leaf.requires_grad_()
        [got] = backward(module(*inputs, *masks), leaf, upstream=upstream)
        leaf.requires_grad_(False)
        agree(got, one, says=f"gradient of {name} (which alone learns)")
    for name, one in zip(right.state_dict(), expected[len(inputs) :], strict=True):
        getattr(module, f"{name}.requires_grad_")(True)
        module.forward.held(*inputs, *masks).backward(upstream)
        agree(module.read(f"{name}.grad"), one, says=f"gradient of {name} (which alone learns)")
        getattr(module, f"{name}.requires_grad_")(False)
    module.requires_grad_(True)


def small_weight_counts(student, draw, device, dtype, name, option):
    """Compare outputs in which a weight of exp(-60), or of exp(-300) in float64, counts for its
    large value, with a mask and without, in self-attention, and in text and image.

    A token's first two places make its key, and the third its value. The first key alone has a
    product with the queries, which are all alike.
    """
    score, value = (300.0, 1e130) if dtype is torch.float64 else (60.0, 1e26)
    crosses = name == "CrossAttention"
    module, right = pair(student, draw, device, name, 4, 1, option, dtype=dtype)
    state = {part: torch.zeros_like(x) for part, x in right.state_dict().items()}
    for part, weight in state.items():
        if "norm" in part:  # that of the queries makes 2 of the bias
            weight += score / 2 if part == "norm_q.weight" else 1.0
        elif part.startswith("k") and part.endswith("weight"):
            weight[:2, :2] = torch.eye(2)
        elif part.startswith("v") and part.endswith("weight"):
            weight[2, 2] = 1.0
    state["q.bias"][0], state["o.weight"][2, 2] = -score, 1.0
    _load(module, right, state)
    x = torch.tensor([[2.0, 0.0, value, 0.0], [0.0, 2.0, 0.0, 0.0]], dtype=dtype, device=device)
    inputs = (x[None], x.repeat(5, 1)[None])[: 1 + crosses]
    expected = torch.from_numpy(right(*inputs).exact).to(x)
    says, within = "output for a small weight and a large value", 1e-3 * float(expected.max())
    keep = torch.ones(1, 10 - option if crosses else 2, dtype=torch.bool, device=device)
    for masks in (), (keep,):
        agree(module(*inputs, *masks), expected, says=says, within=within)


def _load(module, right, state):
    module.load_state_dict(state, strict=False)
    right.load_state_dict(state)
