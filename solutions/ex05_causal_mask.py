# %% [markdown] tags=["en"]
# # Causal masks
#
# **The question.** A language model learns to guess the next word. While it trains, it is given
# the whole sentence, also the words that it has to guess. If the word at position 3 may look at
# position 4, the model learns to copy, and nothing else. How do we keep every word from looking
# into the future? And what is "the future" when there are fewer queries than keys, as in every chat
# program while it writes?
#
# **What tutorials write, and what is meant here.** Most bugs in this exercise come from copying
# code that uses another convention. Here a mask is called `keep`, and **True = may attend**.
#
# | what tutorials write | what is meant here |
# |---|---|
# | `triu(ones(L, L), diagonal=1)`: ones are *hidden* | the opposite: `tril(ones(L, L))` |
# | the same with `diagonal=0`: hides the diagonal too | a word may look at itself |
# | `tril(ones(Lq, Lk))`: *top-left*, query 0 at key 0 | *bottom-right*: last query at last key |
# | `is_causal=True` in PyTorch: top-left | the same if `Lq == Lk`, and only then |
# | `causal=True` in FlashAttention since 2.1: bottom-right | the same |
# | a mask of `0` and `-inf`, added to the scores | booleans: `keep = (mask == 0)` |
# | `-1e9` for hidden scores: a row with all keys hidden averages all values | that row is 0 |
# | `window_size=(w, 0)` in FlashAttention: `w` keys *and* the query's own | `window = w + 1` |
# | `q - k <= w` in FlexAttention examples: the same, `w + 1` keys | `window = w + 1` |
# | `sliding_window=w` in Hugging Face's Mistral: `w` with the query's own | `window = w` |
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
# The second picture shows why it matters whether a mask is aligned top-left or bottom-right. A
# model that writes keeps the keys and values of all words so far and computes queries for the new
# words only. The new words are the *last* ones, so they line up with the last keys. If they were
# aligned top-left, they would see only the first words.
#
# Read *the cat sat down* from left to right (the picture): `sat` may see `the`, `cat` and itself,
# and gives 0.78 to `cat`. Compute the last two queries alone: their weights must be the same.
# Aligned top-left, `sat` would see only `the`, and give it 1.00.
#
# **By hand.** A query of zeros has the same score with every key. So its output is the mean of the
# values that it may see: for the values `6, 2, 1` the outputs are `6`, `8 / 2` and `9 / 3`. The
# last two queries alone give the last two outputs:
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
# - A test with `Lq == Lk` passes with every alignment. Try a mask with two queries and three keys.
# - Hide *before* the softmax. Weights that are zeroed after it no longer sum to one, since the
#   hidden keys are still counted in the sum that softmax divides by.
# - With more queries than keys the first rows see nothing. A softmax over nothing but `-inf` is
#   `nan`; the answer here is 0.
#
# **What is graded.** The two masks, for any lengths and any window of at least 1; the attention,
# with any leading dimensions, and its gradients. There are separate checks for
#
# - `Lq` smaller than `Lk`, and larger; a query that sees no key has the output 0;
# - the future, which must have no influence: 1e30 in keys and values, NaN in keys;
# - half precision, computed in float32, and float64, computed in float64;
# - a batch of 0 (for the masks, lengths of 0 too), and inputs that are not contiguous.
#
# Two points are for speed: your time is compared with that of the textbook's causal attention,
# which earns none of them, and with that of PyTorch's fused operator, which earns both. **Out of
# scope:** padding (ex02), a cache that stores the old keys (ex06), attention with a window. **Not
# allowed:** the fused operator (`scaled_dot_product_attention`) and PyTorch's attention modules.
# About 40 minutes.

