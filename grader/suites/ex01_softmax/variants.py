"""Right softmaxes, written otherwise."""

import numpy as np
import torch

from grader.judging import variant


@variant(of="softmax")
def in_double(x, dim=-1):
    """Everything in float64, rounded once."""
    powers = torch.exp(x.double() - x.double().amax(dim, keepdim=True))
    return (powers / powers.sum(dim, keepdim=True)).to(x.dtype)


@variant(of="softmax")
def times_the_reciprocal(x, dim=-1):
    """A multiplication by the reciprocal instead of a division."""
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    powers = (wide - wide.max(dim, keepdim=True).values).exp()
    return (powers * powers.sum(dim, keepdim=True).reciprocal()).to(x.dtype)


@variant(of="softmax")
def dimension_moved_last(x, dim=-1):
    """The dimension moved to the end and back."""
    wide = x.movedim(dim, -1)
    if x.dtype in (torch.float16, torch.bfloat16):
        wide = wide.to(torch.float32)
    powers = torch.exp(wide - wide.amax(-1).unsqueeze(-1))
    return torch.einsum("...i,...->...i", powers, 1 / powers.sum(-1)).movedim(-1, dim).to(x.dtype)


@variant(of="softmax")
def powers_of_two_with_log2e(x, dim=-1):
    """exp2 of the scores times log2(e), as kernels do."""
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    powers = torch.exp2((wide - wide.amax(dim, keepdim=True)) * 1.4426950408889634)
    return (powers / powers.sum(dim, keepdim=True)).to(x.dtype)


@variant(of="softmax")
def maximum_detached(x, dim=-1):
    """The maximum taken out of the graph: it cancels in the gradient."""
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    powers = torch.exp(wide - wide.detach().amax(dim, keepdim=True))
    return torch.div(powers, powers.sum(dim, keepdim=True)).to(x.dtype)


@variant(of="softmax_numpy")
def in_longdouble(x, axis=-1):
    """Everything in the widest type, rounded once."""
    wide = x.astype(np.longdouble)
    powers = np.exp(wide - np.max(wide, axis=axis, keepdims=True))
    return (powers / np.sum(powers, axis=axis, keepdims=True)).astype(x.dtype)


@variant(of="softmax_numpy")
def axis_moved_last(x, axis=-1):
    """The axis moved to the end and back."""
    rows = np.moveaxis(x, axis, -1).astype(np.promote_types(x.dtype, np.float32))
    powers = np.exp(rows - rows.max(-1)[..., None])
    return np.moveaxis(powers / powers.sum(-1)[..., None], -1, axis).astype(x.dtype)


@variant(of="softmax_numpy")
def in_loops(x, axis=-1):
    """A Python loop over the rows."""
    rows = np.moveaxis(x, axis, -1).astype(np.float64)
    flat = [np.exp(row - row.max()) for row in rows.reshape(-1, rows.shape[-1])]
    weights = np.array([p / p.sum() for p in flat]).reshape(rows.shape)
    return np.moveaxis(weights, -1, axis).astype(x.dtype)
