# %% [markdown] tags=["en"]
# # Multi-head attention
#
# **The question.** One attention gives each word one set of weights, and they sum to one. But a
# word may need several things at once: a verb wants its subject *and* its object, and averaging
# the two into one vector loses which was which. How can a word look for several things at the same
# time, without a larger model?
#
# **The formula.** Cut the width `E` into `H` slices of `D = E / H` numbers, the *heads*. Each head
# attends by itself; the results are laid side by side again and mixed by one last matrix.
#
# $$\text{head}_h = \text{softmax}\!\left(\frac{q_h k_h^\top}{\sqrt{D}}\right) v_h
# \qquad \text{output} = [\,\text{head}_1 \mid \dots \mid \text{head}_H\,]\; W_o$$
#
# Here $q_h$, $k_h$ and $v_h$ are slice $h$ of $x W_q$, $c\,W_k$ and $c\,W_v$. In *self-attention*
# the source $c$ of the keys and values is $x$ itself. In *cross-attention* it is another sequence,
# the *context*: a translation that reads the original, an image that reads its caption.
#
# **The shapes.** Heads are treated as batch items are: they stand before the last two axes, and
# one matrix product serves them all.
#
# ```text
# x       (B, Lq, E) ─ w_q ─> (B, Lq, E) ─ split ─> q (B, H, Lq, D) ─┐
# context (B, Lk, E) ─ w_k ─> (B, Lk, E) ─ split ─> k (B, H, Lk, D) ─┴─> weights (B, H, Lq, Lk)
# context (B, Lk, E) ─ w_v ─> (B, Lk, E) ─ split ─> v (B, H, Lk, D) ──────┐   │
#                                                                         └─┬─┘
# output  (B, Lq, E) <─ w_o ─ (B, Lq, E) <───────────── merge ─ (B, H, Lq, D)
# ```
#
# Splitting takes two steps, a cut and a swap. Two tokens of width 4, two heads:
#
# ```text
#   (L, E) = (2, 4)           (L, H, D) = (2, 2, 2)            (H, L, D) = (2, 2, 2)
#
# token 0 │ 0 1 2 3 │  cut   token 0 │ 0 1 │ 2 3 │  swap   head 0 │ 0 1 │   head 1 │ 2 3 │
# token 1 │ 4 5 6 7 │ ────>  token 1 │ 4 5 │ 6 7 │ ────>          │ 4 5 │          │ 6 7 │
# ```
#
# Two heads read *the cat sat down* in two ways (the picture): in head 0 `sat` gives 0.81 to itself,
# in head 1 it gives 0.68 to `cat`. One head of the full width would have to choose one mixture.
#
# **By hand.** The same numbers, and then what comes out when the swap is forgotten. Both have the
# same shape, but in the second, head 0 holds the whole of token 0 and has never seen token 1:
#
# ```pycon
# >>> x = torch.arange(8).reshape(1, 2, 4)
# >>> split_heads(x, num_heads=2).tolist()
# [[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]
# >>> x.reshape(1, 2, 2, 2).tolist()
# [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]]
# ```
#
# Now a whole attention with two heads of width 1, where every matrix is the identity and
# `sqrt(D)` is 1. The query `[0, ln 3]` meets the keys `[0, 0]` and `[1, 1]`. Head 0 computes the
# scores `0, 0` and mixes half and half. Head 1 computes `0, ln 3` and mixes one to three:
#
# ```pycon
# >>> query = np.array([[[0.0, np.log(3.0)]]])
# >>> key = np.array([[[0.0, 0.0], [1.0, 1.0]]])
# >>> value = np.array([[[0.0, 0.0], [4.0, 4.0]]])
# >>> one = np.eye(2)
# >>> output, weights = multi_head_attention_numpy(query, key, value, one, one, one, one, 2)
# >>> weights.round(6).tolist()
# [[[[0.5, 0.5]], [[0.25, 0.75]]]]
# >>> output.round(6).tolist()
# [[[2.0, 3.0]]]
# ```
#
# One query, two tokens, two different mixtures of them. That is what heads are for.
#
# **The traps.**
#
# - Cut, *then* swap; to merge, swap back, *then* join. A reshape straight from `(B, L, E)` to
#   `(B, H, L, D)` succeeds and shuffles tokens among the heads.
# - `tensor.view` refuses a tensor whose axes were swapped, since its numbers no longer lie in that
#   order in memory. `reshape` copies where it must. Spell the last size out as `H * D`: with an
#   empty batch, `-1` could be anything and is an error.
# - The scale is `1 / sqrt(D)`, the width of a *head*. A score is a sum of `D` products, not `E`.
# - Queries come from `x`, keys *and* values from the context. With equal lengths no error is raised
#   if you mix them up.
# - Masks are `keep` (True = may attend) and broadcast to `(B, H, Lq, Lk)` from the right. In a mask
#   `(B, Lq, Lk)`, one for each batch item, `B` lines up with `H`, and if the two are equal no
#   error is raised. The caller must write `keep[:, None]`.
# - Hidden tokens must have no influence, however large their numbers are. *Replace* a hidden score
#   by `-inf`: a score of `1e30` still wins after `1e9` is subtracted from it. (NaN is another
#   matter: `0 * nan` is `nan` in `weights @ v`, here as in PyTorch's own operator, so the caller
#   must clear NaN in padding.)
# - `W_o` is needed. Without it, each number of the output comes from a single head, and nothing
#   mixes the heads.
#
# **What is graded.** Splitting and merging, a width that does not divide; values of self- and
# cross-attention in float32, masks that broadcast, numbers up to 1e30 in hidden tokens; gradients.
# There are separate checks for queries that may attend to nothing (weights 0, never NaN) and large
# scores; for half precision; for the dtype of the results and float64, computed in float64; for
# empty batches; and for inputs, which may have any layout and must not change. Nothing may be
# remembered from call to call. **Out of scope:** NaN or infinity in hidden tokens, dropout,
# positions, fewer key heads than query heads (ex07), speed. **Not allowed:** PyTorch's fused
# operator and its attention modules, and any of PyTorch in `multi_head_attention_numpy`; elsewhere
# `torch.softmax` is fine. The exercise stands alone: bring your attention from ex03 along, or write
# it again. About 50 minutes.

