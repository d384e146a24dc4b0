# %% [markdown] tags=["en"]
# # Paged cache, ragged batches
#
# **The question.** A server writes hundreds of texts at once, and nobody knows how long each of
# them will be. A cache that reserves the longest possible text for everyone keeps most of its
# memory empty: the authors of vLLM found that only 20 to 38 % of the memory reserved for keys and
# values was in use. How do many texts share one memory without holes, and how do texts of different
# lengths run through one call without padding?
#
# **The formula.** Cut the memory into blocks of $S$ tokens, as an operating system cuts memory into
# pages, and give a text a block only when a token needs one. The text's *block table* $T$ lists its
# blocks in order, so that its token $p$ lies in
#
# $$\text{block } T[\lfloor p / S \rfloor] \text{, at place } p \bmod S$$
#
# Its blocks may lie anywhere; only the table knows the order. What can be wasted is the rest of the
# last block, less than $S$ places for a text of any length. Attention does not change at all: row
# $i$ of a batch belongs to the sequence $s_i$, and attends to the keys and values of that sequence
# alone:
#
# $$o_i = \text{softmax}\left(\frac{q_i K_{s_i}^\top}{\sqrt{D}}\right) V_{s_i}$$
#
# **The shapes.** Two sequences share a pool of 4 blocks with 4 places each. Sequence `a` was given
# block 0; then `b` came and took block 1; then `a` was full, and the next free block was 2:
#
# ```text
#   sequence a   5 tokens   table [0, 2]          token 4 of a:  block table[4 // 4] = 2
#   sequence b   3 tokens   table [1]                            place 4 % 4 = 0
#
#      block 0             block 1             block 2             block 3
#     ┌────┬────┬────┬────┐┌────┬────┬────┬────┐┌────┬────┬────┬────┐┌────┬────┬────┬────┐
#     │ a0 │ a1 │ a2 │ a3 ││ b0 │ b1 │ b2 │    ││ a4 │    │    │    ││    │    │    │    │
#     └────┴────┴────┴────┘└────┴────┴────┴────┘└────┴────┴────┴────┘└────┴────┴────┴────┘
#                                                                      free_blocks = 1
# ```
#
# One place holds a key (or a value) of every head: a pool is `(num_blocks, block_size, H, D)`.
# There are two, `cache.keys` and `cache.values`, and they are all the memory that a cache has for
# tokens.
#
# A *ragged* batch lays sequences of different lengths end to end. `cu_seqlens` (cumulative sequence
# lengths) says where each begins; sequence `i` is `cu[i]:cu[i + 1]`. Each has its own triangle in
# the bottom-right corner of its own rectangle. Here `a` brings 1 query to 2 keys, and `b` 3 to 3:
#
# ```text
#             a0  a1 │ b0  b1  b2
#   q  a1      x   x │  .   .   .        cu_seqlens_q = [0, 1, 4]
#      ──────────────┼─────────────      cu_seqlens_k = [0, 2, 5]
#      b0      .   . │  x   .   .
#      b1      .   . │  x   x   .        q (Tq, H, D) = (4, H, D)
#      b2      .   . │  x   x   x        k (Tk, H, D) = (5, H, D)
# ```
#
# **By hand.** Two sequences in blocks of 2 places. All keys and queries are 0, so that every answer
# is the average of the values that are seen:
#
# ```pycon
# >>> cache = PagedKVCache(num_blocks=4, block_size=2, num_heads=1, head_dim=1)
# >>> a, b = cache.add(), cache.add()
# >>> cache.append(a, torch.zeros(1, 2, 1), torch.tensor([[[2.0], [4.0]]]))
# >>> cache.append(b, torch.zeros(1, 1, 1), torch.tensor([[[5.0]]]))
# >>> cache.append(a, torch.zeros(1, 1, 1), torch.tensor([[[9.0]]]))
# >>> cache.block_table(a).tolist(), cache.block_table(b).tolist(), cache.free_blocks
# ([0, 2], [1], 1)
# >>> cache.values.flatten(1).tolist()
# [[2.0, 4.0], [5.0, 0.0], [9.0, 0.0], [0.0, 0.0]]
# >>> paged_attention(torch.zeros(2, 1, 1), cache, [a, b]).flatten().tolist()
# [5.0, 5.0]
# >>> cache.free(a)
# >>> cache.free_blocks
# 3
# ```
#
# **The traps.**
#
# - The block of token `p` is `table[p // block_size]`: divide by the size of a block, not by the
#   number of blocks. Token 4 in blocks of 4 is the *first* of the second block.
# - Tensors that grow, one for each sequence, beside a pool that is only counted: they are the
#   memory that paging was to save. Write into the pool in place, and read it at every call:
#   `torch.cat` makes a new tensor, and so does `self.keys = self.keys + ...`.
# - A new block for every `append`. One token at a time, each would sit in a block of its own.
# - The last block read whole. Behind the last token lies whatever an earlier text left there.
#   Hiding its scores is not enough: a weight of 0 times a value of NaN is NaN. Read only what is
#   written.
# - A refused `append` that has already taken blocks, or written half of its tokens. Count first.
# - A pool, or a table, that belongs to the class or to a default argument, and so to every cache.
# - `cu_seqlens` read as lengths. They are bounds: the lengths are their differences.
# - One triangle for the whole packed batch. The second text then reads the first.
# - In chunked prefill, the order: a chunk is appended *before* its queries attend, for it attends
#   to itself too; and the chunks after it are appended later, or the corner of the triangle moves.
# - `pool[blocks, places] = k` wants `k` in the dtype of the pool: `k.to(pool.dtype)`.
#
# **What is graded.** What comes back from the cache, in any order of appends; how many blocks are
# held after each step, counted exactly, for memory is the point here; that each token lies in the
# pools where the block table says, that the pools stay where they are, in the dtype and on the
# device of the cache, and that whatever reads the cache reads them; freed blocks and what is left
# in them; refusals, after which all is as before; two caches side by side; then the three functions
# in every size, with a past, with scores of hundreds, and the gradients of `ragged_attention`.
# There are separate checks for float64, half precision (computed in float32) and empty inputs.
# **Out of scope:** gradients through the cache, shapes that do not fit each other, a `chunk_size`
# below 1, blocks shared by two texts with the same beginning, and speed: a real kernel reads the
# blocks where they lie, and you may copy them together. **Not allowed:** PyTorch's fused operator
# and its attention modules. About 80 minutes.

