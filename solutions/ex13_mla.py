# %% [markdown] tags=["en"]
# # Multi-head latent attention
#
# **The question.** At long contexts a decoder spends its memory on the key/value cache. Multi-query
# attention makes the cache small by giving all heads the same keys and values, and loses quality.
# Can every head have keys and values of its own, from a cache that is smaller still?
#
# **The formula.** DeepSeek-V2 (arXiv 2405.04434) keeps one short vector $c_j$ of each token, its
# *latent*, and makes the keys and values of every head from it by two matrices per head:
#
# $$k_{j}^{h} = W_{UK}^{h}\, c_j \qquad v_{j}^{h} = W_{UV}^{h}\, c_j$$
#
# Stored, those keys and values would be as large as ever. But they need not be computed at all:
#
# $$q \cdot (W_{UK}\, c_j) = (W_{UK}^\top q) \cdot c_j \qquad
# \sum_j p_j\, W_{UV}\, c_j = W_{UV} \sum_j p_j\, c_j$$
#
# On the left is the *naive* way: expand the latent of every token, then attend. On the right the
# *absorbed* way: put the key matrix into the query, attend to the latents themselves, and put the
# value matrix into the one vector that comes out. Both give the same output. In decode the
# left side expands `n` tokens at each step; the right side transforms one query and one output.
#
# **The rotary key.** RoPE turns a key by an angle that depends on its position, so that $W_{UK}$ no
# longer moves across the dot product: there is a different rotation in between for every $j$.
# Therefore positions get numbers of their own in every query and key. A head's query and key have
# `nope_dim` places that are never rotated, then `rope_dim` places that are; and the rotated part of
# the key comes straight from the token, one for all heads. The score is the sum of two dot
# products:
#
# $$s_{ij} = \frac{q^{nope}_i \cdot W_{UK}\, c_j + q^{rope}_i \cdot k^{rope}_j}
# {\sqrt{d_{nope} + d_{rope}}}$$
#
# **The shapes.** `R` is `kv_rank`, the width of a latent; `x` has the `t` new tokens, and `n`
# counts all of them, old and new.
#
# ```text
#   x (B, t, E)
#   ├─ q_proj ────────────── q (B, H, t, nope + rope)
#   │                                    │      └─ rotated by position
#   │                                    └──────── meets W_UK c: (B, H, n, nope)
#   └─ kv_a_proj_with_mqa ─ (B, t, R + rope)
#                                  │    └─ rotated: one key (B, t, rope) for all heads ┐
#                                  └─ kv_a_layernorm: latent c (B, t, R) ──────────────┴─ cached
#
#   kv_b_proj.weight (H * (nope + value), R): of each head W_UK (nope, R), then W_UV (value, R)
# ```
#
# With `q_rank` the query goes through a narrow place too: `q_a_proj`, `q_a_layernorm`, `q_b_proj`.
# That saves activations in training; nothing of it is cached.
#
# **By hand.** Two tokens, latents of 2 numbers, one key of 1 place, one query:
#
# ```pycon
# >>> latents = torch.tensor([[1.0, 2.0], [3.0, 0.0]])
# >>> w_uk, q = torch.tensor([[1.0, -1.0]]), torch.tensor([[2.0]])
# >>> keys = latents @ w_uk.T
# >>> keys.tolist(), (q @ keys.T).tolist()
# ([[-1.0], [3.0]], [[-2.0, 6.0]])
# >>> absorbed = q @ w_uk
# >>> absorbed.tolist(), (absorbed @ latents.T).tolist()
# ([[2.0, -2.0]], [[-2.0, 6.0]])
# ```
#
# And the bytes, for the sizes of DeepSeek-V3: 128 heads of 128 + 64 places for the key and 128 for
# the value, against one latent of 512 and one rotary key of 64.
#
# ```pycon
# >>> cache = LatentCache(1, 1000, 512, 64, dtype=torch.bfloat16)
# >>> cache.nbytes
# 1152000
# >>> round(1000 * 128 * (128 + 64 + 128) * 2 / cache.nbytes, 1)
# 71.1
# ```
#
# **The traps.**
#
# - `kv_b_proj` is laid out head by head: key, value, key, value. Not all keys, then all values.
# - `kv_a_proj_with_mqa` gives the latent first and the rotary key last.
# - The scale counts all places of a key, `nope_dim + rope_dim`; on the absorbed way too, although
#   the vectors that meet there are `R` wide.
# - The latent is normalised before it is cached, and never again; the rotary key is rotated before
#   it is cached, and never again.
# - Positions go on from `cache.length`, which moves when you append: read it before.
# - The absorbed way has two terms in its scores. Without the second it knows no positions.
# - Values are not rotated. Neither is the latent.
# - RoPE comes in two pairings. Here place `2i` is paired with place `2i + 1` (*interleaved*); code
#   with a `rotate_half` pairs `i` with `i + rope_dim / 2`.
# - Angles are computed in float32 at least, and in float64 for a float64 layer. bfloat16 cannot
#   even count to 257. A table of angles must reach as far as the text does: nothing says how far.
#
# **What is graded.** Both ways against an oracle in float32, with and without `q_rank`, for sizes
# from 1 to beyond 1024; chunks of any size with a cache, to its last place, and up to position
# 5,000; what is in the cache, its bytes, its dtype and its device, and what it refuses; that the
# absorbed way never computes keys and values from the latents, not even for a whole text; scores of
# any size; that each call reads `x`, the weights and the cache anew, and leaves `x` alone; the
# names of the parameters; gradients without a cache. There are separate checks for float64,
# computed in float64, for half precision, and for an empty batch. And, for 3 of the points, the
# speed of absorbed one-token steps at a context of 2048. **Out of scope:** padding masks, scaled
# RoPE for longer contexts (YaRN), training through a cache. **Not allowed:** PyTorch's fused
# operator and attention modules, and its RMSNorm (write it yourself, in four lines). About 90
# minutes.

