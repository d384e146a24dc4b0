# %% [markdown] tags=["en"]
# # Multi-query and grouped-query attention
#
# **The question.** In attention a query is compared with keys, and the answer is a mixture of the
# values that belong to them; several heads do this side by side. A model that writes text one token
# at a time keeps the keys and values of everything it has read, so as not to compute them again.
# With keys and values for every head, a handful of long conversations take up more memory than the
# model itself, and every new token has to read all of it. Does each query head need keys and values
# of its own?
#
# It does not. Several query heads can share one key/value head and still ask different questions,
# because their queries differ. Let there be `H` query heads and `Hk` key/value heads:
#
# | key/value heads | name | where |
# |---|---|---|
# | `Hk = H` | multi-head attention (MHA) | the original Transformer |
# | `1 < Hk < H` | grouped-query attention (GQA) | most language models of today |
# | `Hk = 1` | multi-query attention (MQA) | Shazeer 2019, where the idea began |
#
# **The formula.** With `G = H / Hk` query heads to a group, query head `h` reads key/value head
# `h // G`:
#
# $$o_h = \text{softmax}\!\left(\frac{q_h\, k_{g(h)}^\top}{\sqrt{D}}\right) v_{g(h)}
# \qquad g(h) = \lfloor h / G \rfloor$$
#
# **The shapes.** Four query heads on two key/value heads. Groups are *consecutive*:
#
# ```text
#  query heads         key/value heads            repeat_kv(k, 2), head by head
#  (B, H, Lq, D)       (B, Hk, Lk, D)             (B, H, Lk, D)
#
#    q0 ──┐                                         k0
#         ├────────────── k0, v0                    k0
#    q1 ──┘                                         k1
#    q2 ──┐                                         k1
#         ├────────────── k1, v1
#    q3 ──┘                                  (never k0 k1 k0 k1)
# ```
#
# For the word `down` of *the cat sat down* (the picture), query heads 0 and 1 read the same keys
# and still attend differently: head 0 gives 0.34 to `the`, head 1 gives 0.55 to `down` itself. The
# queries differ, and that is enough.
#
# **By hand.** Two key/value heads, two keys each. When a query is zero, all its scores are equal,
# so its output is the mean of the values. Head 0 holds the values 1 and 3, head 1 holds 10 and 30;
# query heads 0 and 1 must answer 2, query heads 2 and 3 must answer 20:
#
# ```pycon
# >>> v = torch.tensor([[[[1.0], [3.0]], [[10.0], [30.0]]]])  # (B, Hk, Lk, Dv) = (1, 2, 2, 1)
# >>> repeat_kv(v, 2).squeeze().tolist()
# [[1.0, 3.0], [1.0, 3.0], [10.0, 30.0], [10.0, 30.0]]
# >>> grouped_query_attention(torch.zeros(1, 4, 1, 1), torch.ones(1, 2, 2, 1), v).squeeze().tolist()
# [2.0, 2.0, 20.0, 20.0]
# ```
#
# What is saved? Take 80 layers, heads 128 wide, 8192 tokens in bfloat16, and count GiB, once with a
# key/value head for each of 64 query heads and once with 8 key/value heads:
#
# ```pycon
# >>> [kv_cache_bytes(1, heads, 8192, 128, torch.bfloat16, 80) / 2**30 for heads in (64, 8)]
# [20.0, 2.5]
# ```
#
# **The traps.**
#
# - The order. `repeat` lays out `k0 k1 k0 k1`, `repeat_interleave` lays out `k0 k0 k1 k1`. The
#   shapes are the same and nothing complains, but weights trained with one order are useless with
#   the other. With `Hk = 1` or `Hk = H` the two agree, so testing only these proves nothing.
# - The axis. Repeated along the length instead of the heads, every key is merely there twice.
# - The copy. Repeating K and V before attention brings back the very memory that sharing has saved.
#   A view made with `expand` costs nothing by itself, but a matrix product that has to broadcast
#   over it writes the copy after all, without a word.
# - The cache. It holds `Hk` heads. If you repeat the keys before you store them, you save nothing.
# - The scale. It comes from the width of one head, `D`, which sharing does not change.
# - The mask. `keep` (True = may attend) speaks of `H` query heads, not of `Hk`: two query heads of
#   a group share their keys, not their mask. A query with nothing to attend to gets zeros.
#
# **What is graded.** Values for `Hk` from 1 to `H`, with masks of every shape that broadcasts to
# `(B, H, Lq, Lk)`; gradients; the errors; that the past of `step` is not repeated and may be
# continued twice, and that steps of any size agree with one call; the size of the cache. There are
# separate checks for queries that see no key and hidden keys, for half precision and float64, and
# for empty and strided inputs. Memory is measured, not time: the peak of one call of
# `grouped_query_attention` on a long context. **Out of scope:** preallocated caches (an exercise of
# their own), and how a trained multi-head model is turned into a grouped one. **Not allowed:**
# PyTorch's fused attention and its attention modules. About 60 minutes.

