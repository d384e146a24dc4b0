# %% [markdown] tags=["en"]
# # Softmax
#
# **The question.** Attention asks, for one word, how much each other word matters. A dot product
# answers with *scores*: any real numbers, some negative, some huge. To mix values we need
# *weights*: none negative, summing to one. How do we turn scores into weights so that a
# higher score still gets a higher weight?
#
# **The formula.**
#
# $$\text{softmax}(x)_i = \frac{e^{x_i}}{\sum_j e^{x_j}}$$
#
# The exponential makes everything positive and turns a *difference* of scores into a *ratio* of
# weights. The division makes them sum to one.
#
# **The shapes.** Softmax works along one axis and leaves the shape alone. Along the last axis of a
# matrix of scores, each row becomes weights of its own:
#
# ```text
#            keys                                    keys
#        ┌───────────┐                           ┌───────────┐
# query 0│ 2   1   0 │  exp, divide by row sum   │.67 .24 .09│  sum = 1
# query 1│ 0   0   0 │ ────────────────────────> │.33 .33 .33│  sum = 1
#        └───────────┘                           └───────────┘
#           (2, 3)          axis = -1               (2, 3)
# ```
#
# One sentence goes through the lessons and their pictures: *the cat sat down*. Each of its words
# scores all four words, and softmax makes weights of the four scores: `sat` gives 0.61 of its
# attention to `cat`, and 0.11 to `the`.
#
# **By hand.** The scores `[0, ln 3]` have exponentials `[1, 3]`, which sum to 4. Add 100 to both
# scores, and the ratio, so the answer, is the same:
#
# ```pycon
# >>> softmax_numpy(np.log([1.0, 3.0]))
# array([0.25, 0.75])
# >>> softmax_numpy(np.log([1.0, 3.0]) + 100).round(6)
# array([0.25, 0.75])
# ```
#
# This matters. `exp(89)` no longer fits into float32, so the formula as it stands gives
# `inf / inf = nan` for quite ordinary scores. But adding a constant to a row changes nothing, so
# add minus the row's maximum: the largest exponent is then `exp(0) = 1` and nothing can overflow.
#
# **The traps.**
#
# - The maximum of the *row*, not of the whole array. With one maximum for all rows, a row of small
#   scores underflows to `0 / 0`.
# - Keep the reduced axis (`keepdims=True`, in PyTorch `keepdim=True`). Without it the shapes
#   `(2, 3)` and `(2,)` do not line up, or, for a square array, line up *wrongly* and silently.
# - No epsilon in the denominator. After the maximum is subtracted the sum is at least 1; an epsilon
#   repairs nothing and makes every weight a little wrong.
# - `exp(x - logsumexp(x))` looks the same on paper. At scores around 10,000 it subtracts two large
#   numbers that were already rounded, and the exponential turns that into a relative error.
# - float16 ends at 65,504 and keeps 11 bits. A sum over a long row overflows or stalls, so compute
#   in float32 and round once, at the end.
#
# **What is graded.** Values along any axis, any rank from 1, axes from 1 score into the thousands,
# scores up to ±10,000; the input untouched, in any layout; empty tensors; the gradient (PyTorch).
# Separate checks test float64, computed in float64, and half precision, computed in float32 (rows
# of 70,000): for each function they are worth one point, and no other check depends on them. **Out
# of scope:** masks (the next exercise) and speed. **Not allowed:** PyTorch's and SciPy's own
# softmax, and any of PyTorch in `softmax_numpy`. About 30 minutes.