# %% [markdown] tags=["zh"]
# # 因果掩码
#
# **问题。** 语言模型学的是预测下一个词。训练时整个句子都摆在它面前，答案也在里面；
# 如果位置 3 的词能看到位置 4，模型只会学会照抄。怎样让每个词都看不到未来？
# 当查询比键少时，“未来”又指什么？聊天程序生成回答时，每一步都是这种情况。
#
# **教程里的写法，这里的含义。** 这道题里的 bug 大多来自照抄约定不同的代码。
# 这里的掩码叫 `keep`，**True = 允许关注**。
#
# | 教程里的写法 | 这里的含义 |
# |---|---|
# | `triu(ones(L, L), diagonal=1)`：1 表示**遮住** | 正相反：`tril(ones(L, L))` |
# | 同上，但 `diagonal=0`：对角线也被遮住 | 词可以看自己 |
# | `tril(ones(Lq, Lk))`：**左上对齐**，查询 0 对键 0 | **右下对齐**：最后一个查询对最后一个键 |
# | PyTorch 的 `is_causal=True`：左上对齐 | 只有 `Lq == Lk` 时才相同 |
# | FlashAttention 2.1 起的 `causal=True`：右下对齐 | 相同 |
# | 由 `0` 和 `-inf` 组成、加到分数上的掩码 | 布尔值：`keep = (mask == 0)` |
# | 用 `-1e9` 遮住分数：所有键都被遮住的行变成所有值的平均 | 这样的行是 0 |
# | FlashAttention 的 `window_size=(w, 0)`：`w` 个键，**外加**查询自己的键 | `window = w + 1` |
# | FlexAttention 示例里的 `q - k <= w`：同样是 `w + 1` 个键 | `window = w + 1` |
# | Hugging Face 的 Mistral 里的 `sliding_window=w`：连查询自己的键共 `w` 个 | `window = w` |
# | `abs(q - k) <= w`：前后两边都看 | 因果：查询之后的一概不看 |
#
# **公式。** 查询 $i$ 位于位置 $p_i = i + L_k - L_q$，键 $j$ 位于位置 $j$。
# 查询可以看自己的位置和它之前的位置：
#
# $$\text{keep}_{ij} = (j \le p_i) \qquad\text{窗口为 } w \text{ 时：}\qquad
# p_i - w < j \le p_i$$
#
# 因果注意力就是套上这个掩码的注意力：
# $\text{softmax}(QK^T / \sqrt{D} \text{，遮住的分数} = -\infty)\,V$。
#
# **形状。** 掩码的形状是 `(Lq, Lk)`；`■` 表示 True。最后一行总是对着最后一列：
#
# ```text
#   Lq = Lk = 4        Lq = 2, Lk = 4       Lq = 4, Lk = 2       Lq = Lk = 4, window = 2
#       键                 键                   键                   键
# q 0 │ ■ · · ·      q 0 │ ■ ■ ■ ·        q 0 │ · ·            q 0 │ ■ · · ·
# q 1 │ ■ ■ · ·      q 1 │ ■ ■ ■ ■        q 1 │ · ·            q 1 │ ■ ■ · ·
# q 2 │ ■ ■ ■ ·                           q 2 │ ■ ·            q 2 │ · ■ ■ ·
# q 3 │ ■ ■ ■ ■                           q 3 │ ■ ■            q 3 │ · · ■ ■
#   训练               两个旧词之后         两行零               短记忆
#                      来了两个新词
# ```
#
# 第二幅图说明了为什么左上对齐和右下对齐的区别很重要。模型生成时，会留着到目前为止所有词的键和值，
# 只为新词计算查询。新词是**最后**的几个词，所以与最后的几个键对齐。
# 如果左上对齐，它们就只能看到最前面的几个词。
#
# 从左到右读 *the cat sat down*（见图）：`sat` 看得见 `the`、`cat` 和它自己，给 `cat` 0.78。
# 只算最后两个词时，结果不能变。若对齐左上角，`sat` 只看得见 `the`，给它 1.00。
#
# **手算一遍。** 全为零的查询对每个键的分数都相同，输出就是看得见的各个值的平均：
# 值为 `6, 2, 1` 时，输出依次是 `6`、`8 / 2`、`9 / 3`。只用最后两个查询，
# 得到的就是最后两个输出：
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
# **陷阱。**
#
# - `Lq == Lk` 的测试，哪种对齐都能通过。要用两个查询、三个键来试你的掩码。
# - 要在 softmax **之前**遮住。在它之后清零，权重之和就不再是 1，
#   因为 softmax 的分母里还算着被遮住的键。
# - 查询比键多时，开头几行什么也看不到。对一整行 `-inf` 做 softmax 得到 `nan`；
#   这里的答案是 0。
#
# **评分内容。** 两个掩码，任意长度、任意不小于 1 的窗口；注意力，任意前导维，以及它的梯度。
# 下列各项有单独的检查：
#
# - `Lq` 小于 `Lk` 和大于 `Lk`；什么键都看不到的查询，输出是 0；
# - 未来没有任何影响：键和值里放 1e30，键里放 NaN；
# - 半精度用 float32 计算，float64 用 float64 计算；
# - 空的和不连续的输入。
#
# 速度占两分：把你的用时与教科书写法的因果注意力（得 0 分）
# 和 PyTorch 融合算子（得 2 分）的用时比较。
# **不在范围内：** 填充（ex02）、存放旧键的缓存（ex06）、带窗口的注意力。
# **不允许：** 融合算子和 PyTorch 的注意力模块。约 40 分钟。

# %%
import math

import torch

# %% [markdown] tags=["en"]
# ## Task 1: nothing from the future
#
# Make two rows of numbers, the positions of the queries and the positions of the keys, and compare
# them. `torch.arange` counts, and `[:, None]` turns a row into a column, so that the comparison
# broadcasts to a table. Build the table on `device`.

# %% [markdown] tags=["zh"]
# ## 任务 1：不看未来
#
# 做两行数，一行是查询的位置，一行是键的位置，再把它们比较一次。`torch.arange` 负责数数，
# `[:, None]` 把一行变成一列，比较时就会广播成一张表。这张表要建在 `device` 上。


# %%
def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> torch.Tensor:
    """Say which keys each query may attend to when it must not look ahead.

    q_len   number of queries, 0 or more; query i stands at position i + k_len - q_len
    k_len   number of keys, 0 or more; key j stands at position j. Two queries may have 200,000
            keys: build nothing of (k_len, k_len)
    device  where the mask is built; None is PyTorch's default
    returns keep (q_len, k_len), boolean, True = may attend; rows of False where a query
            stands before the first key; a new tensor at every call, which its caller may change
    """
    ### BEGIN SOLUTION
    positions = torch.arange(q_len, device=device)[:, None] + (k_len - q_len)  # (Lq, 1)
    return torch.arange(k_len, device=device) <= positions  # (Lq, Lk)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: a short memory