# %% [markdown] tags=["zh"]
# # 分页缓存与变长批次
#
# **问题。** 服务器同时生成几百段文本，谁也不知道每段会有多长。
# 如果缓存按最长的可能为每段文本预留空间，大部分内存都是空的：
# vLLM 的作者测过，为键和值预留的内存里，真正存了东西的只有 20% 到 38%。
# 许多段文本怎样共用一块内存而不留空洞？长短不一的文本，怎样不加填充就在一次调用里算完？
#
# **公式。** 像操作系统把内存分成页那样，把缓存切成块，每块放 $S$ 个 token，
# 等到真有 token 要放时，才给文本分配一块。文本的**块表** $T$ 按顺序列出它的块，
# 所以它的第 $p$ 个 token 位于
#
# $$\text{块 } T[\lfloor p / S \rfloor] \text{ 的第 } p \bmod S \text{ 个位置}$$
#
# 这些块可以散落在任何地方，只有块表知道顺序。浪费的只可能是最后一块的剩余部分，
# 不管文本多长，都不到 $S$ 个位置。注意力本身没有任何变化：
# 批次的第 $i$ 行属于序列 $s_i$，只查询这个序列的键和值：
#
# $$o_i = \text{softmax}\left(\frac{q_i K_{s_i}^\top}{\sqrt{D}}\right) V_{s_i}$$
#
# **形状。** 两个序列共用一个池，池里有 4 块，每块 4 个位置。序列 `a` 先分到块 0；
# 接着 `b` 来了，拿走块 1；然后 `a` 的块满了，下一个空闲块是 2：
#
# ```text
#   序列 a   5 个 token   块表 [0, 2]             a 的 token 4：块 table[4 // 4] = 2
#   序列 b   3 个 token   块表 [1]                              位置 4 % 4 = 0
#
#      块 0                块 1                块 2                块 3
#     ┌────┬────┬────┬────┐┌────┬────┬────┬────┐┌────┬────┬────┬────┐┌────┬────┬────┬────┐
#     │ a0 │ a1 │ a2 │ a3 ││ b0 │ b1 │ b2 │    ││ a4 │    │    │    ││    │    │    │    │
#     └────┴────┴────┴────┘└────┴────┴────┴────┘└────┴────┴────┴────┘└────┴────┴────┴────┘
#                                                                      free_blocks = 1
# ```
#
# 一个位置存放一个 token 在所有头上的键（或值）：池的形状是 `(num_blocks, block_size, H, D)`。
# 池有两个，`cache.keys` 和 `cache.values`；缓存用来存放 token 的内存，全在这里。
#
# **变长批次**（ragged batch）把长短不一的序列首尾相接。`cu_seqlens`（序列长度的累积和）
# 说明每个序列从哪里开始；序列 `i` 是 `cu[i]:cu[i + 1]`。
# 每个序列在自己那块矩形的右下角有自己的三角形。下图中 `a` 有 1 个查询、2 个键，`b` 各有 3 个：
#
# ```text
#             a0  a1 │ b0  b1  b2
#   q  a1      x   x │  .   .   .        cu_seqlens_q = [0, 1, 4]
#      ──────────────┼─────────────      cu_seqlens_k = [0, 2, 5]
#      b0      .   . │  x   .   .
#      b1      .   . │  x   x   .        q (Tq, H, D) = (4, H, D)
#      b2      .   . │  x   x   x        k (Tk, H, D) = (5, H, D)
# ```
#
# **手算一遍。** 两个序列，每块 2 个位置。所有键和查询都是 0，所以输出就是看得见的那些值的平均：
#
# ```pycon
# >>> cache = PagedKVCache(num_blocks=4, block_size=2, num_heads=1, head_dim=1)
# >>> a, b = cache.add(), cache.add()
# >>> cache.append(a, torch.zeros(1, 2, 1), torch.tensor([[[2.0], [4.0]]]))
# >>> cache.append(b, torch.zeros(1, 1, 1), torch.tensor([[[5.0]]]))
# >>> cache.append(a, torch.zeros(1, 1, 1), torch.tensor([[[9.0]]]))
# >>> cache.block_table(a).tolist(), cache.block_table(b).tolist(), cache.free_blocks
# ([0, 2], [1], 1)
# >>> cache.values.flatten(1).tolist()
# [[2.0, 4.0], [5.0, 0.0], [9.0, 0.0], [0.0, 0.0]]
# >>> paged_attention(torch.zeros(2, 1, 1), cache, [a, b]).flatten().tolist()
# [5.0, 5.0]
# >>> cache.free(a)
# >>> cache.free_blocks
# 3
# ```
#
# **陷阱。**
#
# - token `p` 所在的块是 `table[p // block_size]`：除以块的大小，不是块的个数。
#   每块 4 个位置时，token 4 是第二块的**第一个**。
# - 每个序列各有一个不断增长的张量，旁边的池只用来数块数：分页要省的正是这些内存。
#   要原地写进池里，每次用到时再从池里读：`torch.cat` 会造出一个新张量，
#   `self.keys = self.keys + ...` 也一样。
# - 每次 `append` 都取一个新块。一次追加一个 token 的话，每个 token 就独占一块。
# - 把最后一块整块读出来。最后一个 token 后面，是以前的文本留下的内容。
#   只遮住分数还不够：权重 0 乘以 NaN 的值还是 NaN。只读写过的部分。
# - 被拒绝的 `append` 已经拿走了块，或者已经写入了一半 token。要先数清楚。
# - 池或块表属于类，或者是默认参数，结果所有缓存共用一份。
# - 把 `cu_seqlens` 当成长度。它们是边界，相邻两个之差才是长度。
# - 整个批次只用一个三角形。这样第二段文本就读到了第一段。
# - 分块预填充的顺序：一块要**先**追加，它的查询**再**做注意力，因为它也要关注自己；
#   后面的块要晚些再追加，否则三角形的角就移位了。
# - `pool[blocks, places] = k` 要求 `k` 与池的 dtype 相同：`k.to(pool.dtype)`。
#
# **评分内容。** 以任何顺序追加之后，从缓存取回的内容；每一步之后占了多少块，
# 本题的要点是内存，所以块数要精确；每个 token 是否位于池里块表所说的地方，
# 池是否一直在原处，dtype 和设备是否与缓存一致，读缓存时读的是否就是池；
# 释放的块和残留的内容；拒绝，之后一切照旧；两个缓存并存；
# 然后是三个函数：各种大小，有 past，分数达到几百，以及 `ragged_attention` 的梯度。
# float64 的精度、半精度（用 float32 计算）和各种空的输入，各有单独的检查。
# **不在范围内：** 穿过缓存的梯度，形状互相不符的输入，小于 1 的 `chunk_size`，
# 开头相同的两段文本共用块，以及速度：真正的内核直接在块所在的地方读取，这里可以先复制到一起。
# **不允许：** PyTorch 的融合算子和它的注意力模块。约 80 分钟。

