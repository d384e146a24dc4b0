# %% [markdown] tags=["en"]
# # Online softmax and tiled attention
#
# **The question.** Attention over 100,000 tokens has a table of ten billion scores for every head,
# and the table is used once and thrown away. Could we compute a few columns at a time, and forget
# them before the next come? The trouble is softmax: it divides by a sum over the *whole* row, and
# subtracts the maximum of the whole row, and neither is known until the last column has been seen.
#
# **The formula.** Keep the maximum $m$ and the sum $\ell$ of the exponentials *so far*, and the
# weighted sum of the values $o$, which is not yet divided by $\ell$. When a block of scores $s_j$
# arrives whose maximum is higher, all exponentials summed so far used the old maximum, which is now
# wrong. One factor corrects both sums:
#
# $$m' = \max\big(m, \max_j s_j\big) \qquad
#   \ell' = e^{m - m'}\,\ell + \sum_j e^{s_j - m'} \qquad
#   o' = e^{m - m'}\,o + \sum_j e^{s_j - m'}\, v_j$$
#
# Start with $m = -\infty$, $\ell = 0$ and $o = 0$. After the last block the attention is $o /
# \ell$; this is exact, not an approximation. And $m + \ln \ell$ is the logarithm of the sum of the
# exponentials, *lse* (log-sum-exp) for short. This is how FlashAttention works: its tiles fit into
# the fast memory of a GPU.
#
# **The shapes.** A tile is `block_size` keys wide; the last tile may be narrower. A tile may hold
# all queries, as here, or only some of them.
#
# ```text
#              block_size keys
#             ┌───────┬───────┬───────┬───┐
#             │       │       │       │   │
#   Lq        │ tile 0│ tile 1│ tile 2│ 3 │      never more than one tile at a time,
#   queries   │       │       │       │   │      instead of a table of Lq x Lk scores
#             └───────┴───────┴───────┴───┘
#               ─────────────────────────>
#     carried along, for every query:  m (..., Lq)   ℓ (..., Lq)   o (..., Lq, Dv)
# ```
#
# **By hand.** Let the exponentials of four scores be 2, 1, 4, 8, in blocks of two. In the first
# block the largest exponential is 2, so $m = \ln 2$. Divided by 2, the two exponentials are 1 and
# 1/2, and $\ell = 1.5$. In the second block 8 is the largest: the old sum is multiplied by $2/8$,
# which gives 0.375, and $\frac48 + 1$ is added. The sum is 1.875, and indeed
# $(2 + 1 + 4 + 8) / 8 = 1.875$.
#
# ```pycon
# >>> x = torch.tensor([2.0, 1.0, 4.0, 8.0]).log()
# >>> row_max, row_sum = online_softmax(x, block_size=2)
# >>> round(row_max.exp().item(), 4), round(row_sum.item(), 4)
# (8.0, 1.875)
# ```
#
# Two answers over different keys can be joined later, if each brings its lse. Say that one part has
# the output 8 and exponentials that sum to 1, and the other has the output 4 and a sum of 3. Then
# the first has a quarter of the weight:
#
# ```pycon
# >>> a = torch.tensor([[8.0]]), torch.tensor([1.0]).log()
# >>> b = torch.tensor([[4.0]]), torch.tensor([3.0]).log()
# >>> output, lse = merge_partials(a, b)
# >>> round(output.item(), 4), round(lse.exp().item(), 4)
# (5.0, 4.0)
# ```
#
# With scores of zero, attention takes the plain average, and lse is the logarithm of the number of
# keys:
#
# ```pycon
# >>> v = torch.tensor([[1.0], [2.0], [6.0]])
# >>> output, lse = flash_attention(torch.zeros(1, 4), torch.zeros(3, 4), v, block_size=2)
# >>> round(output.item(), 4), round(lse.exp().item(), 4)
# (3.0, 3.0)
# ```
#
# **The traps.**
#
# - The factor is $e^{m - m'}$, at most 1: what is old shrinks. It belongs to the sum *and* to the
#   output. With one block, or if the first block holds the maximum, nobody notices that it is
#   missing.
# - The running maximum starts at $-\infty$. If it started at 0 and all scores of a row were -1000,
#   it would stay 0, and every exponential would become 0.
# - $-\infty - (-\infty)$ is NaN. It arises when everything seen so far is hidden: a block above the
#   causal diagonal, a row that sees nothing, an empty part in a merge. Subtract a finite number
#   there, *before* taking the exponential: a NaN that is replaced afterwards comes back in the
#   gradient.
# - `Lk` need not be a multiple of `block_size`; the last block may be shorter. If you pad it to the
#   full size, mask the padding, because a key of zeros has the score 0, not $-\infty$.
# - Inside a tile, column `j` is key `start + j`. The causal test needs the key's place in the text;
#   and query `i` sits at `i + Lk - Lq`, as everywhere in this course.
# - lse is the natural logarithm of the sum of $e^{s}$, so the maximum has to be added back. Some
#   kernels compute in powers of 2 inside, which is faster on a GPU, and must convert at the end.
# - If you keep all tiles in a list, you use as much memory as the whole table. Keep $m$, $\ell$ and
#   $o$, and nothing else.
# - Under autograd PyTorch keeps every tile for the backward pass, so the memory that you saved is
#   used after all. FlashAttention therefore has a backward pass of its own, which computes the
#   tiles again with the help of lse; this is why lse is returned. You do not have to write that
#   pass.
#
# **What is graded.** The row maximum and the row sum, for every block size, for hidden and for very
# large scores; merging, also with empty parts; tiled attention in every dtype, causal or not, with
# any scale and any `block_size`, its lse, and queries that see no key; gradients through all
# results; inputs that must not change.
#
# For 4 of the 17 points the peak memory is measured. The grader calls `flash_attention` with 2048
# queries and 32,768 keys, and with 16 queries and 262,144 keys in 8 heads (in float64), and
# `online_softmax` with a row of about 71 million scores. An answer that makes the whole table of
# scores, or a copy of the whole row, needs at least 256 MiB and earns none of these points. **Out
# of scope:** masks other than causal, dropout, fewer key heads than query heads, speed, and a
# backward pass by hand. **Not allowed:** PyTorch's fused operator and its attention modules. About
# 70 minutes.

