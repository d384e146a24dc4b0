"""Right answers, written otherwise."""

import math

import numpy as np
import torch

from grader.judging import variant


@variant(of="split_heads")
def stacked_slices(x, num_heads):
    """One slice of the width after the other, stacked."""
    width = x.shape[-1]
    if width % num_heads != 0:
        raise ValueError(f"num_heads={num_heads} must divide {width}")
    dim = width // num_heads
    slices = [x[..., h * dim : (h + 1) * dim] for h in range(num_heads)]
    return torch.stack(slices, 1) if isinstance(x, torch.Tensor) else np.stack(slices, 1)


@variant(of="split_heads")
def by_einsum(x, num_heads):
    """A reshape, and an einsum that moves the axes."""
    head_dim, rest = divmod(x.shape[2], num_heads)
    if rest:
        raise ValueError(f"d_model ({x.shape[2]}) is not divisible by num_heads ({num_heads})")
    cut = x.reshape(x.shape[0], x.shape[1], num_heads, head_dim)
    if isinstance(x, torch.Tensor):
        return torch.einsum("blhd->bhld", cut).contiguous()
    return np.einsum("blhd->bhld", cut)


@variant(of="merge_heads")
def heads_side_by_side(x):
    """One head after the other, concatenated along the width."""
    heads = [x[:, h] for h in range(x.shape[1])]
    return torch.cat(heads, -1) if isinstance(x, torch.Tensor) else np.concatenate(heads, -1)


@variant(of="merge_heads")
def written_into_place(x):
    """A contiguous copy and `view`, as tutorials have it."""
    if isinstance(x, np.ndarray):
        return np.moveaxis(x, 1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])
    batch, heads, length, head_dim = x.size()
    return x.permute(0, 2, 1, 3).contiguous().view(batch, length, heads * head_dim)


@variant(of="multi_head_attention_numpy")
def head_by_head_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """A loop over batch items and heads, in float64; each head adds its own slice of w_o."""
    (batch, rows, width), keys = query.shape, key.shape[1]
    if width % num_heads:
        raise ValueError(f"{width} numbers for {num_heads} heads")
    dim = width // num_heads
    output = np.zeros(query.shape)
    weights = np.zeros((batch, num_heads, rows, keys))
    full = np.broadcast_to(True if keep is None else keep, weights.shape)
    w_q, w_k, w_v, w_o = (w.astype(np.float64) for w in (w_q, w_k, w_v, w_o))
    for b in range(batch):
        for h in range(num_heads):
            own = slice(h * dim, (h + 1) * dim)
            q, k, v = query[b] @ w_q[:, own], key[b] @ w_k[:, own], value[b] @ w_v[:, own]
            for i in range(rows):
                seen = full[b, h, i]
                if seen.any():
                    scores = k[seen] @ q[i] / math.sqrt(dim)
                    powers = np.exp(scores - scores.max())
                    weights[b, h, i, seen] = powers / powers.sum()
            output[b] += weights[b, h] @ v @ w_o[own]
    return output.astype(query.dtype), weights.astype(query.dtype)


