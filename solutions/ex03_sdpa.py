# %% [markdown] tags=["en"]
# # Scaled dot-product attention
#
# **The question.** A dictionary looks up a value by its key, and the key must match exactly. What
# if it only matches more or less? Attention is a search that returns a little of every value: it
# compares each *query* with every *key*, and the answer is a mixture of all *values*, in which the
# value of a well-matching key weighs more. The weights change smoothly with queries and keys, so
# there is a gradient, and a model can learn them. How do we compute it for all queries at once?
#
# **The formula.**
#
# $$\text{attention}(Q, K, V) = \text{softmax}\!\left(\frac{Q K^\top}{\sqrt{D}}\right) V$$
#
# Read it from the inside. $Q K^\top$ is a table of scores: one row for each query, one column for
# each key. Softmax turns each row into weights that sum to one. The product with $V$ takes, for
# each query, the average of the values under these weights.
#
# **The shapes.** `D` is the width of queries and keys, which must be equal for the dot product.
# The values may have a width `Dv` of their own, and there may be more or fewer queries than keys
# (*cross-attention*). Leading dimensions, batch and heads, stand in front and are carried along.
#
# ```text
#       D               Lk             Lk                       Lk                Dv          Dv
#    ┌─────┐        ┌────────┐     ┌────────┐              ┌─────────┐         ┌─────┐     ┌─────┐
# Lq │  q  │  @   D │   kᵀ   │  =  │ scores │ ───────────> │ weights │  @   Lk │  v  │  =  │ out │
#    └─────┘        └────────┘     └────────┘ scale, mask, └─────────┘         └─────┘     └─────┘
#                                               softmax   rows sum to 1
# ```
#
# In *the cat sat down* (the picture), `sat` gives `cat` 0.61 of its attention. Without the scale
# the same scores give 0.94, although the words are only 8 numbers wide; the next section says why.
#
# **Why the scale.** Take queries and keys whose entries are independent, with mean zero and
# variance one. Their dot product is a sum of `D` products, each with variance one, so its variance
# is `D`: for `D = 256` the scores have the standard deviation 16. Gaps of 16 are common, and
# $e^{-16}$ is about one in ten million. Softmax would give almost all weight to the one key with
# the largest score, and its gradient would vanish. Divided by $\sqrt{D}$ the scores have variance
# one, whatever the width.
#
# **By hand.** One query, two keys, `D = 4`. The scores before scaling are $2\ln 3$ and 0; divided
# by $\sqrt 4$ they are $\ln 3$ and 0, whose exponentials are 3 and 1. So the answer is three
# quarters of the first value and one quarter of the second:
#
# ```pycon
# >>> q = np.array([[2 * np.log(3.0), 0.0, 0.0, 0.0]])
# >>> k = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
# >>> v = np.array([[8.0, 0.0], [0.0, 4.0]])
# >>> output, weights = attention_numpy(q, k, v)
# >>> weights.round(6).tolist()
# [[0.75, 0.25]]
# >>> output.round(6).tolist()
# [[6.0, 1.0]]
# ```
#
# A mask `keep` says which keys a query may attend to: **True = may attend**. Hide the first key,
# and everything goes to the second. Hide both, and there is nothing to mix: weights and output are
# zero.
#
# ```pycon
# >>> attention_numpy(q, k, v, keep=np.array([[False, True]]))[0].tolist()
# [[0.0, 4.0]]
# >>> attention_numpy(q, k, v, keep=np.array([[False, False]]))[0].tolist()
# [[0.0, 0.0]]
# ```
#
# **The traps.**
#
# - The scale is `1 / sqrt(D)`, where `D` is the width of the *queries*. It is not `1 / D`, and not
#   one over the square root of `Dv` or of the width of the whole model. A `scale` that is given is
#   used as it stands, even when it is 0: `scale or default` would replace the 0 by the default.
# - `k.T` reverses *all* axes. You want to swap only the last two.
# - Hide the scores *before* softmax, with `-inf`. Weights set to zero after it no longer sum to
#   one, and a hidden score of `-1e9` is still a score: if a row has only that key, the key still
#   gets weight 1.
# - A row in which every key is hidden (an *empty row*) is `0 / 0`. If you only replace the NaN in
#   the output, the gradient of `v` is still NaN; if you hid keys by adding `-inf`, so are those of
#   `q` and `k`. Do not let a NaN arise in the first place.
# - `nan + -inf` is `nan`, and so is `0 * nan`. A NaN or an infinity in a hidden key does no harm if
#   you *replace* its score by `-inf`; it does if you add `-inf`. In a hidden value it always does:
#   its weight is 0, but `weights @ v` is NaN, here as in PyTorch's own operator.
# - 256 times 256 is more than float16 can hold. In half precision, convert to float32 *before* the
#   first product, not just before softmax. At the end, convert output and weights back to the dtype
#   of `q`.
#
# **The law of the mask.** What a query may not attend to has no influence on its output and its
# weights, however large it is: padding may hold any finite number, and in keys also NaN and
# infinity. The checks put 1e30 into hidden keys and values, and NaN and infinity into hidden keys,
# but never into hidden *values*: `0 * nan` is NaN, so the caller must clear such padding
# beforehand.
#
# **What is graded.** Output and weights with and without mask and scale: `Lq != Lk`, `Dv != D`,
# sizes from 1 into the thousands, any leading dimensions (the same for `q`, `k` and `v`), masks
# that broadcast, scores hundreds apart; rows in which every key is hidden; inputs untouched;
# gradients (PyTorch); a `ValueError` for widths or lengths that do not fit. Separate checks test
# three things: float64 inputs are computed in float64, and the results have the dtype of the
# inputs; half precision is computed in float32; empty tensors work (no batch, no queries, no keys).
# Each is worth one point, and no other check depends on it. 3 of the 16 points are for speed: each
# of the two matrix products takes all batches, heads and rows at once, without a Python loop. **Out
# of scope:** splitting into heads (the next exercise), causal masks, dropout. **Not allowed:**
# PyTorch's fused operator and its attention modules, and any of PyTorch in `attention_numpy`;
# elsewhere `torch.softmax` is fine. About 60 minutes.

