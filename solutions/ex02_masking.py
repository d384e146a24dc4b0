# %% [markdown] tags=["en"]
# # Masking
#
# A mask says which keys a query may look at. Different texts write masks in different ways, so we
# begin with a table. Use it whenever you read other people's code:
#
# | what tutorials write | what is meant here |
# |---|---|
# | True = hidden (`nn.MultiheadAttention`, many blog posts) | `blocked`: turn it round, once |
# | True = may attend (PyTorch's SDPA, ONNX, JAX, Keras) | `keep`: the only mask we compute with |
# | ones and zeros from a tokenizer, 1 = a real token | `keep`, after `.bool()` |
# | floats to be added to the scores | `additive_mask(keep, dtype)`: 0 or `-inf` |
# | `-1e9` or `finfo.min` in place of `-inf` | a hidden key has weight 0, exactly |
# | a mask known by its position: fourth argument, `(B, L)` | `keep`, by name: `(..., Lq, Lk)` |
# | a row with no key left: NaN, or equal weights | weights 0, so output 0 |
#
# **The question.** Sentences in a batch have different lengths, and the short ones are filled up
# with padding. A query must not listen to padding, and later not to words that come after it. How
# do we take keys out of a softmax, so that they have no influence at all?
#
# **The formula.** Sum over the kept keys only:
#
# $$w_{ij} = \frac{\text{keep}_{ij}\, e^{s_{ij}}}{\sum_{l\,:\,\text{keep}_{il}} e^{s_{il}}}$$
#
# and $w_{ij} = 0$ in a row that keeps nothing. Since $e^{-\infty} = 0$, the usual way is to write
# $-\infty$ over the hidden scores and to take an ordinary softmax.
#
# **The shapes.** The last two axes of a mask are always queries and keys. A mask that says the same
# to every query has a 1 in that place, and broadcasting does the rest:
#
# ```text
#   padding: (B, 1, 1, Lk)         some rule: (Lq, Lk)         both: (B, 1, Lq, Lk)
#
#             keys                       keys                        keys
#          ┌───────┐                  ┌───────┐                   ┌───────┐
# sentence0│ T T . │           query 0│ T T T │            query 0│ T T . │
#          └───────┘     and   query 1│ . T T │     =      query 1│ . T . │  of sentence 0
#                              query 2│ . . T │            query 2│ . . . │  <- an empty row
#                                     └───────┘                   └───────┘
# ```
#
# In *the cat sat down* (the picture), the key `down` is hidden, as padding would be. Its weight is
# 0 in every row, and the other three keys share the 1: `sat` gives 0.78 to `cat`, 0.14 to `the`
# and 0.08 to itself.
#
# **By hand.** The scores `ln 1, ln 3, ln 9` have exponentials 1, 3 and 9. Hide the last key, and
# the others share everything: 1/4 and 3/4. The second query below has nothing to look at, and gets
# nothing:
#
# ```pycon
# >>> scores = torch.log(torch.tensor([[1.0, 3.0, 9.0], [1.0, 3.0, 9.0]]))
# >>> keep = torch.tensor([[True, True, False], [False, False, False]])
# >>> masked_softmax(scores, keep).round(decimals=6).tolist()
# [[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]]
# ```
#
# **The traps.**
#
# - Masking *after* the softmax. The hidden key has already taken its share of the sum, and what is
#   left no longer adds up to one.
# - Writing 0 over the hidden scores. `exp(0) = 1` is a perfectly good vote.
# - `-1e9`. It does not fit into float16, and in an empty row it drowns the scores: all of them are
#   rounded to `-1e9`, and a query with nothing to look at attends to everything equally.
# - *Adding* `-inf` to a score that is NaN or `inf` gives NaN. Padding often holds whatever was in
#   memory, so replace hidden scores, do not add to them.
# - The softmax of a row of `-inf` is NaN: its largest score is `-inf`, and `-inf - -inf` is no
#   number. Turning the NaN into 0 afterwards can look right and still send NaN backwards as the
#   gradient, so mend the row *before* the softmax.
# - `~` is the logical not for booleans only. For integers `~1` is -2, which counts as true.
#
# **What is graded.** All five functions: masks that broadcast, empty rows, scores up to ±10,000,
# NaN and infinity behind the mask, inputs untouched, answers on the device of the inputs, and the
# gradient of `masked_softmax`. A separate check tests half precision, computed in float32, and
# float64, computed in float64; it is worth one point, and no other check depends on it. **Out of
# scope:** masks that are not boolean, lengths beyond `max_len`, the causal mask (ex05) and speed.
# **Allowed:** `torch.softmax`, from this exercise on. **Not allowed:** PyTorch's attention
# operators and modules, and `torch.masked`. About 40 minutes.

