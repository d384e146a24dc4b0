"""Right answers, written otherwise."""

import math

import torch

from grader.judging import variant


@variant(of="attend_with_past")
def masked_at_once(q, k, v, past=None):
    """One product, the future replaced by -inf: the textbook's form."""
    if past is not None:
        k, v = torch.cat((past[0], k), dim=-2), torch.cat((past[1], v), dim=-2)
    t, n = q.shape[-2], k.shape[-2]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    keep = torch.ones(t, n, dtype=torch.bool, device=q.device).tril(n - t)
    scores = torch.matmul(q.to(wide), k.to(wide).transpose(-2, -1)) * q.shape[-1] ** -0.5
    weights = scores.masked_fill(~keep, float("-inf")).softmax(-1)
    return torch.matmul(weights, v.to(wide)).to(q.dtype), (k, v)


@variant(of="attend_with_past")
def flattened_and_additive(q, k, v, past=None):
    """Leading dimensions flattened for bmm, and an additive mask of 0 and -inf."""
    if past is not None:
        old = past[0].shape[-2]
        k, v = torch.cat([past[0], k], -2), torch.cat([past[1], v], -2)
    else:
        old = 0
    rows = math.prod(q.shape[:-2])
    t, n = q.shape[-2], k.shape[-2]
    flat_q, flat_k, flat_v = (x.reshape(rows, *x.shape[-2:]) for x in (q, k, v))
    if q.dtype in (torch.float16, torch.bfloat16):
        flat_q, flat_k, flat_v = flat_q.float(), flat_k.float(), flat_v.float()
    bias = torch.full((t, n), -torch.inf, dtype=flat_q.dtype, device=q.device).triu(old + 1)
    scores = torch.bmm(flat_q / math.sqrt(q.shape[-1]), flat_k.transpose(1, 2)) + bias
    output = torch.bmm(torch.softmax(scores, dim=2), flat_v)
    return output.reshape(*q.shape[:-1], v.shape[-1]).to(q.dtype), (k, v)


@variant(of="attend_with_past")
def einsum_in_double(q, k, v, past=None):
    """Everything in float64, positions compared, a softmax by hand."""
    old = 0 if past is None else past[0].size(-2)
    keys = k if past is None else torch.cat([past[0], k], -2)
    values = v if past is None else torch.cat([past[1], v], -2)
    scores = torch.einsum("...id,...jd->...ij", q.double(), keys.double()) / q.size(-1) ** 0.5
    position = torch.arange(q.size(-2), device=q.device)[:, None] + old
    hidden = torch.arange(keys.size(-2), device=q.device)[None, :] > position
    scores = torch.where(hidden, -torch.inf, scores)
    top = scores.amax(-1, keepdim=True) if scores.numel() else 0.0
    powers = torch.exp(scores - top)
    output = torch.einsum("...ij,...jd->...id", powers, values.double())
    return (output / powers.sum(-1, keepdim=True)).to(q.dtype), (keys, values)


@variant(of="attend_with_past")
def past_and_new_apart(q, k, v, past=None):
    """Scores of the past and of the new tokens apart, under one denominator."""
    wide = torch.promote_types(q.dtype, torch.float32)
    t = q.shape[-2]
    later = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
    query = q.to(wide) * q.shape[-1] ** -0.5
    scores = (query @ k.to(wide).mT).masked_fill(later, -torch.inf)
    values, joined = v, (k, v)
    if past is not None:
        scores = torch.cat([query @ past[0].to(wide).mT, scores], -1)
        values = torch.cat([past[1], v], -2)
        joined = [torch.cat([past[0], k], -2), values]
    weights = torch.softmax(scores, -1)
    return (weights @ values.to(wide)).to(q.dtype), joined


