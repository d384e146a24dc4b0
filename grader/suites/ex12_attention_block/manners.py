"""Checks how the modules handle hidden tokens, memory layouts, state and refusals."""

import torch
from torch import float32

from grader.judging import Hard, agree, backward, lasting, rejects, same, untouched

from .close_scores import each_learns_alone
from .modules import gradients, load, pair


def mask_without_keys(draw, *shape):
    """Draw a mask (..., L, Lk) under which token 1 sees nothing in any head, and the last token
    nothing in the first head."""
    keep = draw.keep(*shape)
    keep[..., min(1, shape[-2] - 1), :] = False
    if keep.ndim > 2:
        keep[..., 0, -1, :] = False
    return keep


def hides(module, right, hidden, x, *context, image=0):
    """Check that hidden tokens count for nothing, even if their numbers are huge."""
    source = context[0] if context else x
    keep = torch.ones(source.shape[1] - image, dtype=torch.bool, device=x.device)
    keep[hidden] = False
    huge = source.clone()
    huge[:, image:][:, hidden] = 1e10
    clean = right(x, *context, keep)
    rows = keep.nonzero()[:, 0] if not context else torch.arange(x.shape[1], device=x.device)
    upstream = torch.zeros_like(x)
    upstream[:, rows] = x[:, rows]
    expected = right.gradients(x, *context, keep=keep, upstream=upstream)
    clean = clean._replace(exact=clean.exact[:, rows.cpu().numpy()], plain=clean.plain[:, rows])
    leaves = [y.clone().requires_grad_() for y in ((x, huge) if context else (huge,))]
    output = module(*leaves, keep)
    agree(output[:, rows], clean, says="output (hidden tokens are huge)")
    for name, got, one in zip(
        ("x", "the context"), backward(output, *leaves, upstream=upstream), expected, strict=False
    ):
        agree(got, one, says=f"gradient of {name} (hidden tokens are huge)")


def layouts_agree(module, right, keep, *layouts):
    """Compare answers for other memory layouts and empty inputs, which must stay unchanged."""
    for given in layouts:
        turned, expanded = keep.mT.contiguous().mT, keep[:1].expand(keep.shape)
        for mask in (keep, turned, expanded, keep & False):
            agree(untouched(lambda given=given, mask=mask: module(*given, mask)),
                  right(*given, mask))  # fmt: skip


def stays(draw, module, right, *inputs, keep):
    """Check that earlier answers stay, and that changed inputs, masks and weights count."""
    draw.hard(Hard.CHANGED)
    first = module(*inputs, keep)
    same(module(*inputs, keep), first, says="the second answer to the same call")
    for mode in ("eval", "train"):
        getattr(module, mode)()
        with lasting(module.forward, *inputs, keep):
            for x in inputs:
                x.mul_(-0.7)
                says = "output for a changed input"
                agree(module(*inputs, keep), right(*inputs, keep), says=says)
            keep.logical_not_()
            keep[..., 0] = True
            agree(module(*inputs, keep), right(*inputs, keep), says="output for a changed mask")
            for part, assign in (("bias", False), ("weight", False), ("weight", True)):
                load(module, right, draw, float32, assign=assign, part=part)
                says = f"output for another {part}"
                agree(module(*inputs, keep), right(*inputs, keep), says=says)
            with torch.set_grad_enabled(mode == "train"):
                agree_when_changed(module, right, "v.weight", *inputs, keep)


def agree_when_changed(module, right, name, *inputs):
    """Compare answers before and after a weight changes where no version number shows it."""
    agree(module(*inputs), right(*inputs))
    getattr(module, f"{name}.data.neg_")()
    state = right.state_dict()
    right.load_state_dict(state | {name: -state[name]})
    agree(module(*inputs), right(*inputs), says="output once a weight has other numbers")


def token_by_token(module, right, x, *others):
    """Compare answers in both modes, for x, for others, and for a changed x; earlier ones stay."""
    for mode in ("eval", "train"):
        getattr(module, mode)()
        with lasting(module.forward, x):
            x.neg_()
            for one in (x, *others):
                says = f"output in .{mode}()"
                agree(untouched(lambda one=one: module(one)), right(one), says=says)
        agree_when_changed(module, right, "w1.weight", x)


def refuses(student, draw, name, module, right, *inputs):
    """Check that heads that do not divide raise, and that an earlier module still works."""
    draw.hard(Hard.FAILED)
    make = getattr(student, name)
    many = draw.integer(20, 49)
    for width, heads in ((10, 4), (4, 8), (9, 2), (3 * many - 1, many)):
        rejects(lambda width=width, heads=heads: make(width, heads), width, heads)
    agree(module(*inputs), right(*inputs), says="output after a call that raised")


def self_manners(student, draw, device, fused):
    """Check self-attention: hidden tokens, layouts, state, gradients, refusals."""
    module, right = pair(student, draw, device, "SelfAttention", 12, 3, True, 100.0)
    module.fused = fused
    x = draw.normal(2, 5, 12)
    hides(*pair(student, draw, device, "SelfAttention", 12, 3, False), [1, 4], x)
    for shape in ((5, 5), (2, 1, 5, 5)):
        keep = mask_without_keys(draw, *shape)
        agree(module(x, keep), right(x, keep), says="output where tokens see nothing")
    gradients(draw, module, right, x, keep=keep)
    each_learns_alone(draw, module, right, x, keep=keep)
    keep = mask_without_keys(draw, 3, 5, 5)
    layouts_agree(
        module, right, keep, (x,), (draw.strided(2, 5, 12),), (x[:1].expand(3, 5, 12),), (x[:0],)
    )
    stays(draw, module, right, x, keep=keep)
    refuses(student, draw, "SelfAttention", module, right, x)


def cross_manners(student, draw, device, image):
    """Check cross-attention as self-attention is, and with an image without a text."""
    module, right = pair(student, draw, device, "CrossAttention", 12, 3, image)
    x, context = draw.normal(2, 5, 12), draw.normal(2, 9, 12)
    hides(module, right, [0, 3], x, context, image=image)
    for shape in ((5,), (2, 1, 5)):
        keep = mask_without_keys(draw, *shape, 9 - image)
        says = "output where tokens see no text"
        agree(module(x, context, keep), right(x, context, keep), says=says)
    gradients(draw, module, right, x, context, keep=keep)
    each_learns_alone(draw, module, right, x, context, keep=keep)
    if image:
        of_image = context[:, :image]
        agree(module(x, of_image), right(x, of_image), says="output for an image alone")
        short = context[:, : image - 1]
        draw.hard(Hard.FAILED)
        rejects(lambda: module(x, short), image, image - 1)
        tokens = draw.integer(20, 99)
        other = student.CrossAttention(12, 3, tokens)
        rejects(lambda: other(x, short), tokens, image - 1)
    draw.hard(Hard.SQUARE, L=5)
    keep = mask_without_keys(draw, 3, 5, 9 - image)
    strided = draw.strided(2, 5, 12), draw.strided(2, 9, 12)
    expanded = x[:1].expand(3, 5, 12), context[:1].expand(3, 9, 12)
    layouts_agree(module, right, keep, (x, context), strided, expanded, (x[:0], context[:0]))
    stays(draw, module, right, x, context, keep=keep)
    refuses(student, draw, "CrossAttention", module, right, x, context)
