# %% [markdown] tags=["en"]
# # Gradients by hand
#
# **The question.** Training asks of every number in a model: if it were a little larger, how much
# would the loss change? PyTorch answers with `loss.backward()` and shows no work. What is the work,
# for attention? There are only three steps to go back through, two products of matrices and a
# softmax, and once you have written them, you can read the backward pass of any fast attention
# kernel.
#
# **The formula.** Forward, with $c$ for the scale $1/\sqrt{D}$:
#
# $$S = c\, q k^\top \qquad P = \text{softmax}(S) \qquad O = P v$$
#
# Backward. Let $dX$ be the gradient of the loss with respect to $X$. What comes in is $dO$; then
#
# $$dv = P^\top dO \qquad dP = dO\, v^\top \qquad
#   dS_{ij} = P_{ij} \Big( dP_{ij} - \sum_{t} P_{it}\, dP_{it} \Big) \qquad
#   dq = c\, dS\, k \qquad dk = c\, dS^\top q$$
#
# For a product $Y = A B$ the two rules are $dA = dY B^\top$ and $dB = A^\top dY$. They need not be
# remembered: $dA$ has the shape of $A$, and there is but one way to get that shape from $dY$ and
# $B$. For the softmax, moving the score $j$ moves *all* weights of the row,
# $\partial P_t / \partial S_j = P_t (\delta_{tj} - P_j)$: its own weight grows, and the others
# shrink. Summed against $dP$ this gives the bracket above, a gradient minus its mean under $P$.
#
# **The shapes.** Every gradient has the shape of what it belongs to:
#
# ```text
#   q (Lq, D) ──┐
#               ├──> S (Lq, Lk) ── softmax ──> P (Lq, Lk) ──┐
#   k (Lk, D) ──┘                                           ├──> O (Lq, Dv)
#                                         v (Lk, Dv) ───────┘
#
#   dq (Lq, D) <──┐
#                 ├── dS (Lq, Lk) <── softmax_backward ── dP (Lq, Lk) <──┐
#   dk (Lk, D) <──┘                                                      ├── dO (Lq, Dv)
#                                                      dv (Lk, Dv) <─────┘
# ```
#
# A key serves all queries, so `dk` and `dv` *sum* over them; the products do that by themselves.
#
# **By hand.** Two equal weights, and a loss that gains 1 for each unit of the first. Raising the
# first score moves weight from the second to the first, at a rate of `0.5 * 0.5`. Then a whole
# attention with one query, `q = 0`: the weights are equal, the second value is larger by 4, and the
# second key by 2. A larger `q` prefers the second key, so the output grows at the rate
# `0.25 * 2 * 4`; a longer key changes nothing while the query is zero.
#
# ```pycon
# >>> softmax_backward(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
# array([ 0.25, -0.25])
# >>> q, k, v = np.array([[0.0]]), np.array([[1.0], [3.0]]), np.array([[0.0], [4.0]])
# >>> dq, dk, dv = attention_backward(q, k, v, np.array([[1.0]]))
# >>> dq.tolist(), dk.tolist(), dv.tolist()
# ([[2.0]], [[0.0], [0.0]], [[0.5], [0.5]])
# ```
#
# Any gradient can be checked without knowing the formula: move one number by a small `h` both ways,
# and see what the result does. `(f(x + h) - f(x - h)) / (2 * h)` with `h = 1e-6` in float64 agrees
# with a right gradient to about eight digits. Do this before you run the checks.
#
# **The traps.**
#
# - The sum in `dS` is over the keys of one row, and of `P * dP`, not of `dP`. Without it you have
#   the derivative of an exponential, not of a softmax.
# - The scale stands in `dq` and in `dk`, once in each, and not in `dv`.
# - `x.T` reverses *all* axes. With batch and heads in front, swap the last two: `np.swapaxes`.
# - A mask needs nothing in the backward pass. A hidden weight is exactly 0, and is a factor of its
#   `dS`. Filling gradients with `-inf` as one fills scores gives `0 * inf`, which is NaN.
# - A row that sees nothing has weights 0, not `0 / 0`; then its gradients come out as 0 as well.
# - float16 ends at 65,504, and a product of two gradients gets there soon. Compute in float32.
#
# **What is graded.** Both functions against the exact gradients and against finite differences;
# given scales; masks of any shape that broadcasts, rows without a key, 1e30 in hidden places; half
# precision; the inputs left alone. **Out of scope:** dropout, a gradient for the mask, the
# projections around attention, and never building `P` as fast kernels do. **Not allowed:** torch,
# scipy, jax, autograd. About 60 minutes.