# %% [markdown] tags=["zh"]
# # 多头注意力
#
# **问题。** 一个注意力给每个词一组权重，和为 1。但一个词可能同时需要几样东西：
# 动词既要找主语，**又**要找宾语，把两者平均成一个向量，就分不清哪个是哪个了。
# 怎样让一个词同时找几样东西，又不用更大的模型？
#
# **公式。** 把宽度 `E` 切成 `H` 段，每段 `D = E / H` 个数，这就是**头**（head）。
# 每个头各自做注意力；结果再并排拼起来，由最后一个矩阵混合。
#
# $$\text{head}_h = \text{softmax}\!\left(\frac{q_h k_h^\top}{\sqrt{D}}\right) v_h
# \qquad \text{output} = [\,\text{head}_1 \mid \dots \mid \text{head}_H\,]\; W_o$$
#
# 其中 $q_h$、$k_h$、$v_h$ 分别是 $x W_q$、$c\,W_k$、$c\,W_v$ 的第 $h$ 段。
# 在**自注意力**（self-attention）里，键和值的来源 $c$ 就是 $x$ 本身。
# 在**交叉注意力**（cross-attention）里，它是另一个序列，即**上下文**（context）：译文读原文，
# 图像读它的文字说明。
#
# **形状。** 头和 batch 中的样本一样对待：排在最后两个轴之前，一次矩阵乘法算完所有的头。
#
# ```text
# x       (B, Lq, E) ─ w_q ─> (B, Lq, E) ─ split ─> q (B, H, Lq, D) ─┐
# context (B, Lk, E) ─ w_k ─> (B, Lk, E) ─ split ─> k (B, H, Lk, D) ─┴─> weights (B, H, Lq, Lk)
# context (B, Lk, E) ─ w_v ─> (B, Lk, E) ─ split ─> v (B, H, Lk, D) ──────┐   │
#                                                                         └─┬─┘
# output  (B, Lq, E) <─ w_o ─ (B, Lq, E) <───────────── merge ─ (B, H, Lq, D)
# ```
#
# 拆分分两步：切开（cut），交换（swap）。两个宽度为 4 的 token，两个头：
#
# ```text
#   (L, E) = (2, 4)           (L, H, D) = (2, 2, 2)            (H, L, D) = (2, 2, 2)
#
# token 0 │ 0 1 2 3 │  cut   token 0 │ 0 1 │ 2 3 │  swap   head 0 │ 0 1 │   head 1 │ 2 3 │
# token 1 │ 4 5 6 7 │ ────>  token 1 │ 4 5 │ 6 7 │ ────>          │ 4 5 │          │ 6 7 │
# ```
#
# 两个头用两种方式读 *the cat sat down*（见图）：在头 0 里 `sat` 把 0.81 给自己，在头 1 里把 0.68 给
# `cat`。只有一个整宽的头，就只能选一种混合。
#
# **手算。** 还是这些数，再看忘了交换会得到什么。两者形状相同，但后者的头 0 装着整个 token 0，
# 从没见过 token 1：
#
# ```pycon
# >>> x = torch.arange(8).reshape(1, 2, 4)
# >>> split_heads(x, num_heads=2).tolist()
# [[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]
# >>> x.reshape(1, 2, 2, 2).tolist()
# [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]]
# ```
#
# 再算一个完整的注意力：两个宽度为 1 的头，矩阵全是单位矩阵，`sqrt(D)` 是 1。查询 `[0, ln 3]` 遇到键
# `[0, 0]` 和 `[1, 1]`。头 0 算出分数 `0, 0`，按一比一混合。头 1 算出 `0, ln 3`，按一比三混合：
#
# ```pycon
# >>> query = np.array([[[0.0, np.log(3.0)]]])
# >>> key = np.array([[[0.0, 0.0], [1.0, 1.0]]])
# >>> value = np.array([[[0.0, 0.0], [4.0, 4.0]]])
# >>> one = np.eye(2)
# >>> output, weights = multi_head_attention_numpy(query, key, value, one, one, one, one, 2)
# >>> weights.round(6).tolist()
# [[[[0.5, 0.5]], [[0.25, 0.75]]]]
# >>> output.round(6).tolist()
# [[[2.0, 3.0]]]
# ```
#
# 一个查询，两个 token，两种不同的混合。头就是为此而设的。
#
# **陷阱。**
#
# - 先切开，**再**交换；合并时先交换回来，**再**拼接。从 `(B, L, E)` 直接 reshape 成 `(B, H, L, D)`
#   不会报错，却把 token 打乱到各个头里。
# - 轴交换过的张量，`tensor.view` 不接受，因为数在内存里不再按这个顺序排列。`reshape`
#   会在必要时复制。最后一维要写明 `H * D`：batch 为空时 `-1` 可以是任何数，会报错。
# - 缩放因子是 `1 / sqrt(D)`，`D` 是一个**头**的宽度。一个分数是 `D` 个乘积之和，不是 `E` 个。
# - 查询来自 `x`，键**和**值都来自上下文。长度相等时，弄混了也不会报错。
# - 掩码是 `keep`（True = 可以看），从最右边的轴对齐，广播到 `(B, H, Lq, Lk)`。如果掩码是
#   `(B, Lq, Lk)`，每个样本一张，`B` 就会落到 `H` 上，两者恰好相等时不会报错。应由调用者写成
#   `keep[:, None]`。
# - 被遮住的 token，数值再大也不能有影响。把被遮住的分数**替换**成 `-inf`：`1e30` 的分数减去
#   `1e9` 照样胜出。（NaN 是另一回事：`weights @ v` 里的 `0 * nan` 是 `nan`，这里如此，PyTorch
#   自带的算子也如此，所以填充里的 NaN 要由调用者清除。）
# - `W_o` 不能省。没有它，输出的每个数都只来自一个头，各个头不会混合。
#
# **评分内容。** 拆分与合并，除不尽的宽度；float32 下自注意力和交叉注意力的数值，需要广播的掩码，
# 被遮住的 token 里大到 1e30 的数；梯度。另有单独的检查：空行，即什么都看不到的行（权重为 0，
# 绝不是 NaN），和很大的分数；半精度；结果的 dtype，以及用 float64 计算的 float64；空的 batch；
# 输入可以是任意内存布局，不得修改；两次调用之间不得记住任何东西。
# **不涉及：** 被遮住的 token 里的 NaN 或无穷大，dropout，位置编码，键的头少于查询的头（ex07），
# 速度。
# **不允许：** PyTorch 的融合算子和注意力模块；`multi_head_attention_numpy` 里不能用 PyTorch，
# 别处 `torch.softmax` 可以用。
# 本题可以独立完成：把 ex03 写的注意力搬过来，或者重写一遍。约 50 分钟。

