"""Checks that functions and layers of ex04 leave inputs, earlier answers and other layers alone."""

import copy

import numpy as np
import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import Hard, agree, expect, lasting, rejects, same, untouched
from reference import ex04_heads as reference

from .inputs import arrays, matrices, tokens
from .layers import layers, values_agree

WRITTEN = "after the caller wrote into those of an earlier call"


def arrays_are_left_alone(student, draw):
    """Check multi_head_attention_numpy: inputs, layouts, the same array twice, changed arrays."""
    attend, right = student.multi_head_attention_numpy, reference.multi_head_attention_numpy
    keep = draw.keep(2, 4, 3, 5).cpu().numpy()
    keep[0, 1, 2] = False
    for dtype in float16, float64, float32:
        args = arrays(draw, dtype=dtype)
        for mask in None, keep:
            first = untouched(lambda args=args, mask=mask: attend(*args, 4, keep=mask))
            arrays_last(attend, args, mask)
    for again, before in zip(attend(*args, 4, keep=keep), first, strict=True):
        same(again, before, says="the second answer to the same call")
    views = [x[..., ::-1].swapaxes(-1, -2).copy().swapaxes(-1, -2)[::-1] for x in args]
    wide = [np.broadcast_to(x[:1], x.shape) for x in args]
    for mask in None, keep[:1], keep[..., ::-1]:
        for given in views, wide:
            values_agree(attend(*given, 4, keep=mask), right(*given, 4, mask))
    draw.hard(Hard.SAME)
    one, w = args[1], args[3]
    for given in ([one] * 3, [w] * 4), ([args[0], one, one], args[3:]):
        for mask in None, keep if given[0][0] is args[0] else None:
            both = [*given[0], *given[1], 4]
            values_agree(attend(*both, keep=mask), right(*both, keep=mask))
    draw.hard(Hard.CHANGED)
    with lasting(attend, *args, 4, keep=keep):
        for changed in (*args, keep):
            changed[:] = ~changed if changed is keep else -changed
            keep[..., 0] = True
            for mask in keep, None:
                says = "for a changed input"
                values_agree(attend(*args, 4, keep=mask), right(*args, 4, mask), says)
    draw.hard(Hard.FAILED)
    for width, mask in (10, None), (10, keep[:, :1]), (4 * draw.integer(6, 20) + 2, None):
        refused = arrays(draw, width=width)
        rejects(lambda mask=mask, x=refused: attend(*x, 4, keep=mask), width, 4)
        values_agree(attend(*args, 4, keep=mask), right(*args, 4, mask))


def arrays_last(attend, args, keep):
    """Check that an answer stays when an input changes, and that its caller may write into it."""
    args, right = copy.deepcopy(args), reference.multi_head_attention_numpy
    with lasting(attend, *args, 4, keep=keep):
        args[0][:] *= -1
        expected = right(*args, 4, keep)
        values_agree(attend(*args, 4, keep=keep), expected, "for a changed input")
    for answer in attend.held(*args, 4, keep=keep):
        answer.change("fill", 2.0)
    values_agree(attend(*args, 4, keep=keep), expected, WRITTEN)


def tensors_are_left_alone(student, draw, device):
    """Check MultiHeadAttention: inputs, layouts, the same tensor twice, earlier answers."""
    keep = draw.keep(2, 4, 3, 5)
    keep[0, 1, 2] = False
    for dtype in float16, bfloat16, float64, float32:
        module, oracle = layers(student, draw, device, dtype=dtype)
        x, context = tokens(draw, dtype=dtype)
        for args in [x, None, keep[..., :3]], [x, context, keep]:
            first = untouched(lambda module=module, args=args: module(*args))
        for mask, learns in (keep, False), (None, False), (None, True):
            answers_last(module, oracle, x, context, mask, learns)
    for again, before in zip(module(x, context, keep), first, strict=True):
        same(again, before, says="the second answer to the same call")
    strided = [draw.strided(*t.shape) for t in (x, context)]
    values_agree(module(*strided), oracle(*strided))
    for mask in keep[:1], keep.mT.contiguous().mT, keep[:, :1].expand(2, 4, 3, 5):
        values_agree(module(*strided, mask), oracle(*strided, mask))
    draw.hard(Hard.SAME)
    for mask in None, draw.keep(4, 5, 5):
        values_agree(module(context, context, mask), oracle(context, context, mask))
    draw.hard(Hard.MODES)
    for training in False, True:
        module.train(training)
        with torch.set_grad_enabled(training):
            nothing_is_remembered(draw, module, oracle, x, context, keep)