# %% [markdown] tags=["zh"]
# # 多头潜在注意力（MLA）
#
# **问题。** 上下文很长时，解码器的显存主要花在 KV 缓存上。多查询注意力让所有头共用同一份键和值，
# 缓存小了，质量也降了。能不能让每个头仍有自己的键和值，缓存却更小？
#
# **公式。** DeepSeek-V2（arXiv 2405.04434）对每个 token 只保存一个短向量 $c_j$，称为**潜在向量**
# （latent），每个头的键和值都由它乘以该头的两个矩阵得到：
#
# $$k_{j}^{h} = W_{UK}^{h}\, c_j \qquad v_{j}^{h} = W_{UV}^{h}\, c_j$$
#
# 这些键和值如果真的写出来，还是和原来一样大。但不必写出来：
#
# $$q \cdot (W_{UK}\, c_j) = (W_{UK}^\top q) \cdot c_j \qquad
# \sum_j p_j\, W_{UV}\, c_j = W_{UV} \sum_j p_j\, c_j$$
#
# 左边是**朴素**算法：先把每个 token 的潜在向量展开成键和值，再做注意力。右边是**吸收**算法：
# 把键矩阵并入查询，直接对潜在向量做注意力，最后把值矩阵并入得到的那一个向量。两边的答案相同。
# 解码时，左边每一步要展开 `n` 个 token，右边只处理一个查询和一个输出。
#
# **旋转的键。** RoPE 按位置把键旋转一个角度，这样 $W_{UK}$ 就不能挪到点积的另一边了：
# 对每个 $j$，中间都隔着一个不同的旋转。所以位置信息单独占一些维度。每个头的查询和键，
# 前 `nope_dim` 维从不旋转，后 `rope_dim` 维旋转；键的旋转部分直接从 token 得到，
# 所有头共用一份。分数是两个点积之和：
#
# $$s_{ij} = \frac{q^{nope}_i \cdot W_{UK}\, c_j + q^{rope}_i \cdot k^{rope}_j}
# {\sqrt{d_{nope} + d_{rope}}}$$
#
# **形状。** `R` 是 `kv_rank`，即潜在向量的宽度；`x` 是 `t` 个新 token；`n` 是 token 的总数。
#
# ```text
#   x (B, t, E)
#   ├─ q_proj ────────────── q (B, H, t, nope + rope)
#   │                                    │      └─ 按位置旋转
#   │                                    └──────── 与 W_UK c 相乘：(B, H, n, nope)
#   └─ kv_a_proj_with_mqa ─ (B, t, R + rope)
#                                  │    └─ 旋转：所有头共用一个键 (B, t, rope) ────────┐
#                                  └─ kv_a_layernorm：潜在向量 c (B, t, R) ────────────┴─ 存入缓存
#
#   kv_b_proj.weight (H * (nope + value), R)：每个头先是 W_UK (nope, R)，再是 W_UV (value, R)
# ```
#
# 有 `q_rank` 时，查询也先经过一段窄的通道：`q_a_proj`、`q_a_layernorm`、`q_b_proj`。
# 这样可以节省训练时的激活内存；它们都不进缓存。
#
# **手算一遍。** 两个 token，潜在向量有 2 个数，键只有 1 维，一个查询：
#
# ```pycon
# >>> latents = torch.tensor([[1.0, 2.0], [3.0, 0.0]])
# >>> w_uk, q = torch.tensor([[1.0, -1.0]]), torch.tensor([[2.0]])
# >>> keys = latents @ w_uk.T
# >>> keys.tolist(), (q @ keys.T).tolist()
# ([[-1.0], [3.0]], [[-2.0, 6.0]])
# >>> absorbed = q @ w_uk
# >>> absorbed.tolist(), (absorbed @ latents.T).tolist()
# ([[2.0, -2.0]], [[-2.0, 6.0]])
# ```
#
# 再按 DeepSeek-V3 的尺寸算字节数：128 个头，每个头的键有 128 + 64 维，值有 128 维；
# 与之相比，潜在向量只有一个，512 维，旋转的键也只有一个，64 维。
#
# ```pycon
# >>> cache = LatentCache(1, 1000, 512, 64, dtype=torch.bfloat16)
# >>> cache.nbytes
# 1152000
# >>> round(1000 * 128 * (128 + 64 + 128) * 2 / cache.nbytes, 1)
# 71.1
# ```
#
# **陷阱。**
#
# - `kv_b_proj` 是逐头排列的：键、值、键、值。不是先放全部的键，再放全部的值。
# - `kv_a_proj_with_mqa` 的输出前面是潜在向量，后面是旋转的键。
# - 缩放要用键的全部维数 `nope_dim + rope_dim`；吸收算法也一样，虽然那里相乘的向量宽度是 `R`。
# - 潜在向量在存入缓存之前归一化，之后不再归一化；旋转的键在存入缓存之前旋转，之后不再旋转。
# - 位置从 `cache.length` 接着数，而 append 会改变它：要在 append 之前读取。
# - 吸收算法的分数有两项。少了第二项，就没有位置信息。
# - 值不旋转，潜在向量也不旋转。
# - RoPE 有两种配对方式。这里第 `2i` 维与第 `2i + 1` 维配对（interleaved，交错）；
#   带有 `rotate_half` 的代码则让第 `i` 维与第 `i + rope_dim / 2` 维配对。
# - 角度至少用 float32 计算，float64 的层用 float64。bfloat16 连 257 都数不到。
#   如果用角度表，文本有多长，表就要有多长，而长度事先并不知道。
#
# **评分内容。** 两种算法用 float32 与基准对比，有无 `q_rank` 都测，尺寸从 1 到 1024 以上；
# 带缓存时任意大小的分块，直到装满，位置直到 5000；缓存里的内容、字节数、dtype、设备和行为；
# 吸收算法不把潜在向量展开成键和值，一次处理整段文本时也不展开；任意大小的分数；
# 每次调用都重新读取 `x`、权重和缓存，并且不改动 `x`；参数的名字；没有缓存时的梯度。
# float64 的精度、半精度、空的 batch，各有单独的一项检查。
# 另有 3 分给速度：上下文长度 2048 时，用吸收算法每步处理一个 token。
# **不在范围内：** 填充掩码、为更长上下文缩放的 RoPE（YaRN）、带着缓存做训练。
# **不允许：** PyTorch 的融合算子和注意力模块，还有它的 RMSNorm，自己写只要四行。约 90 分钟。