# %% [markdown] tags=["zh"]
# # 手写梯度
#
# **问题**：训练要问模型里的每一个数：它变大一点点，损失会变多少？
# PyTorch 用 `loss.backward()` 回答，但不给出过程。对注意力来说，这个过程是什么？
# 往回只要走三步：两次矩阵乘法和一次 softmax。
# 亲手走过一遍，任何高速注意力核的反向传播都读得懂。
#
# **公式**：前向，其中 $c$ 是缩放因子 $1/\sqrt{D}$：
#
# $$S = c\, q k^\top \qquad P = \text{softmax}(S) \qquad O = P v$$
#
# 反向。用 $dX$ 表示损失对 $X$ 的梯度。传进来的是 $dO$，于是
#
# $$dv = P^\top dO \qquad dP = dO\, v^\top \qquad
#   dS_{ij} = P_{ij} \Big( dP_{ij} - \sum_{t} P_{it}\, dP_{it} \Big) \qquad
#   dq = c\, dS\, k \qquad dk = c\, dS^\top q$$
#
# 对乘积 $Y = A B$，两条规则是 $dA = dY B^\top$ 和 $dB = A^\top dY$。不必死记：
# $dA$ 与 $A$ 形状相同，而用 $dY$ 和 $B$ 凑出这个形状的办法只有一种。
# 对 softmax，动一个分数 $j$，这一行的**所有**权重都会动，
# $\partial P_t / \partial S_j = P_t (\delta_{tj} - P_j)$：自己的权重变大，由别的权重来补。
# 再与 $dP$ 相乘求和，就得到上面的括号：梯度减去它按 $P$ 加权的平均。
#
# **形状**：梯度与它所属的量形状相同：
#
# ```text
#   q (Lq, D) ──┐
#               ├──> S (Lq, Lk) ── softmax ──> P (Lq, Lk) ──┐
#   k (Lk, D) ──┘                                           ├──> O (Lq, Dv)
#                                         v (Lk, Dv) ───────┘
#
#   dq (Lq, D) <──┐
#                 ├── dS (Lq, Lk) <── softmax_backward ── dP (Lq, Lk) <──┐
#   dk (Lk, D) <──┘                                                      ├── dO (Lq, Dv)
#                                                      dv (Lk, Dv) <─────┘
# ```
#
# 一个键为所有查询服务，所以 `dk` 和 `dv` 要对查询**求和**；矩阵乘法本身就做了这件事。
#
# **手算**：两个相等的权重，第一个权重每增加 1，损失增加 1。抬高第一个分数，
# 权重就从第二个流向第一个，变化率是 `0.5 * 0.5`。然后是只有一个查询的完整注意力，`q = 0`：
# 两个权重相等，第二个值比第一个大 4，第二个键比第一个大 2。`q` 变大就偏向第二个键，
# 所以输出的变化率是 `0.25 * 2 * 4`；而查询为零时，键怎么变都没有影响。
#
# ```pycon
# >>> softmax_backward(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
# array([ 0.25, -0.25])
# >>> q, k, v = np.array([[0.0]]), np.array([[1.0], [3.0]]), np.array([[0.0], [4.0]])
# >>> dq, dk, dv = attention_backward(q, k, v, np.array([[1.0]]))
# >>> dq.tolist(), dk.tolist(), dv.tolist()
# ([[2.0]], [[0.0], [0.0]], [[0.5], [0.5]])
# ```
#
# 不知道公式也能检验梯度：把一个数往两边各动一点点 `h`，看结果怎么变。
# 用 float64、`h = 1e-6` 时，`(f(x + h) - f(x - h)) / (2 * h)` 与正确的梯度大约有八位数字一致。
# 提交之前先这样自己查一遍。
#
# **陷阱**
#
# - `dS` 里的求和是对同一行的各个键，加的是 `P * dP`，不是 `dP`。
#   没有这个和，得到的是指数函数的导数，不是 softmax 的。
# - 缩放因子在 `dq` 和 `dk` 里各出现一次，在 `dv` 里不出现。
# - `x.T` 会把**所有**轴倒过来。前面有 batch 和头时，只交换最后两个轴：`np.swapaxes`。
# - 反向传播里不用管掩码。被遮住的权重恰好是 0，而 `dS` 里有这个 0 作因子。
#   像填分数那样往梯度里填 `-inf`，就会出现 `0 * inf`，也就是 NaN。
# - 什么都看不到的行，权重是 0，不是 `0 / 0`；这样它的梯度自然也是 0。
# - float16 最大到 65,504，两个梯度一乘很快就到。用 float32 计算。
#
# **评分内容**：两个函数与精确梯度、与有限差分对比；给定的 scale；能广播的各种形状的掩码，
# 一个键都看不到的行，被遮住的位置里放 1e30；半精度；输入保持原样。
# **不考**：dropout、对掩码求梯度、注意力前后的投影，以及像高速核那样不保存 `P`。
# **禁用**：torch、scipy、jax、autograd。约 60 分钟。

