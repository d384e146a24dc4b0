"""Wrong answers to ex04_heads, written with nothing but the skeleton in sight."""

import math

import numpy as np
import torch
from torch import nn

from tests.diagnosis.written import wrong


def split_heads(x, num_heads):
    """What answers to the other names may call: this one is right."""
    return x.reshape(*x.shape[:2], num_heads, x.shape[2] // num_heads).transpose(1, 2)


def merge_heads(x):
    """What answers to the other names may call: this one is right."""
    return x.transpose(1, 2).flatten(2)


@wrong(of="split_heads", mistakes=1)
def split_by_one_reshape(x, num_heads):
    """Reshaped to (B, H, L, D) without a transposition, which mixes tokens with heads."""
    batch, length, width = x.shape
    if width % num_heads != 0:
        raise ValueError(f"{num_heads} heads do not divide a width of {width}")
    return x.reshape(batch, num_heads, length, width // num_heads)


@wrong(of="split_heads", mistakes=1)
def split_like_cards(x, num_heads):
    """Numbers are dealt to the heads in turn: head h gets h, h + H, h + 2H and so on."""
    if x.shape[-1] % num_heads:
        raise ValueError(f"width {x.shape[-1]} is no multiple of {num_heads}")
    return torch.stack([x[..., h::num_heads] for h in range(num_heads)], dim=1)


@wrong(of="split_heads", mistakes=1)
def split_without_transposition(x, num_heads):
    """The heads stay behind the tokens: the shape is (B, L, H, D)."""
    e = x.size(-1)
    if e % num_heads:
        raise ValueError(f"E = {e} must be a multiple of num_heads = {num_heads}")
    return x.unflatten(2, (num_heads, e // num_heads))


@wrong(of="split_heads", mistakes=1)
def split_and_drop_the_rest(x, num_heads):
    """A width that the heads do not divide is no ValueError: what is left over is dropped."""
    d = x.shape[-1] // num_heads
    heads = [x[:, :, h * d : (h + 1) * d] for h in range(num_heads)]
    return torch.stack(heads, dim=1)


@wrong(of="split_heads", mistakes=2)
def split_into_width_many(x, num_heads):
    """Number and width of the heads are swapped: there are D heads of width H.

    The answer is always float32.
    """
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide {x.shape[-1]}")
    b, n, e = x.shape
    return x.float().view(b, n, e // num_heads, num_heads).permute(0, 2, 1, 3)


@wrong(of="split_heads", mistakes=2)
def split_with_tokens_last(x, num_heads):
    """The last two axes are turned: the shape is (B, H, D, L).

    The ValueError names the number of heads and not the width.
    """
    if x.shape[-1] % num_heads != 0:
        raise ValueError(f"cannot make {num_heads} heads")
    b, n, e = x.shape
    return x.reshape(b, n, num_heads, e // num_heads).permute(0, 2, 3, 1)


@wrong(of="split_heads", mistakes=2)
def split_with_heads_first(x, num_heads):
    """The heads are stacked before the batch: the shape is (H, B, L, D).

    The answer is detached, so that no gradient flows.
    """
    if x.shape[-1] % num_heads != 0:
        raise ValueError(f"{x.shape[-1]} does not divide by {num_heads}")
    return torch.stack(x.detach().chunk(num_heads, dim=-1))


@wrong(of="merge_heads", mistakes=1)
def merge_by_one_reshape(x):
    """Reshaped to (B, L, E) without a transposition, which mixes tokens with heads."""
    b, h, n, d = x.shape
    return x.reshape(b, n, h * d)


@wrong(of="merge_heads", mistakes=1)
def merge_with_minus_one(x):
    """The width is left to -1, which cannot be found out where the batch is empty."""
    batch, _, length, _ = x.shape
    return x.transpose(1, 2).contiguous().view(batch, length, -1)


@wrong(of="merge_heads", mistakes=1)
def merge_with_a_view(x):
    """`view` after a transposition: it raises where the numbers do not lie in that order."""
    b, h, n, d = x.shape
    return x.transpose(1, 2).view(b, n, h * d)


@wrong(of="merge_heads", mistakes=1)
def merge_like_cards(x):
    """The heads lie innermost: number 0 of every head, then number 1 of every head."""
    return x.permute(0, 2, 3, 1).flatten(start_dim=2)


@wrong(of="merge_heads", mistakes=2)
def merge_by_the_mean(x):
    """The heads are averaged and not laid side by side: the shape is (B, L, D).

    The answer is detached, so that no gradient flows.
    """
    return x.detach().mean(dim=1)


@wrong(of="merge_heads", mistakes=2)
def merge_one_after_the_other(x):
    """The heads follow one another along the tokens: the shape is (B, H * L, D).

    The answer is always float32.
    """
    heads = [x[:, h].to(torch.float32) for h in range(x.shape[1])]
    return torch.cat(heads, dim=1)


@wrong(of="merge_heads", mistakes=2)
def merge_in_place_all_but_one(x):
    """The input itself is transposed, in place.

    The last head is left out.
    """
    x.transpose_(1, 2)
    return torch.cat([x[:, :, h] for h in range(x.shape[2] - 1)], dim=-1)


@wrong(of="multi_head_attention_numpy", mistakes=1)
def numpy_root_of_the_model(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The scores are divided by the root of E and not of D."""
    e = query.shape[-1]
    if e % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {e}")
    wide = np.promote_types(query.dtype, np.float32)

    def project(x, w):
        y = x.astype(wide) @ w.astype(wide)
        return y.reshape(*y.shape[:2], num_heads, e // num_heads).swapaxes(1, 2)

    q, k, v = project(query, w_q), project(key, w_k), project(value, w_v)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(e)
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    exponentials = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = exponentials.sum(axis=-1, keepdims=True)
    weights = exponentials / np.where(total == 0, 1, total)
    merged = (weights @ v).swapaxes(1, 2).reshape(*query.shape[:2], e)
    return (merged @ w_o.astype(wide)).astype(query.dtype), weights.astype(query.dtype)


@wrong(of="multi_head_attention_numpy", mistakes=1)
def numpy_weights_of_a_linear(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The four matrices are transposed, as nn.Linear would: `x @ w.T`."""
    b, n, e = query.shape
    if e % num_heads != 0:
        raise ValueError(f"width {e} is no multiple of {num_heads} heads")
    d = e // num_heads
    wide = np.float64 if query.dtype == np.float64 else np.float32
    q = np.einsum("ble,fe->blf", query.astype(wide), w_q.astype(wide)).reshape(b, n, num_heads, d)
    k = np.einsum("ble,fe->blf", key.astype(wide), w_k.astype(wide))
    v = np.einsum("ble,fe->blf", value.astype(wide), w_v.astype(wide))
    k, v = (x.reshape(b, x.shape[1], num_heads, d) for x in (k, v))
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(wide(d))
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    mixed = np.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, n, e)
    return (mixed @ w_o.astype(wide).T).astype(query.dtype), weights.astype(query.dtype)


@wrong(of="multi_head_attention_numpy", mistakes=1)
def numpy_last_projection_forgotten(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """`w_o` is forgotten: the merged heads come back as they are."""
    width = query.shape[2]
    if width % num_heads:
        raise ValueError(f"{width} cannot be cut into {num_heads} heads")
    d = width // num_heads
    dtype = np.promote_types(query.dtype, np.float32)
    q, k, v = (
        x.astype(dtype) @ w.astype(dtype) for x, w in ((query, w_q), (key, w_k), (value, w_v))
    )
    shape = (query.shape[0], num_heads, query.shape[1], key.shape[1])
    visible = np.broadcast_to(True if keep is None else keep, shape)
    weights = np.zeros(shape, dtype)
    output = np.zeros(q.shape, dtype)
    for h in range(num_heads):
        own = slice(h * d, (h + 1) * d)
        scores = q[..., own] @ k[..., own].transpose(0, 2, 1) / math.sqrt(d)
        scores = np.where(visible[:, h], scores, -np.inf)
        top = scores.max(-1, keepdims=True)
        e = np.exp(scores - np.where(top == -np.inf, 0, top))
        weights[:, h] = e / np.maximum(e.sum(-1, keepdims=True), 1e-30)
        output[..., own] = weights[:, h] @ v[..., own]
    return output.astype(query.dtype), weights.astype(query.dtype)


@wrong(of="multi_head_attention_numpy", mistakes=1)
def numpy_softmax_over_heads(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The softmax is over axis 1, which are the heads, and not over the keys."""
    b, n, e = query.shape
    if e % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {e}")
    wide = np.promote_types(query.dtype, np.float32)

    def split(x):
        return x.reshape(b, x.shape[1], num_heads, e // num_heads).transpose(0, 2, 1, 3)

    q = split(np.matmul(query.astype(wide), w_q.astype(wide)))
    k = split(np.matmul(key.astype(wide), w_k.astype(wide)))
    v = split(np.matmul(value.astype(wide), w_v.astype(wide)))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(e // num_heads).astype(wide)
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    top = scores.max(axis=1, keepdims=True)
    ex = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = ex.sum(axis=1, keepdims=True)
    weights = np.divide(ex, total, where=total > 0, out=np.zeros_like(ex))
    output = (weights @ v).transpose(0, 2, 1, 3).reshape(b, n, e) @ w_o.astype(wide)
    return output.astype(query.dtype), weights.astype(query.dtype)


@wrong(of="multi_head_attention_numpy", mistakes=2)
def numpy_values_of_keys(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The values are projected from `key`, and `value` is never read.

    The ValueError is NumPy's own, of a reshape, and does not name E.
    """
    b, n, e = query.shape
    d = e // num_heads
    wide = np.promote_types(query.dtype, np.float32)
    q = query.astype(wide) @ w_q.astype(wide)
    k = key.astype(wide) @ w_k.astype(wide)
    v = key.astype(wide) @ w_v.astype(wide)
    q, k, v = (np.swapaxes(x.reshape(b, x.shape[1], num_heads, d), 1, 2) for x in (q, k, v))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / d**0.5
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    ex = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = ex.sum(axis=-1, keepdims=True)
    weights = ex / np.where(total == 0, 1, total)
    output = np.einsum("bhqk,bhkd->bqhd", weights, v).reshape(b, n, e) @ w_o.astype(wide)
    return output.astype(query.dtype), weights.astype(query.dtype)


@wrong(of="multi_head_attention_numpy", mistakes=2)
def numpy_hidden_and_not_merged(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The mask is inverted: True is taken for hidden.

    The heads are merged by a reshape alone, without moving them behind the tokens.
    """
    b, n, e = query.shape
    if e % num_heads:
        raise ValueError(f"num_heads {num_heads} does not divide {e}")
    wide = np.promote_types(query.dtype, np.float32)

    def heads(x, w):
        x = x.astype(wide) @ w.astype(wide)
        return np.stack(np.split(x, num_heads, axis=-1), axis=1)

    q, k, v = heads(query, w_q), heads(key, w_k), heads(value, w_v)
    scores = (q @ np.moveaxis(k, 2, 3)) * wide.type((e // num_heads) ** -0.5)
    if keep is not None:
        scores = np.where(keep, -np.inf, scores)
    top = scores.max(axis=-1, keepdims=True)
    top[top == -np.inf] = 0
    ex = np.exp(scores - top)
    total = ex.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    weights = ex / total
    output = (weights @ v).reshape(b, n, e) @ w_o.astype(wide)
    return output.astype(query.dtype), weights.astype(query.dtype)


@wrong(of="multi_head_attention_numpy", mistakes=2)
def numpy_narrow_with_a_billion(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """float16 is projected and multiplied in float16, where 256 * 256 overflows.

    Hidden scores become -1e9, so that a row which may attend to nothing is uniform and not 0.
    """
    b, n, e = query.shape
    if e % num_heads:
        raise ValueError(f"{num_heads} heads, but {e} numbers")
    d = e // num_heads
    q = (query @ w_q).reshape(b, n, num_heads, d).transpose(0, 2, 1, 3)
    k = (key @ w_k).reshape(b, key.shape[1], num_heads, d).transpose(0, 2, 1, 3)
    v = (value @ w_v).reshape(b, key.shape[1], num_heads, d).transpose(0, 2, 1, 3)
    scores = (q @ k.swapaxes(2, 3)).astype(np.promote_types(query.dtype, np.float32))
    scores = scores / math.sqrt(d)
    if keep is not None:
        scores = np.where(keep, scores, -1e9)
    ex = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = (ex / ex.sum(axis=-1, keepdims=True)).astype(query.dtype)
    return (weights @ v).transpose(0, 2, 1, 3).reshape(b, n, e) @ w_o, weights


@wrong(of="multi_head_attention_numpy", mistakes=2)
def numpy_mean_of_heads(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The weights come back averaged over the heads: their shape is (B, Lq, Lk).

    No maximum is subtracted: scores that are hundreds apart overflow.
    """
    b, n, e = query.shape
    if e % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {e}")
    wide = np.float64 if query.dtype == np.float64 else np.float32

    def split(x, w):
        y = np.einsum("bli,ij->blj", x.astype(wide), w.astype(wide))
        return y.reshape(b, x.shape[1], num_heads, e // num_heads)

    q, k, v = split(query, w_q), split(key, w_k), split(value, w_v)
    ex = np.exp(np.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(e // num_heads))
    if keep is not None:
        ex = np.where(keep, ex, 0)
    total = ex.sum(axis=-1, keepdims=True)
    weights = ex / np.where(total == 0, 1, total)
    mixed = np.einsum("bhij,bjhd->bihd", weights, v).reshape(b, n, e)
    output = mixed @ w_o.astype(wide)
    return output.astype(query.dtype), weights.mean(axis=1).astype(query.dtype)


@wrong(of="MultiHeadAttention", mistakes=1)
class LayerWithoutContext(nn.Module):
    """The context is ignored: keys and values always come from `x`."""

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, context=None, keep=None):
        wide = torch.promote_types(x.dtype, torch.float32)
        q, k, v = (
            split_heads(layer(x), self.num_heads).to(wide)
            for layer in (self.w_q, self.w_k, self.w_v)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if keep is not None:
            nothing = ~keep.any(dim=-1, keepdim=True)
            scores = scores.masked_fill(~keep, float("-inf")).masked_fill(nothing, 0)
        weights = torch.softmax(scores, dim=-1)
        if keep is not None:
            weights = weights.masked_fill(~keep, 0)
        output = self.w_o(merge_heads(weights @ v).to(x.dtype))
        return output, weights.to(x.dtype)


@wrong(of="MultiHeadAttention", mistakes=1)
class LayerWithOneLinear(nn.Module):
    """The four projections are one and the same layer, with one set of parameters."""

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is no multiple of num_heads {num_heads}")
        self.h, self.d = num_heads, d_model // num_heads
        self.w_q = self.w_k = self.w_v = self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, context=None, keep=None):
        source = x if context is None else context
        wide = torch.promote_types(x.dtype, torch.float32)
        q = split_heads(self.w_q(x), self.h).to(wide)
        k = split_heads(self.w_k(source), self.h).to(wide)
        v = split_heads(self.w_v(source), self.h).to(wide)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * self.d**-0.5
        if keep is not None:
            scores = torch.where(keep, scores, torch.finfo(wide).min)
        weights = scores.softmax(-1)
        if keep is not None:
            weights = torch.where(keep, weights, 0.0)
        mixed = torch.einsum("bhqk,bhkd->bhqd", weights, v)
        return self.w_o(merge_heads(mixed).to(x.dtype)), weights.to(x.dtype)


@wrong(of="MultiHeadAttention", mistakes=1)
class LayerThatAlwaysHasABias(nn.Module):
    """`bias` is not passed on, and nn.Linear has one unless it is told otherwise."""

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model))

    def forward(self, x, context=None, keep=None):
        if context is None:
            context = x
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        q = split_heads(self.w_q(x).to(wide), self.num_heads)
        k = split_heads(self.w_k(context).to(wide), self.num_heads)
        v = split_heads(self.w_v(context).to(wide), self.num_heads)
        scores = torch.matmul(q, k.mT) / q.shape[-1] ** 0.5
        if keep is not None:
            nothing = keep.logical_not().all(-1, keepdim=True)
            scores = scores.masked_fill(~keep, -math.inf).masked_fill(nothing, 0)
        weights = torch.softmax(scores, dim=-1)
        if keep is not None:
            weights = weights * keep
        output = self.w_o(merge_heads(torch.matmul(weights, v)).to(x.dtype))
        return output, weights.to(x.dtype)


@wrong(of="MultiHeadAttention", mistakes=1)
class LayerThatRemembersItsMask(nn.Module):
    """A mask is kept on the layer, and used again by later calls that give none."""

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} does not divide {d_model}")
        self.num_heads = num_heads
        self.keep = None
        self.w_q = nn.Linear(d_model, d_model, bias)
        self.w_k = nn.Linear(d_model, d_model, bias)
        self.w_v = nn.Linear(d_model, d_model, bias)
        self.w_o = nn.Linear(d_model, d_model, bias)

    def forward(self, x, context=None, keep=None):
        if keep is not None:
            self.keep = keep
        context = x if context is None else context
        wide = torch.promote_types(x.dtype, torch.float32)
        q = split_heads(self.w_q(x), self.num_heads).to(wide)
        k = split_heads(self.w_k(context), self.num_heads).to(wide)
        v = split_heads(self.w_v(context), self.num_heads).to(wide)
        scores = q @ k.transpose(2, 3) / math.sqrt(k.shape[3])
        if self.keep is not None:
            nothing = ~self.keep.any(-1, keepdim=True)
            scores = scores.masked_fill(~self.keep, -torch.inf).masked_fill(nothing, 0)
        weights = scores.softmax(dim=3)
        if self.keep is not None:
            weights = weights.masked_fill(~self.keep, 0)
        return self.w_o(merge_heads(weights @ v).to(x.dtype)), weights.to(x.dtype)


@wrong(of="MultiHeadAttention", mistakes=1)
class LayerWithNaNInEmptyRows(nn.Module):
    """A row that may attend to nothing is NaN: the softmax of -inf throughout."""

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_model, d_model, bias=bias) for _ in range(4)
        )

    def forward(self, x, context=None, keep=None):
        context = x if context is None else context
        b, n, e = x.shape
        shape = (b, context.shape[1], self.num_heads, e // self.num_heads)
        wide = torch.promote_types(x.dtype, torch.float32)
        q = self.w_q(x).view(b, n, *shape[2:]).to(wide)
        k = self.w_k(context).view(shape).to(wide)
        v = self.w_v(context).view(shape).to(wide)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(shape[3])
        if keep is not None:
            scores = scores.masked_fill(~keep, float("-inf"))
        weights = torch.softmax(scores, -1)
        mixed = torch.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, n, e)
        return self.w_o(mixed.to(x.dtype)), weights.to(x.dtype)


@wrong(of="MultiHeadAttention", mistakes=2)
class LayerWithDropout(nn.Module):
    """A tenth of the weights is dropped in training, so that it differs from evaluation.

    `bias` is ignored: there never is one.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_model, bias=False)
        self.w_v = nn.Linear(d_model, d_model, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, context=None, keep=None):
        context = x if context is None else context
        wide = torch.promote_types(x.dtype, torch.float32)
        q = split_heads(self.w_q(x), self.num_heads).to(wide)
        k = split_heads(self.w_k(context), self.num_heads).to(wide)
        v = split_heads(self.w_v(context), self.num_heads).to(wide)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if keep is not None:
            nothing = ~keep.any(-1, keepdim=True)
            scores = scores.masked_fill(~keep, float("-inf")).masked_fill(nothing, 0)
        weights = torch.softmax(scores, dim=-1)
        if keep is not None:
            weights = weights.masked_fill(~keep, 0)
        weights = self.dropout(weights)
        return self.w_o(merge_heads(weights @ v).to(x.dtype)), weights.to(x.dtype)


@wrong(of="MultiHeadAttention", mistakes=2)
class LayerWithResidual(nn.Module):
    """`x` is added to the output, as a block would.

    The mask is inverted: True is taken for hidden.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"width {d_model}, heads {num_heads}")
        self.num_heads = num_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias))

    def forward(self, x, context=None, keep=None):
        context = x if context is None else context
        wide = torch.promote_types(x.dtype, torch.float32)
        q = split_heads(self.w_q(x), self.num_heads).to(wide)
        k = split_heads(self.w_k(context), self.num_heads).to(wide)
        v = split_heads(self.w_v(context), self.num_heads).to(wide)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if keep is not None:
            nothing = keep.all(dim=-1, keepdim=True)
            scores = scores.masked_fill(keep, float("-inf")).masked_fill(nothing, 0)
        weights = torch.softmax(scores, dim=-1)
        if keep is not None:
            weights = weights.masked_fill(keep, 0)
        return x + self.w_o(merge_heads(weights @ v).to(x.dtype)), weights.to(x.dtype)


@wrong(of="MultiHeadAttention", mistakes=2)
class LayerThatNeverProjectsBack(nn.Module):
    """`w_o` is created and never applied.

    A width that the heads do not divide is no ValueError when the layer is made.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, context=None, keep=None):
        context = x if context is None else context
        wide = torch.promote_types(x.dtype, torch.float32)
        q = split_heads(self.w_q(x), self.num_heads).to(wide)
        k = split_heads(self.w_k(context), self.num_heads).to(wide)
        v = split_heads(self.w_v(context), self.num_heads).to(wide)
        scores = q.matmul(k.transpose(-1, -2)).div(math.sqrt(self.d_head))
        if keep is not None:
            scores = scores.masked_fill(~keep, torch.finfo(wide).min)
        weights = scores.softmax(dim=-1)
        if keep is not None:
            weights = weights.masked_fill(~keep, 0)
        return merge_heads(weights.matmul(v)).to(x.dtype), weights.to(x.dtype)


@wrong(of="MultiHeadAttention", mistakes=2)
class LayerWithoutScaleInHalf(nn.Module):
    """The scores are not divided by the root of D.

    Half precision is multiplied in half precision, where 256 * 256 overflows.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias))

    def forward(self, x, context=None, keep=None):
        context = x if context is None else context
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(context), self.num_heads)
        v = split_heads(self.w_v(context), self.num_heads)
        scores = torch.matmul(q, k.transpose(-2, -1))
        if keep is not None:
            nothing = ~keep.any(dim=-1, keepdim=True)
            scores = scores.masked_fill(~keep, float("-inf")).masked_fill(nothing, 0)
        weights = torch.softmax(scores, dim=-1)
        if keep is not None:
            weights = weights.masked_fill(~keep, 0)
        return self.w_o(merge_heads(torch.matmul(weights, v))), weights


@wrong(of="MultiHeadAttention", mistakes=2)
class LayerWithInterleavedHeads(nn.Module):
    """The width is cut to (D, H) and not to (H, D): each head gets every H-th number.

    Between the projections everything is computed in float32, float64 too.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias))

    def heads(self, x):
        b, n, e = x.shape
        return x.reshape(b, n, e // self.num_heads, self.num_heads).permute(0, 3, 1, 2).float()

    def forward(self, x, context=None, keep=None):
        context = x if context is None else context
        q, k, v = self.heads(self.w_q(x)), self.heads(self.w_k(context)), self.w_v(context)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if keep is not None:
            scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1)
        if keep is not None:
            weights = weights.masked_fill(~keep, 0)
        mixed = (weights @ self.heads(v)).permute(0, 2, 3, 1).flatten(2)
        return self.w_o(mixed.to(x.dtype)), weights.to(x.dtype)