# %% [markdown] tags=["zh"]
# # 缩放点积注意力
#
# **问题。** 字典按键取值，键必须完全相等。如果只是大致匹配呢？注意力这种查找不是挑出一个键，
# 而是每个键都占一份：每个**查询**（query）与每个**键**（key）比较，答案是所有**值**（value）
# 的混合，键匹配得越好，它的值权重越大。其中没有一处硬截断，所以能用梯度下降来学。
# 怎样一次算完所有查询？
#
# **公式。**
#
# $$\text{attention}(Q, K, V) = \text{softmax}\!\left(\frac{Q K^\top}{\sqrt{D}}\right) V$$
#
# 从里往外读。$Q K^\top$ 是一张分数表：每个查询一行，每个键一列。softmax 把每一行变成和为 1
# 的权重。再乘以 $V$，就是对每个查询用这些权重给值求加权平均。
#
# **形状。** `D` 是查询和键的宽度，要做点积，两者必须相等。值可以有自己的宽度
# `Dv`，查询的个数也可以多于或少于键的个数（**交叉注意力**，cross-attention）。
# batch 和头这些前导维排在最前面，原样保留。
#
# ```text
#       D               Lk             Lk                       Lk                Dv          Dv
#    ┌─────┐        ┌────────┐     ┌────────┐              ┌─────────┐         ┌─────┐     ┌─────┐
# Lq │  q  │  @   D │   kᵀ   │  =  │ scores │ ───────────> │ weights │  @   Lk │  v  │  =  │ out │
#    └─────┘        └────────┘     └────────┘ scale, mask, └─────────┘         └─────┘     └─────┘
#                                               softmax   每行之和为 1
# ```
#
# 在 *the cat sat down* 里（见图），`sat` 把 0.61 的注意力给 `cat`。不缩放时，同样的分数给出 0.94，
# 而每个词只有 8 个数宽；原因见下一节。
#
# **为什么要缩放。** 设查询和键的各个分量相互独立，均值为 0，方差为 1。点积是 `D` 个这样的乘积之和，
# 方差就是 `D`：`D = 256` 时，分数的标准差是 16，相差 16 很常见，而 $e^{-16}$
# 约为千万分之一。softmax 会把几乎全部权重给分数最大的那一个键，梯度也随之消失。
# 除以 $\sqrt{D}$ 之后，不论宽度多大，分数的方差都是 1。
#
# **手算。** 一个查询，两个键，`D = 4`。缩放前的分数是 $2\ln 3$ 和 0；除以 $\sqrt 4$ 得 $\ln 3$
# 和 0，取指数得 3 和 1。所以答案是第一个值的四分之三加第二个值的四分之一：
#
# ```pycon
# >>> q = np.array([[2 * np.log(3.0), 0.0, 0.0, 0.0]])
# >>> k = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
# >>> v = np.array([[8.0, 0.0], [0.0, 4.0]])
# >>> output, weights = attention_numpy(q, k, v)
# >>> weights.round(6).tolist()
# [[0.75, 0.25]]
# >>> output.round(6).tolist()
# [[6.0, 1.0]]
# ```
#
# 掩码 `keep` 规定一个查询可以看哪些键：**True = 可以看**。遮住第一个键，权重就全归第二个键。
# 两个都遮住，就没有东西可混合：权重和输出都是 0。
#
# ```pycon
# >>> attention_numpy(q, k, v, keep=np.array([[False, True]]))[0].tolist()
# [[0.0, 4.0]]
# >>> attention_numpy(q, k, v, keep=np.array([[False, False]]))[0].tolist()
# [[0.0, 0.0]]
# ```
#
# **陷阱。**
#
# - 缩放因子是 `1 / sqrt(D)`，`D` 是**查询**的宽度：不是 `1 / D`，也不是 1 除以 `Dv`
#   或整个模型宽度的平方根。给了 `scale` 就照用，哪怕是 0：`scale or default` 会把 0 换成默认值。
# - `k.T` 会把**所有**轴都倒过来。该交换的只有最后两个轴。
# - 在 softmax **之前**用 `-inf` 遮住分数。如果到 softmax 之后才把权重置零，一行的和就不再是
#   1；而填成 `-1e9` 的分数仍然是分数：一行里只有它时，权重全归它。
# - 整行都被遮住（空行）就是 `0 / 0`。如果只在输出里替换 NaN，表面上一切正常，直到 `v` 的梯度变成
#   NaN；如果 `-inf` 是加上去的，`q` 和 `k` 的梯度也是 NaN。一开始就不要让它出现。
# - `nan + -inf` 是 `nan`，`0 * nan` 也是。被遮住的键里有坏数时，把它的分数**替换**成 `-inf`
#   能挡住，加上 `-inf` 挡不住。被遮住的值里的坏数则挡不住：权重是 0，`weights @ v` 照样是
#   NaN，这里如此，PyTorch 自带的算子也如此。
# - 256 乘 256 超出 float16 的范围。半精度要在第一次矩阵乘法**之前**转成 float32，而不是到 softmax
#   之前才转；两个结果在最后舍入回去。
#
# **掩码的铁律。** 查询不该看的内容，数值再大也不影响它的输出和权重：填充里可以放任何有限的数，
# 填充的键里还可以放 NaN 和无穷大。
# 评分时，被遮住的键和值里会有 1e30，被遮住的键里还会有 NaN 和无穷大。如果填充的**值**里有
# NaN 或无穷大，由调用者事先清除：`0 * nan` 是 NaN，检查里没有这种情况。
#
# **评分内容。** 输出和权重，有无掩码，有无 `scale`：`Lq != Lk`，`Dv != D`，大小从 1 到几千，
# 任意前导维（`q`、`k`、`v` 相同），需要广播的掩码，相差几百的分数；空行；不修改输入；
# 梯度（PyTorch）；宽度或长度对不上时抛 `ValueError`。结果的 dtype 和 float64 的有效数字、用 float32
# 计算的半精度、空张量（batch、查询或键的个数为 0）各有单独的检查，各占 1 分，不影响别的检查。
# 另外，16 分里有 3 分是速度：两次矩阵乘法各自一次处理所有 batch、头和行，
# 不用 Python 循环。
# **不涉及：** 拆分成头（下一题）、因果掩码、dropout。
# **不允许：** PyTorch 的融合算子和注意力模块；`attention_numpy` 里不能用 PyTorch，别处
# `torch.softmax` 可以用。约 60 分钟。