# %% [markdown] tags=["zh"]
# # Softmax
#
# **问题**：对一个词来说，其他每个词有多重要？注意力问的就是这个。点积给出的答案是*分数*：
# 任意实数，有负的，也有很大的。要把值混合起来，需要的是*权重*：非负，而且和为 1。
# 怎样把分数变成权重，让高的分数仍得到大的权重？
#
# **公式**
#
# $$\text{softmax}(x)_i = \frac{e^{x_i}}{\sum_j e^{x_j}}$$
#
# 取指数让每个数都为正，并把分数之*差*变成权重之*比*。除法让它们的和为 1。
#
# **形状**：softmax 沿一个轴计算，形状不变。对分数矩阵沿最后一个轴做，每一行各自成为一组权重：
#
# ```text
#            keys                                    keys
#        ┌───────────┐                           ┌───────────┐
# query 0│ 2   1   0 │  exp, divide by row sum   │.67 .24 .09│  和 = 1
# query 1│ 0   0   0 │ ────────────────────────> │.33 .33 .33│  和 = 1
#        └───────────┘                           └───────────┘
#           (2, 3)          axis = -1               (2, 3)
# ```
#
# 所有讲义和图都沿用同一个句子：*the cat sat down*。每个词都给四个词打分，softmax 把这四个分数变成
# 权重：`sat` 把 0.61 的注意力给 `cat`，0.11 给 `the`。
#
# **手算**：分数 `[0, ln 3]` 取指数得 `[1, 3]`，和为 4。两个分数都加上 100，比值不变，
# 答案也就不变：
#
# ```pycon
# >>> softmax_numpy(np.log([1.0, 3.0]))
# array([0.25, 0.75])
# >>> softmax_numpy(np.log([1.0, 3.0]) + 100).round(6)
# array([0.25, 0.75])
# ```
#
# 第二行不只是一个有趣的性质。`exp(89)` 已经超出 float32 的范围，照公式直接写，
# 很平常的分数也会算出 `inf / inf = nan`。既然给一行加上任意常数都不改变结果，
# 那就减去行最大值：这样最大的一项是 `exp(0) = 1`，不可能溢出。
#
# **陷阱**
#
# - 减的是*每一行*的最大值，不是整个数组的。如果所有行共用一个最大值，
#   分数小的行会下溢成 `0 / 0`。
# - 要保留被归约的轴（`keepdims=True`，PyTorch 里是 `keepdim=True`）。
#   否则形状 `(2, 3)` 和 `(2,)` 对不上；如果是方阵，就会*对错轴*，而且不报错。
# - 分母里不要加 epsilon。减去最大值之后，和至少是 1；
#   epsilon 解决不了任何问题，反而让每个权重都有一点误差。
# - `exp(x - logsumexp(x))` 在纸面上没有区别。但分数在 10,000 上下时，
#   它拿两个已经舍入过的大数相减，这个误差经过指数就成了相对误差。
# - float16 最大到 65,504，只有 11 位有效位。长行求和会溢出，或者加到一定大小就加不上去了。
#   所以用 float32 计算，最后只舍入一次。
#
# **评分内容**：沿任意轴的数值，至少一维，轴长从 1 到几千，±10,000 以内的分数；不修改输入，
# 接受任何内存布局；空张量；梯度（PyTorch）。float64 的有效数字和用 float32 计算的
# 半精度（70,000 个一行）另有检查：每个函数占 1 分，不影响别的检查。**不考**：掩码（下一题）和速度。
# **禁用**：PyTorch 和 SciPy 自带的 softmax；`softmax_numpy` 里不能用 PyTorch。约 30 分钟。

# %%
import numpy as np
import torch


# %% [markdown] tags=["en"]
# ## Task 1: in NumPy
#
# Three steps: the maximum along the axis, the exponentials of what remains, the division by their
# sum. `float16` input is computed in `float32` and given back as `float16`.

# %% [markdown] tags=["zh"]
# ## 任务 1：NumPy 版
#
# 三步：沿轴取最大值，减去它之后取指数，再除以指数之和。
# `float16` 输入用 `float32` 计算，结果转回 `float16`。


# %%
def softmax_numpy(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Turn the scores of an array into weights along `axis`, in NumPy.

    x       array of one axis or more, float16, float32 or float64, in any layout; it is not changed
    axis    the axis along which the weights sum to one, from either end; it has a score at least,
            and may have thousands. Other axes may be empty
    returns an array of the shape and dtype of `x`

    Scores may be as large as 10,000, of either sign, and rows far apart; the weights have the
    digits of the dtype all the same (an error counts against 1, the sum of the weights). float64 is
    computed in float64, float16 in float32: a row of 70,000 must not overflow.
    """
    ### BEGIN SOLUTION
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    powers = np.exp(wide - wide.max(axis=axis, keepdims=True))
    weights = powers / powers.sum(axis=axis, keepdims=True)
    return weights.astype(x.dtype)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: in PyTorch
#
# The same three steps on a tensor. If every step is a PyTorch operator, the gradient comes for
# free; a step outside (`.numpy()`, `.item()`, `.detach()` on the way) cuts it.

# %% [markdown] tags=["zh"]
# ## 任务 2：PyTorch 版
#
# 同样的三步，对象换成张量。只要每一步都是 PyTorch 算子，梯度就自动有了；
# 中途只要有一步离开 PyTorch（`.numpy()`、`.item()`、`.detach()`），梯度就断了。


# %%
def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Turn the scores of a tensor into weights along `dim`, in PyTorch.

    x       tensor of one dimension or more, float16, bfloat16, float32 or float64, in any layout;
            it is not changed
    dim     the dimension along which the weights sum to one, from either end; it has a score at
            least, and may have thousands. Other dimensions may be empty
    returns a tensor of the shape, dtype and device of `x`, through which gradients flow

    Scores may be as large as 10,000, of either sign, and rows far apart; the weights have the
    digits of the dtype all the same (an error counts against 1, the sum of the weights). float64 is
    computed in float64, half precision in float32, the gradient too: a row of 70,000 must not
    overflow.
    """
    ### BEGIN SOLUTION
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    powers = torch.exp(wide - wide.amax(dim=dim, keepdim=True))
    weights = powers / powers.sum(dim=dim, keepdim=True)
    return weights.to(x.dtype)
    ### END SOLUTION