# %%
import math

import torch
from torch import nn

# %% [markdown] tags=["en"]
# ## Task 1: the cache
#
# Two buffers, `latents` `(B, max_len, R)` and `k_ropes` `(B, max_len, rope_dim)`, with no axis for
# heads: that is the whole saving. `append` writes behind what is there and returns views of the
# filled part. `length` counts the tokens; `nbytes` says what both buffers take.
#
# The checks read both buffers: all that is kept of a token must lie there and nowhere else, in
# memory that is taken once. If a layer kept expanded keys for the next step, they would again be
# the large cache.
#
# What does not fit is refused before anything is written: too many tokens, or a shape that is not
# the cache's own, which PyTorch might otherwise broadcast without an error.

# %% [markdown] tags=["zh"]
# ## 任务 1：缓存
#
# 两个缓冲区：`latents` 的形状是 `(B, max_len, R)`，`k_ropes` 的形状是 `(B, max_len, rope_dim)`，
# 都没有头这个轴，节省就在这里。`append` 接在已有内容后面写入，返回已填部分的视图。
# `length` 是 token 的个数，`nbytes` 是两个缓冲区一共占用的字节数。
#
# 检查会读这两个缓冲区：每个 token 保存的东西都在这里，别处没有，内存也只申请一次。
# 如果某个层把展开的键留到下一步再用，那又变回了原来的大缓存。
#
# 放不进来的输入，在写入之前就要拒绝：token 太多，或者形状与缓存不同。
# 后一种情况 PyTorch 可能不声不响地广播。


