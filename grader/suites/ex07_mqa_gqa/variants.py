"""Right answers to shared keys and values, written otherwise."""

import math

import torch

from grader.judging import variant


@variant(of="repeat_kv")
def expanded_and_flattened(x, n):
    """A new axis after the heads, expanded and flattened, as model libraries have it."""
    heads, length, width = x.shape[-3:]
    copies = x[..., :, None, :, :].expand(*x.shape[:-3], heads, n, length, width)
    return copies.reshape(*x.shape[:-3], heads * n, length, width)


@variant(of="repeat_kv")
def picked_by_index(x, n):
    """Head h // n picked for every h."""
    heads = torch.arange(x.shape[-3] * n, device=x.device) // n
    return x.index_select(x.ndim - 3, heads)


@variant(of="repeat_kv")
def stacked(x, n):
    """The same tensor stacked n times on a new axis after the heads."""
    return torch.stack([x] * n, dim=-3).flatten(-4, -3)


@variant(of="grouped_query_attention")
def repeated_then_ordinary(q, k, v, keep=None):
    """Copies of the heads, then ordinary attention with masked_fill and nan_to_num."""
    if q.shape[-3] % k.shape[-3] != 0:
        raise ValueError(f"H={q.shape[-3]} must be a multiple of Hk={k.shape[-3]}")
    n = q.shape[-3] // k.shape[-3]
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    k = k.repeat_interleave(n, dim=-3)
    v = v.repeat_interleave(n, dim=-3)
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    weights = torch.nn.functional.softmax(scores, dim=-1).nan_to_num(0.0)
    return torch.matmul(weights, v).to(dtype)