# %% [markdown] tags=["zh"]
# # 在线 softmax 与分块注意力
#
# **问题。** 对 100,000 个 token 做注意力，每个头都有一张一百亿个分数的表，
# 而这张表只用一次就扔掉。能不能一次只算几列，在下一批到来之前就把它们忘掉？
# 麻烦出在 softmax：它要除以**整行**的和，还要减去整行的最大值，
# 而看完最后一列之前，这两个数都不知道。
#
# **公式。** 记住**到目前为止**的最大值 $m$、指数之和 $\ell$，
# 以及值的加权和 $o$（还没有除以 $\ell$）。
# 如果新来的一块分数 $s_j$ 里有更大的值，之前累加的指数用的就都是旧的最大值，现在已经不对了。
# 用一个因子就能更正两个和：
#
# $$m' = \max\big(m, \max_j s_j\big) \qquad
#   \ell' = e^{m - m'}\,\ell + \sum_j e^{s_j - m'} \qquad
#   o' = e^{m - m'}\,o + \sum_j e^{s_j - m'}\, v_j$$
#
# 开始时 $m = -\infty$，$\ell = 0$，$o = 0$。最后一块之后，注意力就是 $o / \ell$，
# 是精确值，不是近似；而 $m + \ln \ell$ 是指数之和的对数，简称 **lse**（log-sum-exp）。
# FlashAttention 就是这样做的：它的一块正好放得进 GPU 的高速内存。
#
# **形状。** 一块（tile）有 `block_size` 个键宽，最后一块可能窄一些。
# 一块可以像下图这样包含全部查询，也可以只包含一部分查询。
#
# ```text
#              block_size 个键
#             ┌───────┬───────┬───────┬───┐
#             │       │       │       │   │
#   Lq        │ 块 0  │ 块 1  │ 块 2  │ 3 │      任何时候只有一块，
#   个查询    │       │       │       │   │      而不是 Lq x Lk 个分数的表
#             └───────┴───────┴───────┴───┘
#               ─────────────────────────>
#     每个查询一路带着：  m (..., Lq)   ℓ (..., Lq)   o (..., Lq, Dv)
# ```
#
# **手算一遍。** 设四个分数的指数是 2、1、4、8，每块两个。第一块里最大的指数是 2，所以 $m = \ln 2$；
# 除以 2，两个指数成为 1 和 1/2，$\ell = 1.5$。第二块里 8 最大：旧的和乘以 $2/8$，变成 0.375，
# 再加上 $\frac48 + 1$，得 1.875。果然 $(2 + 1 + 4 + 8) / 8 = 1.875$。
#
# ```pycon
# >>> x = torch.tensor([2.0, 1.0, 4.0, 8.0]).log()
# >>> row_max, row_sum = online_softmax(x, block_size=2)
# >>> round(row_max.exp().item(), 4), round(row_sum.item(), 4)
# (8.0, 1.875)
# ```
#
# 对不同的键算出的两份答案，只要各自带着 lse，以后就能合并。设一份的输出是 8，
# 指数之和是 1；另一份的输出是 4，指数之和是 3。那么第一份占四分之一的权重：
#
# ```pycon
# >>> a = torch.tensor([[8.0]]), torch.tensor([1.0]).log()
# >>> b = torch.tensor([[4.0]]), torch.tensor([3.0]).log()
# >>> output, lse = merge_partials(a, b)
# >>> round(output.item(), 4), round(lse.exp().item(), 4)
# (5.0, 4.0)
# ```
#
# 分数全为零时，注意力就是简单平均，lse 是键的个数的对数：
#
# ```pycon
# >>> v = torch.tensor([[1.0], [2.0], [6.0]])
# >>> output, lse = flash_attention(torch.zeros(1, 4), torch.zeros(3, 4), v, block_size=2)
# >>> round(output.item(), 4), round(lse.exp().item(), 4)
# (3.0, 3.0)
# ```
#
# **陷阱。**
#
# - 因子是 $e^{m - m'}$，最大为 1：旧的要缩小。和与输出**都**要乘它。
#   只有一块，或者最大值就在第一块时，漏了它谁也看不出来。
# - 运行中的最大值从 $-\infty$ 开始。如果从 0 开始，一行分数全是 -1000 时，
#   最大值永远是 0，所有指数都变成零。
# - $-\infty - (-\infty)$ 是 NaN。到目前为止的全部内容都被遮住时就会出现：
#   因果对角线上方的一块，什么都看不到的一行，合并时的空部分。
#   这时要在取指数**之前**改为减去一个有限的数：事后再替换 NaN，它会在梯度里重新出现。
# - `Lk` 不一定是 `block_size` 的整数倍。最后一块短一些；如果把它补齐，就必须遮住补上的部分，
#   因为全零的键分数是 0，不是 $-\infty$。
# - 块内第 `j` 列是第 `start + j` 个键。判断因果关系要用键在文本中的位置；
#   查询 `i` 则位于 `i + Lk - Lq`，与整个课程一致。
# - lse 是 $e^{s}$ 之和的自然对数，所以要把最大值加回来。
#   有些 kernel 内部用 2 的幂来算，在 GPU 上更快，最后必须换算回来。
# - 如果把所有的块都放进一个列表，占的内存就和整张表一样多。
#   只保留 $m$、$\ell$ 和 $o$，别的都不要留。
# - 在 autograd 下，PyTorch 会为反向传播保留每一块，省下的内存最终还是用掉了。
#   所以 FlashAttention 有自己的反向传播，利用 lse 重新算出各块：返回 lse 正是为此。
#   这个反向传播不要求你写。
#
# **评分内容。** 各种块大小下每行的最大值与和，包括被遮住的分数和很大的分数；合并，包括空部分；
# 各种 dtype 的分块注意力，因果或非因果，任意 scale、任意 `block_size`，它的 lse，
# 以及什么键都看不到的查询；经由所有结果的梯度；不修改输入。
#
# 17 分里有 4 分看内存峰值：评分器让 `flash_attention` 处理 2048 个查询、32,768 个键，
# 以及 8 个头、16 个查询、262,144 个键（float64），
# 并让 `online_softmax` 读一行约 7100 万个分数。
# 存下整张分数表，或者把这一行整个复制出来，至少要 256 MiB，这 4 分就得不到。
# **不在范围内：** 因果以外的掩码、dropout、键的头数少于查询的头数、速度，以及手写反向传播。
# **不允许：** PyTorch 的融合算子和它的注意力模块。约 70 分钟。