# %% [markdown] tags=["zh"]
# # 多查询注意力与分组查询注意力
#
# **问题。** 注意力拿查询和键作比较，输出是这些键对应的值的混合；多个头并排做这件事。逐个 token
# 生成文本的模型会保留已读内容的键和值，免得重新计算。如果每个头都有自己的键和值，
# 几段长对话占的内存就会超过模型本身，而且每生成一个 token 都要把它们全部读一遍。
# 每个查询头真的需要自己的键和值吗？
#
# 不需要。几个查询头可以共用一个键/值头（下称 KV 头），照样各问各的，因为它们的查询不同。设有 `H`
# 个查询头和 `Hk` 个 KV 头：
#
# | KV 头数 | 名称 | 用在哪里 |
# |---|---|---|
# | `Hk = H` | 多头注意力（MHA） | 最初的 Transformer |
# | `1 < Hk < H` | 分组查询注意力（GQA） | 如今的大多数语言模型 |
# | `Hk = 1` | 多查询注意力（MQA） | Shazeer 2019，这个想法的起点 |
#
# **公式。** 每组 `G = H / Hk` 个查询头，查询头 `h` 读 KV 头 `h // G`：
#
# $$o_h = \text{softmax}\!\left(\frac{q_h\, k_{g(h)}^\top}{\sqrt{D}}\right) v_{g(h)}
# \qquad g(h) = \lfloor h / G \rfloor$$
#
# **形状。** 四个查询头，两个 KV 头。每组由*连续的*头组成：
#
# ```text
#  查询头              KV 头                      repeat_kv(k, 2)，逐头列出
#  (B, H, Lq, D)       (B, Hk, Lk, D)             (B, H, Lk, D)
#
#    q0 ──┐                                         k0
#         ├────────────── k0, v0                    k0
#    q1 ──┘                                         k1
#    q2 ──┐                                         k1
#         ├────────────── k1, v1
#    q3 ──┘                                 （绝不是 k0 k1 k0 k1）
# ```
#
# 对 *the cat sat down* 里的 `down`（见图），查询头 0 和 1 读的是同样的键，关注的地方却不同：
# 头 0 给 `the` 0.34，头 1 给 `down` 自己 0.55。查询不同，这就够了。
#
# **手算。** 两个 KV 头，每个头两个键。查询为零时，所有分数相等，输出就是值的平均。头 0 的值是 1 和
# 3，头 1 的值是 10 和 30；查询头 0 和 1 必须得 2，查询头 2 和 3 必须得 20：
#
# ```pycon
# >>> v = torch.tensor([[[[1.0], [3.0]], [[10.0], [30.0]]]])  # (B, Hk, Lk, Dv) = (1, 2, 2, 1)
# >>> repeat_kv(v, 2).squeeze().tolist()
# [[1.0, 3.0], [1.0, 3.0], [10.0, 30.0], [10.0, 30.0]]
# >>> grouped_query_attention(torch.zeros(1, 4, 1, 1), torch.ones(1, 2, 2, 1), v).squeeze().tolist()
# [2.0, 2.0, 20.0, 20.0]
# ```
#
# 能省多少？取 80 层、头宽 128、8192 个 token、bfloat16，以 GiB 计；先算 64 个查询头各有一个 KV 头，
# 再算总共 8 个 KV 头：
#
# ```pycon
# >>> [kv_cache_bytes(1, heads, 8192, 128, torch.bfloat16, 80) / 2**30 for heads in (64, 8)]
# [20.0, 2.5]
# ```
#
# **陷阱。**
#
# - 顺序。`repeat` 排成 `k0 k1 k0 k1`，`repeat_interleave` 排成 `k0 k0 k1 k1`。形状相同，
#   也没有任何报错，但按一种顺序训练的权重换成另一种顺序就废了。`Hk = 1` 或 `Hk = H` 时两者一致，
#   所以只测这两种情况什么也证明不了。
# - 轴。如果沿长度而不是沿头重复，只是让每个键出现多次。
# - 拷贝。在注意力之前重复 K 和 V，共享省下的内存又全占回来了。用 `expand` 得到的视图本身不占内存，
#   但矩阵乘法一旦要在它上面广播，还是会悄悄写出这份拷贝。
# - 缓存。它存 `Hk` 个头。先重复键再存，就什么也没省。
# - 缩放。它由单个头的宽度 `D` 决定，共享不改变它。
# - 掩码。`keep`（True = 可以看）对应 `H` 个查询头，而不是 `Hk` 个：同组的两个查询头共用键，
#   不共用掩码。什么都看不到的查询得零。
#
# **评分内容。** `Hk` 从 1 到 `H` 的数值，包括能广播到 `(B, H, Lq, Lk)` 的各种形状的掩码；
# 另有单独的检查：什么键都看不到的查询和被遮住的键，半精度和 float64，空的和不连续的输入；
# 梯度；报错；`step` 的 past 没有被重复，可以从同一个 past 接着生成两次，
# 任意大小的步与一次调用结果一致；缓存的大小。不测时间，测内存：在长上下文上调用一次
# `grouped_query_attention` 的峰值内存。**不涉及：** 预分配的缓存（另有一题），
# 以及怎样把训练好的多头模型改成分组的。**不允许：** PyTorch 的融合注意力和注意力模块。约 60 分钟。

