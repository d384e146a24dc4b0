"""Right answers to the fast path, written otherwise."""

import math

import numpy as np
import torch

from grader.judging import variant


@variant(of="fast_attention")
def one_mask_for_everything(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Copies of K and V, everything in one additive mask, and PyTorch's operator as it comes."""
    heads, shared = q.shape[-3], k.shape[-3]
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2] or shared != v.shape[-3]:
        raise ValueError(f"shapes {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}")
    if heads % shared:
        raise ValueError(f"{heads} % {shared} is not 0")
    n, m = q.shape[-2], k.shape[-2]
    k, v = k.repeat_interleave(heads // shared, -3), v.repeat_interleave(heads // shared, -3)
    see = torch.ones(n, m, dtype=torch.bool, device=q.device)
    if causal:
        see = see.tril(diagonal=m - n)
    if keep is not None:
        see = see & keep
    mask = torch.zeros((), dtype=q.dtype, device=q.device) if bias is None else bias
    some = see.any(-1, keepdim=True)
    mask = mask.masked_fill(~see & some, float("-inf"))
    attend = torch.nn.functional.scaled_dot_product_attention
    return torch.where(some, attend(q, k, v, attn_mask=mask, scale=scale), 0.0)


@variant(of="fast_attention")
def queries_put_in_front(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Rows of zeros in front of the queries make the call square, so that is_causal is right."""
    for a, b in ((q.size(-1), k.size(-1)), (k.size(-2), v.size(-2)), (k.size(-3), v.size(-3))):
        if a != b:
            raise ValueError(f"{a} != {b}")
    if q.size(-3) % k.size(-3) > 0:
        raise ValueError(f"{q.size(-3)} query heads, {k.size(-3)} key heads")
    attend = torch.nn.functional.scaled_dot_product_attention
    options = {"enable_gqa": True, "scale": scale}
    more = k.size(-2) - q.size(-2)
    if scale is not None and scale <= 0:  # the kernel would hide before it scales
        q, options["scale"] = q * scale, 1.0
    if causal and keep is None and bias is None and more >= 0:
        square = torch.cat([q.new_zeros(*q.shape[:-2], more, q.size(-1)), q], -2)
        return attend(square, k, v, is_causal=True, **options)[..., more:, :]
    if causal:
        behind = torch.arange(k.size(-2), device=q.device)
        behind = behind <= torch.arange(q.size(-2), device=q.device)[:, None] + more
        keep = behind if keep is None else torch.logical_and(keep, behind)
    if keep is None:
        bias = bias if bias is None else torch.atleast_2d(bias)
        return attend(q, k, v, attn_mask=bias, **options)
    blind = keep.logical_not().all(-1, keepdim=True)
    mask = keep.logical_or(blind)
    if bias is not None:
        mask = bias + torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(
            ~mask, -math.inf
        )
    mask = mask.expand(*q.shape[:-1], k.size(-2))
    return attend(q, k, v, attn_mask=mask, **options).masked_fill(blind, 0)


@variant(of="fast_attention")
def groups_as_rows(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The query heads of a group as more rows of one head, so that nothing is copied."""
    (heads, rows, width), (shared, keys, _) = q.shape[-3:], v.shape[-3:]
    if k.shape[-3:] != (shared, keys, width):
        names = f"k {tuple(k.shape)}, v {tuple(v.shape)}, q {tuple(q.shape)}"
        raise ValueError(f"these do not fit: {names}")
    if heads % shared:
        raise ValueError(f"groups of {heads}/{shared} heads")
    lead, group = q.shape[:-3], heads // shared
    whole = (*lead, heads, rows, keys)
    see = None
    if causal:
        see = torch.ones(rows, keys, dtype=torch.bool, device=q.device).tril(keys - rows)
    if keep is not None:
        see = keep if see is None else see & keep
    mask = see if bias is None else bias
    if see is not None and bias is not None:
        mask = torch.where(see, bias, -torch.inf)
    if mask is not None:
        mask = mask.expand(whole).reshape(*lead, shared, group * rows, keys)
    folded = q.reshape(*lead, shared, group * rows, width)
    scale = width**-0.5 if scale is None else scale
    output = torch.nn.functional.scaled_dot_product_attention(folded, k, v, mask, scale=scale)
    output = output.reshape(*lead, heads, rows, v.shape[-1])
    if see is not None:
        output = output.masked_fill(~see.any(-1, keepdim=True), 0.0)
    return output


@variant(of="fast_attention")
def written_out(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The formula, with all scores stored, and einsum over the groups in float64."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"width {q.shape[-1]} against {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"length {k.shape[-2]} against {v.shape[-2]}")
    if k.shape[-3] != v.shape[-3]:
        raise ValueError(f"heads {k.shape[-3]} against {v.shape[-3]}")
    if q.shape[-3] % k.shape[-3]:
        raise ValueError(f"heads {q.shape[-3]} against {k.shape[-3]}")
    shared = k.shape[-3]
    groups = q.double().unflatten(-3, (shared, q.shape[-3] // shared))
    scores = torch.einsum("...hgid,...hjd->...hgij", groups, k.double()).flatten(-4, -3)
    scores = scores * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores = scores + bias.double()
    n, m = scores.shape[-2:]
    if m == 0:
        return q.new_zeros(*q.shape[:-1], v.shape[-1])
    if causal:
        ahead = torch.ones(n, m, dtype=torch.bool, device=q.device).triu(m - n + 1)
        scores = scores.masked_fill(ahead, -torch.inf)
    if keep is not None:
        scores = scores.masked_fill(~keep, -torch.inf)
    top = scores.amax(-1, keepdim=True).detach().clamp(min=-1e300)
    powers = torch.exp(scores - top)
    weights = powers / powers.sum(-1, keepdim=True).clamp(min=1e-300)
    weights = weights.unflatten(-3, (shared, q.shape[-3] // shared))
    output = torch.einsum("...hgij,...hjd->...hgid", weights, v.double())
    return output.flatten(-4, -3).to(q.dtype)


@variant(of="fast_attention")
def head_by_head_in_tiles(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """One query head at a time, its keys in tiles of 8, with a running maximum and sum."""
    sizes = [(q.shape[-1], k.shape[-1]), (k.shape[-2], v.shape[-2]), (k.shape[-3], v.shape[-3])]
    for one, other in sizes:
        if one != other:
            raise ValueError(f"sizes {one} and {other} should be equal")
    n, rest = divmod(q.shape[-3], k.shape[-3])
    if rest:
        raise ValueError(f"{k.shape[-3]} does not divide {q.shape[-3]}")
    wide = torch.promote_types(q.dtype, torch.float32)
    rows, keys = q.shape[-2], k.shape[-2]
    whole = (*q.shape[:-1], keys)
    keep = torch.ones((), dtype=torch.bool, device=q.device) if keep is None else keep
    if causal:
        i = torch.arange(rows, device=q.device)[:, None] + (keys - rows)
        keep = keep & (torch.arange(keys, device=q.device) <= i)
    keep, bias = keep.expand(whole), None if bias is None else bias.expand(whole)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    heads = []
    for h in range(q.shape[-3]):
        query = q[..., h, :, :].to(wide) * scale
        top = torch.full((*query.shape[:-1], 1), -1e38, dtype=wide, device=q.device)
        total, output = torch.zeros_like(top), query.new_zeros(*query.shape[:-1], v.shape[-1])
        for j in range(0, keys, 8):
            scores = query @ k[..., h // n, j : j + 8, :].to(wide).mT
            if bias is not None:
                scores = scores + bias[..., h, :, j : j + 8]
            scores = torch.where(keep[..., h, :, j : j + 8], scores, -torch.inf)
            higher = torch.maximum(top, scores.amax(-1, keepdim=True)).detach()
            powers, shrink = torch.exp(scores - higher), torch.exp(top - higher)
            total = total * shrink + powers.sum(-1, keepdim=True)
            output = output * shrink + powers @ v[..., h // n, j : j + 8, :].to(wide)
            top = higher
        heads.append(output / torch.where(total > 0, total, 1.0))
    return torch.stack(heads, -3).to(q.dtype)


@variant(of="fast_attention")
def as_model_code(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """.float() first, keys expanded to all heads, finfo.min where hidden, softmax in float32."""
    for a, b in [
        (q.shape[-1], k.shape[-1]),
        (k.shape[-2], v.shape[-2]),
        (k.shape[-3], v.shape[-3]),
    ]:
        if a != b:
            raise ValueError(f"expected {a}, got {b}")
    (shared, keys, _), (heads, rows, width) = k.shape[-3:], q.shape[-3:]
    if heads % shared != 0:
        raise ValueError(f"num_heads {heads} must be divisible by num_key_value_heads {shared}")
    dtype, wide = q.dtype, torch.float64 if q.dtype == torch.float64 else torch.float32
    q, k, v = q.to(wide), k.to(wide), v.to(wide)
    lead, groups = q.shape[:-3], heads // shared
    k = k.unsqueeze(-3).expand(*lead, shared, groups, keys, width).flatten(-4, -3)
    v = v.unsqueeze(-3).expand(*lead, shared, groups, keys, v.shape[-1]).flatten(-4, -3)
    scaling = 1 / np.sqrt(width) if scale is None else scale
    attn_weights = torch.matmul(q, k.transpose(-2, -1)) * float(scaling)
    if bias is not None:
        attn_weights = attn_weights + bias
    seen = torch.ones(rows, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = torch.tril(seen, diagonal=keys - rows)
    seen = seen if keep is None else seen & keep
    attn_weights = attn_weights.masked_fill(seen == 0, torch.finfo(wide).min)
    attn_weights = torch.nn.functional.softmax(attn_weights, dim=-1, dtype=wide)
    attn_output = torch.matmul(attn_weights, v)
    return (attn_output * seen.any(-1, keepdim=True)).to(dtype)


@variant(of="fast_attention")
def heads_flattened(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Batch and heads as one dimension, bmm, and a mask of zeros and -inf that is added."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q is {q.shape[-1]} wide, k is {k.shape[-1]} wide")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"{k.shape[-2]} keys, {v.shape[-2]} values")
    if k.shape[-3] != v.shape[-3]:
        raise ValueError(f"{k.shape[-3]} heads of keys, {v.shape[-3]} heads of values")
    if q.shape[-3] % k.shape[-3]:
        raise ValueError(f"{q.shape[-3]} heads cannot be shared by {k.shape[-3]}")
    table, n = (*q.shape[:-1], k.shape[-2]), q.shape[-3] // k.shape[-3]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    k, v = (torch.repeat_interleave(x, n, dim=-3) for x in (k, v))
    queries, keys, values = (x.flatten(0, -3) if x.ndim > 3 else x for x in (q, k, v))
    scores = torch.bmm(queries.to(wide), keys.to(wide).transpose(1, 2)).reshape(table)
    scores = scores * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if bias is None else scores + bias.to(wide)
    added = torch.zeros(table[-2:], dtype=wide, device=q.device)
    if causal:
        ahead = torch.arange(table[-1], device=q.device) - table[-1] + table[-2]
        ahead = ahead > torch.arange(table[-2], device=q.device)[:, None]
        added = added.masked_fill(ahead, -torch.inf)
    if keep is not None:
        added = added + torch.where(keep, 0.0, -torch.inf).to(wide)
    nothing = (added == -torch.inf).all(-1, keepdim=True)
    weights = torch.softmax(scores + added.masked_fill(nothing, 0.0), -1)
    weights = (
        weights.masked_fill(nothing, 0.0).reshape(-1, *table[-2:])
        if scores.numel()
        else scores.flatten(0, -3)
    )
    output = torch.bmm(weights, values.to(wide))
    return output.reshape(*q.shape[:-1], v.shape[-1]).to(q.dtype)


@variant(of="best_backend")
def tried_in_turn(q, k, v, keep=None, causal=False):
    """Each kernel is tried on the call itself; the first that does not refuse is the answer."""
    if not (q.numel() and k.numel()):
        return "math: there is nothing for a fused kernel to do"
    backends = torch.nn.attention.SDPBackend
    kernels = {"flash": backends.FLASH_ATTENTION}
    if q.is_cuda:
        kernels["cudnn"] = backends.CUDNN_ATTENTION
        kernels["efficient"] = backends.EFFICIENT_ATTENTION
    refusals = []
    for name, kernel in kernels.items():
        try:
            with torch.nn.attention.sdpa_kernel(kernel):
                fast_attention(q, k, v, keep, causal)  # noqa: F821
        except RuntimeError as error:
            refusals.append(f"{name} refused: {error}")
        else:
            return f"{name}: " + ", ".join(refusals)
    return "math: " + ", ".join(refusals)


@variant(of="best_backend")
def by_rules(q, k, v, keep=None, causal=False):
    """A few rules by hand, from the table of the lesson."""
    if 0 in (q.shape[-2], k.shape[-2]):
        return "math: fused kernels want at least one query and one key"
    if q.device.type != "cuda":
        return "flash: the CPU has one fused kernel, and it takes everything"
    if q.dtype == torch.float64:
        return "math: no fused kernel takes float64"
    if q.dtype == torch.float32:
        return "efficient: flash and cudnn take half precision only"
    square = not causal or q.shape[-2] in (1, k.shape[-2])
    if keep is not None or not square:
        return "efficient: flash takes no mask"
    return "flash: there is no mask, and the dtype is a half"


@variant(of="FusedAttention")
class LikeTimm(torch.nn.Module):
    """permute and unbind, as vision transformers have it, and a manual path with softmax."""

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"dim {d_model} should be divisible by num_heads {num_heads}")
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.scale = self.head_dim**-0.5
        self.fused = fused
        self.qkv = torch.nn.Linear(d_model, d_model * 3, bias=qkv_bias)
        norm = torch.nn.LayerNorm if qk_norm else torch.nn.Identity
        self.q_norm, self.k_norm = norm(self.head_dim), norm(self.head_dim)
        self.proj = torch.nn.Linear(d_model, d_model)
        self.register_buffer("mask", torch.ones(9, 9).tril())  # as some have it; not used here

    def forward(self, x, keep=None):
        *lead, n, c = x.shape
        qkv = self.qkv(x).reshape(-1, n, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = (part.reshape(*lead, *part.shape[1:]) for part in qkv.unbind(0))
        q, k = self.q_norm(q), self.k_norm(k)
        if self.fused:
            x = fast_attention(q, k, v, keep)  # noqa: F821
        else:
            attn = (q.float() if q.dtype.itemsize == 2 else q) * self.scale
            attn = attn @ k.to(attn.dtype).transpose(-2, -1)
            if keep is not None:
                attn = attn.masked_fill(~keep, float("-inf"))
            attn = attn.softmax(dim=-1).nan_to_num(0.0)
            x = (attn @ v.to(attn.dtype)).to(q.dtype)
        return self.proj(x.transpose(-3, -2).reshape(*lead, n, c))


@variant(of="FusedAttention")
class BlocksFirst(torch.nn.Module):
    """The three blocks first, then the heads; einsum, and the operator on four dimensions."""

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        torch.nn.Module.__init__(self)
        width, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError(f"{num_heads} heads do not fit into {d_model}")
        self.proj = torch.nn.Linear(d_model, d_model)
        self.k_norm = torch.nn.LayerNorm(width) if qk_norm else torch.nn.Identity()
        self.q_norm = torch.nn.LayerNorm(width) if qk_norm else torch.nn.Identity()
        self.qkv = torch.nn.Linear(d_model, 3 * d_model, qkv_bias)
        self.width, self.fused = width, fused

    def forward(self, x, keep=None):
        blocks = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (block.unflatten(-1, (-1, self.width)) for block in blocks)  # (..., L, H, D)
        q, k = self.q_norm(q), self.k_norm(k)
        heads = self.fast(q, k, v, keep) if self.fused else self.slow(q, k, v, keep)
        return self.proj(heads.flatten(-2))

    def fast(self, q, k, v, keep):
        whole = q.transpose(-3, -2).shape
        q, k, v = (x.transpose(-3, -2).reshape(-1, *whole[-3:]) for x in (q, k, v))
        blind = None
        if keep is not None:
            keep = keep.expand(*whole[:-1], whole[-2]).reshape(*q.shape[:-1], whole[-2])
            blind = ~keep.any(-1, keepdim=True)
            keep = keep | blind
        output = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        output = output if blind is None else output.masked_fill(blind, 0.0)
        return output.reshape(whole).transpose(-3, -2)

    def slow(self, q, k, v, keep):
        scores = torch.einsum("...ihd,...jhd->...hij", q.double(), k.double())
        scores = scores / math.sqrt(self.width)
        if keep is not None:
            scores = torch.where(keep, scores, -math.inf)
        weights = torch.softmax(scores, -1)
        if keep is not None:
            weights = torch.where(keep, weights, 0.0)
        return torch.einsum("...hij,...jhd->...ihd", weights, v.double()).to(q.dtype)


@variant(of="FusedAttention")
class LinearByHand(torch.nn.Module):
    """F.linear with the three blocks of the weight; both paths in float64, the slow one with a mask
    of finfo.min."""

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"embed_dim {d_model} and num_heads {num_heads}")
        self.shape, self.fused = (num_heads, d_model // num_heads), fused
        self.qkv = torch.nn.Linear(d_model, 3 * d_model, bias=qkv_bias)
        self.proj = torch.nn.Linear(d_model, d_model, bias=True)
        self.q_norm, self.k_norm = torch.nn.Identity(), torch.nn.Identity()
        if qk_norm:
            self.q_norm, self.k_norm = (torch.nn.LayerNorm(self.shape[1]) for _ in "qk")

    def forward(self, x, keep=None):
        weights = self.qkv.weight.chunk(3)
        biases = (None,) * 3 if self.qkv.bias is None else self.qkv.bias.chunk(3)
        parts = [torch.nn.functional.linear(x, w, b) for w, b in zip(weights, biases)]  # noqa: B905
        q, k, v = (part.unflatten(-1, self.shape).movedim(-2, -3) for part in parts)
        q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = q.double(), k.double(), v.double()
        if self.fused:
            heads = fast_attention(q, k, v, keep)  # noqa: F821
        else:
            scores = (q / math.sqrt(self.shape[1])) @ k.transpose(-1, -2)
            if keep is not None:
                scores = scores.masked_fill(keep == 0, torch.finfo(scores.dtype).min)
            weights = scores.softmax(-1)
            if keep is not None:
                weights = weights * keep
            heads = weights @ v
        return self.proj(heads.to(x.dtype).movedim(-3, -2).flatten(-2))
