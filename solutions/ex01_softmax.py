# %% [markdown] tags=["en"]
# # Softmax
#
# **The question.** Attention asks, for one word, how much each other word matters. A dot product
# answers with *scores*: any real numbers, some negative, some huge. To mix values we need
# *weights*: none negative, summing to one. How do we turn scores into weights without losing who
# won, and by how much?
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
# That second line is more than a curiosity. `exp(89)` no longer fits into float32, so the formula
# typed in as it stands gives `inf / inf = nan` for quite ordinary scores. Since a constant may be
# added to a row for free, choose minus the row's maximum: the largest exponent is then `exp(0) = 1`
# and nothing can overflow.
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
# **What is graded.** Values in every dtype, any axis, any rank, scores up to ±10,000, long rows in
# half precision; the input untouched; dtype kept; the gradient (PyTorch). **Out of scope:** masks
# (the next exercise) and speed. **Not allowed:** PyTorch's and SciPy's own softmax. About 30
# minutes.

# %%
import numpy as np
import torch


# %% [markdown] tags=["en"]
# ## Task 1: in NumPy
#
# Three steps: the maximum along the axis, the exponentials of what remains, the division by their
# sum. `float16` input is computed in `float32` and given back as `float16`.


# %%
def softmax_numpy(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Turn the scores of an array into weights along `axis`, in NumPy.

    x       array of any shape, float16, float32 or float64; it is not changed
    axis    the axis along which the weights sum to one
    returns an array of the shape and dtype of `x`
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


# %%
def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Turn the scores of a tensor into weights along `dim`, in PyTorch.

    x       tensor of any shape, float16, bfloat16, float32 or float64; it is not changed
    dim     the dimension along which the weights sum to one
    returns a tensor of the shape, dtype and device of `x`, through which gradients flow
    """
    ### BEGIN SOLUTION
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    powers = torch.exp(wide - wide.amax(dim=dim, keepdim=True))
    weights = powers / powers.sum(dim=dim, keepdim=True)
    return weights.to(x.dtype)
    ### END SOLUTION
