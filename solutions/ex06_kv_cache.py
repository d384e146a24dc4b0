# %% [markdown] tags=["en"]
# # The key/value cache
#
# **The question.** A language model writes one token at a time, and each new token attends to all
# the tokens before it. Computed from scratch, every step projects the whole text again and attends
# from every position again, only to keep the last row. Which results of earlier steps can be kept,
# and how do we keep them without copying them at every step?
#
# **The formula.** In causal attention the output at position $i$ needs its own query, but the keys
# and values of every position up to $i$:
#
# $$o_i = \text{softmax}\left(\frac{q_i\, [k_0 \dots k_i]^\top}{\sqrt{D}}\right) [v_0 \dots v_i]$$
#
# A key or a value is a projection of the vector at its own position. In a causal model that vector
# depends on nothing later, so a new token never changes it: keys and values are worth keeping. Old
# queries are not, because no later step uses them. At position 4096 one new row of scores replaces
# 4096 rows. These have 2,048 entries on average and the new row has 4096, so there are about 2,000
# times fewer dot products.
#
# **The shapes.** There are `n` tokens in all: the last `t` are new, the `n - t` before them are
# old. Most often `t = 1` (*decode*); when a whole prompt comes at once, `t` is its length
# (*prefill*). Here, 2 new tokens after 3 old ones:
#
# ```text
#                         old        new
#                     k0  k1  k2 │ k3  k4
#   q (B, H, 2, D) 0   x   x   x │  x   .      query 0 sits at position 3
#                  1   x   x   x │  x   x      query 1 sits at position 4
#                                      keys (B, H, n = 5, D)
# ```
#
# Query `i` sits at position `i + n - t`: the triangle of the causal mask ends in the
# *bottom-right* corner of the table.
#
# The simplest cache concatenates. Each new key makes it copy all `n` old ones: for a text
# of 4096 tokens, eight million rows in all. A preallocated cache takes its memory once, writes each
# new row at the first free place, and hands out the part that is filled:
#
# ```text
#   keys (B, H, max_len, D)   ┌────┬────┬────┬────┬────┬────┬────┬────┐
#                             │ k0 │ k1 │ k2 │ k3 │    │    │    │    │   max_len = 8
#                             └────┴────┴────┴────┴────┴────┴────┴────┘
#                                                  ^ length = 4: the next key goes here
# ```
#
# When a model writes *the cat sat down* (the picture), `down` brings one query, one key and one
# value. The keys and values of the three words before it are in the cache, and one row of weights
# is new: `down` gives 0.23 to `cat`.
#
# **By hand.** A query of zero has the same score with every key, so its output is the average of
# the values that it may see. Here the values 2 and 4 come one after the other, then both in one
# call:
#
# ```pycon
# >>> zero = torch.zeros(1, 1)
# >>> output, past = attend_with_past(zero, zero, torch.tensor([[2.0]]))
# >>> output.tolist()
# [[2.0]]
# >>> output, past = attend_with_past(zero, zero, torch.tensor([[4.0]]), past)
# >>> output.tolist()
# [[3.0]]
# >>> both = torch.zeros(2, 1)
# >>> attend_with_past(both, both, torch.tensor([[2.0], [4.0]]))[0].tolist()
# [[2.0], [3.0]]
# ```
#
# Token by token, in chunks, or all at once: the outputs must be the same.
#
# **The traps.**
#
# - A causal mask aligned at the top left. With `t = 1` it lets the new token see only `k0`.
# - Attending to the whole buffer instead of its filled part. A zero key has the score 0, not
#   minus infinity, so the empty places take weight away from the real ones.
# - `length` moves by `t`, not by 1, and only after the write.
# - Overflow. With `max_len = 8`, the slice in `keys[:, :, 8:9] = k` is empty. Nothing is written,
#   and PyTorch raises no error: the token is lost. Check before you write, so that a refused
#   call leaves the cache as it was.
# - Broadcasting also copies a `k` of batch 1 into every batch entry of a larger cache, without an
#   error.
# - If you create the buffers in the class body or as a default argument, all caches share them.
# - Decoding without `torch.no_grad()`: the buffer keeps the autograd graph of every token.
#
# **What is graded.** Values; chunks of every size against full recomputation, and two continuations
# of one past; later tokens have no influence, even if the other scores are very low or the later
# tokens very large; the cache takes its memory once, is right after overflow and after reset, and
# shares nothing with a second cache; gradients where no cache takes part; for one point float64,
# computed in float64, and half precision, computed in float32; for another point empty batches and
# calls without new tokens; and, for 3 of the points, the speed of one-token steps at a context of
# 4096. **Out of scope:** padding masks, rotary positions, fewer key heads than query heads (the
# next exercise), and training through a cache. **Not allowed:** PyTorch's fused operator and its
# attention modules. About 60 minutes.