@variant(of="multi_head_attention_numpy")
def einsum_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The heads are cut out of the matrices instead of the tokens; an additive mask."""
    width = w_q.shape[0]
    if width % num_heads:
        raise ValueError(f"cannot cut {width} into {num_heads}")
    wide = np.promote_types(query.dtype, np.float32)
    w_q, w_k, w_v = (w.astype(wide).reshape(width, num_heads, -1) for w in (w_q, w_k, w_v))
    q, k, v = (
        np.einsum("ble,ehd->bhld", x.astype(wide), w)
        for x, w in ((query, w_q), (key, w_k), (value, w_v))
    )
    scores = np.einsum("bhid,bhjd->bhij", q / wide.type(math.sqrt(q.shape[-1])), k)
    if keep is not None:
        scores = scores + np.where(keep, wide.type(0), wide.type(-np.inf))
    top = np.max(scores, axis=-1, keepdims=True, initial=np.finfo(wide).min)
    powers = np.exp(scores - top)
    total = np.sum(powers, axis=-1, keepdims=True)
    weights = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    w_o = w_o.astype(wide).reshape(num_heads, -1, width)
    output = np.einsum("bhij,bhjd,hde->bie", weights, v, w_o, optimize=True)
    return output.astype(query.dtype), weights.astype(query.dtype)


@variant(of="MultiHeadAttention")
class HeadByHead(torch.nn.Module):
    """A loop over the heads, each with its own rows of the matrices and its own mask."""

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        self.head_dim, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError(f"{d_model=} is not a multiple of {num_heads=}")
        self.w_o = torch.nn.Linear(d_model, d_model, bias)
        self.w_v = torch.nn.Linear(d_model, d_model, bias)
        self.w_k = torch.nn.Linear(d_model, d_model, bias)
        self.w_q = torch.nn.Linear(d_model, d_model, bias)

    def part(self, layer, x, head):
        own = slice(head * self.head_dim, (head + 1) * self.head_dim)
        bias = None if layer.bias is None else layer.bias[own]
        return torch.nn.functional.linear(x, layer.weight[own], bias)

    def forward(self, x, context=None, keep=None):
        if context is None:
            context = x
        count = self.w_q.out_features // self.head_dim
        wide = torch.promote_types(x.dtype, torch.float32)
        if keep is not None:
            keep = keep.expand(x.shape[0], count, x.shape[1], context.shape[1])
        outputs, weights = [], []
        for head in range(count):
            q, k, v = (
                self.part(layer, tokens, head).to(wide)
                for layer, tokens in ((self.w_q, x), (self.w_k, context), (self.w_v, context))
            )
            scores = torch.bmm(q, k.transpose(1, 2)) / self.head_dim**0.5
            if keep is not None:
                scores = scores.masked_fill(~keep[:, head], -math.inf)
            row = torch.softmax(scores, 2)
            if keep is not None:
                row = row.masked_fill(~keep[:, head], 0.0)
            outputs.append(torch.bmm(row, v))
            weights.append(row)
        merged = torch.cat(outputs, 2).to(x.dtype)
        return self.w_o(merged), torch.stack(weights, 1).to(x.dtype)


@variant(of="MultiHeadAttention")
class FlattenedHeads(torch.nn.Module):
    """Batch and heads in one axis and bmm, the scale on the queries, the mask repeated to match."""

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"embed_dim {d_model} must be divisible by num_heads {num_heads}")
        self.num_heads = num_heads
        self.scale = (d_model // num_heads) ** -0.5
        for name in ("w_q", "w_k", "w_v", "w_o"):
            self.add_module(name, torch.nn.Linear(d_model, d_model, bias=bias))

    def shape(self, x):
        batch, length, width = x.shape
        x = x.view(batch, length, self.num_heads, width // self.num_heads).transpose(1, 2)
        return x.reshape(batch * self.num_heads, length, width // self.num_heads)

    def forward(self, x, context=None, keep=None):
        source = x if context is None else context
        (batch, rows, width), keys = x.shape, source.shape[1]
        q, k, v = (
            self.shape(self.w_q(x)),
            self.shape(self.w_k(source)),
            self.shape(self.w_v(source)),
        )
        if x.dtype.itemsize < 4:
            q, k, v = q.float(), k.float(), v.float()
        scores = torch.bmm(q * self.scale, k.mT)
        if keep is not None:
            full = keep.expand(batch, self.num_heads, rows, keys).reshape(-1, rows, keys)
            scores = torch.where(full, scores, scores.new_tensor(-math.inf))
            top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
        else:
            top = scores.amax(-1, keepdim=True)
        powers = torch.exp(scores - top.detach())
        total = powers.sum(-1, keepdim=True)
        weights = powers / total.masked_fill(total == 0, 1.0)
        merged = torch.bmm(weights, v).to(x.dtype).view(batch, self.num_heads, rows, q.shape[2])
        merged = merged.transpose(1, 2).reshape(batch, rows, width)
        return self.w_o(merged), weights.view(batch, self.num_heads, rows, keys).to(x.dtype)


@variant(of="MultiHeadAttention")
class OneProductForAll(torch.nn.Module):
    """Queries, keys and values from one product, einsum, and an additive mask."""

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.h = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (
            torch.nn.Linear(d_model, d_model, bias=bias) for _ in range(4)
        )

    def project(self, x, *layers):
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
        parts = torch.nn.functional.linear(x, weight, bias).chunk(len(layers), -1)
        return [part.unflatten(-1, (self.h, -1)) for part in parts]

    def forward(self, x, context=None, keep=None):
        if context is None:
            q, k, v = self.project(x, self.w_q, self.w_k, self.w_v)
        else:
            [q], (k, v) = self.project(x, self.w_q), self.project(context, self.w_k, self.w_v)
        wide = torch.promote_types(x.dtype, torch.float32)
        scores = torch.einsum("bihd,bjhd->bhij", q.to(wide), k.to(wide)) / q.shape[-1] ** 0.5
        some = None
        if keep is not None:
            some = torch.atleast_1d(keep).any(-1, keepdim=True)
            hidden = torch.zeros_like(keep, dtype=wide).masked_fill(~keep & some, -math.inf)
            scores = scores + hidden
        weights = scores.log_softmax(-1).exp()
        if some is not None:
            weights = torch.where(some, weights, 0)
        output = torch.einsum("bhij,bjhd->bihd", weights, v.to(wide))
        return self.w_o(output.flatten(2).to(x.dtype)), weights.to(x.dtype)


@variant(of="MultiHeadAttention")
class InDouble(torch.nn.Module):
    """Everything between the projections in float64, softmax first divided at the very end."""

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model // num_heads * num_heads != d_model:
            raise ValueError(f"a width of {d_model} for {num_heads} heads")
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.w_q = torch.nn.Linear(d_model, d_model, bias=bias)
        self.w_k = torch.nn.Linear(d_model, d_model, bias=bias)
        self.w_v = torch.nn.Linear(d_model, d_model, bias=bias)
        self.w_o = torch.nn.Linear(d_model, d_model, bias=bias)
        self.register_buffer("causal", torch.ones(8, 8).tril())  # of no use, and no harm

    def forward(self, x, context=None, keep=None):
        memory = context if context is not None else x
        q, k, v = (
            layer(tokens).unflatten(2, (self.num_heads, self.d_k)).movedim(2, 1).double()
            for layer, tokens in ((self.w_q, x), (self.w_k, memory), (self.w_v, memory))
        )
        scores = (q[..., None, :] * k[..., None, :, :]).sum(-1) / math.sqrt(self.d_k)
        hidden = torch.zeros_like(scores, dtype=torch.bool) if keep is None else ~keep
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        powers = (scores - scores.detach().amax(-1, keepdim=True)).exp() * ~hidden
        total = powers.sum(-1, keepdim=True)
        total = total + (total == 0)
        heads = powers @ v / total
        output = self.w_o(heads.movedim(1, 2).flatten(2).to(x.dtype))
        return output, (powers / total).to(x.dtype)


@variant(of="multi_head_attention_numpy")
def textbook_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """1 / np.sqrt(D) and a softmax with errstate; everything goes back to its dtype at the end."""
    d_model = query.shape[-1]
    if d_model % num_heads != 0:
        raise ValueError(f"d_model={d_model} cannot be divided by num_heads={num_heads}")
    d_head = d_model // num_heads
    wide = np.float64 if query.dtype == np.float64 else np.float32

    def heads(x, w):
        projected = np.dot(x.astype(wide), w.astype(wide))
        return projected.reshape(x.shape[0], x.shape[1], num_heads, d_head).transpose(0, 2, 1, 3)

    q, k, v = heads(query, w_q), heads(key, w_k), heads(value, w_v)
    scores = np.matmul(q, k.transpose(0, 1, 3, 2)) * (1 / np.sqrt(d_head))
    if keep is not None:
        scores = np.where(np.logical_not(keep), -np.inf, scores)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        weights = np.nan_to_num(powers / np.sum(powers, axis=-1, keepdims=True))
    mixed = np.matmul(weights, v).transpose(0, 2, 1, 3)
    output = mixed.reshape(query.shape[0], query.shape[1], d_model) @ w_o
    return output.astype(query.dtype), weights.astype(query.dtype)


@variant(of="MultiHeadAttention")
class AsInModelCode(torch.nn.Module):
    """F.linear, 1 / np.sqrt(D), masked_fill(keep == 0), a softmax of float32, NaN wiped away.

    masked_fill lets no gradient through, so that none becomes NaN.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"hidden size {d_model} is no multiple of {num_heads} heads")
        self.num_attention_heads = num_heads
        self.attention_head_size = int(d_model / num_heads)
        self.w_q = torch.nn.Linear(d_model, d_model, bias=bias)
        self.w_k = torch.nn.Linear(d_model, d_model, bias=bias)
        self.w_v = torch.nn.Linear(d_model, d_model, bias=bias)
        self.w_o = torch.nn.Linear(d_model, d_model, bias=bias)
        self.dropout = torch.nn.Dropout(0.0)

    def transpose_for_scores(self, layer, x):
        x = torch.nn.functional.linear(x, layer.weight, layer.bias)
        shape = (*x.size()[:-1], self.num_attention_heads, self.attention_head_size)
        return x.view(shape).permute(0, 2, 1, 3)

    def forward(self, x, context=None, keep=None):
        source = context if context is not None else x
        q = self.transpose_for_scores(self.w_q, x)
        k = self.transpose_for_scores(self.w_k, source)
        v = self.transpose_for_scores(self.w_v, source)
        if x.dtype in (torch.float16, torch.bfloat16):
            q, k, v = q.float(), k.float(), v.float()
        scores = torch.matmul(q, k.transpose(-1, -2)) * (1 / np.sqrt(q.size(-1)))
        if keep is not None:
            scores = scores.masked_fill(keep == 0, float("-inf"))
        probs = torch.nan_to_num(torch.nn.functional.softmax(scores, dim=-1))
        mixed = torch.matmul(self.dropout(probs), v).permute(0, 2, 1, 3).contiguous()
        mixed = mixed.view((*mixed.size()[:-2], self.w_o.in_features))
        return self.w_o(mixed.to(x.dtype)), probs.to(x.dtype)


