# %% [markdown] tags=["en"]
# # Bug hunt
#
# **The question.** Most of the attention code that you will ever mend was written by other people,
# and most of it runs: the shapes are right, the loss goes down, and it is wrong. How do you find
# the one wrong line?
#
# **What to do.** `make drill` writes `exercises/ex17_bug_hunt.py`: the solution of an exercise that
# you have passed, with one mistake put into it. (Only of an exercise that you have passed, because
# the file shows nearly all of the solution.) The mistake comes from the catalogue by which this
# grader names mistakes; a number draws it. `make drill EX=ex05_causal_mask` draws from an exercise
# that you name, and with `ARGS="--seed 4711"` besides it brings the same drill back. All exercises
# have drills except ex15 (a drill is a file of Python) and this one. Then
#
# 1. find the mistake and mend it where it is, with as small a change as possible;
# 2. have `mistake` return its name, one of those at the head of the file;
# 3. `make grade EX=ex17`.
#
# **The formula** of a search is to halve what can be wrong. Reading from the top finds little: the
# code was written to look right.
#
# | step | ask |
# |---|---|
# | the failing check | which function does it call, with which shapes, and what does it promise? |
# | the smallest input | one query and two keys, a window of 1, a row with nothing in it |
# | the stages | scores, mask, weights, output: which is the first that is wrong? |
# | the pattern | one row, one head, one dtype, every second place? The pattern names the axis |
# | the mend | one line; then the check again, and the others |
#
# **The shapes** speak first, and then the pattern of what is wrong:
#
# ```text
#             shapes right?        numbers right for ...
#                │ no                 Lq = Lk   Lq < Lk    half    nothing kept
#                ▼                       │         │         │         │
#         a swapped axis,             the scale,  the      an upcast  a softmax
#         a lost keepdim              the axis    corner   forgotten  of -inf
# ```
#
# **By hand.** The drill that is solved here, `ex05_causal_mask 6`, failed in the check of
# `sliding_window_mask`. The smallest window is 1: every word should see itself and nothing else,
# and in the broken file it saw one key more. The comparison `behind <= window` counts the own key,
# which lies 0 behind, and then `window` more. Mended:
#
# ```pycon
# >>> sliding_window_mask(3, 3, window=1).int().tolist()
# [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
# >>> sliding_window_mask(2, 4, window=2).sum(-1).tolist()
# [2, 2]
# >>> mistake()
# 'window_one_too_wide'
# ```
#
# **The traps.**
#
# - A mend that makes the failing check pass may break another: all checks of the exercise are run.
# - To rewrite the function works, and teaches little. The name is worth points of its own.
# - To rewrite the whole file does not work: every function without a mistake must stay as it was
#   drawn.
# - Two names may look alike. Find out which of them gives exactly the numbers that you saw.
#
# **What is graded.** Four points for the mend: the answer passes every check of its exercise, and
# every function in which there was no mistake is as it was drawn, apart from comments and
# docstrings. (So your own old answer pasted over the drill does not count as a mend.) Two for the
# name, once the mistake is mended; a wrong name leaves the four. **What the mark means:** that the
# file passes and one of eight names was right, and no more: solutions and catalogue are public, and
# you may grade the file as often as you like. It is practice: you learn from the search, not from
# the points. **Out of scope:** speed. **Not allowed:** what the exercise does not allow itself.
# About 20 minutes a drill; ten drills make a habit.