# %% [markdown] tags=["zh"]
# # KV 缓存
#
# **问题。** 语言模型一次生成一个 token，每个新 token 都要关注它之前的所有 token。
# 如果每一步都从头算，就要把整段文本重新投影一遍，对每个位置重新做一遍注意力，
# 而要的只是最后一行。上一步的结果里哪些可以留下？怎样留下，才不必搬来搬去地复制？
#
# **公式。** 在因果注意力里，位置 $i$ 的输出只需要自己的查询，
# 但需要位置 $i$ 以及之前所有位置的键和值：
#
# $$o_i = \text{softmax}\left(\frac{q_i\, [k_0 \dots k_i]^\top}{\sqrt{D}}\right) [v_0 \dots v_i]$$
#
# 键和值都是所在位置那个向量的投影。在因果模型里，这个向量不依赖后面的任何内容，
# 新 token 不会改变它：所以键和值应该留下。旧的查询不必留，再也没有人用到它们。
# 到了位置 4096，只算一行新分数，不必算 4096 行；那些行平均有 2048 个分数，新的一行有 4096 个，
# 所以点积约为原来的 1/2000。
#
# **形状。** `n - t` 个旧 token 之后来了 `t` 个新 token。多数时候 `t = 1`（**解码**）；
# 整段提示一次送入时，`t` 就是它的长度（**预填充**）。下图是 3 个旧 token 之后来了 2 个新的：
#
# ```text
#                         旧         新
#                     k0  k1  k2 │ k3  k4
#   q (B, H, 2, D) 0   x   x   x │  x   .      查询 0 位于位置 3
#                  1   x   x   x │  x   x      查询 1 位于位置 4
#                                      键 (B, H, n = 5, D)
# ```
#
# 查询 `i` 位于位置 `i + n - t`：三角形被推到了**右下**角。
#
# 最简单的缓存靠拼接。从 `n` 个键变成 `n + 1` 个，就要复制 `n` 个；
# 一段 4096 个 token 的文本写下来，一共复制了八百万行。预分配的缓存只申请一次内存，
# 把每个新行写到第一个空位，返回已经填好的部分：
#
# ```text
#   键 (B, H, max_len, D)     ┌────┬────┬────┬────┬────┬────┬────┬────┐
#                             │ k0 │ k1 │ k2 │ k3 │    │    │    │    │   max_len = 8
#                             └────┴────┴────┴────┴────┴────┴────┴────┘
#                                                  ^ length = 4：下一个键写在这里
# ```
#
# 模型写 *the cat sat down* 时（见图），`down` 只带来一个查询、一个键和一个值。前面三个词的键和值
# 已经在缓存里，新的只有一行权重：`down` 给 `cat` 0.23。
#
# **手算一遍。** 查询为零时，所有分数都相等，输出就是看得见的那些值的平均。
# 值是 2 和 4，先一个接一个地算，再一次算完：
#
# ```pycon
# >>> zero = torch.zeros(1, 1)
# >>> output, past = attend_with_past(zero, zero, torch.tensor([[2.0]]))
# >>> output.tolist()
# [[2.0]]
# >>> output, past = attend_with_past(zero, zero, torch.tensor([[4.0]]), past)
# >>> output.tolist()
# [[3.0]]
# >>> both = torch.zeros(2, 1)
# >>> attend_with_past(both, both, torch.tensor([[2.0], [4.0]]))[0].tolist()
# [[2.0], [3.0]]
# ```
#
# 逐个 token、分块、一次算完：答案必须相同。要检验的就是这一点。
#
# **陷阱。**
#
# - 左上对齐的因果掩码。`t = 1` 时，新 token 只能看到 `k0`。
# - 返回整个缓冲区，而不是已填的部分。全零的键分数是 0，不是负无穷，
#   所以空位会从真正的键那里分走权重。
# - `length` 每次加 `t`，不是加 1，而且写完之后才加。
# - 写不下。`max_len = 8` 时，`keys[:, :, 8:9] = k` 把一个 token 写进长度为零的切片，
#   PyTorch 并不报错：这个 token 就无声无息地丢了。写之前先检查，
#   这样被拒绝的调用不会改动缓存。
# - 同一条广播规则，还会把 batch 为 1 的输入复制到更大缓存的每一行。
# - 缓冲区属于类，或者是默认参数，结果所有缓存共用一份。
# - 解码要在 `torch.no_grad()` 下进行。否则缓冲区会一直保留每个 token 的计算图。
#
# **评分内容。** 数值；各种大小的分块与完整重算对比，以及同一个 past 的两种续写；
# 不管分数多低、token 多大，后面的 token 都不产生影响；缓存的内存和状态：内存只申请一次，
# 写不下之后、reset 之后、另有一个缓存时都正确；没有缓存参与时的梯度；
# float64 的有效数字和半精度占一分；空 batch 和没有新 token 的调用占一分；
# 另有 3 分给速度：上下文长度 4096 时，每步一个 token。**不在范围内：** 填充掩码、旋转位置编码、
# 键的头数少于查询的头数（下一题），以及带着缓存做训练。
# **不允许：** PyTorch 的融合算子和它的注意力模块。约 60 分钟。