# %% [markdown] tags=["zh"]
# # 掩码
#
# 掩码规定一个查询可以看哪些键。人人都要用它，写法却各不相同，所以先列一张对照表。
# 读别人的代码时随时查：
#
# | 教程里的写法 | 在这里的含义 |
# |---|---|
# | True = 遮住（`nn.MultiheadAttention`、许多博客） | `blocked`：取反，只做一次 |
# | True = 可以看（PyTorch 的 SDPA、ONNX、JAX、Keras） | `keep`：计算时只用这一种掩码 |
# | tokenizer 给出的 0 和 1，1 = 真实的 token | `.bool()` 之后就是 `keep` |
# | 要加到分数上的浮点数 | `additive_mask(keep, dtype)`：0 或 `-inf` |
# | 用 `-1e9` 或 `finfo.min` 代替 `-inf` | 被遮住的键，权重恰好是 0 |
# | 靠参数位置区分的掩码：第四个参数，`(B, L)` | 按名字传的 `keep`：`(..., Lq, Lk)` |
# | 一个键都不剩的行：NaN，或者权重均分 | 权重为 0，所以输出为 0 |
#
# **问题**：一个 batch 里的句子长短不一，短的用填充补齐。查询不能看填充，
# 以后还会要求它不能看后面的词。怎样把一些键从 softmax 里拿掉，让它们毫无影响？
#
# **公式**：只对保留的键求和：
#
# $$w_{ij} = \frac{\text{keep}_{ij}\, e^{s_{ij}}}{\sum_{l\,:\,\text{keep}_{il}} e^{s_{il}}}$$
#
# 如果一行什么都不保留，则 $w_{ij} = 0$。因为 $e^{-\infty} = 0$，
# 通常的做法是把被遮住的分数改写成 $-\infty$，再做普通的 softmax。
#
# **形状**：掩码的最后两个轴总是查询和键。如果掩码对每个查询都一样，查询轴的大小就是 1，
# 其余的交给广播：
#
# ```text
#   填充：(B, 1, 1, Lk)            某条规则：(Lq, Lk)          合并：(B, 1, Lq, Lk)
#
#             keys                       keys                        keys
#          ┌───────┐                  ┌───────┐                   ┌───────┐
# sentence0│ T T . │           query 0│ T T T │            query 0│ T T . │
#          └───────┘     and   query 1│ . T T │     =      query 1│ . T . │  第 0 句
#                              query 2│ . . T │            query 2│ . . . │  <- 空行
#                                     └───────┘                   └───────┘
# ```
#
# 在 *the cat sat down* 里（见图），键 `down` 像填充一样被遮住。它在每一行的权重都是 0，其余三个键
# 分享 1：`sat` 给 `cat` 0.78，给 `the` 0.14，给自己 0.08。
#
# **手算**：分数 `ln 1, ln 3, ln 9` 取指数得 1、3、9。遮住最后一个键，
# 另外两个分掉全部权重：1/4 和 3/4。下面的第二个查询没有键可看，也就什么都得不到：
#
# ```pycon
# >>> scores = torch.log(torch.tensor([[1.0, 3.0, 9.0], [1.0, 3.0, 9.0]]))
# >>> keep = torch.tensor([[True, True, False], [False, False, False]])
# >>> masked_softmax(scores, keep).round(decimals=6).tolist()
# [[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]]
# ```
#
# **陷阱**
#
# - 在 softmax *之后*才做掩码。被遮住的键已经在和里占了一份，剩下的加起来不再是 1。
# - 把被遮住的分数写成 0。`exp(0) = 1`，照样是有效的一票。
# - `-1e9`。float16 装不下它；在空行里，它还会淹没分数：所有分数都舍入成 `-1e9`，
#   没有键可看的查询反而均匀地看所有键。
# - 把 `-inf` *加*到 NaN 或 `inf` 的分数上，结果是 NaN。填充位置上往往是内存里残留的内容，
#   所以要替换被遮住的分数，不要在上面做加法。
# - 整行都是 `-inf` 时，softmax 是 NaN：最大的分数是 `-inf`，而 `-inf - -inf` 没有定义。
#   事后把 NaN 改成 0，看上去可能没问题，反向传播的梯度却仍可能是 NaN，
#   所以要在 softmax *之前*处理好这一行。
# - `~` 只对布尔值才是逻辑非。对整数，`~1` 是 -2，也算真。
#
# **评分内容**：全部五个函数：可广播的掩码，空行，±10,000 以内的分数，
# 掩码背后的 NaN 和无穷，不修改输入，结果与输入在同一设备上，以及 `masked_softmax` 的梯度。
# 用 float32 计算的半精度和 float64 的有效数字另有一个检查，只占 1 分，不影响别的检查。
# **不考**：非布尔的掩码、超过 `max_len` 的长度、因果掩码（ex05）和速度。
# **可用**：`torch.softmax`，从这道题开始。
# **禁用**：PyTorch 的注意力算子和模块，以及 `torch.masked`。约 40 分钟。