#
# A window bounds the work and the memory of a long text. Of the keys that are not in the future,
# each query sees only the last `window`; its own key is one of them. With `window=1` a word sees
# only itself; with a window as long as the text the mask is that of task 1. Compute how far each
# key lies behind each query: this number must not be negative, and it must be less than `window`.

# %% [markdown] tags=["zh"]
# ## 任务 2：短记忆
#
# 窗口给长文本的计算量和内存设了上限：在不属于未来的键里，
# 每个查询只看最后 `window` 个，自己的键也算在内。`window=1` 时，词只看自己；
# 窗口和文本一样长时，结果不变。先算每个键落后每个查询多远：
# 这个数不能为负，而且要小于 `window`。


# %%
def sliding_window_mask(
    q_len: int, k_len: int, window: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """Say which keys each query may attend to when it sees the last `window` keys only.

    q_len   number of queries, 0 or more; query i stands at position i + k_len - q_len
    k_len   number of keys, 0 or more; key j stands at position j. Here, too, two queries may have
            200,000 keys
    window  how many keys a query sees at most, its own among them; at least 1, and it may be much
            larger than k_len (sys.maxsize, say)
    device  where the mask is built; None is PyTorch's default
    returns keep (q_len, k_len), boolean, True = may attend; a new tensor at every call, which its
            caller may change
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
# Then make it fast. The textbook computes all `Lq * Lk` scores and throws away half of them. Take
# the queries in chunks of a few dozen rows instead. The last row of a chunk stands at a known
# position, and no row of the chunk looks further, so a *slice* of the keys and values will do:
#
# ```text
#                 keys
#             0 1 2 3 4 5
# chunk 0 ┌ 0 ■ · ┆                   chunk 1 and its slice of the keys:
#         └ 1 ■ ■ ┆  not read
# chunk 1 ┌ 2 ■ ■ ■ · ┆                   2 │ ■ ■ ■ ·
#         └ 3 ■ ■ ■ ■ ┆                   3 │ ■ ■ ■ ■
# chunk 2 ┌ 4 ■ ■ ■ ■ ■ · ┆
#         └ 5 ■ ■ ■ ■ ■ ■ ┆
# ```
#
# Within a chunk, the last query again lines up with the last key of its slice. So in a
# chunk of n rows only the last n columns of the slice need a mask.
#
# A slice may also be empty. A softmax over no keys at all, times no values at all, is a row of
# zeros: just what a query that sees nothing should get.

# %% [markdown] tags=["zh"]
# ## 任务 3：因果注意力
#
# 先写教科书的版本：分数、任务 1 的掩码、softmax、乘以值。
# 半精度用 float32 计算，只在最后舍入一次。
#
# 然后提速。教科书的写法算出全部 `Lq * Lk` 个分数，再扔掉一半。改为把查询分块，每块几十行。
# 一块的最后一行在什么位置是已知的，块里没有哪一行看得更远，
# 所以键和值只取一个**切片**就够了：
#
# ```text
#                  键
#             0 1 2 3 4 5
#    块 0 ┌ 0 ■ · ┆                   块 1 和它的那段键：
#         └ 1 ■ ■ ┆  不读
#    块 1 ┌ 2 ■ ■ ■ · ┆                   2 │ ■ ■ ■ ·
#         └ 3 ■ ■ ■ ■ ┆                   3 │ ■ ■ ■ ■
#    块 2 ┌ 4 ■ ■ ■ ■ ■ · ┆
#         └ 5 ■ ■ ■ ■ ■ ■ ┆
# ```
#
# 在一块里，最后一个查询仍然对着它那段键的最后一个。所以一段键里只有最后几列需要掩码，
# 列数与这一块的行数相同。
#
# 切片也可能是空的。对零个键做 softmax，再乘以零个值，得到一行零：
# 什么都看不到的查询正该得到这个结果。


# %%
def causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attend without looking ahead, and without computing what would be thrown away.

    q       (..., Lq, D); query i stands at position i + Lk - Lq
    k       (..., Lk, D)
    v       (..., Lk, Dv)
    returns output (..., Lq, Dv) in the dtype and on the device of q; 0 where a query stands
            before the first key

    The scale is 1/sqrt(D). Later keys and values have no influence, not even 1e30 in both of them
    or NaN in a key. float16 and bfloat16 are computed in float32 and converted back at the end;
    float64 is computed in float64. Scores may be very large or very low: if all of q k^T, before
    the scale and the mask, fits the dtype that is computed in, nothing overflows, and weights lose
    no digits. Gradients flow to q, k and v in every dtype and, of finite inputs, are never NaN.
    There may be any number of leading dimensions, and the batch may be 0; Lq and Lk are at least 1.
    Tensors may be strided or expanded. The function changes neither its inputs nor tensors that it
    returned earlier.
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