@variant(of="grouped_query_attention")
def grouped_einsum(q, k, v, keep=None):
    """An axis for the group, and einsum over it."""
    heads, shared = q.shape[-3], k.shape[-3]
    if heads % shared:
        raise ValueError(f"num_heads ({heads}) % num_kv_heads ({shared}) is not 0")
    wide = torch.promote_types(q.dtype, torch.float32)
    groups = q.to(wide).unflatten(-3, (shared, heads // shared))  # (..., Hk, G, Lq, D)
    scores = torch.einsum("...hgqd,...hkd->...hgqk", groups, k.to(wide)) * q.shape[-1] ** -0.5
    if keep is None:
        weights = scores.softmax(-1)
    else:
        keep = torch.broadcast_to(keep, (*q.shape[:-1], k.shape[-2]))
        keep = keep.unflatten(-3, (shared, heads // shared))
        lowest = torch.finfo(wide).min
        weights = torch.where(keep, scores, lowest).softmax(-1) * keep
    output = torch.einsum("...hgqk,...hkd->...hgqd", weights, v.to(wide))
    return output.flatten(-4, -3).to(q.dtype)


@variant(of="grouped_query_attention")
def broadcast_matmul(q, k, v, keep=None):
    """An axis of one beside the key/value heads, and matrix products that broadcast over it."""
    heads, shared = q.shape[-3], k.shape[-3]
    if heads % shared:
        raise ValueError(f"{heads} and {shared}")
    dtype = q.dtype
    wide = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    q = q.to(wide).reshape(*q.shape[:-3], shared, heads // shared, *q.shape[-2:])
    k, v = k.to(wide).unsqueeze(-3), v.to(wide).unsqueeze(-3)  # (..., Hk, 1, Lk, D)
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.mT
    if keep is not None:
        full = torch.ones(scores.flatten(-4, -3).shape, dtype=torch.bool, device=q.device) & keep
        full = full.view(scores.shape)
        scores = scores.masked_fill(full.logical_not(), -math.inf)
    top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(wide).min)
    powers = (scores - top).exp()
    total = powers.sum(-1, keepdim=True)
    output = (powers @ v) / total.where(total > 0, 1.0)
    return output.flatten(-4, -3).to(dtype)


@variant(of="grouped_query_attention")
def as_model_libraries_have_it(q, k, v, keep=None):
    """Heads expanded and reshaped, masked_fill with finfo.min where keep == 0, softmax in float32,
    and zeros where a row keeps nothing."""
    (heads, _, width), (shared, length) = q.shape[-3:], k.shape[-3:-1]
    if heads % shared:
        raise ValueError(f"num_attention_heads={heads}, num_key_value_heads={shared}")
    n = heads // shared
    k, v = (
        x.unsqueeze(-3)
        .expand(*x.shape[:-3], shared, n, length, x.shape[-1])
        .reshape(*x.shape[:-3], heads, length, x.shape[-1])
        for x in (k, v)
    )
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = torch.matmul(q.to(wide), k.to(wide).transpose(-2, -1)) * width**-0.5
    if keep is not None:
        scores = scores.masked_fill(keep == 0, torch.finfo(wide).min)
    weights = torch.nn.functional.softmax(scores, dim=-1, dtype=wide)
    if keep is not None:
        weights = weights * keep.any(-1, keepdim=True)
    return torch.matmul(weights, v.to(wide)).to(q.dtype).contiguous()


@variant(of="grouped_query_attention")
def head_by_head(q, k, v, keep=None):
    """A Python loop over the query heads, in float64."""
    num_heads, num_kv_heads = q.shape[-3], k.shape[-3]
    if num_heads % num_kv_heads:
        raise ValueError(f"{num_heads} heads cannot be shared among {num_kv_heads}")
    if keep is not None:
        keep = keep.expand(*q.shape[:-1], k.shape[-2])
    heads = []
    for h in range(num_heads):
        g = h // (num_heads // num_kv_heads)
        keys, values = k[..., g, :, :].double(), v[..., g, :, :].double()
        scores = q[..., h, :, :].double() @ keys.mT / math.sqrt(q.shape[-1])
        if keep is None:
            weights = torch.softmax(scores, -1)
        else:
            seen = keep[..., h, :, :]
            weights = torch.softmax(scores.masked_fill(~seen, -torch.inf), -1)
            weights = weights.masked_fill(~seen, 0.0)
        heads.append(weights @ values)
    return torch.stack(heads, dim=-3).to(q.dtype)


@variant(of="grouped_query_attention")
def flattened_bmm(q, k, v, keep=None):
    """All leading dimensions in one, and bmm over batch and key/value heads together."""
    (heads, rows, width), (shared, keys), v_width = q.shape[-3:], k.shape[-3:-1], v.shape[-1]
    if heads % shared:
        raise ValueError(f"cannot put {heads} query heads on {shared} key/value heads")
    n = heads // shared
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    count = q.shape[:-3].numel() * shared
    folded = q.to(wide).reshape(count, n * rows, width)
    scores = torch.bmm(folded, k.to(wide).reshape(count, keys, width).transpose(1, 2))
    scores = scores / math.sqrt(width)
    if keep is not None:
        full = keep.expand(*q.shape[:-3], heads, rows, keys).reshape(count, n * rows, keys)
        scores = torch.where(full, scores, torch.tensor(-torch.inf, dtype=wide, device=q.device))
        empty = ~full.any(-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)
    else:
        weights = torch.softmax(scores, -1)
    output = torch.bmm(weights, v.to(wide).reshape(count, keys, v_width))
    return output.reshape(*q.shape[:-1], v_width).to(q.dtype)


@variant(of="grouped_query_attention")
def key_by_key(q, k, v, keep=None):
    """One key after the other, with a running maximum and a running sum."""
    n, rest = divmod(q.shape[-3], k.shape[-3])
    if rest:
        raise ValueError(f"{q.shape[-3]} query heads on {k.shape[-3]} key/value heads")
    wide = torch.promote_types(q.dtype, torch.float32)
    k, v = (x.to(wide).repeat_interleave(n, -3) for x in (k, v))
    rows = q.to(wide) / math.sqrt(q.shape[-1])
    top = torch.full(q.shape[:-1], torch.finfo(wide).min, dtype=wide, device=q.device)
    total = torch.zeros_like(top)
    output = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=wide, device=q.device)
    for j in range(k.shape[-2]):
        score = (rows * k[..., j : j + 1, :]).sum(-1)
        value = v[..., j : j + 1, :]
        if keep is not None:
            score = torch.where(keep[..., j], score, -torch.inf)
        higher = torch.maximum(top, score)
        shrink, power = torch.exp(top - higher), torch.exp(score - higher)
        total = total * shrink + power
        output = output * shrink[..., None] + power[..., None] * value
        top = higher
    return (output / torch.where(total > 0, total, 1.0)[..., None]).to(q.dtype)


@variant(of="GroupedQueryAttention")
class HeadsBesideTheLength(torch.nn.Module):
    """Everything in the layout (B, L, H, D), with einsum, and steps through one mask for all."""

    def __init__(self, d_model, num_heads, num_kv_heads, bias=False):
        super().__init__()
        for whole, part in ((d_model, num_heads), (num_heads, num_kv_heads)):
            if whole % part:
                raise ValueError(f"{part} does not divide {whole}")
        width = d_model // num_heads
        self.shape = num_kv_heads, num_heads // num_kv_heads, width
        self.w_o = torch.nn.Linear(d_model, d_model, bias=bias)
        self.w_v = torch.nn.Linear(d_model, num_kv_heads * width, bias=bias)
        self.w_k = torch.nn.Linear(d_model, num_kv_heads * width, bias=bias)
        self.w_q = torch.nn.Linear(d_model, d_model, bias=bias)

    def mixed(self, x, k, v, keep):
        shared, n, width = self.shape
        batch, length, _ = x.shape
        wide = torch.promote_types(x.dtype, torch.float32)
        q = self.w_q(x).view(batch, length, shared, n, width)
        scores = torch.einsum("bihgd,bjhd->bhgij", q.to(wide), k.to(wide)) / width**0.5
        if keep is not None:
            keep = keep.expand(batch, shared * n, length, k.shape[1])
            keep = keep.reshape(batch, shared, n, length, k.shape[1])
            scores = scores.masked_fill(~keep, -math.inf)
        weights = scores.softmax(-1).nan_to_num(0.0)
        output = torch.einsum("bhgij,bjhd->bihgd", weights, v.to(wide)).to(x.dtype)
        return self.w_o(output.flatten(2))

    def keys_and_values(self, x):
        shared, _, width = self.shape
        return (w(x).unflatten(-1, (shared, width)) for w in (self.w_k, self.w_v))

    def forward(self, x, keep=None):
        return self.mixed(x, *self.keys_and_values(x), keep)

    def step(self, x, past=None):
        k, v = self.keys_and_values(x)
        if past is not None:
            k = torch.cat((past[0].transpose(1, 2), k), 1)
            v = torch.cat((past[1].transpose(1, 2), v), 1)
        position = torch.arange(k.shape[1], device=x.device)
        keep = position <= position[-x.shape[1] :, None]
        return self.mixed(x, k, v, keep), [k.transpose(1, 2), v.transpose(1, 2)]


@variant(of="GroupedQueryAttention")
class OneProjectionForAll(torch.nn.Module):
    """One product with the three weights side by side; copies of the heads; tokens one by one."""

    def __init__(self, d_model, num_heads, num_kv_heads, bias=False):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"{d_model=} {num_heads=}")
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"{num_heads=} {num_kv_heads=}")
        self.n, self.width = num_heads // num_kv_heads, d_model // num_heads
        narrow = num_kv_heads * self.width
        self.w_q = torch.nn.Linear(d_model, d_model, bias)
        self.w_k, self.w_v = (torch.nn.Linear(d_model, narrow, bias) for _ in range(2))
        self.w_o = torch.nn.Linear(d_model, d_model, bias)
        self.register_buffer("mask", torch.ones(9, 9).tril())  # as some have it; not used here

    def qkv(self, x):
        layers = (self.w_q, self.w_k, self.w_v)
        bias = None if self.w_q.bias is None else torch.cat([w.bias for w in layers])
        wide = torch.nn.functional.linear(x, torch.cat([w.weight for w in layers]), bias)
        parts = wide.split([w.out_features for w in layers], dim=-1)
        return [y.unflatten(-1, (-1, self.width)).permute(0, 2, 1, 3) for y in parts]

    def attend(self, q, k, v, keep):
        dtype = q.dtype
        if dtype in (torch.float16, torch.bfloat16):
            q, k, v = q.float(), k.float(), v.float()
        k, v = k.repeat_interleave(self.n, 1), v.repeat_interleave(self.n, 1)
        scores = q @ k.transpose(-1, -2) * self.width**-0.5
        if keep is not None:
            scores = torch.where(keep, scores, -math.inf)
        weights = torch.softmax(scores, -1)
        if keep is not None:
            weights = torch.where(keep.any(-1, keepdim=True), weights, 0.0)
        output = (weights @ v).to(dtype)
        return self.w_o(output.permute(0, 2, 1, 3).flatten(2))

    def forward(self, x, keep=None):
        return self.attend(*self.qkv(x), keep)

    def step(self, x, past=None):
        outputs = []
        for token in x.split(1, dim=1):
            q, k, v = self.qkv(token)
            if past is not None:
                k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
            past = k, v
            outputs.append(self.attend(q, k, v, None))
        return torch.cat(outputs, 1), past


@variant(of="kv_cache_bytes")
def two_tensors_per_layer(batch, num_kv_heads, length, head_dim, dtype, layers):
    """The numbers of one tensor, times the bytes of an empty one, times two tensors a layer."""
    one = math.prod([batch, num_kv_heads, length, head_dim])
    return layers * (one + one) * torch.empty(0, dtype=dtype).element_size()


@variant(of="kv_cache_bytes")
def from_bits(batch, num_kv_heads, length, head_dim, dtype, layers):
    """From the bits of a number; of a complex one two are kept, and of a bool a whole byte."""
    if dtype == torch.bool:
        bits = 8
    elif dtype.is_complex:
        bits = 2 * torch.finfo(dtype).bits
    else:
        bits = (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).bits
    per_token = 2 * num_kv_heads * head_dim * bits // 8
    return per_token * batch * length * layers


@variant(of="grouped_query_attention")
def powers_of_two(q, k, v, keep=None):
    """The queries take the scale and log2(e), as FlashAttention has it; then exp2."""
    heads, shared = q.shape[-3], k.shape[-3]
    if heads % shared:
        raise ValueError(f"{heads} heads cannot share {shared} evenly")
    wide = torch.promote_types(q.dtype, torch.float32)
    scaled = q.to(wide) * (math.log2(math.e) / math.sqrt(q.shape[-1]))
    keys, values = (x.to(wide).repeat_interleave(heads // shared, dim=-3) for x in (k, v))
    scores = scaled @ keys.mT
    seen = torch.ones_like(scores, dtype=torch.bool) if keep is None else keep
    scores = scores.masked_fill(~seen, torch.finfo(wide).min)
    powers = (scores - scores.detach().amax(-1, keepdim=True)).exp2() * seen
    total = powers.sum(-1, keepdim=True)
    return (powers @ values / torch.where(total == 0, 1.0, total)).to(q.dtype)