# %%
import math

import numpy as np
import torch
from torch import nn


# %% [markdown] tags=["en"]
# ## Task 1: split the heads
#
# First cut the last axis into `(H, D)`, then swap the length and the heads. Head `h` owns the
# numbers `h * D` to `(h + 1) * D` of every token. A width that cannot be cut evenly is an error,
# and the message names both numbers. Arrays and tensors both have `reshape` and `swapaxes`; write
# it with these two, and the same function serves in Task 3.

# %% [markdown] tags=["zh"]
# ## 任务 1：拆分成头
#
# 先把最后一个轴切成 `(H, D)`，再交换长度和头。头 `h` 得到每个 token 的 `[h * D : (h + 1) * D]`
# 这一段。切不均匀的宽度要报错，信息里写出两个数。数组和张量都有 `reshape` 和 `swapaxes`；
# 只用这两个来写，同一个函数在任务 3 里也能用。


# %%
def split_heads(x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Cut the width of every token into heads: (B, L, E) -> (B, H, L, D).

    x          tensor (B, L, E), whose width E is H * D; any dtype and layout, B may be 0
    num_heads  H, the number of heads
    returns    tensor (B, H, L, D); head h holds the numbers h*D to (h+1)*D of each token
    raises     ValueError, naming both numbers, if `num_heads` does not divide E

    `x` is left as it is, its dtype and device are kept, and gradients flow.
    """
    ### BEGIN SOLUTION
    batch, length, width = x.shape
    if width % num_heads:
        raise ValueError(f"a width of {width} cannot be cut into {num_heads} equal heads")
    x = x.reshape(batch, length, num_heads, width // num_heads)  # (B, L, H, D)
    return x.swapaxes(1, 2)  # (B, H, L, D)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: merge them again
#
# The same way back: swap, then join `(H, D)` to one axis. `merge_heads(split_heads(x, H))` is `x`.

# %% [markdown] tags=["zh"]
# ## 任务 2：再合并回去
#
# 原路返回：先交换，再把 `(H, D)` 拼成一个轴。`merge_heads(split_heads(x, H))` 就是 `x`。


# %%
def merge_heads(x: torch.Tensor) -> torch.Tensor:
    """Lay the heads of every token side by side again: (B, H, L, D) -> (B, L, E).

    x        tensor (B, H, L, D); any dtype and layout, B may be 0
    returns  tensor (B, L, H * D), the inverse of `split_heads`

    `x` is left as it is, its dtype and device are kept, and gradients flow.
    """
    ### BEGIN SOLUTION
    x = x.swapaxes(1, 2)  # (B, L, H, D)
    batch, length, num_heads, head_dim = x.shape
    return x.reshape(batch, length, num_heads * head_dim)  # (B, L, E)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 3: multi-head attention in NumPy
#
# Project, split, attend, merge, project: each step is one line of the picture above. The matrices
# are plain, so a projection is `x @ w`. Compute `float16` in `float32` and round at the end.
#
# Attention itself is that of ex03, for heads are one more leading axis to it: scores, mask, softmax
# over the keys, mixture. Think again about a query that may attend to nothing: the maximum of its
# row is `-inf`, and `-inf - -inf` is NaN; its sum is 0, and `0 / 0` is NaN.

# %% [markdown] tags=["zh"]
# ## 任务 3：用 NumPy 写完整流程
#
# 投影、拆分、注意力、合并、再投影：每一步都对应上图的一行。矩阵就是普通矩阵，投影是 `x @ w`。
# `float16` 用 `float32` 计算，最后舍入回去。
#
# 注意力本身与 ex03 的相同，头对它来说只是多了一个前导维：分数、掩码、沿键做 softmax、混合。
# 再想一想空行：它的最大值是 `-inf`，而 `-inf - -inf` 是 NaN；它的和是 0，而 `0 / 0` 是 NaN。


# %%
def multi_head_attention_numpy(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    w_q: np.ndarray,
    w_k: np.ndarray,
    w_v: np.ndarray,
    w_o: np.ndarray,
    num_heads: int,
    keep: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Attend with several heads at once, in NumPy, and return (output, weights).

    query               array (B, Lq, E), float16, float32 or float64; B may be 0
    key, value          arrays (B, Lk, E)
    w_q, w_k, w_v, w_o  matrices (E, E); a projection is `x @ w`
    num_heads           H, a divisor of E
    keep                bool array that broadcasts to (B, H, Lq, Lk), True = may attend
    returns             output (B, Lq, E) and weights (B, H, Lq, Lk), in the dtype of `query`;
                        both are 0 in a row that may attend to nothing
    raises              ValueError, naming both numbers, if `num_heads` does not divide E

    Each head divides its scores by sqrt(D). Hidden keys get weight 0, even if they and their values
    hold 1e30. Scores may be hundreds apart, and as low as -1e32. float16 is computed in float32
    (products of 256 by 256 do not overflow, and scores are not rounded to float16), and float64 is
    computed in float64. Arrays may have any layout and stay as they were; nothing is remembered
    from one call to the next.
    """
    ### BEGIN SOLUTION
    dtype = np.float32 if query.dtype == np.float16 else query.dtype
    q = split_heads(query.astype(dtype) @ w_q.astype(dtype), num_heads)  # (B, H, Lq, D)
    k = split_heads(key.astype(dtype) @ w_k.astype(dtype), num_heads)  # (B, H, Lk, D)
    v = split_heads(value.astype(dtype) @ w_v.astype(dtype), num_heads)  # (B, H, Lk, D)

    scores = q @ k.swapaxes(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, Lq, Lk)
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    top = scores.max(-1, keepdims=True)  # (B, H, Lq, 1); -inf in a row that sees nothing
    powers = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = powers.sum(-1, keepdims=True)  # 0 in a row that sees nothing
    weights = powers / np.where(total == 0, 1, total)

    output = merge_heads(weights @ v) @ w_o.astype(dtype)  # (B, Lq, E)
    return output.astype(query.dtype), weights.astype(query.dtype)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 4: as a PyTorch module
#
# The same again, with four `nn.Linear` layers that can learn. `nn.Linear` keeps its matrix
# transposed and may add a bias; call the layer and you need not think of either. The names `w_q`,
# `w_k`, `w_v` and `w_o` matter, for the grader loads its own weights into them.
#
# In half precision a product of two numbers around 256 already exceeds what float16 can hold, so
# compute scores, weights and their mixture in float32, and return to the input's dtype before
# `w_o`.
#
# A row that may attend to nothing gets weights 0, so `w_o` receives zeros and returns its bias, if
# it has one. `torch.softmax` makes NaN of a row of nothing but `-inf`, on the way forward and on
# the way back. So give such a row harmless scores *before* softmax, and set its weights to zero
# after.

# %% [markdown] tags=["zh"]
# ## 任务 4：写成 PyTorch 模块
#
# 同样的流程，换成四个可学习的 `nn.Linear`。`nn.Linear` 存的是转置后的矩阵，还可能加偏置；
# 直接调用这个层，两样都不用操心。`w_q`、`w_k`、`w_v`、`w_o` 这几个名字不能改，
# 评分器会把自己的权重加载进去。
#
# 半精度下，两个 256 左右的数相乘就超出 float16 的范围，所以分数、权重和混合都用 float32 计算，在
# `w_o` 之前转回输入的 dtype。
#
# 空行的权重是 0，所以 `w_o` 收到的是 0，返回的是它的偏置（如果有）。遇到整行 `-inf`，
# `torch.softmax` 会得到 NaN，前向和反向都是。所以在 softmax **之前**给空行换上无害的分数，
# 之后把它的权重置零。


# %%
### BEGIN SOLUTION
def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(output, weights) of q (B, H, Lq, D) and k, v (B, H, Lk, D)."""
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()

    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (B, H, Lq, Lk)
    if keep is None:
        weights = torch.softmax(scores, -1)
    else:
        empty = ~keep.any(-1, keepdim=True)  # rows that softmax would turn into NaN
        scores = torch.where(keep, scores, -torch.inf).masked_fill(empty, 0.0)
        weights = torch.softmax(scores, -1).masked_fill(empty, 0.0)
    return (weights @ v).to(dtype), weights.to(dtype)


### END SOLUTION


class MultiHeadAttention(nn.Module):
    """Multi-head attention: four projections, with the heads between them.

    Parameters are those of `w_q`, `w_k`, `w_v` and `w_o`, each an `nn.Linear` from E to E. A layer
    does the same in .train() and in .eval(), shares nothing with other layers, remembers nothing,
    and works in the dtype and on the device of its parameters.
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        """Create the four projections `w_q`, `w_k`, `w_v` and `w_o`.

        d_model    E, the width of tokens
        num_heads  H, a divisor of E
        bias       whether each of the four projections adds a bias
        raises     ValueError, naming both numbers, if `num_heads` does not divide `d_model`
        """
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model} cannot be cut into {num_heads} equal heads")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)
        ### END SOLUTION

    def forward(
        self,
        x: torch.Tensor,
        context: torch.Tensor | None = None,
        keep: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attend from `x` to `context`, or to `x` itself, and return (output, weights).

        x        tensor (B, Lq, E), in the dtype of the parameters; B may be 0
        context  tensor (B, Lk, E) that keys and values come from; None means `x`
        keep     bool tensor that broadcasts to (B, H, Lq, Lk), True = may attend
        returns  output (B, Lq, E) and weights (B, H, Lq, Lk), in the dtype of `x`; the weights are
                 0 in a row that may attend to nothing

        Each head divides its scores by sqrt(D). Hidden tokens get weight 0, even if they hold 1e30.
        Scores may be hundreds apart, and as low as -1e32. float16 and bfloat16 are computed in
        float32 between the projections (products of 256 by 256 do not overflow, and scores are not
        rounded), and float64 is computed in float64. Gradients reach `x`, the context and every
        parameter, through output and weights, and are never NaN. Tensors may have any layout and
        stay as they were.
        """
        ### BEGIN SOLUTION
        context = x if context is None else context
        q = split_heads(self.w_q(x), self.num_heads)  # (B, H, Lq, D)
        k = split_heads(self.w_k(context), self.num_heads)  # (B, H, Lk, D)
        v = split_heads(self.w_v(context), self.num_heads)  # (B, H, Lk, D)
        output, weights = _attention(q, k, v, keep)
        return self.w_o(merge_heads(output)), weights  # (B, Lq, E), (B, H, Lq, Lk)
        ### END SOLUTION