# %%
class LatentCache:
    """The latents and rotary keys of the tokens so far, in memory that is taken once.

    All that is kept of a token lies in `latents` and `k_ropes`, and is read there at every call.

    latents  (batch, max_len, kv_rank), of which the first `length` places are filled
    k_ropes  (batch, max_len, rope_dim), likewise
    length   how many tokens are in the cache
    nbytes   the bytes of both buffers, filled or not
    """

    latents: torch.Tensor
    k_ropes: torch.Tensor
    length: int
    nbytes: int

    def __init__(
        self,
        batch: int,
        max_len: int,
        kv_rank: int,
        rope_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        """Take the memory for `max_len` latents (batch, kv_rank) and keys (batch, rope_dim).

        Both buffers are in `dtype` and on `device`.
        """
        ### BEGIN SOLUTION
        self.latents = torch.zeros(batch, max_len, kv_rank, dtype=dtype, device=device)
        self.k_ropes = torch.zeros(batch, max_len, rope_dim, dtype=dtype, device=device)
        self.length = 0
        self.nbytes = self.latents.nbytes + self.k_ropes.nbytes
        ### END SOLUTION

    def append(
        self, latent: torch.Tensor, k_rope: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy the latents and rotary keys of t new tokens in, and return all so far.

        The caller may change `latent` and `k_rope` afterwards. They may be strided, in
        another dtype than the cache, or of no tokens.

        latent  (B, t, kv_rank), the sizes being those of the cache
        k_rope  (B, t, rope_dim), with the t of latent
        returns latents (B, length, kv_rank) and rotary keys (B, length, rope_dim), in the dtype of
                the cache
        raises  ValueError if either has another shape (with the number that differs and the right
                one), or if t tokens more do not fit (with the length that would be needed and
                max_len); either way the cache stays as it was
        """
        ### BEGIN SOLUTION
        t = latent.shape[1]
        pairs = (("latent", latent, self.latents), ("k_rope", k_rope, self.k_ropes))
        for name, new, buffer in pairs:
            right = (buffer.shape[0], t, buffer.shape[2])
            if new.shape != right:
                raise ValueError(f"{name} is {tuple(new.shape)}, but this cache takes {right}")
        end, max_len = self.length + t, self.latents.shape[1]
        if end > max_len:
            raise ValueError(f"{self.length} tokens and {t} more make {end}, over {max_len}")
        for _, new, buffer in pairs:
            buffer[:, self.length : end] = new
        self.length = end
        return self.latents[:, :end], self.k_ropes[:, :end]
        ### END SOLUTION

    def reset(self) -> None:
        """Empty the cache, so that the next append begins at position 0, in the same memory."""
        ### BEGIN SOLUTION
        self.length = 0
        ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: the layer
#
# You need two things that are no exercise here and that you write yourself, outside the class or
# inside: an RMSNorm with one `weight`,
#
# $$y = w \cdot \frac{x}{\sqrt{\text{mean}(x^2) + 10^{-6}}}$$
#
# and interleaved RoPE, which turns the pair $(x_{2i}, x_{2i+1})$ at position $p$ by the angle
# $p \cdot base^{-2i / d}$ with $d$ = `rope_dim`:
#
# $$(a, b) \mapsto (a \cos - b \sin,\; a \sin + b \cos)$$
#
# Then write the naive way, and make it right. Only after that write the absorbed way beside it:
# both get the same queries, latents and rotary keys, and return `(B, H, t, value_dim)`, so you can
# compare them. `kv_b_proj.weight.unflatten(0, (num_heads, -1))` shows the weights
# head by head, `(H, nope + value, R)`.
#
# In half precision a mean of squares and a score may lie beyond float16: compute the norm and the
# softmax, with the scores that go into it, in float32.

# %% [markdown] tags=["zh"]
# ## 任务 2：层
#
# 有两样东西不单独出题，写在类里类外都可以。一是只有一个 `weight` 的 RMSNorm：
#
# $$y = w \cdot \frac{x}{\sqrt{\text{mean}(x^2) + 10^{-6}}}$$
#
# 二是交错配对的 RoPE：在位置 $p$，把 $(x_{2i}, x_{2i+1})$ 旋转角度 $p \cdot base^{-2i / d}$，
# 其中 $d$ 是 `rope_dim`：
#
# $$(a, b) \mapsto (a \cos - b \sin,\; a \sin + b \cos)$$
#
# 然后先写朴素算法，写对为止，再在旁边写吸收算法：两者的输入都是查询、潜在向量和旋转的键，
# 都返回 `(B, H, t, value_dim)`，正好互相检验。
# `kv_b_proj.weight.unflatten(0, (num_heads, -1))` 把权重逐头排开：`(H, nope + value, R)`。
#
# 半精度时，平方的均值和分数都可能超出 float16 的范围：归一化、分数和 softmax 都用 float32 计算。


# %%
### BEGIN SOLUTION
class _RMSNorm(nn.Module):
    """`weight * x / sqrt(mean(x**2) + eps)`, computed in float32 at least."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = _widened(x)
        size = torch.sqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (self.weight * (wide / size)).to(x.dtype)


def _widened(x: torch.Tensor) -> torch.Tensor:
    """Half precision in float32; float32 and float64 as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _rotated(x: torch.Tensor, start: int, base: float) -> torch.Tensor:
    """x (..., t, d) with interleaved RoPE, its first token at position `start`."""
    t, width = x.shape[-2:]
    wide = _widened(x)
    places = torch.arange(0, width, 2, dtype=wide.dtype, device=x.device)
    positions = torch.arange(start, start + t, dtype=wide.dtype, device=x.device)
    angles = positions[:, None] * base ** (-places / width)  # (t, d/2)
    a, b = wide[..., 0::2], wide[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


def _causal_weights(scores: torch.Tensor) -> torch.Tensor:
    """The softmax over the keys that the last t of n positions may see: scores (..., t, n)."""
    t, n = scores.shape[-2:]
    if t > 1:  # a single new token may see everything
        positions = torch.arange(n - t, n, device=scores.device)[:, None]  # (t, 1)
        hidden = torch.arange(n, device=scores.device) > positions  # (t, n)
        scores = scores.masked_fill(hidden, -torch.inf)
    return torch.softmax(scores, dim=-1)


def _naive(
    q_nope: torch.Tensor,
    q_rope: torch.Tensor,
    latents: torch.Tensor,
    k_ropes: torch.Tensor,
    kv_b_proj: nn.Linear,
) -> torch.Tensor:
    """Keys and values of every head from the latents, then attention as ever."""
    heads, nope = q_nope.shape[1], q_nope.shape[-1]
    expanded = kv_b_proj(latents).unflatten(-1, (heads, -1)).transpose(1, 2)
    k_nope, v = expanded.tensor_split([nope], dim=-1)  # (B, H, n, nope), (B, H, n, value)
    shared = k_ropes[:, None].expand(-1, heads, -1, -1)  # (B, H, n, rope)
    q, k = torch.cat([q_nope, q_rope], dim=-1), torch.cat([k_nope, shared], dim=-1)
    scores = _widened(q) @ _widened(k).mT / math.sqrt(q.shape[-1])  # (B, H, t, n)
    return _causal_weights(scores) @ _widened(v)  # (B, H, t, value)


def _absorbed(
    q_nope: torch.Tensor,
    q_rope: torch.Tensor,
    latents: torch.Tensor,
    k_ropes: torch.Tensor,
    kv_b_proj: nn.Linear,
) -> torch.Tensor:
    """The key matrix goes into the query, the value matrix into the output."""
    (heads, t, nope), rope = q_nope.shape[1:], q_rope.shape[-1]
    per_head = _widened(kv_b_proj.weight).unflatten(0, (heads, -1))  # (H, nope + value, R)
    w_uk, w_uv = per_head.tensor_split([nope], dim=1)  # (H, nope, R), (H, value, R)
    latents, k_ropes = _widened(latents), _widened(k_ropes)
    # All heads read the same latents, so heads and tokens are the rows of one product:
    # nothing of length n is copied for each head.
    q_latent = (_widened(q_nope) @ w_uk).flatten(1, 2)  # (B, H*t, R)
    scores = q_latent @ latents.mT + _widened(q_rope).flatten(1, 2) @ k_ropes.mT  # (B, H*t, n)
    scores = scores.unflatten(1, (heads, t)) / math.sqrt(nope + rope)  # (B, H, t, n)
    mixed = _causal_weights(scores).flatten(1, 2) @ latents  # (B, H*t, R)
    return mixed.unflatten(1, (heads, t)) @ w_uv.mT  # (B, H, t, value)


### END SOLUTION


class MultiHeadLatentAttention(nn.Module):
    """Causal self-attention whose keys and values are made from one latent per token.

    Scores, softmax, norms and angles are computed in float32 for half precision, and in float64 for
    float64. Results between these steps may be rounded to the dtype of x or not.

    q_proj              nn.Linear(d_model, H * (nope_dim + rope_dim)); only without `q_rank`
    q_a_proj            nn.Linear(d_model, q_rank); this and the next two only with `q_rank`
    q_a_layernorm       RMSNorm with `weight` (q_rank,)
    q_b_proj            nn.Linear(q_rank, H * (nope_dim + rope_dim))
    kv_a_proj_with_mqa  nn.Linear(d_model, kv_rank + rope_dim)
    kv_a_layernorm      RMSNorm with `weight` (kv_rank,)
    kv_b_proj           nn.Linear(kv_rank, H * (nope_dim + value_dim)): of each head key, then value
    o_proj              nn.Linear(H * value_dim, d_model)

    No bias anywhere, and nothing else in the state dict. The layer keeps nothing from one call to
    the next: the weights may change between two calls, in .train() and in .eval().
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        nope_dim: int,
        rope_dim: int,
        value_dim: int,
        kv_rank: int,
        q_rank: int | None = None,
        rope_base: float = 10000.0,
    ) -> None:
        """Create the projections and the norms.

        raises  ValueError naming `rope_dim` if it is odd
        """
        super().__init__()
        ### BEGIN SOLUTION
        if rope_dim % 2:
            raise ValueError(f"rope_dim is {rope_dim}: its places are turned in pairs")
        self.num_heads, self.rope_base = num_heads, rope_base
        self.key_widths = nope_dim, rope_dim
        width = num_heads * (nope_dim + rope_dim)
        if q_rank is None:
            self.q_proj = nn.Linear(d_model, width, bias=False)
        else:
            self.q_a_proj = nn.Linear(d_model, q_rank, bias=False)
            self.q_a_layernorm = _RMSNorm(q_rank)
            self.q_b_proj = nn.Linear(q_rank, width, bias=False)
        self.q_rank, self.kv_rank = q_rank, kv_rank
        self.kv_a_proj_with_mqa = nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = _RMSNorm(kv_rank)
        self.kv_b_proj = nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = nn.Linear(num_heads * value_dim, d_model, bias=False)
        ### END SOLUTION

    def forward(
        self, x: torch.Tensor, cache: LatentCache | None = None, absorbed: bool = False
    ) -> torch.Tensor:
        """Attend from the new tokens to all tokens so far, themselves among them.

        Without a cache gradients reach x and every parameter, both ways; with one, the weights may
        need gradients as well, and the answer is the same. Later tokens have no influence on
        earlier ones, nor on their gradients, and scores may have any size.

        x         (B, t, E), the t new tokens; left as it is. B may be 0, and x strided
        cache     None: x is the whole text, its first token at position 0. Otherwise the first
                  token of x is at position `cache.length`, the latents and rotary keys of x are
                  appended, and x attends to everything that lies in the cache, which has its
                  dtype. If the cache refuses them, its
                  ValueError is raised, and nothing changes
        absorbed  never expand the latents to keys and values; the answer is the same
        returns   the output (B, t, E)
        """
        ### BEGIN SOLUTION
        nope, rope = self.key_widths
        start = 0 if cache is None else cache.length
        if self.q_rank is None:
            q = self.q_proj(x)
        else:
            q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        q = q.unflatten(-1, (self.num_heads, nope + rope)).transpose(1, 2)  # (B, H, t, nope+rope)
        q_nope, q_rope = q.split([nope, rope], dim=-1)
        latents, k_ropes = self.kv_a_proj_with_mqa(x).split([self.kv_rank, rope], dim=-1)
        latents = self.kv_a_layernorm(latents)  # (B, t, R)
        q_rope, k_ropes = (_rotated(part, start, self.rope_base) for part in (q_rope, k_ropes))
        if cache is not None:
            latents, k_ropes = cache.append(latents, k_ropes)  # (B, n, R), (B, n, rope)
        attend = _absorbed if absorbed else _naive
        heads = attend(q_nope, q_rope, latents, k_ropes, self.kv_b_proj)  # (B, H, t, value)
        return self.o_proj(heads.to(x.dtype).transpose(1, 2).flatten(2))  # (B, t, E)
        ### END SOLUTION