# %%
import math

import torch
from torch import nn

# %% [markdown] tags=["en"]
# ## Task 1: the past as a tuple
#
# This is the form that interviews ask for. The function keeps nothing: it takes the past, a tuple
# of all keys and all values so far, and returns a longer one. New keys go to the end of the length
# axis, which is the last but one. It takes any leading dimensions, `(B, H, t, D)` as well as `(t,
# D)`.
#
# In half precision the scores and the sum of their exponentials belong in float32: the dot product
# of two vectors filled with 256 is already too large for float16. And mind the alignment: new token
# `i` stands at position `n - t + i` and sees everything up to itself. A single new token sees all
# there is, so in decode there is nothing to mask.

# %% [markdown] tags=["zh"]
# ## 任务 1：用元组保存 past
#
# 面试里要写的就是这种形式。函数自己什么都不保存：它接收 `past`，
# 也就是由到目前为止所有键和所有值组成的元组，返回一个更长的。
# 新键接在长度轴的末尾，长度轴是倒数第二个轴。前导维任意，
# `(B, H, t, D)` 和 `(t, D)` 都可以。
#
# 半精度时，分数以及指数之和要用 float32：两个全是 256 的向量，点积就已经超出 float16 的范围。
# 还要注意对齐：新 token `i` 位于位置 `n - t + i`，能看到自己和之前的一切。
# 只有一个新 token 时，它全都能看到，所以解码时没有什么要遮。