# %%
import math

import torch

# %% [markdown] tags=["en"]
# ## Task 1: the cache
#
# Two pools, `keys` and `values`; a list of the blocks that nobody holds; for every sequence a table
# and a length. The pools are made once, by `__init__`, and never replaced: `append` writes into
# them. It has three steps in this order: work out how many blocks the new length lacks, and refuse
# if there are not as many; move them from the list to the table; write. An append of no tokens
# takes nothing, and neither does `add`.
#
# `gather` reads the pools at the places that are written, and at no others. After `free` a sequence
# is there no more: every later call with its number is refused, and the number is never given out
# again.

# %% [markdown] tags=["zh"]
# ## 任务 1：缓存
#
# 两个池，`keys` 放键，`values` 放值；一个列表，记着没有人占用的块；每个序列有一张块表和一个长度。
# 池由 `__init__` 建一次，以后不再更换：`append` 只往里写。
# `append` 分三步，顺序不能变：先算出新长度还缺几块，空闲块不够就拒绝；
# 再把它们从列表移到块表；最后写入。追加零个 token 不占用任何块，`add` 也不占用。
#
# `gather` 从池里读，只读写过的位置。`free` 之后，这个序列就不存在了：
# 以后再用它的编号调用都要拒绝，这个编号也不会再发给别人。