# %%
import math

import torch

### BEGIN SOLUTION


def _blocks(length: int, block_size: int) -> list[slice]:
    """The places 0 to length - 1 in runs of `block_size`; the last may be shorter."""
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}, but should be at least 1")
    return [slice(i, min(i + block_size, length)) for i in range(0, length, block_size)]


def _finite(top: torch.Tensor) -> torch.Tensor:
    """What to subtract: the maximum, or 0 where nothing was seen, since -inf - -inf is nan."""
    return top.masked_fill(top == -torch.inf, 0.0)


### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 1: the two statistics in one pass
#
# This is the core, without queries, keys and values: read a row block by block, and return its
# maximum, `row_max`, and the sum of `exp(x - row_max)`, `row_sum`. With these two numbers softmax
# is `exp(x - row_max) / row_sum`.
#
# Hidden scores are `-inf`, and the first block of a row may hold nothing else. In half precision,
# convert each block to float32 before you compute with it: a sum of 70,000 ones is too large for
# float16, and in bfloat16 256 + 1 is 256.

# %% [markdown] tags=["zh"]
# ## 任务 1：一遍算出两个统计量
#
# 这是核心，还不涉及查询、键和值：逐块读一行，读完就知道它的最大值，
# 即 `row_max`，以及 `exp(x - row_max)` 之和，即 `row_sum`。有了这两个数，
# softmax 就是 `exp(x - row_max) / row_sum`。
#
# 被遮住的分数是 `-inf`，一行的第一块可能全是它。
# 半精度时，先把每一块转换成 float32 再计算：70,000 个 1 的和超出 float16 的范围，
# 而在 bfloat16 里 256 + 1 还是 256。