@variant(of="attend_with_past")
def filled_where_zero(q, k, v, past=None):
    """minGPT's habits: a table of ones, masked_fill(table == 0), and 1.0 / sqrt(D) as a factor."""
    old_k, old_v = past if past is not None else (k[..., :0, :], v[..., :0, :])
    keys, values = torch.cat((old_k, k), dim=-2), torch.cat((old_v, v), dim=-2)
    new, total = q.size(-2), keys.size(-2)
    table = torch.tril(torch.ones(new, total, device=q.device), diagonal=total - new)
    wide = torch.promote_types(q.dtype, torch.float32)
    att = (q.to(wide) @ keys.to(wide).transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    att = torch.nn.functional.softmax(att.masked_fill(table == 0, float("-inf")), dim=-1)
    return (att @ values.to(wide)).to(q.dtype), (keys, values)


@variant(of="attend_with_past")
def lowest_number_for_hidden(q, k, v, past=None):
    """Hugging Face's mask: the lowest number of the dtype in the place of hidden scores."""
    if past is not None:
        k, v = torch.cat([past[0], k], dim=2 - 4), torch.cat([past[1], v], dim=2 - 4)
    wide = torch.promote_types(q.dtype, torch.float32)
    cache_position = torch.arange(k.shape[-2] - q.shape[-2], k.shape[-2], device=q.device)
    allowed = torch.arange(k.shape[-2], device=q.device) <= cache_position[:, None]
    scores = torch.matmul(q.to(wide), k.to(wide).mT) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(~allowed, torch.finfo(wide).min)
    weights = torch.nn.functional.softmax(scores, dim=-1)
    return torch.matmul(weights, v.to(wide)).to(q.dtype), (k, v)


@variant(of="attend_with_past")
def online_in_blocks(q, k, v, past=None):
    """Blocks of 16 keys, with a running maximum and a running sum."""
    if past is not None:
        k, v = torch.cat([past[0], k], -2), torch.cat([past[1], v], -2)
    wide = torch.promote_types(q.dtype, torch.float32)
    t, n = q.shape[-2], k.shape[-2]
    last = torch.arange(n - t, n, device=q.device).unsqueeze(-1)
    top = torch.full((*q.shape[:-1], 1), -1e300 if wide == torch.float64 else -1e38, dtype=wide)
    top = top.to(q.device)
    total, output = torch.zeros_like(top), top.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n, 16):
        block = slice(start, start + 16)
        scores = (q.to(wide) @ k[..., block, :].to(wide).mT) / math.sqrt(q.shape[-1])
        ahead = torch.arange(n, device=q.device)[block] > last
        scores = scores.masked_fill(ahead, -torch.inf)
        new_top = torch.maximum(top, scores.amax(-1, keepdim=True)).detach()
        powers, shrink = torch.exp(scores - new_top), torch.exp(top - new_top)
        total = total * shrink + powers.sum(-1, keepdim=True)
        output = output * shrink + powers @ v[..., block, :].to(wide)
        top = new_top
    return (output / total).to(q.dtype), (k, v)


@variant(of="KVCache")
class OneBuffer:
    """One buffer for both, laid out (2, B, H, max_len, D)."""

    def __init__(self, batch, num_heads, max_len, head_dim, dtype=torch.float32, device=None):
        self.room = torch.empty(2, batch, num_heads, max_len, head_dim, dtype=dtype, device=device)
        self.keys, self.values = self.room
        self.length = 0

    def append(self, k, v):
        if k.shape != v.shape:
            raise ValueError(f"keys {tuple(k.shape)}, values {tuple(v.shape)}")
        _, batch, heads, max_len, width = self.room.shape
        for what, is_, should in zip(
            ("batch", "heads", "width"),
            (k.shape[0], k.shape[1], k.shape[3]),
            (batch, heads, width),
            strict=True,
        ):
            if is_ != should:
                raise ValueError(f"{what}: {is_}, not {should}")
        free = max_len - self.length
        if k.shape[2] > free:
            raise ValueError(f"{self.length + k.shape[2]} tokens, {max_len} places, {free} free")
        self.room[0].narrow(2, self.length, k.shape[2]).copy_(k)
        self.room[1].narrow(2, self.length, k.shape[2]).copy_(v)
        self.length += k.shape[2]
        return tuple(self.room[..., : self.length, :])

    def reset(self):
        self.length = 0
        self.room.zero_()


@variant(of="KVCache")
class LengthFirst:
    """Laid out (max_len, B, H, D), written by index; keys and values are copies."""

    def __init__(self, batch, num_heads, max_len, head_dim, dtype=torch.float32, device=None):
        self.shape = (batch, num_heads, head_dim)
        self.max_len, self.device = max_len, device
        self.k = torch.full((max_len, *self.shape), torch.nan, dtype=dtype, device=device)
        self.v = self.k.clone()
        self.keys, self.values = self.k.permute(1, 2, 0, 3), self.v.permute(1, 2, 0, 3)
        self.free = 0

    @property
    def length(self):
        return self.free

    def append(self, k, v):
        for x in (k, v):
            right = (*self.shape[:2], k.shape[2], self.shape[2])
            if tuple(x.shape) != right:
                raise ValueError(f"expected {right}, got {tuple(x.shape)}")
        if self.free + k.shape[2] > self.max_len:
            raise ValueError(f"{self.free + k.shape[2]} > {self.max_len}")
        places = torch.arange(self.free, self.free + k.shape[2], device=self.device)
        self.k.index_copy_(0, places, k.detach().permute(2, 0, 1, 3).to(self.k.dtype))
        self.v.index_copy_(0, places, v.detach().permute(2, 0, 1, 3).to(self.v.dtype))
        self.free += k.shape[2]
        return [x[: self.free].permute(1, 2, 0, 3).contiguous() for x in (self.k, self.v)]

    def reset(self):
        self.free = 0