# %%
import numpy as np

# %% [markdown] tags=["en"]
# ## Task 1: back through the softmax
#
# The scores themselves are not needed: the weights say all that the derivative asks for. Every row
# of the answer sums to zero, since a constant added to all scores of a row changes no weight.

# %% [markdown] tags=["zh"]
# ## 任务 1：softmax 的反向传播
#
# 不需要分数本身：求导要用到的，权重里都有。答案每一行的和是零，
# 因为一行的分数同时加上一个常数，权重不变。


# %%
def softmax_backward(weights: np.ndarray, grad_weights: np.ndarray) -> np.ndarray:
    """Turn the gradient of the weights into the gradient of the scores.

    weights       (..., n), what the softmax over the last axis gave
    grad_weights  (..., n), the gradient of the loss for these weights
    returns the gradient of the loss for the scores, (..., n), in the dtype of both; float16 is
            computed in float32, float64 in float64. A row of zero weights, which saw nothing, gets
            zeros. Inputs of any strides, and empty ones, are left as they are
    """
    ### BEGIN SOLUTION
    wide = np.promote_types(weights.dtype, np.float32)
    p, dp = weights.astype(wide), grad_weights.astype(wide)
    mean = (p * dp).sum(axis=-1, keepdims=True)  # (..., 1)
    return (p * (dp - mean)).astype(weights.dtype)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: back through attention
#
# First forward again, up to the weights: stable, masked, with zeros for a row that sees nothing.
# Then back, from `grad_output` to the three inputs. The output itself is not needed.
#
# (Or only a little: the sum in the bracket, $\sum_t P_{it} dP_{it}$, is the dot product of row `i`
# of `dO` with row `i` of `O`. Fast kernels use that, for they never have a whole row of `dP`.)

# %% [markdown] tags=["zh"]
# ## 任务 2：注意力的反向传播
#
# 先重做前向，做到权重为止：数值稳定，带掩码，什么都看不到的行是 0。
# 然后从 `grad_output` 往回，一直到三个输入。用不到输出本身。
#
# （也可以用一点点：括号里的和 $\sum_t P_{it} dP_{it}$，正是 `dO` 第 `i` 行与 `O` 第 `i` 行的点积。
# 高速核用的就是它，因为它们手里从来没有完整的一行 `dP`。）


# %%
### BEGIN SOLUTION
def _weights(q: np.ndarray, k: np.ndarray, keep: np.ndarray | None, scale: float) -> np.ndarray:
    """The forward pass up to the weights: q (..., Lq, D), k (..., Lk, D) -> (..., Lq, Lk)."""
    scores = q @ np.swapaxes(k, -1, -2) * scale
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)  # (..., Lq, 1)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


### END SOLUTION


def attention_backward(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_output: np.ndarray,
    keep: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Turn the gradient of the output into the gradients of queries, keys and values.

    q, k, v      (..., Lq, D), (..., Lk, D) and (..., Lk, Dv), all with the same leading dimensions
    grad_output  (..., Lq, Dv), the gradient of the loss for output = softmax(q k^T * scale) v
    keep         None, or bool, broadcasting to (..., Lq, Lk): True = may attend
    scale        1/sqrt(D) unless it is given
    returns (dq, dk, dv), each with the shape of what it belongs to, in the dtype of all inputs;
            float16 is computed in float32, so that nothing overflows, float64 in float64. Scores
            may be thousands. Hidden keys (1e30 in them or in their values), and queries that see
            nothing, have no influence and get zeros. Inputs of any strides, and empty ones (no
            batch, or no query), are left as they are; one array may be passed several times
    """
    ### BEGIN SOLUTION
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    dtype, wide = q.dtype, np.promote_types(q.dtype, np.float32)
    q, k, v, grad_output = (x.astype(wide) for x in (q, k, v, grad_output))
    weights = _weights(q, k, keep, scale).astype(wide)  # (..., Lq, Lk)
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)  # (..., Lq, Lk)
    grad_scores = softmax_backward(weights, grad_weights)  # (..., Lq, Lk)
    dq = grad_scores @ k * scale  # (..., Lq, D)
    dk = np.swapaxes(grad_scores, -1, -2) @ q * scale  # (..., Lk, D)
    dv = np.swapaxes(weights, -1, -2) @ grad_output  # (..., Lk, Dv)
    return dq.astype(dtype), dk.astype(dtype), dv.astype(dtype)
    ### END SOLUTION