# %%
def online_softmax(x: torch.Tensor, block_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the maximum of each row and the sum of exp(x - maximum), block by block.

    x           (..., n), float16, bfloat16, float32 or float64; may hold -inf
    block_size  how many columns are read at once; the last block may be shorter
    returns     row_max and row_sum, (...) each: float32 if x is float16 or bfloat16 (convert each
                block first), otherwise in the dtype of x. A row of -inf gives -inf and 0
    raises      ValueError if block_size is less than 1; the message contains block_size
    """
    ### BEGIN SOLUTION
    wide = torch.promote_types(x.dtype, torch.float32)
    top = torch.full(x.shape[:-1], -torch.inf, dtype=wide, device=x.device)
    total = torch.zeros_like(top)
    for block in _blocks(x.shape[-1], block_size):
        piece = x[..., block].to(wide)  # (..., block)
        new_top = torch.maximum(top, piece.amax(dim=-1))
        base = _finite(new_top)
        powers = torch.exp(piece - base[..., None])
        total = total * torch.exp(top - base) + powers.sum(dim=-1)
        top = new_top
    return top, total
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: two answers into one
#
# The keys lie on two machines, or in two blocks of a cache, and attention has been computed for
# each part alone: an output, already divided, and its lse. The sum of the exponentials of part $a$
# was $e^{\text{lse}_a}$, so this is the weight of its output:
#
# $$\text{lse} = \ln\big(e^{\text{lse}_a} + e^{\text{lse}_b}\big) \qquad
#   o = \frac{e^{\text{lse}_a}\, o_a + e^{\text{lse}_b}\, o_b}
#            {e^{\text{lse}_a} + e^{\text{lse}_b}}$$
#
# Do not compute these exponentials directly: lse may be 1000, and they would overflow. Subtract the
# larger lse first. A part that saw no key has the lse $-\infty$ and must have no influence, even if
# its output is NaN. A weight of 0 is not enough for that, because `0 * nan` is NaN.

# %% [markdown] tags=["zh"]
# ## 任务 2：两份答案合成一份
#
# 键分布在两台机器上，或者在缓存的两块里，每一部分已经单独算好：一个做过除法的输出，
# 以及它的 lse。部分 $a$ 的指数之和是 $e^{\text{lse}_a}$，这就是它的输出的权重：
#
# $$\text{lse} = \ln\big(e^{\text{lse}_a} + e^{\text{lse}_b}\big) \qquad
#   o = \frac{e^{\text{lse}_a}\, o_a + e^{\text{lse}_b}\, o_b}
#            {e^{\text{lse}_a} + e^{\text{lse}_b}}$$
#
# 这里的指数不能直接算：lse 可能是 1000，会溢出。先减去较大的那个 lse。
# 一个键都没看到的部分，lse 是 $-\infty$，不得有任何影响，哪怕它的输出是 NaN。
# 权重为 0 还不够，因为 `0 * nan` 还是 NaN。


# %%
def merge_partials(
    a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Join the attention of the same queries over two sets of keys into that over both.

    a, b    (output, lse) each: output (..., L, Dv), and lse (..., L), float32 for outputs in half
            precision
    returns (output, lse) over both sets, each in the dtype it came in. A part whose lse is -inf has
            no influence, whatever its output holds, NaN included; if both parts are like this, the
            output is 0, lse is -inf, and gradients are 0
    """
    ### BEGIN SOLUTION
    top = torch.maximum(a[1], b[1])  # (..., L)
    base = _finite(top)
    total = torch.zeros_like(top)
    output = torch.zeros_like(a[0], dtype=top.dtype)
    for part, lse in (a, b):
        weight = torch.exp(lse - base)
        part = part.masked_fill((lse == -torch.inf)[..., None], 0.0)
        total = total + weight
        output = output + weight[..., None] * part
    total = total.masked_fill(total == 0, 1.0)  # 0 only if both parts are empty
    return (output / total[..., None]).to(a[0].dtype), top + torch.log(total)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 3: attention in tiles
#
# Write the loop of the first task again, now with real scores, and carry a third thing along: the
# output that is not yet divided. For every tile compute the scores, hide those in the future if
# `causal`, and compute the new maximum, the factor for the old sums, the new sum and the new
# undivided output. Divide once, at the end, and take care of rows that saw no key: their sum is 0.
#
# `block_size` changes memory and time, but not the result, except for rounding. You may tile the
# queries as well, and skip tiles that lie wholly above the diagonal. Tiling the queries alone is
# not enough: even a few queries need whole rows of scores if they take all keys at once, and with a
# long text such rows are too large.

# %% [markdown] tags=["zh"]
# ## 任务 3：分块的注意力
#
# 还是第一个任务的循环，这次里面是真正的分数，还要多带一样东西：没有做除法的输出。
# 对每一块：算分数，`causal` 时遮住未来的分数，再算新的最大值、旧的和要乘的因子、新的和、
# 新的未除的输出。只在最后除一次；注意什么键都看不到的行，它们的和是 0。
#
# `block_size` 影响内存和用时，但除舍入外不影响结果。查询也可以分块，
# 整块都在对角线上方时也可以跳过。
# 只给查询分块是不够的：几个查询一次对上全部的键，就是几整行分数，文本够长时照样放不下。


# %%
def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    block_size: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend tile by tile, and return the output and the log-sum-exp of the scores.

    q           (..., Lq, D), float16, bfloat16, float32 or float64; no input is changed
    k, v        (..., Lk, D) and (..., Lk, Dv)
    causal      query i sees key j if j <= i + Lk - Lq
    scale       factor of the scores; None means 1 / sqrt(D)
    block_size  how many keys a tile has at most
    returns     output (..., Lq, Dv) in the dtype of q, and lse (..., Lq), the natural logarithm of
                the sum of exp(scores): float32 if q is float16 or bfloat16 (convert before the
                first product), otherwise in the dtype of q. Gradients flow through both. A query
                that sees no key has output 0, lse -inf and gradient 0. Later keys and values have
                no influence, even 1e30, nor on gradients. Scores may be as low as -1e32
    raises      ValueError if block_size is less than 1; the message contains block_size
    """
    ### BEGIN SOLUTION
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    query = q.to(wide) * scale
    q_len, k_len = q.shape[-2], k.shape[-2]
    places = torch.arange(k_len, device=q.device)
    position = torch.arange(q_len, device=q.device)[:, None] + k_len - q_len  # (Lq, 1)
    top = query.new_full((*q.shape[:-1], 1), -torch.inf)  # (..., Lq, 1)
    total = torch.zeros_like(top)
    output = query.new_zeros(*q.shape[:-1], v.shape[-1])  # (..., Lq, Dv)
    for block in _blocks(k_len, block_size):
        scores = query @ k[..., block, :].to(wide).mT  # (..., Lq, block)
        if causal:
            scores = scores.masked_fill(places[block] > position, -torch.inf)
        new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
        base = _finite(new_top)
        powers, shrink = torch.exp(scores - base), torch.exp(top - base)
        total = total * shrink + powers.sum(dim=-1, keepdim=True)
        output = output * shrink + powers @ v[..., block, :].to(wide)
        top = new_top
    total = total.masked_fill(total == 0, 1.0)  # 0 only in rows that saw nothing
    return (output / total).to(q.dtype), (top + torch.log(total)).squeeze(-1)
    ### END SOLUTION