# %%
import math

import numpy as np
import torch

### BEGIN SOLUTION


def _check_shapes(q, k, v):
    """Refuse queries, keys and values that do not fit together; of arrays or tensors."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q has width {q.shape[-1]}, but k has width {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k has length {k.shape[-2]}, but v has length {v.shape[-2]}")


### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 1: in NumPy
#
# Four steps: scores, mask, softmax over the keys, mixture. Write softmax yourself: subtract the
# maximum of the row, take exponentials, divide by their sum. Think about what maximum and sum are
# in a row whose keys are all hidden, and in a row of length 0.

# %% [markdown] tags=["zh"]
# ## 任务 1：用 NumPy 实现
#
# 四步：分数、掩码、沿键做 softmax、混合。softmax 自己写：减去行最大值，取指数，除以它们的和。
# 想一想，键全被遮住的行，以及长度为 0 的行，最大值与和各是什么。


# %%
def attention_numpy(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    keep: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Mix the values by how well each key matches the query, in NumPy.

    q       array (..., Lq, D), float16, float32 or float64. Inputs may be non-contiguous in
            memory, and stay unchanged
    k       array (..., Lk, D); the batch, Lq or Lk may be 0, and each may be thousands
    v       array (..., Lk, Dv)
    keep    bool array that broadcasts to (..., Lq, Lk), True = may attend; None hides nothing.
            A hidden key may hold 1e30, NaN or infinity, and a hidden value 1e30
    scale   factor of the scores, 0 or negative too; None means 1 / sqrt(D)
    returns (output, weights), arrays (..., Lq, Dv) and (..., Lq, Lk) of the dtype of `q`; a query
            that may attend to nothing has output 0 and weights 0, and the weight of a hidden key
            is 0 exactly
    raises  ValueError, naming both numbers, if the widths of `q` and `k` or the lengths of `k` and
            `v` differ

    Scores may be hundreds apart, and as low as -1e32; no score is too large or too low for the
    digits of its weight, if `q k^T` fits the dtype that is computed in. float64 is computed in
    float64; float16 is computed in float32, from the first product on: 256 * 256 must not overflow.
    Nothing is remembered from call to call.
    """
    ### BEGIN SOLUTION
    _check_shapes(q, k, v)
    dtype = q.dtype
    if dtype == np.float16:
        q, k, v = (x.astype(np.float32) for x in (q, k, v))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q * scale @ np.swapaxes(k, -1, -2)  # (..., Lq, Lk)
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    # Starting from a finite number keeps an empty row from -inf - -inf, which is nan.
    top = scores.max(axis=-1, keepdims=True, initial=np.finfo(scores.dtype).min)  # (..., Lq, 1)
    powers = np.exp(scores - top)
    total = powers.sum(axis=-1, keepdims=True)
    weights = powers / np.where(total == 0, 1, total)  # 0 only if nothing is kept
    return (weights @ v).astype(dtype), weights.astype(dtype)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: in PyTorch