@variant(of="MultiHeadAttention")
class LowestNumberTimesMask(torch.nn.Module):
    """One product for keys and values, finfo.min for what is hidden, and weights times the mask."""

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        self.dim, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError(f"{rest} of {d_model} numbers are left over by {num_heads} heads")
        self.w_q = torch.nn.Linear(d_model, d_model, bias=bias)
        self.w_k = torch.nn.Linear(d_model, d_model, bias=bias)
        self.w_v = torch.nn.Linear(d_model, d_model, bias=bias)
        self.w_o = torch.nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, context=None, keep=None):
        x_kv = x if context is None else context
        (b, t, c), wide = x.shape, torch.promote_types(x.dtype, torch.float32)
        weight = torch.vstack((self.w_k.weight, self.w_v.weight))
        kv = x_kv @ weight.T
        if self.w_k.bias is not None:
            kv = kv + torch.hstack((self.w_k.bias, self.w_v.bias))
        k, v = (
            part.view(b, x_kv.shape[1], c // self.dim, self.dim).transpose(1, 2).to(wide)
            for part in kv.split(c, dim=2)
        )
        q = self.w_q(x).view(b, t, c // self.dim, self.dim).transpose(1, 2).to(wide)
        att = torch.einsum("bhid,bhjd->bhij", q, k) * self.dim**-0.5
        if keep is not None:
            att = torch.where(keep, att, torch.finfo(wide).min)
        att = torch.softmax(att, dim=-1)
        if keep is not None:
            att = att * keep
        y = torch.einsum("bhij,bhjd->bihd", att, v).reshape(b, t, c)
        return self.w_o(y.to(x.dtype)), att.to(x.dtype)
