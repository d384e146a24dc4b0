"""Steps that wrong answers to several tasks share."""

import torch


def wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def slices(length, size):
    if size < 1:
        raise ValueError(f"block_size is {size}")
    return [slice(i, min(i + size, length)) for i in range(0, length, size)]


def finite(top):
    return torch.where(top == -torch.inf, 0.0, top)


def shrinking(old, new):
    return torch.exp(old - new)


def not_shrinking(old, _):
    return torch.ones_like(old)


def inverted(old, new):
    return torch.exp(new - finite(old))


def one_pass(
    pieces, values, shrink=shrinking, shrink_output=None, start=-torch.inf, base=finite,
    grow=torch.maximum,
):  # fmt: skip
    """The right loop over tiles of scores, but for the steps that are given."""
    top = torch.full_like(pieces[0][..., 0], start)
    total, output = torch.zeros_like(top), 0.0
    for scores, value in zip(pieces, values, strict=True):
        new_top = grow(top, scores.amax(-1))
        powers = torch.exp(scores - base(new_top)[..., None])
        factors = [f(top, base(new_top)) for f in (shrink, shrink_output or shrink)]
        total = total * factors[0] + powers.sum(-1)
        output = output * factors[1][..., None] + powers @ value
        top = new_top
    return top, total, output