# %%
### BEGIN SOLUTION
def _causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attend from the last t of n positions: q (..., t, D), k (..., n, D), v (..., n, Dv)."""
    dtype, (t, n) = q.dtype, (q.shape[-2], k.shape[-2])
    wide = torch.promote_types(dtype, torch.float32)
    q, k, v = q.to(wide) / math.sqrt(q.shape[-1]), k.to(wide), v.to(wide)
    scores = q @ k.mT  # (..., t, n)
    if t > 1:  # a single new token may see everything
        positions = torch.arange(n - t, n, device=q.device)[:, None]  # (t, 1)
        keep = torch.arange(n, device=q.device) <= positions  # (t, n)
        scores = scores.masked_fill(~keep, -torch.inf)
    return (torch.softmax(scores, dim=-1) @ v).to(dtype)  # (..., t, Dv)


### END SOLUTION


def attend_with_past(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Attend causally to the past and the new tokens; return the output and the longer past.

    q       (..., t, D), the queries of the t new tokens; t, and any leading dimension, may be 0
    k, v    (..., t, D) and (..., t, Dv), their keys and values
    past    None, or the keys (..., n - t, D) and values (..., n - t, Dv) of all tokens before;
            one past may have several continuations
    returns the output (..., t, Dv), and the past of the next call: keys (..., n, D) and values
            (..., n, Dv), all in the dtype and on the device of the inputs. Inputs stay
            unchanged; they may be non-contiguous, or made by `expand`; gradients flow to all

    New token i sees the tokens up to position n - t + i. Later ones have no influence: their
    scores are -inf. If you only add -10,000 or -1e9, a key of 1e30 is still seen. Half precision is
    computed in float32, where 256 * 256 does not overflow; float64 is computed in float64. Scores
    may be very large or very low: if all products of queries and keys, before the scale and the
    mask, fit the dtype that is computed in, nothing overflows, and weights lose no digits.
    """
    ### BEGIN SOLUTION
    if past is not None:
        k = torch.cat([past[0], k], dim=-2)  # (..., n, D)
        v = torch.cat([past[1], v], dim=-2)  # (..., n, Dv)
    return _causal_attention(q, k, v), (k, v)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: the preallocated cache
#
# Two buffers of `(B, H, max_len, D)`, `keys` and `values`, and a number, `length`, that says how
# much of them is filled. The buffers are part of what is graded: they stay where they are. `append`
# writes the new rows and returns *views* of the filled part, so that nothing old is copied. `reset`
# forgets everything; it need not erase anything, for what lies beyond `length` is never read.
#
# The cache refuses what does not fit, before it writes: too many tokens, or a batch, a number of
# heads or a width other than its own.

# %% [markdown] tags=["zh"]
# ## 任务 2：预分配的缓存
#
# 两个 `(B, H, max_len, D)` 的缓冲区 `keys` 和 `values`，加上一个数 `length`，表示已经填了多少。
# 缓冲区的位置始终不变：
# `append` 写入新行，返回已填部分的**视图**，所以旧内容不会被复制。
# `reset` 丢掉全部内容；它什么都不必擦除，因为 `length` 之后的内容永远不会被读到。
#
# 放不进来的输入，缓存要在写入之前就拒绝：token 太多，或者 batch、头数、宽度与自己的不同。


