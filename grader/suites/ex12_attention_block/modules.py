"""Builds modules of the student's and the reference's, and compares them."""

import torch

from grader.judging import Hard, agree, backward, expect, expect_shapes
from reference import ex12_attention_block as reference


def calls(draw, case, usual, limits=None):
    """Return the sizes of a case: the sizes of a hard kind, or the case's own."""
    if isinstance(case, Hard):
        return draw.hard(case, limits, **usual)
    return [dict(zip(usual, case, strict=True))]


def pair(student, draw, device, name, *sizes, dtype=torch.float32, **options):
    """Return a module of the student's and the reference's, with the same weights."""
    right = getattr(reference, name)(*sizes, **options)
    module = getattr(student, name)(*sizes, **options)
    module.to(device, dtype)
    expect_shapes(module, {name: tuple(x.shape) for name, x in right.state_dict().items()})
    load(module, right, draw, dtype)
    return module, right


def load(module, right, draw, dtype, identity=False, assign=False, part=""):
    """Load new weights into both; with `identity` into projections the identity, into norms 256.

    assign  whether the student's module gets new parameters, not only other numbers in its own
    part    of the names of what is loaded; the rest stays as it is
    """
    state = {}
    for name, old in right.state_dict().items():
        if part not in name:
            continue
        new = draw.normal(*old.shape, dtype=dtype, scale=old.shape[-1] ** -0.5)
        if old.ndim == 1:  # a bias, or the weight of a norm
            new = draw.normal(*old.shape, dtype=dtype, scale=0.3) + ("bias" not in name)
        if identity:
            size = 256.0 * ("norm" in name)
            new = torch.eye(len(new)).to(new) if old.ndim == 2 else torch.full_like(new, size)
        state[name] = new
    module.load_state_dict(
        state, strict=False, assign=assign
    )  # buffers of the student's own are welcome
    right.load_state_dict(right.state_dict() | state)


def lacks(module, *names):
    """Fail if a module's state_dict has parts that were not requested."""
    state = module.state_dict()
    expect(isinstance(state, dict), "state_dict() should return a dict")
    there = [name for name in names if name in state]
    expect(not there, f"the state_dict has {', '.join(there)}, which nobody asked for")


def widths_of_products(student, module, heads, x, keep):
    """Return, for each product over the model width in one call, the numbers it gives a token.

    That is how many numbers of q, k, v or the output a product gives for each token of x, rounded
    down. The products of attention itself, which are over a head or over tokens, are left out.
    """
    student.told("start")
    try:
        module(x, keep)
    finally:
        told = student.told("stop")
    found = told if isinstance(told, list) else []
    batch, length, width = x.shape
    # With one head the scores are sums over the model width as well, and smaller.
    scores = batch * length * length * width if heads == 1 else 0
    return [
        one[1] // (batch * length * width)
        for one in found
        if isinstance(one, list) and [type(n) for n in one] == [int, int]
        if one[0] == width and one[1] > scores
    ]


def gradients(draw, module, right, *inputs, keep=None, but=()):
    """Compare gradients of inputs and parameters in both modes, except the names in `but`."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    upstream = draw.normal(*inputs[0].shape, dtype=inputs[0].dtype)
    expected = right.gradients(*inputs, keep=keep, upstream=upstream)
    draw.hard(Hard.MODES)
    for mode in (module.eval, module.train):
        mode()
        module.zero_grad()
        output = module(*leaves) if keep is None else module(*leaves, keep)
        gradients_agree(module, right, output, leaves, expected, upstream=upstream, but=but)


def gradients_agree(module, right, output, leaves, expected, *, upstream, but=()):
    """Compare the gradients of inputs and parameters of one output, except the names in `but`."""
    got = backward(output, *leaves, upstream=upstream)
    for name, one, answer in zip(("x", "the context"), got, expected, strict=False):
        agree(one, answer, says=f"gradient of {name}")
    learned = dict(zip(right.state_dict(), expected[len(leaves) :], strict=True))
    names = [name for name in learned if name not in but]
    found = module.read_each(f"{name}.grad" for name in names)
    for name, one in zip(names, found, strict=True):
        agree(one, learned[name], says=f"gradient of {name}")
