# %% [markdown] tags=["en"]
# # Causal masks
#
# **The question.** A language model learns to guess the next word. While it trains, the whole
# sentence lies before it, the answer included; if the word at position 3 may look at position 4, it
# learns to copy, and nothing else. How do we keep every word from looking into the future? And what
# is "the future" when there are fewer queries than keys, as in every chat program while it writes?
#
# **What tutorials write, and what is meant here.** Most bugs in this exercise are somebody else's
# convention. Here a mask is called `keep`, and **True = may attend**.
#
# | what tutorials write | what is meant here |
# |---|---|
# | `triu(ones(L, L), diagonal=1)`: ones are *hidden* | the opposite: `tril(ones(L, L))` |
# | the same with `diagonal=0`: hides the diagonal too | a word may look at itself |
# | `tril(ones(Lq, Lk))`: *top-left*, query 0 at key 0 | *bottom-right*: last query at last key |
# | `is_causal=True` in PyTorch: top-left | the same if `Lq == Lk`, and only then |
# | `causal=True` in FlashAttention since 2.1: bottom-right | the same |
# | a mask of `0` and `-inf`, added to the scores | booleans: `keep = (mask == 0)` |
# | `-1e9` for hidden scores: an empty row averages everything | hidden is 0, an empty row too |
# | `window_size=(w, 0)` in FlashAttention: `w` keys *and* the own one | `window = w + 1` |
# | `q - k <= w` in FlexAttention examples: the same, `w + 1` keys | `window = w + 1` |
# | `sliding_window=w` in Hugging Face's Mistral: `w` with the own one | `window = w` |
# | `abs(q - k) <= w`: looks to both sides | causal: nothing ahead of the query |
#
# **The formula.** Query $i$ stands at position $p_i = i + L_k - L_q$, key $j$ at position $j$. The
# query may look at its own position and at what lies behind it:
#
# $$\text{keep}_{ij} = (j \le p_i) \qquad\text{and with a window of } w\text{:}\qquad
# p_i - w < j \le p_i$$
#
# Causal attention is attention under that mask:
# $\text{softmax}(QK^T / \sqrt{D} \text{, hidden scores} = -\infty)\,V$.
#
# **The shapes.** Masks are `(Lq, Lk)`; `■` is True. The last row always meets the last column:
#
# ```text
#   Lq = Lk = 4        Lq = 2, Lk = 4       Lq = 4, Lk = 2       Lq = Lk = 4, window = 2
#       keys               keys                 keys                 keys
# q 0 │ ■ · · ·      q 0 │ ■ ■ ■ ·        q 0 │ · ·            q 0 │ ■ · · ·
# q 1 │ ■ ■ · ·      q 1 │ ■ ■ ■ ■        q 1 │ · ·            q 1 │ ■ ■ · ·
# q 2 │ ■ ■ ■ ·                           q 2 │ ■ ·            q 2 │ · ■ ■ ·
# q 3 │ ■ ■ ■ ■                           q 3 │ ■ ■            q 3 │ · · ■ ■
#   training           two new words        two rows of zeros    short memory
#                      after two old ones
# ```
#
# The second picture is why the corner matters. A model that writes keeps the keys and values of all
# words so far and computes queries for the new words only. The new words are the *last* ones, so
# they line up with the last keys. Top-left, they would see the first words and nothing else.
#
# **By hand.** Queries of zeros find every visible key equally good, so each output is the mean of
# the values so far: of `6, 2, 1` that is `6`, then `8 / 2`, then `9 / 3`. Asking only with the last
# two queries gives the last two answers:
#
# ```pycon
# >>> causal_mask(2, 3).int().tolist()
# [[1, 1, 0], [1, 1, 1]]
# >>> sliding_window_mask(3, 3, window=2).int().tolist()
# [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
# >>> x, v = torch.zeros(3, 1), torch.tensor([[6.0], [2.0], [1.0]])
# >>> causal_attention(x, x, v).flatten().round(decimals=4).tolist()
# [6.0, 4.0, 3.0]
# >>> causal_attention(x[1:], x, v).flatten().round(decimals=4).tolist()
# [4.0, 3.0]
# ```
#
# **The traps.**
#
# - Square tests forgive every alignment. Try two queries and three keys before you believe a mask.
# - Hide *before* the softmax. Weights that are zeroed after it no longer sum to one, and the hidden
#   keys have had their say in the denominator.
# - With more queries than keys the first rows see nothing. A softmax over nothing but `-inf` is
#   `nan`; the answer here is 0.
#
# **What is graded.** The two masks, for any lengths and any window of at least 1; the attention in
# every dtype, with any leading dimensions, for `Lq` smaller and larger than `Lk`; rows of nothing,
# which give 0; that the future has no influence (1e30 in keys and values, NaN in keys); gradients.
# Two points are for speed: the time between the textbook's causal attention and PyTorch's fused
# operator. **Out of scope:** padding (ex02), a cache that stores the old keys (ex06), attention
# with a window. **Not allowed:** the fused operator and PyTorch's attention modules. About 40
# minutes.