# %%
import math

import torch
from torch import nn

# %% [markdown] tags=["en"]
# ## Task 1: repeat the heads
#
# The plain way to share is to give every query head a copy of the key/value head that it reads, and
# then to run ordinary multi-head attention. This function makes the copies, in the right order. It
# is the definition against which every thriftier version can be tested.

# %% [markdown] tags=["zh"]
# ## 任务 1：重复头
#
# 共享最直白的做法：把每个查询头要读的 KV 头拷贝一份给它，然后做普通的多头注意力。
# 这个函数按正确的顺序做这些拷贝。它就是定义，任何更省的写法都可以拿它来对照测试。


# %%
def repeat_kv(x: torch.Tensor, n: int) -> torch.Tensor:
    """Repeat every key/value head `n` times, the copies next to each other.

    x       keys or values (..., Hk, L, D), of any dtype; not changed
    n       how many query heads read each key/value head, at least 1
    returns (..., Hk*n, L, D); head h of the result is head h // n of `x`

    Any size may be 1 or large; all but n may be 0. Gradients flow to `x`.
    """
    ### BEGIN SOLUTION
    return x.repeat_interleave(n, dim=-3)  # (..., Hk*n, L, D)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: attention without the copies
#
# Every query row is on its own: it is scored against the keys, softmaxed and mixed without regard
# to the other rows. So to a key/value head it makes no difference whether a row belongs to another
# query *position* or to another query *head*. Put the `G` heads of a group below each other, as if
# they were one head with `G` times as many rows:
#
# ```text
#  q (B, H, Lq, D)                    (B, Hk, G*Lq, D)                 k (B, Hk, Lk, D)
#
#  q0 ▒▒▒                             ▒▒▒
#  q1 ▓▓▓     consecutive heads       ▓▓▓  rows of q0, then of q1  ──  k0
#  q2 ░░░     make up one group       ░░░
#  q3 ███                             ███  rows of q2, then of q3  ──  k1
# ```
#
# Now both sides have `Hk` heads, and K and V are used exactly as they came. Attention as usual
# gives `(B, Hk, G*Lq, Dv)`; at the end the groups are taken apart again. A mask has a row for each
# query row, so it takes the same way.
#
# Scale, mask and softmax are those of every attention: `1/sqrt(D)`, hidden keys get weight exactly
# 0, a row that sees nothing gets zeros, and half precision is computed in float32.