#
# The same four steps on tensors; `torch.softmax` is allowed now. It turns a row of `-inf` into NaN,
# on the way forward and on the way back. So give an empty row harmless scores *before* softmax, and
# set its weights to zero after.
#
# Speed comes from two habits. `@` works on all leading dimensions at once: do not loop over
# them. And do small work on small tensors: scaling `q`, with its `Lq x D` numbers, gives the same
# scores as scaling all `Lq x Lk` of them.

# %% [markdown] tags=["zh"]
# ## 任务 2：用 PyTorch 实现
#
# 同样的四步，换成张量；`torch.softmax` 现在可以用了。遇到整行 `-inf`，它会得到 NaN，
# 前向和反向都是。所以在 softmax **之前**给空行换上无害的分数，之后把它的权重置零。
#
# 速度来自两个习惯。让矩阵乘法自己带上前导维。小事在小张量上做：缩放 `q` 只要乘 `Lq x D`
# 个数，得到的分数与缩放全部 `Lq x Lk` 个分数相同。


# %%
def scaled_dot_product_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keep: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mix the values by how well each key matches the query, in PyTorch.

    q       tensor (..., Lq, D), float16, bfloat16, float32 or float64. Inputs may be
            non-contiguous in memory, and stay unchanged
    k       tensor (..., Lk, D); the batch, Lq or Lk may be 0, and each may be thousands. Like v it
            has the dtype and the leading dimensions of `q`
    v       tensor (..., Lk, Dv)
    keep    bool tensor that broadcasts to (..., Lq, Lk), True = may attend; None hides nothing.
            A hidden key may hold 1e30, NaN or infinity, and a hidden value 1e30
    scale   factor of the scores, 0 or negative too; None means 1 / sqrt(D)
    returns (output, weights), tensors (..., Lq, Dv) and (..., Lq, Lk) of the dtype and device of
            `q`. Gradients flow to q, k and v through the output, and to q and k through the
            weights. A query that may attend to nothing has output 0, weights 0 and, of finite
            inputs, gradient 0, and the weight of a hidden key is 0 exactly
    raises  ValueError, naming both numbers, if the widths of `q` and `k` or the lengths of `k` and
            `v` differ

    q, k and v may be the same tensor. Scores may be hundreds apart, and as low as -1e32; no score
    is too large or too low for the digits of its weight, if `q k^T` fits the dtype that is computed
    in. float64 is computed in float64; half precision is computed in float32, from the first
    product on: 256 * 256 must not overflow. Nothing is remembered from call to call.
    """
    ### BEGIN SOLUTION
    _check_shapes(q, k, v)
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q * scale @ k.mT  # (..., Lq, Lk)
    if keep is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        empty = ~keep.any(dim=-1, keepdim=True)  # (..., Lq, 1)
        hidden = torch.where(empty, 0.0, -torch.inf)  # a row of -inf would become NaN
        weights = torch.softmax(torch.where(keep, scores, hidden), dim=-1)
        weights = weights.masked_fill(empty, 0.0)
    return (weights @ v).to(dtype), weights.to(dtype)
    ### END SOLUTION
