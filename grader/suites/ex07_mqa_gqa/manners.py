"""Checks calls of ex07 with changed, strided, expanded and empty inputs, and their device."""

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import Hard, agree, lasting, on_meta, rejects, same, untouched
from reference import ex07_mqa_gqa as reference

from .inputs import attends, layers, qkv


def on_its_device(student, draw, q, k, v):
    """Check that all tensors are made on the device of the inputs, with meta tensors."""
    attend = student.grouped_query_attention
    draw.hard(Hard.DEVICE)
    x = torch.empty(2, 5, 24, device="meta")
    q, k, v, keep = (a.to("meta") for a in (q, k, v, draw.keep(5, 7)))
    module = student.GroupedQueryAttention(24, 6, 2)
    module.to("meta")
    few = draw.normal(2, 2, 5, 4)
    agree(student.repeat_kv(few, 2), reference.repeat_kv(few, 2))
    on_meta(student.repeat_kv, k, 2)
    for given in (), (keep,):
        on_meta(attend, q, k, v, *given)
    for call in module.forward, module.step:
        on_meta(call, x)


def answers_agree(student, draw, q, k, v, keep):
    """The same call twice, one tensor given twice, changed inputs, and earlier answers."""
    attend = student.grouped_query_attention
    first = attend(q, k, v, keep)
    same(attend(q, k, v, keep), first, says="the second answer to the same call")
    draw.hard(Hard.SAME)
    attends(student, q, q, q, says="output where q, k and v are one tensor")
    attends(student, q[:, :2], k, k, says="output where k and v are one tensor")
    draw.hard(Hard.CHANGED)
    for dtype in float64, float16, bfloat16, float32:
        inputs = [x.to(dtype) for x in (q, k, v)]
        for mask, learns in (keep, False), (None, dtype is float64):
            answers_last(student, inputs, mask, learns)
    with lasting(attend, q, k, v, keep):
        keep.logical_not_()
        keep[..., 0] = True
        attends(student, q, k, v, keep, says="output for a changed mask")


def answers_last(student, inputs, keep, learns):
    """An answer stays when the inputs change, and may be written into by its caller."""
    attend = student.grouped_query_attention
    q, k, v = (x.detach().clone().requires_grad_(learns) for x in inputs)
    with lasting(attend, q, k, v, keep):
        for x in (v,) if learns else (v, q, k):
            x.data.neg_()
            attends(student, q, k, v, keep, says="output for a changed input")
    if not learns:
        attend.held(q, k, v, keep).change("fill_", 2.0)
        says = "output (after the caller wrote into that of an earlier call)"
        attends(student, q, k, v, keep, says=says)


def layouts_agree(student, draw, device):
    """Inputs that lie in memory in other ways, of other ranks, and of nothing."""
    strided = [draw.strided(2, n, 5, 4) for n in (6, 2, 2)]
    expanded = [draw.normal(1, n, 1, 4).expand(3, n, 5, 4) for n in (6, 2, 2)]
    deep = [draw.normal(2, 2, n, 5, 4) for n in (6, 2, 2)]
    keep = draw.keep(6, 5, 5)
    for inputs in (strided, expanded):
        for mask in (None, keep, keep.mT.contiguous().mT, keep[:1, :, :1].expand(6, 5, 5)):
            attends(student, *inputs, mask)
    attends(student, *deep, draw.keep(2, 1, 5, 5))
    module, oracle = layers(student, draw, device)
    x = draw.normal(5, 2, 24).transpose(0, 1)
    agree(untouched(lambda: module(x)), oracle(x))
    agree(module(x[:0]), torch.empty(0, 5, 24, device=device))
    q, k, v = qkv(draw, Hk=4, G=1)
    for some in (q[:0, :3], k[:0], v[:0]), (q[:, :3, :0], k, v):
        rejects(lambda some=some: student.grouped_query_attention(*some), 3, 4)
    _, past = module.step(x[:0])
    agree(past[0], torch.empty(0, 2, 5, 4, device=device), says="keys of no sequence")
    for sizes in ({"B": 0}, {"Lq": 0}):
        q, k, v = qkv(draw, **sizes)
        for mask in (None, draw.keep(q.shape[-2], 1).expand(-1, k.shape[-2])):
            right = torch.zeros(*q.shape[:-1], 3, device=device)
            agree(student.grouped_query_attention(q, k, v, mask), right)
    for x in (k[:0], k[:, :0], k[:, :, :0], k[..., :0]):
        agree(student.repeat_kv(x, 3), x.repeat_interleave(3, 1))