# %% [markdown] tags=["zh"]
# ## 任务 2：不拷贝的注意力
#
# 每个查询行都是独立的：它与键算分数、做 softmax、混合值，都与其他行无关。所以对 KV 头来说，
# 一行来自另一个查询*位置*还是另一个查询*头*，没有区别。把一组的 `G` 个头上下叠起来，当作一个行数为
# `G` 倍的头：
#
# ```text
#  q (B, H, Lq, D)                    (B, Hk, G*Lq, D)                 k (B, Hk, Lk, D)
#
#  q0 ▒▒▒                             ▒▒▒
#  q1 ▓▓▓     连续的头                ▓▓▓  先 q0 的行，后 q1 的行  ──  k0
#  q2 ░░░     组成一组                ░░░
#  q3 ███                             ███  先 q2 的行，后 q3 的行  ──  k1
# ```
#
# 现在两边都是 `Hk` 个头，K 和 V 原样使用。照常做注意力，得到 `(B, Hk, G*Lq, Dv)`；最后再把组拆开。
# 掩码的每一行对应一个查询行，所以照同样的方式处理。
#
# 缩放、掩码和 softmax 与任何注意力相同：缩放是 `1/sqrt(D)`；被遮住的键权重恰好为 0；
# 什么都看不到的行得零；半精度用 float32 计算。


# %%
### BEGIN SOLUTION
def _fold_groups(x: torch.Tensor, num_kv_heads: int) -> torch.Tensor:
    """Put the query heads of a group below each other: (..., H, Lq, n) -> (..., Hk, G*Lq, n)."""
    return x.unflatten(-3, (num_kv_heads, -1)).flatten(-3, -2)


def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None
) -> torch.Tensor:
    """Ordinary attention: q (..., R, D), k (..., Lk, D), v (..., Lk, Dv), keep (..., R, Lk)."""
    scores = q / math.sqrt(q.shape[-1]) @ k.mT  # (..., R, Lk)
    if keep is None:
        return torch.softmax(scores, -1) @ v  # (..., R, Dv)
    # The softmax of a row of nothing but -inf is nan. `where` selects and does not multiply, so
    # that nan reaches neither the output nor, on the way back, the gradient.
    weights = torch.softmax(torch.where(keep, scores, -torch.inf), -1)  # (..., R, Lk)
    return torch.where(keep.any(-1, keepdim=True), weights, 0.0) @ v


### END SOLUTION