# %%
### BEGIN SOLUTION
def _held(table_of: dict[int, list[int]], sequence: int) -> list[int]:
    """The block table of a sequence, if it is there."""
    if sequence not in table_of:
        raise ValueError(f"there is no sequence {sequence}, or it has been freed")
    return table_of[sequence]


def _places(
    table: list[int], block_size: int, start: int, end: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The block of each token from `start` to `end`, and its place in that block."""
    tokens = torch.arange(start, end)
    return torch.tensor(table, dtype=torch.int64)[tokens // block_size], tokens % block_size


### END SOLUTION


class PagedKVCache:
    """The keys and values of many sequences, in one pool of blocks.

    keys, values  the pools (num_blocks, block_size, H, D), in the dtype and on the device of the
                  cache: token p of a sequence lies in block table[p // block_size], at place
                  p % block_size. They are made once and written in place, and every
                  method reads them. NaN that a freed block still holds reaches no result
    free_blocks   how many blocks no sequence holds: n tokens hold ceil(n / block_size)

    A number that `add` has not given out, or that was freed, is a ValueError in every method.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        num_heads: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        """Make `keys` and `values`: room for `num_blocks` blocks of `block_size` tokens each.

        Two caches share nothing.
        """
        ### BEGIN SOLUTION
        shape = (num_blocks, block_size, num_heads, head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self._free = list(range(num_blocks))
        self._table_of: dict[int, list[int]] = {}
        self._length_of: dict[int, int] = {}
        self._added = 0
        ### END SOLUTION

    @property
    def free_blocks(self) -> int:
        """Count the blocks that no sequence holds."""
        ### BEGIN SOLUTION
        return len(self._free)
        ### END SOLUTION

    def add(self) -> int:
        """Begin a sequence of length 0, and return a number that no other sequence has had.

        It takes no block.
        """
        ### BEGIN SOLUTION
        sequence = self._added
        self._added += 1
        self._table_of[sequence], self._length_of[sequence] = [], 0
        return sequence
        ### END SOLUTION

    def append(self, sequence: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """Write the keys and values of t tokens behind what the sequence has.

        k, v    (H, t, D), of any dtype and any strides, and maybe the same tensor; they are kept in
                the dtype of the cache. With t = 0 nothing is taken
        raises  ValueError if the sequence is not there (with its number), or if the pool has too
                few free blocks (with the number of blocks that would have to be taken, and the
                number that are free); either way nothing is changed
        """
        ### BEGIN SOLUTION
        table, start = _held(self._table_of, sequence), self._length_of[sequence]
        end, block_size = start + k.shape[1], self.keys.shape[1]
        needed = -(-end // block_size) - len(table)  # -(-a // b) rounds up
        if needed > self.free_blocks:
            raise ValueError(f"{needed} more blocks are needed, but {self.free_blocks} are free")
        table += self._free[:needed]
        self._free = self._free[needed:]
        places = _places(table, block_size, start, end)
        self.keys[places] = k.transpose(0, 1).to(self.keys.dtype)  # (t, H, D)
        self.values[places] = v.transpose(0, 1).to(self.values.dtype)
        self._length_of[sequence] = end
        ### END SOLUTION

    def gather(self, sequence: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return all keys and values of a sequence in order, (H, n, D) each, out of the pools.

        raises  ValueError if the sequence is not there, with its number
        """
        ### BEGIN SOLUTION
        table, end = _held(self._table_of, sequence), self._length_of[sequence]
        places = _places(table, self.keys.shape[1], 0, end)
        return self.keys[places].transpose(0, 1), self.values[places].transpose(0, 1)
        ### END SOLUTION

    def length(self, sequence: int) -> int:
        """Return how many tokens a sequence has; a ValueError if it is not there."""
        ### BEGIN SOLUTION
        _held(self._table_of, sequence)
        return self._length_of[sequence]
        ### END SOLUTION

    def block_table(self, sequence: int) -> torch.Tensor:
        """Return the numbers of a sequence's blocks in the order of its tokens, (n,) int64.

        An empty sequence has an empty table, int64 too.

        raises  ValueError if the sequence is not there, with its number
        """
        ### BEGIN SOLUTION
        return torch.tensor(_held(self._table_of, sequence), dtype=torch.int64)
        ### END SOLUTION

    def free(self, sequence: int) -> None:
        """Give a sequence's blocks back to the pool, if it has any, and forget it.

        raises  ValueError if the sequence is not there, with its number
        """
        ### BEGIN SOLUTION
        self._free += _held(self._table_of, sequence)
        del self._table_of[sequence], self._length_of[sequence]
        ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: one step for everyone
#
# One decoding step of a batch. Every row is the newest token of its sequence, and its key and value
# were appended before the call, so that it attends to all that the sequence has. The newest token
# sees everything: there is nothing to mask, unless you pad. A sequence may stand in the batch
# twice, in any order, or be empty; then its row is 0.
#
# In half precision the scores and the sum of their exponentials belong in float32; the output has
# the dtype of `q`, whatever that of the cache.

# %% [markdown] tags=["zh"]
# ## 任务 2：所有序列各走一步
#
# 这是一个批次的一步解码。每一行是某个序列最新的 token，它的键和值在调用之前已经追加，
# 所以它关注这个序列的全部内容。最新的 token 什么都能看到：只要不填充，就没有什么要遮。
# 同一个序列可以在批次里出现两次，顺序任意；序列也可以为空，这时对应的那一行是 0。
#
# 半精度时，分数以及指数之和要用 float32；不管缓存是什么 dtype，输出的 dtype 都和 `q` 相同。


# %%
### BEGIN SOLUTION
def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attend causally from the last t of n positions: q (H, t, D), k (H, n, D), v (H, n, Dv)."""
    dtype, (t, n) = q.dtype, (q.shape[1], k.shape[1])
    wide = torch.promote_types(dtype, torch.float32)
    scores = (q.to(wide) / math.sqrt(q.shape[2])) @ k.to(wide).mT  # (H, t, n)
    positions = torch.arange(n - t, n, device=q.device)[:, None]  # below 0: sees nothing
    hidden = torch.arange(n, device=q.device) > positions  # (t, n)
    weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1)
    weights = weights.masked_fill(hidden, 0.0)  # a row that sees nothing is NaN until here
    return (weights @ v.to(wide)).to(dtype)  # (H, t, Dv)


### END SOLUTION


def paged_attention(q: torch.Tensor, cache: PagedKVCache, sequences: list[int]) -> torch.Tensor:
    """Attend from the newest token of every sequence to all that the sequence has.

    q          (N, H, D), one token for each of `sequences`; N may be 0
    cache      holds their keys and values already, those of the newest tokens among them
    sequences  N numbers in any order, some of them twice
    returns    the output (N, H, D) in the dtype of q, 0 for a sequence of length 0
    raises     ValueError if a sequence is not there, with its number

    Compute half precision in float32 (so that products of 256s and long sums do not overflow), and
    float64 in float64. Scores may be hundreds, or all below -1e30. q is left alone.
    """
    ### BEGIN SOLUTION
    output = q.new_zeros(q.shape)
    for i, sequence in enumerate(sequences):
        k, v = cache.gather(sequence)  # (H, n, D)
        output[i] = _attend(q[i][:, None], k, v)[:, 0]  # (H, D)
    return output
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 3: a ragged batch
#
# The same thing without a cache, as training and prefill use it: sequences end to end, tokens in
# the first dimension, heads in the second. Within a sequence attention is causal and aligned
# bottom-right; between sequences there is none. With more queries than keys, the first ones see
# nothing and give 0, and their gradients are 0 too, not NaN.
#
# A loop over the sequences is the plainest form, and it computes no score in vain.

# %% [markdown] tags=["zh"]
# ## 任务 3：变长批次
#
# 同样的计算，但没有缓存，训练和预填充用的就是这种形式：序列首尾相接，
# 第一个维度是 token，第二个维度是头。序列之内是因果注意力，右下对齐；序列之间没有注意力。
# 查询比键多时，最前面的查询什么都看不到，输出是 0，梯度也是 0，不是 NaN。
#
# 对序列做循环是最朴素的写法，而且一个分数都不会白算。


# %%
def ragged_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
) -> torch.Tensor:
    """Attend causally within each of the sequences that lie end to end.

    q             (Tq, H, D), the queries of all sequences
    k, v          (Tk, H, D) and (Tk, H, Dv), in the dtype of q; any strides, maybe q itself
    cu_seqlens_q  (N + 1,) integers (int32 or int64) from 0 to Tq: the queries of sequence i are
                  cu_seqlens_q[i]:cu_seqlens_q[i + 1]; cu_seqlens_k likewise for keys and values.
                  Sequences may be empty, and N may be 0
    returns       the output (Tq, H, Dv) in the dtype of q; a query that sees nothing gives 0

    No number up to 1e30 in what a query may not see reaches its output or its gradient. Compute
    half precision in float32 (so that products of 256s and the weights of 70,000 keys do not
    overflow), and float64 in float64. Scores may be hundreds, or all below -1e30. The gradients of
    q, k and v are graded; those of a query that sees nothing are 0. The inputs are left alone, and
    read in every call.
    """
    ### BEGIN SOLUTION
    output = q.new_zeros(q.shape[0], q.shape[1], v.shape[2])
    bounds_q, bounds_k = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    for i in range(len(bounds_q) - 1):
        queries, keys = slice(*bounds_q[i : i + 2]), slice(*bounds_k[i : i + 2])
        one = (x.transpose(0, 1) for x in (q[queries], k[keys], v[keys]))  # (H, t or n, D or Dv)
        output[queries] = _attend(*one).transpose(0, 1)
    return output
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 4: a prompt in chunks
#
# A prompt of 100,000 tokens at once would keep every other text waiting for seconds, so servers cut
# it up and let the others take a step in between. Each chunk is appended, then attends to all that
# the sequence has: what was there before the call, the chunks before it, and itself. Only within
# the chunk is there something to hide.
#
# If the pool runs out on the way, the refusal of `append` reaches the caller. What was appended
# stays.

# %% [markdown] tags=["zh"]
# ## 任务 4：把提示切成块
#
# 一次处理 100,000 个 token 的提示，会让其他所有文本等上好几秒，
# 所以服务器把它切开，中间让其他文本各走一步。每一块先追加，
# 再关注这个序列已有的全部内容：调用之前就在的、前面各块的、以及这一块自己的。
# 只有这一块之内才有东西要遮。（这里的块指提示的一段，不是缓存的块。）
#
# 如果池中途用完了，`append` 的拒绝会传给调用者。已经追加的内容留在缓存里。


# %%
def chunked_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cache: PagedKVCache,
    sequence: int,
    chunk_size: int,
) -> torch.Tensor:
    """Append a prompt to a sequence chunk by chunk, attending from each chunk to all so far.

    q, k, v     (H, L, D), the prompt's queries, keys and values; any strides, maybe one tensor.
                L may be 0 (whether the sequence is there is not graded then)
    cache       where the sequence may have a past
    chunk_size  tokens in a chunk, 1 or more; the last one may be shorter
    returns     the output (H, L, D), in the dtype of q
    raises      ValueError as `append` does; the chunks before stay in the cache

    A chunk attends to its own keys and values as the cache holds them, in its dtype. Compute half
    precision in float32 (so that products of 256s do not overflow), and float64 in float64. Scores
    may be hundreds, or all below -1e30. q, k and v are left alone.
    """
    ### BEGIN SOLUTION
    output = q.new_zeros(q.shape)
    for start in range(0, q.shape[1], chunk_size):
        chunk = slice(start, start + chunk_size)
        cache.append(sequence, k[:, chunk], v[:, chunk])
        keys, values = cache.gather(sequence)  # (H, n, D), this chunk last
        output[:, chunk] = _attend(q[:, chunk], keys, values)
    return output
    ### END SOLUTION