@variant(of="KVCache")
class BuffersOfAModule(torch.nn.Module):
    """A module with registered buffers, as in gpt-fast; tokens are copied by position."""

    def __init__(self, batch, num_heads, max_len, head_dim, dtype=torch.float32, device=None):
        super().__init__()
        shape = (batch, num_heads, max_len, head_dim)
        for name in ("keys", "values"):
            room = torch.zeros(shape, dtype=dtype, device=device)
            self.register_buffer(name, room, persistent=False)
        self.length = 0

    def append(self, k, v):
        batch, heads, max_len, width = self.keys.shape
        for new in (k, v):
            if new.shape != (batch, heads, k.shape[2], width):
                raise ValueError(f"{list(new.shape)} is not {[batch, heads, k.shape[2], width]}")
        end = self.length + k.shape[2]
        if end > max_len:
            raise ValueError(f"the cache would hold {end} tokens, and has {max_len} places")
        position = torch.arange(self.length, end, device=self.keys.device)
        with torch.no_grad():
            self.keys.index_copy_(2, position, k.to(self.keys))
            self.values.index_copy_(2, position, v.to(self.values))
        self.length = end
        return self.keys.narrow(2, 0, end), self.values.narrow(2, 0, end)

    def reset(self):
        self.keys.zero_()
        self.values.zero_()
        self.length = 0


@variant(of="CachedAttention")
class FusedProjection(torch.nn.Module):
    """The three weights joined into one product, heads by view, one mask for all."""

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model={d_model} is not a multiple of num_heads={num_heads}")
        self.h, self.d = num_heads, d_model // num_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            self.add_module(name, torch.nn.Linear(d_model, d_model, bias=bias))
        self.register_buffer("later", torch.ones(9, 9).triu(1))  # as some have it; not used here

    def forward(self, x, cache=None):
        batch, t, width = x.shape
        three = (self.w_q, self.w_k, self.w_v)
        weight = torch.cat([w.weight for w in three])
        bias = None if self.w_q.bias is None else torch.cat([w.bias for w in three])
        qkv = torch.nn.functional.linear(x, weight, bias).view(batch, t, 3, self.h, self.d)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = cache.append(k, v)
        wide = torch.promote_types(x.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).transpose(2, 3) / math.sqrt(self.d)
        n = k.shape[2]
        hidden = torch.ones(t, n, device=x.device).triu(n - t + 1).bool()
        weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)
        heads = (weights @ v.to(wide)).to(x.dtype)
        return self.w_o(heads.transpose(1, 2).reshape(batch, t, width))


@variant(of="CachedAttention")
class HeadByHead(torch.nn.Module):
    """A loop over the heads; each goes through its own columns of the last projection."""

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide {d_model}")
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (
            torch.nn.Linear(d_model, d_model, bias) for _ in range(4)
        )

    def forward(self, x, cache=None):
        keys = torch.stack(self.w_k(x).chunk(self.num_heads, -1), 1)
        values = torch.stack(self.w_v(x).chunk(self.num_heads, -1), 1)
        if cache is not None:
            keys, values = cache.append(keys, values)
            values = values.to(x.dtype)  # the cache may have another
        n, t = keys.shape[2], x.shape[1]
        future = torch.arange(n, device=x.device) > torch.arange(n - t, n, device=x.device)[:, None]
        heads = []
        for h, q in enumerate(self.w_q(x).chunk(self.num_heads, -1)):
            scores = torch.einsum("btd,bnd->btn", q.double(), keys[:, h].double())
            scores = (scores * q.shape[-1] ** -0.5).masked_fill(future, float("-inf"))
            heads.append(torch.softmax(scores, -1).to(values.dtype) @ values[:, h])
        return self.w_o(torch.cat(heads, -1))


@variant(of="CachedAttention")
class WithTheFunctionAbove(torch.nn.Module):
    """The first task does the work: what was in the cache is its past."""

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model}, num_heads {num_heads}")
        self.num_heads = num_heads
        self.w_o = torch.nn.Linear(d_model, d_model, bias=bias)
        self.w_v = torch.nn.Linear(d_model, d_model, bias=bias)
        self.w_k = torch.nn.Linear(d_model, d_model, bias=bias)
        self.w_q = torch.nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, cache=None):
        b, t, e = x.shape
        q = self.w_q(x).reshape(b, t, self.num_heads, e // self.num_heads).transpose(1, 2)
        k = self.w_k(x).reshape(b, t, self.num_heads, e // self.num_heads).transpose(1, 2)
        v = self.w_v(x).reshape(b, t, self.num_heads, e // self.num_heads).transpose(1, 2)
        past = None
        if cache is not None:
            keys, values = cache.append(k, v)
            past = keys[:, :, :-t], values[:, :, :-t]
        y, _ = attend_with_past(q, k, v, past)  # noqa: F821 (it is the submission's)
        return self.w_o(y.transpose(1, 2).contiguous().view(b, t, e))