def grouped_query_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """Attend with H query heads to Hk key/value heads, without copies of the keys and values.

    q       (..., H, Lq, D)
    k, v    (..., Hk, Lk, D) and (..., Hk, Lk, Dv); query head h reads key/value head h // (H // Hk)
    keep    None, or bool that broadcasts to (..., H, Lq, Lk); True = may attend
    returns (..., H, Lq, Dv) in the dtype of `q`; zeros for a query that may attend to nothing
    raises  ValueError naming both numbers if H is not divisible by Hk

    The scale is 1/sqrt(D). float16 and bfloat16 are computed in float32 and converted back at the
    end; float64 is computed in float64. Scores may be very large or very low: if all products of
    queries and keys, before the scale and the mask, fit the dtype that is computed in, nothing
    overflows, and weights lose no digits. Hidden keys and values have no influence, even at 1e30,
    nor has NaN in a key on the output of a query from which it is hidden. Gradients flow to q, k
    and v in every dtype and, of finite inputs, are never NaN. There may be any number of leading
    dimensions, batch and Lq may be 0, tensors may be strided or expanded, and everything is
    computed on their device. The function changes neither its inputs nor tensors that it returned
    earlier.
    """
    ### BEGIN SOLUTION
    (num_heads, q_len), (num_kv_heads, k_len) = q.shape[-3:-1], k.shape[-3:-1]
    if num_heads % num_kv_heads:
        raise ValueError(
            f"{num_heads} query heads cannot share {num_kv_heads} key/value heads evenly"
        )
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    if keep is not None:
        keep = keep.expand(*keep.shape[:-3], num_heads, q_len, k_len)  # (..., H, Lq, Lk)
        keep = _fold_groups(keep, num_kv_heads)  # (..., Hk, G*Lq, Lk)
    output = _attention(_fold_groups(q, num_kv_heads), k, v, keep)  # (..., Hk, G*Lq, Dv)
    groups = output.unflatten(-2, (num_heads // num_kv_heads, q_len))  # (..., Hk, G, Lq, Dv)
    return groups.flatten(-4, -3).to(dtype)  # (..., H, Lq, Dv)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 3: the layer
#
# Four projections stand around the attention. `w_q` and `w_o` are as wide as ever; `w_k` and `w_v`
# map `E` to `Hk*D` only, so the layer has fewer weights as well. The width of a head is still
# `D = E / H`.
#
# `forward` sees a whole sequence at once, and `keep` says who may look where. `step` is for
# generating text: it takes the next `t` tokens and the past, and no token may look ahead. The past
# is a tuple of keys and values, `(B, Hk, n, D)` each, that grows by `t` with every step. Token `i`
# of the new ones stands at position `n + i`: it sees the `n` keys of the past and the first `i + 1`
# of the new.
#
# ```text
#  past: 3 keys, 2 new tokens         keys
#                                 0  1  2  3  4
#                  new token 0    x  x  x  x  .
#                  new token 1    x  x  x  x  x
# ```

# %% [markdown] tags=["zh"]
# ## 任务 3：层
#
# 注意力前后有四个投影。`w_q` 和 `w_o` 的宽度照旧；`w_k` 和 `w_v` 只把 `E` 映射到 `Hk*D`，
# 所以这一层的权重也更少。头宽仍是 `D = E / H`。
#
# `forward` 一次看到整个序列，谁能看哪里由 `keep` 规定。`step` 用于生成文本：它接收接下来的 `t` 个
# token 和 past，任何 token 都不能往后看。past 是键和值的元组，形状各为 `(B, Hk, n, D)`，每一步增长
# `t`。新 token `i` 位于位置 `n + i`：它能看到 past 的 `n` 个键，以及新键中的前 `i + 1` 个。
#
# ```text
#  past：3 个键，2 个新 token         键
#                                 0  1  2  3  4
#                   新 token 0    x  x  x  x  .
#                   新 token 1    x  x  x  x  x
# ```


# %%
### BEGIN SOLUTION
def _split_heads(x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """(..., L, heads*D) -> (..., heads, L, D)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


def _merge_heads(x: torch.Tensor) -> torch.Tensor:
    """(..., H, L, D) -> (..., L, H*D)."""
    return x.transpose(-3, -2).flatten(-2)


### END SOLUTION


class GroupedQueryAttention(nn.Module):
    """Self-attention in which groups of query heads share a key/value head.

    Parameters: `w_q` Linear(E, E), `w_k` and `w_v` Linear(E, Hk*D), `w_o` Linear(E, E). Attention
    in it keeps all that `grouped_query_attention` promises of half precision, of very large and
    very low scores, of hidden keys and of queries that may attend to nothing. The layer does the
    same in .train() and in .eval(), its answers do not depend on earlier calls (the past is an
    argument), and it works in the dtype and on the device of its parameters.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, bias: bool = False) -> None:
        """Create the projections w_q, w_k, w_v and w_o, those of keys and values narrower.

        d_model       the width E of the tokens
        num_heads     H; d_model must be divisible by it, else ValueError naming both numbers
        num_kv_heads  Hk; num_heads must be divisible by it, else ValueError naming both numbers
        bias          whether the four projections have a bias
        """
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model} is not divisible by num_heads {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(
                f"num_heads {num_heads} is not divisible by num_kv_heads {num_kv_heads}"
            )
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        kv_width = d_model // num_heads * num_kv_heads  # Hk*D
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, kv_width, bias=bias)
        self.w_v = nn.Linear(d_model, kv_width, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        """Attend from every token of x to the tokens of x that keep allows.

        x       (B, L, E); B may be 0
        keep    None, or bool that broadcasts to (B, H, L, L); True = may attend
        returns (B, L, E), in the dtype of x; gradients flow to x and to every weight and bias
        """
        ### BEGIN SOLUTION
        q = _split_heads(self.w_q(x), self.num_heads)  # (B, H, L, D)
        k = _split_heads(self.w_k(x), self.num_kv_heads)  # (B, Hk, L, D)
        v = _split_heads(self.w_v(x), self.num_kv_heads)  # (B, Hk, L, D)
        return self.w_o(_merge_heads(grouped_query_attention(q, k, v, keep)))  # (B, L, E)
        ### END SOLUTION

    def step(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """Attend from the next tokens to the past and, causally, to each other; return both.

        x       the next tokens (B, t, E)
        past    None, or (keys, values) as an earlier step returned them, (B, Hk, n, D) each; it
                stays as it was, and may be continued more than once
        returns (output, past): output (B, t, E); keys and values (B, Hk, n+t, D), not repeated,
                in the dtype of x; gradients flow through both
        """
        ### BEGIN SOLUTION
        q = _split_heads(self.w_q(x), self.num_heads)  # (B, H, t, D)
        k = _split_heads(self.w_k(x), self.num_kv_heads)  # (B, Hk, t, D)
        v = _split_heads(self.w_v(x), self.num_kv_heads)  # (B, Hk, t, D)
        if past is not None:
            k = torch.cat([past[0], k], dim=-2)  # (B, Hk, n+t, D)
            v = torch.cat([past[1], v], dim=-2)  # (B, Hk, n+t, D)
        q_len, k_len = q.shape[-2], k.shape[-2]
        keep = torch.ones(q_len, k_len, dtype=torch.bool, device=x.device).tril(k_len - q_len)
        output = grouped_query_attention(q, k, v, keep)  # (B, H, t, D)
        return self.w_o(_merge_heads(output)), (k, v)
        ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 4: what the cache weighs
#
# Count the numbers that the cache of a whole model holds, keys and values together, in every layer,
# and multiply by the bytes of one number. The number of query heads does not appear: only `Hk`
# counts, and that is the point of the exercise.

# %% [markdown] tags=["zh"]
# ## 任务 4：缓存有多大
#
# 数出整个模型的缓存存了多少个数，每一层的键和值都算上，再乘以每个数的字节数。算式里没有查询头数：
# 只有 `Hk` 起作用，这正是这道题的要点。


# %%
def kv_cache_bytes(
    batch: int, num_kv_heads: int, length: int, head_dim: int, dtype: torch.dtype, layers: int
) -> int:
    """Count the bytes that the keys and values of all layers take up together.

    dtype   any torch dtype, such as torch.bfloat16 or torch.int8
    returns an int; 0 where a size is 0
    """
    ### BEGIN SOLUTION
    return 2 * layers * batch * num_kv_heads * length * head_dim * dtype.itemsize
    ### END SOLUTION