# %%
import math

import torch

# %% [markdown] tags=["en"]
# ## Task 1: nothing from the future
#
# Two rows of numbers, the positions of the queries and the positions of the keys, and one
# comparison between them. `torch.arange` counts, and `[:, None]` stands a row up as a column, so
# that the comparison broadcasts to a table. Build it on `device`.


# %%
def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> torch.Tensor:
    """Say which keys each query may attend to when it must not look ahead.

    q_len   number of queries; query i stands at position i + k_len - q_len
    k_len   number of keys; key j stands at position j
    device  where the mask is built; None is PyTorch's default
    returns keep (q_len, k_len), boolean, True = may attend; rows of False where a query
            stands before the first key
    """
    ### BEGIN SOLUTION
    positions = torch.arange(q_len, device=device)[:, None] + (k_len - q_len)  # (Lq, 1)
    return torch.arange(k_len, device=device) <= positions  # (Lq, Lk)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: a short memory
#
# A window bounds the work and the memory of a long text: each query sees the last `window` keys
# that causality leaves it, its own among them. With `window=1` a word sees only itself; with a
# window as long as the text nothing changes. Ask how far each key lies behind each query: that
# number must not be negative, and it must be less than `window`.


# %%
def sliding_window_mask(
    q_len: int, k_len: int, window: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """Say which keys each query may attend to when it sees the last `window` keys only.

    q_len   number of queries; query i stands at position i + k_len - q_len
    k_len   number of keys; key j stands at position j
    window  how many keys a query sees at most, its own among them; at least 1
    device  where the mask is built; None is PyTorch's default
    returns keep (q_len, k_len), boolean, True = may attend
    """
    ### BEGIN SOLUTION
    positions = torch.arange(q_len, device=device)[:, None] + (k_len - q_len)  # (Lq, 1)
    behind = positions - torch.arange(k_len, device=device)  # (Lq, Lk)
    return (behind >= 0) & (behind < window)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 3: causal attention
#
# Write the textbook's way first: scores, the mask of task 1, softmax, values. Half precision is
# computed in float32 and rounded once, at the end.
#
# Then for the speed. The textbook computes all `Lq * Lk` scores and throws away half of them. Take
# the queries in chunks of a few dozen rows instead. The last row of a chunk stands at a known
# position, and no row of the chunk looks further, so a *slice* of the keys and values will do:
#
# ```text
#                 keys
#             0 1 2 3 4 5             a chunk and its slice of the keys
# chunk 0 ┌ 0 ■ · ┆                   meet bottom-right again:
#         └ 1 ■ ■ ┆  not read
# chunk 1 ┌ 2 ■ ■ ■ · ┆                   2 │ ■ ■ ■ ·
#         └ 3 ■ ■ ■ ■ ┆                   3 │ ■ ■ ■ ■
# chunk 2 ┌ 4 ■ ■ ■ ■ ■ · ┆
#         └ 5 ■ ■ ■ ■ ■ ■ ┆           only the last square has something to hide
# ```
#
# A slice may also be empty. A softmax over no keys at all, times no values at all, is a row of
# zeros: just what a query that sees nothing should get.


# %%
def causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attend without looking ahead, and without computing what would be thrown away.

    q       (..., Lq, D); query i stands at position i + Lk - Lq
    k       (..., Lk, D)
    v       (..., Lk, Dv)
    returns output (..., Lq, Dv) in the dtype and on the device of q; 0 where a query stands
            before the first key; not even NaN in a later key has any influence
    """
    ### BEGIN SOLUTION
    q_len, past = q.shape[-2], k.shape[-2] - q.shape[-2]  # query i stands at position past + i
    rows = 64  # of queries in a chunk
    wide = torch.promote_types(q.dtype, torch.float32)
    q_scaled = q.to(wide) / math.sqrt(q.shape[-1])
    k_wide, v_wide = k.to(wide), v.to(wide)

    starts = [0, *range(max(-past, 0), q_len, rows)]  # the rows that see nothing come first
    outputs = []
    for start, stop in zip(starts, [*starts[1:], q_len], strict=True):
        seen = max(past + stop, 0)  # keys that some row of the chunk sees
        shared = max(past + start, 0)  # keys that every row of the chunk sees
        scores = q_scaled[..., start:stop, :] @ k_wide[..., :seen, :].mT  # (..., rows, seen)
        keep = causal_mask(stop - start, seen - shared, q.device)
        scores[..., shared:].masked_fill_(~keep, -torch.inf)
        outputs.append(torch.softmax(scores, dim=-1) @ v_wide[..., :seen, :])
    return torch.cat(outputs, dim=-2).to(q.dtype)  # (..., Lq, Dv)
    ### END SOLUTION
