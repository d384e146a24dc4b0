"""How the modules treat their inputs: what is hidden, how it lies in memory, what is left."""

import torch
from torch import float32

from grader.judging import Hard, agree, rejects, same, untouched

from .modules import gradients, load, pair


def mask_without_keys(draw, *shape):
    """A mask (..., L, Lk) under which token 1 sees nothing in any head, and the last one nothing
    in the first head."""
    keep = draw.keep(*shape)
    keep[..., min(1, shape[-2] - 1), :] = False
    if keep.ndim > 2:
        keep[..., 0, -1, :] = False
    return keep


def hides(module, right, hidden, x, *context, image=0):
    """Tokens that nobody may attend to count for nothing, even where their numbers are huge."""
    source = context[0] if context else x
    keep = torch.ones(source.shape[1] - image, dtype=torch.bool, device=x.device)
    keep[hidden] = False
    huge = source.clone()
    huge[:, image:][:, hidden] = 1e10
    clean = right(x, *context, keep)
    if context:
        agree(module(x, huge, keep), clean, says="output (hidden tokens are huge)")
        return
    rows = keep.nonzero()[:, 0]
    clean = clean._replace(exact=clean.exact[:, rows.cpu().numpy()], plain=clean.plain[:, rows])
    agree(module(huge, keep)[:, rows], clean, says="output (hidden tokens are huge)")


def layouts_agree(module, right, keep, *layouts):
    """Inputs that lie in memory in other ways, or are of nothing, are read right and left alone."""
    for given in layouts:
        for mask in (None, keep, keep.mT.contiguous().mT, keep[:1].expand(keep.shape)):
            agree(untouched(lambda given=given, mask=mask: module(*given, mask)),
                  right(*given, mask))  # fmt: skip


def stays(draw, module, right, *inputs, keep):
    """An earlier answer stays as it was; changed inputs, masks and weights are seen."""
    draw.hard(Hard.CHANGED)
    with torch.no_grad():
        first, held = module(*inputs, keep), module.forward.held(*inputs, keep)
        same(module(*inputs, keep), first, says="the second answer to the same call")
        for x in inputs:
            x.mul_(-0.7)
            agree(module(*inputs, keep), right(*inputs, keep), says="output for a changed input")
        keep.logical_not_()
        keep[..., 0] = True
        agree(module(*inputs, keep), right(*inputs, keep), says="output for a changed mask")
        load(module, right, draw, float32)
        agree(module(*inputs, keep), right(*inputs, keep), says="output for other weights")
        same(held.now(), first, says="an earlier answer, after later calls,")


def refuses(student, draw, name, module, right, *inputs):
    """Heads that do not divide are refused, which disturbs nothing that was made before."""
    draw.hard(Hard.FAILED)
    make = getattr(student, name)
    for width, heads in ((10, 4), (4, 8), (9, 2)):
        rejects(lambda width=width, heads=heads: make(width, heads), width, heads)
    agree(module(*inputs), right(*inputs), says="output after a call that raised")


def gradients_of_sizes(student, draw, device, name, options, shapes, keep, image=()):
    """The gradients of a new module at inputs of these shapes."""
    width, heads = shapes[0][-1], keep.shape[-3]
    module, right = pair(student, draw, device, name, width, heads, *image, **options)
    gradients(draw, module, right, *(draw.normal(*shape) for shape in shapes), keep=keep)