def answers_last(module, oracle, x, context, keep, learns):
    """Check that an answer stays when an input changes, and that its caller may write into it."""
    x = x.clone().requires_grad_(learns)
    module.requires_grad_(learns)
    with lasting(module.forward, x, context, keep):
        x.data.neg_()
        expected = oracle(x, context, keep)
        values_agree(module(x, context, keep), expected, "for a changed input")
    if not learns:
        for answer in module.forward.held(x, context, keep):
            answer.change("fill_", 2.0)
        values_agree(module(x, context, keep), expected, WRITTEN)


def nothing_is_remembered(draw, module, oracle, x, context, keep):
    """Change tensors, masks and weights between two calls; earlier answers must not change."""
    draw.hard(Hard.CHANGED)
    module.requires_grad_(False)
    with lasting(module.forward, x, context, keep):
        for changed in x, context, keep:
            changed.copy_(~changed if changed is keep else -changed)
            keep[..., 0] = True
            for args in [x, context, keep], [x], [x, context], [x, None, keep[..., :3]]:
                values_agree(module(*args), oracle(*args), "for a changed input")
        state = {f"{name}.weight": w for name, w in matrices(draw).items()}
        module.load_state_dict(state, strict=False)
        oracle.load_state_dict(state)
        weights_are_read(module, oracle, x, context)
        last = torch.tensor([11], device=x.device)
        for name in "w_k.weight", "w_v.weight":  # one row, which no version number shows
            getattr(module, f"{name}.data.index_fill_")(0, last, 0.5)
            state[name][-1] = 0.5
        oracle.load_state_dict(state)
        weights_are_read(module, oracle, x, context)
    wide = x.double(), context.double()
    module.double()
    values_agree(module(*wide), oracle(*wide), "after .double()")
    module.float()


def weights_are_read(module, oracle, x, context):
    """Compare self-attention and cross-attention, in turn, whose weights were changed."""
    for args in [x], [x, context], [x]:
        values_agree(module(*args), oracle(*args), "with changed weights")


def layers_share_nothing(student, draw, device):
    """Check that layers made one after another, some of them refused, do not change."""
    draw.hard(Hard.FAILED)
    module, oracle = layers(student, draw, device)
    other, other_oracle = layers(student, draw, device)
    student.MultiHeadAttention(12, 2)
    many = draw.integer(20, 49)
    for width, heads in (10, 4), (4, 8), (12, 5), (3 * many - 1, many):
        rejects(
            lambda width=width, heads=heads: student.MultiHeadAttention(width, heads), width, heads
        )
    x, context = tokens(draw)
    agree(other(x, context), other_oracle(x, context), says="answer of the second of two layers")
    agree(module(x, context), oracle(x, context), says="answer of the first of two layers")


def answers_stay_on_their_device(student, draw):
    """Check that answers are on the inputs' device, with meta tensors, on any machine."""
    draw.hard(Hard.DEVICE)
    x, context, keep = (t.to("meta") for t in (*tokens(draw), draw.keep(3, 5)))
    module = student.MultiHeadAttention(12, 4)
    module.to("meta")
    found = [*student.split_heads.devices(x, 4), *student.merge_heads.devices(x[:, None])]
    for args in [x], [x, context], [x, context, keep], [x, None, keep[:, :3]]:
        found += module.forward.devices(*args)
    on = sorted({str(device) for device in found})
    expect(on == ["meta"], f"answers to inputs on meta are on {on}, but should be on meta")
