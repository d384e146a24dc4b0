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
# - Queries come from `x`, keys *and* values from the context. With equal lengths nothing complains
#   when they are mixed up.
# - Masks are `keep` (True = may attend) and broadcast to `(B, H, Lq, Lk)` from the right. In a mask
#   `(B, Lq, Lk)`, one for each batch item, `B` lands on `H`, and where the two are equal nothing
#   complains. Whoever calls writes `keep[:, None]`.
# - What a row may not see must not count, however large it is. *Replace* a hidden score by `-inf`:
#   a score of `1e30` still wins after `1e9` is subtracted from it. (NaN is another matter:
#   `0 * nan` is `nan` in `weights @ v`, here as in PyTorch's own operator, so whoever pads with NaN
#   must clear it.)
# - `W_o` is no decoration. Without it, each number of the output comes from a single head, and the
#   heads never meet.
#
# **What is graded.** Splitting and merging, a width that does not divide; values in every dtype,
# self- and cross-attention, masks that broadcast, rows that may see nothing (weights 0, never NaN),
# numbers up to 1e30 in hidden tokens; the inputs untouched, in any layout; gradients. **Out of
# scope:** NaN or infinity in hidden tokens, dropout, positions, fewer key heads than query heads
# (ex07), speed. **Not allowed:** PyTorch's fused operator and its attention modules;
# `torch.softmax` is fine. The exercise stands alone: bring your attention from ex03 along, or write
# it again. About 50 minutes.

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


# %%
def split_heads(x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Cut the width of every token into heads: (B, L, E) -> (B, H, L, D).

    x          tensor (B, L, E), whose width E is H * D
    num_heads  H, the number of heads
    returns    tensor (B, H, L, D); head h holds the numbers h*D to (h+1)*D of each token
    raises     ValueError, with both numbers, if `num_heads` does not divide E
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


# %%
def merge_heads(x: torch.Tensor) -> torch.Tensor:
    """Lay the heads of every token side by side again: (B, H, L, D) -> (B, L, E).

    x        tensor (B, H, L, D)
    returns  tensor (B, L, H * D), the inverse of `split_heads`
    """
    ### BEGIN SOLUTION
    x = x.swapaxes(1, 2)  # (B, L, H, D)
    batch, length, num_heads, head_dim = x.shape
    return x.reshape(batch, length, num_heads * head_dim)  # (B, L, E)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 3: the whole of it, in NumPy
#
# Project, split, attend, merge, project: each step is one line of the picture above. The matrices
# are plain, so a projection is `x @ w`. Compute `float16` in `float32` and round at the end.
#
# Attention itself is that of ex03, for heads are one more leading axis to it: scores, mask, softmax
# over the keys, mixture. Think again about a row that may see nothing: its maximum is `-inf`, and
# `-inf - -inf` is NaN; its sum is 0, and `0 / 0` is NaN.


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

    query               array (B, Lq, E), float16, float32 or float64
    key, value          arrays (B, Lk, E)
    w_q, w_k, w_v, w_o  matrices (E, E); a projection is `x @ w`
    num_heads           H, a divisor of E
    keep                bool array that broadcasts to (B, H, Lq, Lk), True = may attend
    returns             output (B, Lq, E) and weights (B, H, Lq, Lk), in the dtype of `query`;
                        both are 0 in a row that may attend to nothing
    raises              ValueError, with both numbers, if `num_heads` does not divide E
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

    Parameters are those of `w_q`, `w_k`, `w_v` and `w_o`, each an `nn.Linear` from E to E.
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        """Create the four projections `w_q`, `w_k`, `w_v` and `w_o`.

        d_model    E, the width of tokens
        num_heads  H, a divisor of E
        bias       whether each of the four projections adds a bias
        raises     ValueError, with both numbers, if `num_heads` does not divide `d_model`
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

        x        tensor (B, Lq, E), in the dtype of the parameters
        context  tensor (B, Lk, E) that keys and values come from; None means `x`
        keep     bool tensor that broadcasts to (B, H, Lq, Lk), True = may attend
        returns  output (B, Lq, E) and weights (B, H, Lq, Lk), in the dtype of `x`; the weights are
                 0 in a row that may attend to nothing
        """
        ### BEGIN SOLUTION
        context = x if context is None else context
        q = split_heads(self.w_q(x), self.num_heads)  # (B, H, Lq, D)
        k = split_heads(self.w_k(context), self.num_heads)  # (B, H, Lk, D)
        v = split_heads(self.w_v(context), self.num_heads)  # (B, H, Lk, D)
        output, weights = _attention(q, k, v, keep)
        return self.w_o(merge_heads(output)), weights  # (B, Lq, E), (B, H, Lq, Lk)
        ### END SOLUTION