# %%
import torch


# %% [markdown] tags=["en"]
# ## Task 1: a mask to be added
#
# Some libraries take a mask that is added to the scores: 0 changes nothing, `-inf` makes the
# exponential 0. Do not compute it as `hidden * -inf`, because `0 * -inf` is NaN.
#
# ```pycon
# >>> additive_mask(torch.tensor([True, False]), torch.float32).tolist()
# [0.0, -inf]
# ```

# %% [markdown] tags=["zh"]
# ## 任务 1：用来相加的掩码
#
# 有些库的掩码是加到分数上的：加 0 不变，加 `-inf` 之后取指数得 0。
# 不要用 `hidden * -inf` 来算，因为 `0 * -inf` 是 NaN。
#
# ```pycon
# >>> additive_mask(torch.tensor([True, False]), torch.float32).tolist()
# [0.0, -inf]
# ```


# %%
def additive_mask(keep: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Turn a boolean mask into one that is added to scores: 0 where kept, -inf where hidden.

    keep    bool tensor of any shape (a batch may be empty), True = may attend; it is not changed
    dtype   the floating dtype of the answer
    returns a tensor of `dtype`, of the shape and on the device of `keep`
    """
    ### BEGIN SOLUTION
    nothing = torch.zeros(keep.shape, dtype=dtype, device=keep.device)
    return nothing.masked_fill(~keep, -torch.inf)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: the other polarity
#
# `nn.MultiheadAttention` calls its masks `key_padding_mask` and `attn_mask`, and True hides. A mask
# of the wrong polarity raises no error: the model listens to exactly what it should not hear. So
# convert at the border, and give the two kinds different names.

# %% [markdown] tags=["zh"]
# ## 任务 2：相反的极性
#
# `nn.MultiheadAttention` 的掩码叫 `key_padding_mask` 和 `attn_mask`，True 表示遮住。
# 掩码的极性反了不会报错：模型看到的恰恰是它不该看的。所以在入口处就转换好，
# 并给两种掩码起不同的名字。


# %%
def keep_from_blocked(blocked: torch.Tensor) -> torch.Tensor:
    """Turn a mask in which True means hidden into one in which True means may attend.

    blocked bool tensor of any shape, True = hidden; it is not changed
    returns a bool tensor of the same shape, on the same device, True = may attend
    """
    ### BEGIN SOLUTION
    return ~blocked
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 3: padding
#
# From the lengths of the sentences to a mask over their keys. It holds for every head and for every
# query, so these two axes have size 1. Padding hides *keys*: the L stands last.
#
# ```pycon
# >>> padding_mask(torch.tensor([1, 3]), 3).tolist()
# [[[[True, False, False]]], [[[True, True, True]]]]
# ```

# %% [markdown] tags=["zh"]
# ## 任务 3：填充
#
# 由句子的长度得到键的掩码。它对每个头、每个查询都适用，所以这两个轴的大小是 1。
# 填充遮的是*键*：L 在最后。
#
# ```pycon
# >>> padding_mask(torch.tensor([1, 3]), 3).tolist()
# [[[[True, False, False]]], [[[True, True, True]]]]
# ```


# %%
def padding_mask(lengths: torch.Tensor, max_len: int) -> torch.Tensor:
    """Build the mask that keeps the first `lengths[b]` of `max_len` keys in sentence `b`.

    lengths tensor (B,), int8 to int64 or uint8, each from 0 to `max_len`, B may be 0; it is not
            changed
    max_len L, the number of keys, at least 1
    returns a bool tensor (B, 1, 1, L), on the device of `lengths`, True = may attend
    """
    ### BEGIN SOLUTION
    positions = torch.arange(max_len, device=lengths.device)  # (L,)
    return positions < lengths[:, None, None, None]  # (B, 1, 1, L)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 4: several masks at once
#
# A key is seen if *every* mask keeps it. A mask that is `None` hides nothing. If that is all there
# is, the answer is `None` too: no mask. Beware of `&=`, which writes into the caller's mask.

# %% [markdown] tags=["zh"]
# ## 任务 4：同时有多个掩码
#
# *每个*掩码都保留的键才看得见。为 `None` 的掩码什么也不遮。如果除此之外没有别的掩码，
# 结果也是 `None`：没有掩码。小心 `&=`，它会写进调用者的掩码。


# %%
def combine_masks(*masks: torch.Tensor | None) -> torch.Tensor | None:
    """Combine any number of masks into one that keeps what all of them keep.

    masks   bool tensors, True = may attend, of shapes that broadcast; None is skipped;
            they are not changed
    returns a bool tensor of the broadcast shape, on their device, or None if there is no mask at
            all
    """
    ### BEGIN SOLUTION
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 5: the softmax behind the mask
#
# Replace the hidden scores, see to the empty rows, take the softmax. Each of these steps also
# decides what flows *backwards*: a hidden score has gradient 0, whatever it holds, and so does
# every score of an empty row. Half precision is computed in float32 and rounded once, at the end.
#
# You can pass on what `combine_masks` returns, also `None`: `keep=None` hides nothing.

# %% [markdown] tags=["zh"]
# ## 任务 5：带掩码的 softmax
#
# 替换被遮住的分数，处理空行，做 softmax。这几步同时决定了*反向*传播的内容：
# 被遮住的分数不管是什么值，梯度都是 0；空行里的每个分数也是如此。
# 半精度用 float32 计算，最后只舍入一次。
#
# `combine_masks` 的结果可以直接传进来：`keep=None` 什么也不遮。


# %%
def masked_softmax(scores: torch.Tensor, keep: torch.Tensor | None) -> torch.Tensor:
    """Turn scores into weights over the keys that `keep` lets through.

    scores  tensor (..., Lq, Lk), float16, bfloat16, float32 or float64; it is not changed
    keep    bool tensor that broadcasts to the shape of `scores`, True = may attend, or None for all
    returns a tensor of the shape and dtype of `scores`: each row sums to one, is
            exactly 0 where hidden, and all 0 if nothing is kept; hidden scores, even NaN, have no
            influence on it, and gradient 0

    Scores may be as large as 10,000, and a batch may be empty. Gradients flow to the kept scores.
    float64 is computed in float64, half precision in float32, the gradient too: a row of 70,000
    must not overflow.
    """
    ### BEGIN SOLUTION
    if keep is None:
        keep = torch.ones_like(scores, dtype=torch.bool)
    wide = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    empty = ~keep.any(dim=-1, keepdim=True)  # (..., Lq, 1)
    safe = torch.where(keep, wide, -torch.inf)  # (..., Lq, Lk)
    safe = torch.where(empty, 0.0, safe)  # a row of -inf would become NaN
    weights = torch.softmax(safe, dim=-1)  # (..., Lq, Lk)
    return torch.where(keep, weights, 0.0).to(scores.dtype)
    ### END SOLUTION