# %% [markdown] tags=["zh"]
# # 找错
#
# **问题。** 你这辈子要修的注意力代码，大多是别人写的，而且大多能运行：
# 形状对，损失在下降，结果却是错的。怎样找到那一行？
#
# **要做的事。** `make drill` 会写出 `exercises/ex17_bug_hunt.py`：
# 一道你已经通过的题目的答案，里面有一处错误。（还没做的题不行：这个文件除了一行，就是它的解答。）
# 错误取自评分器用来指认错误的目录，由一个数字抽取。`make drill EX=ex05_causal_mask`
# 从你指定的题目里抽；再加上 `ARGS="--seed 4711"`，得到的总是同一个练习。
# 除了 ex15（练习是一个 Python 文件）和这道题自己，每道题都有练习。然后：
#
# 1. 找到它，就地改正，改动越少越好；
# 2. 让 `mistake` 返回它的名字，名字列在文件开头；
# 3. `make grade EX=ex17`。
#
# **方法**只有一个：每一步都把可能出错的范围减半。从头读起收效甚微：
# 这段代码本来就写得像是对的。
#
# | 步骤 | 要问的 |
# |---|---|
# | 没通过的检查 | 它调用哪个函数，形状是什么，它要求什么？ |
# | 最小的输入 | 一个查询、两个键；窗口为 1；一行什么都不能看 |
# | 各个阶段 | 分数、掩码、权重、输出：最先出错的是哪个？ |
# | 规律 | 只错一行、一个头、一种 dtype、每隔一个位置？规律会指出是哪个轴 |
# | 改正 | 改一行；再运行这项检查，然后运行其余的 |
#
# **形状**先说话，然后是出错的规律：
#
# ```text
#             形状对吗？            哪种情况下数值才对？
#                │ 不对               Lq = Lk   Lq < Lk    半精度    什么都不能看
#                ▼                       │         │         │         │
#         轴换错了，                  缩放，     对齐的     忘了升    对 -inf
#         丢了 keepdim                轴         那个角     精度      做 softmax
# ```
#
# **手算一遍。** 这里解出的练习是 `ex05_causal_mask 6`，没通过的是 `sliding_window_mask` 的检查。
# 最小的窗口是 1：每个词只该看到自己，而出错的文件里它多看了一个键。
# 比较 `behind <= window` 先算上自己的键（落后 0），再算上 `window` 个。改正之后：
#
# ```pycon
# >>> sliding_window_mask(3, 3, window=1).int().tolist()
# [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
# >>> sliding_window_mask(2, 4, window=2).sum(-1).tolist()
# [2, 2]
# >>> mistake()
# 'window_one_too_wide'
# ```
#
# **陷阱。**
#
# - 让没通过的检查通过，可能又弄坏别处：整道题都会重新检查。
# - 把函数整个重写也行，但学不到什么。名字单独计分。
# - 把文件整个重写不行：没有错误的函数要和抽到时一样。
# - 两个名字可能很像。要弄清哪一个恰好给出你看到的数。
#
# **评分内容。** 改正占四分：答案要通过原题的每一项检查，没有错误的函数除注释和文档字符串外
# 要和抽到时一样（把自己以前的答案整个贴上去不算改正）。改正之后，说对名字再得两分；
# 说错名字，四分还在。**得分说明什么：** 文件通过了检查，八个名字里说对了一个，仅此而已：
# 解答和错误目录都是公开的，评分多少次都可以。这是练习：学到东西靠的是找错，不是得分。
# **不在范围内：** 速度。**不允许：** 原题不允许的东西。每次练习约 20 分钟；做十次就成了习惯。

# %%
import math

import torch

# %% [markdown] tags=["en"]
# ## Task 1: which drill it is
#
# `make drill` wrote this function; leave it as it is. The grader learns from it which mistake was
# hidden, and which exercise the mended answer has to pass.

# %% [markdown] tags=["zh"]
# ## 任务 1：这是哪一次练习
#
# 这个函数由 `make drill` 写好，不要改动。评分器从它得知藏了哪个错误，
# 以及改正后的答案要通过哪道题。


# %%
def drill() -> str:
    """Say which drill this is, as `make drill` wrote it.

    returns the exercise and the number, such as "ex05_causal_mask 6"
    """
    ### BEGIN SOLUTION
    return "ex05_causal_mask 6"
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: its name
#
# The names at the head of the drill's file come from the exercise's own catalogue of mistakes. A
# sentence beside each name describes the mistake.

# %% [markdown] tags=["zh"]
# ## 任务 2：它的名字
#
# 文件开头的名字都来自这道题自己的错误目录，每个名字附一句话，
# 说明犯这个错误的人做了什么。


# %%
def mistake() -> str:
    """Return the name of the mistake that you found.

    returns one of the names at the head of the drill's file
    """
    ### BEGIN SOLUTION
    return "window_one_too_wide"
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 3: the answer, mended
#
# Below `drill` and `mistake` the file of a drill has the whole answer to its exercise. This is the
# one of drill 6, with `behind < window` where `behind <= window` stood.

# %% [markdown] tags=["zh"]
# ## 任务 3：改正后的答案
#
# 练习文件里，`drill` 和 `mistake` 下面是那道题的完整答案。这里是 6 号练习的答案，
# `behind <= window` 已改成 `behind < window`。


# %%
### BEGIN SOLUTION
def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> torch.Tensor:
    """Say which keys each query may attend to when it must not look ahead.

    q_len   number of queries; query i stands at position i + k_len - q_len
    k_len   number of keys; key j stands at position j
    device  where the mask is built; None is PyTorch's default
    returns keep (q_len, k_len), boolean, True = may attend; rows of False where a query
            stands before the first key
    """
    positions = torch.arange(q_len, device=device)[:, None] + (k_len - q_len)  # (Lq, 1)
    return torch.arange(k_len, device=device) <= positions  # (Lq, Lk)


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
    positions = torch.arange(q_len, device=device)[:, None] + (k_len - q_len)  # (Lq, 1)
    behind = positions - torch.arange(k_len, device=device)  # (Lq, Lk)
    return (behind >= 0) & (behind < window)


def causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attend without looking ahead, and without computing what would be thrown away.

    q       (..., Lq, D); query i stands at position i + Lk - Lq
    k       (..., Lk, D)
    v       (..., Lk, Dv)
    returns output (..., Lq, Dv) in the dtype and on the device of q; 0 where a query stands
            before the first key; not even NaN in a later key has any influence
    """
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