# %%
class KVCache:
    """The keys and values of the tokens so far, in memory that is taken once.

    keys    the memory of the keys, (B, H, max_len, D), in the dtype and on the device of the cache.
            append writes into it and returns what lies there; it stays where it is, whatever is
            called. Every cache has memory of its own
    values  the same for the values
    length  how many tokens are in the cache, an int
    """

    keys: torch.Tensor
    values: torch.Tensor
    length: int

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        """Take the memory for `max_len` keys and values of (batch, num_heads, head_dim) each.

        dtype   of the memory; `append` converts what it gets to this dtype
        device  where the memory is; None means PyTorch's default device
        """
        ### BEGIN SOLUTION
        shape = (batch, num_heads, max_len, head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.length = 0
        ### END SOLUTION

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy the keys and values of t new tokens in, and return all so far.

        k, v    (B, H, t, D), the sizes B, H and D being those of the cache; t or B may be 0. They
                are copied: to change them later changes nothing in the cache
        returns keys and values, (B, H, length, D) each: what now lies in the filled part of the
                memory, if t is 0 too; views of it, or copies
        raises  ValueError if k or v has a wrong shape (the message names this shape and the right
                one; v needs the t of k), or if t more tokens do not fit (it names length + t and
                max_len); either way the cache stays as it was
        """
        ### BEGIN SOLUTION
        batch, num_heads, max_len, head_dim = self.keys.shape
        right = (batch, num_heads, k.shape[-2], head_dim)
        for name, new in (("k", k), ("v", v)):
            if new.shape != right:
                raise ValueError(f"{name} is {tuple(new.shape)}, but this cache takes {right}")
        start, end = self.length, self.length + k.shape[-2]
        if end > max_len:
            raise ValueError(f"{start} tokens and {end - start} more make {end}, over {max_len}")
        self.keys[:, :, start:end] = k
        self.values[:, :, start:end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]
        ### END SOLUTION

    def reset(self) -> None:
        """Empty the cache, so that the next append begins at position 0 of the same memory."""
        ### BEGIN SOLUTION
        self.length = 0
        ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 3: a layer that uses it
#
# Causal multi-head self-attention with four projections, `w_q`, `w_k`, `w_v` and `w_o`. Project
# the new tokens and split them into heads; with a cache, append the keys and values and take those
# that `append` returns, old and new; attend to them with the mask of task 1 (do not concatenate
# again); merge the heads and project. Head `h` takes the numbers `h * D` to `(h + 1) * D - 1` of
# the projected vector, with `D = d_model / num_heads`.
#
# The cache belongs to the caller: the layer keeps no reference to it, and can serve two texts in
# turn with a cache for each.

# %% [markdown] tags=["zh"]
# ## 任务 3：使用缓存的层
#
# 因果多头自注意力，有四个投影：`w_q`、`w_k`、`w_v` 和 `w_o`。先投影新 token，再拆成多个头；
# 有缓存时，把键和值追加进去，接着用 `append` 返回的全部键和值（旧的和新的）；
# 用任务 1 的掩码对它们做注意力，不要再拼接一次；合并各头，再做投影。
# 头 `h` 是投影后向量中的第 `h` 段，每段是连续的 `D = E / H` 个数。
#
# 缓存属于调用者：层不保留对它的引用。给两段文本各配一个缓存，同一个层就能轮流处理它们。


# %%
class CachedAttention(nn.Module):
    """Causal multi-head self-attention whose keys and values may live in a `KVCache`.

    w_q, w_k, w_v, w_o   nn.Linear(d_model, d_model), each with a bias if `bias`, else without

    What `attend_with_past` says of later tokens and of dtypes is true here as well. The layer does
    the same in training and in evaluation, and keeps no reference to a cache.
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        """Create the four projections.

        raises  ValueError if `d_model` is not divisible by `num_heads`, naming both numbers
        """
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads:
            raise ValueError(f"a width of {d_model} does not divide into {num_heads} heads")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        """Attend from the new tokens to all tokens so far, themselves among them.

        x       (B, t, E), the t new tokens, E = d_model; x may be non-contiguous and stays as it
                is; B or t may be 0
        cache   None: x is the whole text. Otherwise the keys and values of x are appended to it,
                and x attends to everything in it. If they do not fit, the ValueError of
                `append` is raised, and the cache stays as it was
        returns the output (B, t, E) in the dtype of x; a cache in another dtype rounds keys and
                values, and nothing else. Without a cache, gradients flow to x and to the
                parameters
        """
        ### BEGIN SOLUTION
        q, k, v = (
            w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, H, t, D)
            for w in (self.w_q, self.w_k, self.w_v)
        )
        if cache is not None:
            k, v = cache.append(k, v)  # (B, H, n, D)
        heads = _causal_attention(q, k, v)  # (B, H, t, D)
        return self.w_o(heads.transpose(1, 2).flatten(2))  # (B, t, E)
        ### END SOLUTION
