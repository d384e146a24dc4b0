"""Compares the steps of a layer: in a dtype, their gradients, and two that go on from one past."""

import torch
from torch import float64

from grader.judging import Hard, agree, backward, lasting
from reference import ex07_mqa_gqa as reference

from .inputs import layer_gradients_agree, layers


def layer_in(dtype, student, draw, device, heads):
    """The layer and two of its steps in a dtype, with the gradients of x."""
    module, oracle = layers(student, draw, device, heads, 8, bias=True, dtype=dtype)
    x = draw.normal(2, 33, oracle.plain.w_q.in_features, dtype=dtype)
    agree(module(x), oracle(x))
    past = right_past = None
    for piece in x.split((3, 1, 29), dim=1):
        step, right = module.step(piece, past), oracle.step(piece, right_past)
        agree(step, right)
        past, right_past = step[1], right[1]
    upstream = draw.normal(*x.shape, dtype=dtype)
    layer_gradients_agree(module, oracle, x, None, upstream, every_weight=dtype is float64)


def step_gradients_agree(draw, module, oracle, first, last):
    """The gradients of the tokens of two steps, through the past."""
    first, last = (x.clone().requires_grad_() for x in (first, last))
    output, _ = module.step(last, module.step(first)[1])

    def second(first, last):
        plain = reference.rounded_module(oracle.plain, last)
        return plain.step(last, plain.step(first)[1])[0]

    grads = backward(output, first, last, upstream=last.detach())
    rights = reference.gradients(second, first, last, upstream=last.detach(), magnitude=4.0)
    for name, got, right in zip(("the first", "the second"), grads, rights, strict=True):
        agree(got, right, says=f"gradient of x of {name} of two steps")


def continuations_agree(draw, module, oracle, text):
    """Two steps from one past, with the very tensors that the layer returned."""
    draw.hard(Hard.BRANCHES)
    module.requires_grad_(False)
    _, past = module.step.held(text)
    _, right_past = oracle.step(text)
    with torch.no_grad():
        _, longer = module.step.held(text[:, :1], past)
    with lasting(module.step, text[:, :2], longer):
        module.step(draw.normal(2, 2, 24), longer)
    branches = []
    for _ in range(2):
        piece = draw.normal(2, 2, 24)
        branches.append((module.step.held(piece, past), oracle.step(piece, right_past)))
    for (output, (k, v)), right in branches:
        agree((output.now(), (k.now(), v.now())), right, says="one of two continuations of a past")
    agree(tuple(x.now() for x in past), right_past, says="a past that was continued twice")
    piece = draw.normal(2, 1, 24)
    agree(module.step(piece, branches[0][0][1]), oracle.step(piece, branches[0][1][1]))


def long_pasts_agree(student, draw, device):
    """Steps with as many tokens as the past, with one of each size, and with long pasts."""
    sizes = {"B": 2, "Hk": 2, "G": 2, "Lq": 2, "Lk": 3, "D": 4}  # Lk is the past
    kinds = [draw.hard(kind, **sizes) for kind in (Hard.SQUARE, Hard.ONE)]
    kinds.append(draw.hard(Hard.LONG, {"Hk": 64, "G": 64, "D": 64}, **sizes))
    for s in (s for kind in kinds for s in kind):
        module, oracle = layers(student, draw, device, (s["Hk"], s["G"]), s["D"])
        width = oracle.plain.w_q.in_features
        past = [draw.normal(s["B"], s["Hk"], s["Lk"], s["D"]) for _ in range(2)]
        x = draw.normal(s["B"], s["Lq"], width)
        agree(module.step(x, tuple(past)), oracle.step(x, tuple(past)))
