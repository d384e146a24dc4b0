"""Checks inputs, layouts, state, empty sizes, devices and refusals of fast_attention."""

from itertools import product

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import Hard, agree, expect, lasting, rejects, same, untouched
from grader.suites.ex08_cuda_sdpa.calls import (
    OPTIONS,
    agree_gradients,
    agree_output,
    options_of,
    qkv,
)
from grader.suites.ex08_cuda_sdpa.kernels import agree_backend

SOME = (), ("causal",), ("keep", "bias"), ("causal", "keep", "bias")  # each option, and all


def inputs_left_alone(student, draw):
    """Check, in every dtype and with all options, that inputs stay and answers repeat."""
    for dtype in (float32, float64, float16, bfloat16):
        groups = (1, 2) if dtype is float32 else (2,)
        for group, names in product(groups, OPTIONS):
            q, k, v = qkv(draw, dtype, group)
            options = options_of(draw, names, q, k, empty=True)
            for name in ("bias", "keep") if group == 2 else ():  # as small as they may be
                if name in options:
                    options[name] = options[name][0, 0].clone()
            first = untouched(lambda x=(q, k, v), o=options: student.fast_attention(*x, **o))
            again = student.fast_attention(q, k, v, **options)
            same(again, first, says="the second answer to the same call")


def any_layout(student, draw):
    """Check any number of leading dimensions, and other memory layouts."""
    q, k, v = qkv(draw, group=2)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    strided = [x.mT.contiguous().mT for x in (q, k, v)]
    expanded = [x[:1, :, :1].expand(x.shape) for x in (q, k, v)]
    for inputs in (turned, strided, expanded):
        for names in SOME:
            options = options_of(draw, names, q, k, empty=True)
            agree_output(student, *inputs, **options)
            flat = {n: x if x is True else x[0].mT.contiguous().mT for n, x in options.items()}
            agree_output(student, *(x[0] for x in inputs), **flat)
            agree_output(student, *(x.unsqueeze(1) for x in inputs), **flat)
            deep = [x.unsqueeze(0).expand(3, *x.shape) for x in inputs]
            agree_output(student, *deep, **options)
            small = {n: x if x is True else x[:, :1, :, :1] for n, x in options.items()}
            agree_output(student, *deep, **small)
            rows = {n: x if x is True else x[None, :, :1, :1] for n, x in options.items()}
            agree_output(student, *deep, **rows)  # 1 beside a batch, and one row for all
            if names == ("keep", "bias"):
                agree_gradients(student, draw, *deep, **rows)


def nothing_remembered(student, draw):
    """Check the same tensor passed twice, then changed numbers; earlier answers must stay."""
    attend = student.fast_attention
    q, k, v = qkv(draw, Lk=5, Dv=6)
    options = options_of(draw, ("keep", "bias"), q, k)
    draw.hard(Hard.SAME)
    for causal in (False, True):
        for scale in (None, 0.5):
            agree_output(student, q, q, q, causal=causal, scale=scale)
            agree_output(student, q, k, k, causal=causal, scale=scale)
            untouched(lambda c=causal, s=scale: attend(q, q, q, causal=c, scale=s))
    draw.hard(Hard.CHANGED)
    with lasting(attend, q, k, v, **options):
        for x in (v, q, k, options["bias"]):
            x.mul_(-2)
            for some in options, {}, {"causal": True}:
                agree_output(student, q, k, v, **some)
        options["keep"].logical_not_()
        agree_output(student, q, k, v, **options)


def empty(student, draw, device):
    """Check no sequence, no query, or no key: a query without keys gets zeros."""
    for sizes in ({"B": 0}, {"Lq": 0}, {"Lk": 0}):
        for group, names in product((1, 2), OPTIONS):
            q, k, v = qkv(draw, group=group, D=7, **sizes)
            full = (*q.shape[:-1], k.shape[-2])
            made = {"keep": torch.ones(full, dtype=torch.bool, device=device), "causal": True}
            made |= {"bias": torch.zeros(full, device=device)}
            options = {name: made[name] for name in names}
            right = torch.zeros(*q.shape[:-1], v.shape[-1], device=device)
            agree(student.fast_attention(q, k, v, **options), right)
            if len(q):  # and without a batch
                few = {name: x if x is True else x[0] for name, x in options.items()}
                agree(student.fast_attention(q[0], k[0], v[0], **few), right[0])
                few.pop("bias", None)
                agree_backend(student, q[0], k[0], v[0], **few)


def on_its_device(student, draw):
    """Check that all tensors are made on the inputs' device, with meta tensors, on any machine."""
    draw.hard(Hard.DEVICE)
    for names in OPTIONS:
        for Lq in (1, 12):
            q, k, v = qkv(draw, group=2, Lq=Lq)
            options = options_of(draw, names, q, k)
            given = {n: x if x is True else x.to("meta") for n, x in options.items()}
            [on] = student.fast_attention.devices(*(x.to("meta") for x in (q, k, v)), **given)
            expect(on.type == "meta", f"inputs are on the device meta, but the output on {on}")
    module = student.FusedAttention(24, 4, True, True)
    module.to("meta")
    x, keep = torch.empty(2, 5, 24, device="meta"), torch.ones(5, 5, device="meta").bool()
    for fused in (True, False):
        module.fused = fused
        for on in (*module.forward.devices(x), *module.forward.devices(x, keep)):
            expect(on.type == "meta", f"x is on the device meta, but the output on {on}")


def misfits_refused(student, draw):
    """Check that each misfit raises a ValueError with both numbers, and the next call is right."""
    attend = student.fast_attention
    draw.hard(Hard.FAILED)
    q, k, v = qkv(draw, group=3, H=2, D=8)
    for names in SOME:
        options = options_of(draw, names, q, k)
        for n in (7, 1, 9, draw.integer(20, 99)):
            wide = draw.normal(2, 2, 9, n)
            rejects(lambda x=wide, o=options: attend(q, x, v, **o), 8, n)
        for n in (7, 1, draw.integer(20, 99), 10):
            long = draw.normal(2, 2, n, 5)
            rejects(lambda x=long, o=options: attend(q, k, x, **o), 9, n)
        for n in (4, 12, draw.integer(20, 99)):
            heads = [draw.normal(2, n, 9, d) for d in (8, 5)]
            rejects(lambda x=heads, o=options: attend(q, *x, **o), 6, n)
        for n in (1, 3):
            few = draw.normal(2, n, 9, 5)
            rejects(lambda x=few, o=options: attend(q, k, x, **o), 2, n)
        agree_output(student, q, k, v, says="output after a call that raised", **options)
    none = q[:, :, :0]
    rejects(lambda: attend(none, wide, v), 8, wide.shape[-1])
    rejects(lambda: attend(none, k, long), 9, 10)
