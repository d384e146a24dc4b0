# %% [markdown] tags=["en"]
# # The fast path
#
# **The question.** Attention as we wrote it so far stores all scores, an `Lq x Lk` matrix for each
# head. With 32 heads, 16,384 tokens and two bytes a number that is 16 GiB for one layer, written to
# memory, read for the softmax, written again and read again. The arithmetic is not what takes the
# time; this traffic is. How do we get the same numbers without ever storing the scores?
#
# **The answer** is a *fused kernel*: one program for the GPU that takes the keys in tiles, keeps a
# tile's scores in fast memory on the chip, adds their share to the output and forgets them. (How
# the softmax survives that is ex10.) You need not write one. PyTorch has several behind a single
# function, `F.scaled_dot_product_attention`, and picks one for each call. The work of this exercise
# is to ask in a way that a fast kernel can answer.
#
# **The formula** is that of ex03 and ex05, with a bias that may be added to the scores:
#
# $$\text{softmax}\left(\frac{QK^T}{\sqrt{D}} + \text{bias, hidden scores} = -\infty\right)V$$
#
# **The kernels.** A call that a kernel cannot take goes to the next one, silently. At the end
# stands `math`, which takes everything, stores all scores, and says nothing about it.
#
# | kernel | takes | does not take |
# |---|---|---|
# | `flash`, CUDA | float16, bfloat16; grouped heads | float32; masks; `Dv != D`; width over 256 |
# | `efficient`, CUDA | float32 too; masks; a bias | float64; odd widths; often grouped heads |
# | `cudnn`, CUDA | float16, bfloat16; masks; grouped heads | float32; odd or very large widths |
# | `flash`, CPU | every dtype; masks; grouped heads | `Dv != D`; a bias that wants a gradient |
# | `math`, anywhere | everything, but copies K and V for grouped heads | |
#
# The table is from PyTorch 2.13 and differs a little between graphics cards. You can ask:
# `torch.backends.cuda` has `can_use_flash_attention`, `can_use_efficient_attention` and
# `can_use_cudnn_attention`. Each takes an `SDPAParams` and says yes or no; without CUDA they all
# say no. `sdpa_kernel`, in `torch.nn.attention`, is a `with` block inside which only the kernels of
# your choice may run; if none of them can, the call raises and *warns* with the reasons.
#
# **The shapes.** All fused kernels want four dimensions:
#
# ```text
# q    (B, H,  Lq, D) ─┐
# k    (B, Hk, Lk, D) ─┼─> one kernel, tile by tile ──> output (B, H, Lq, Dv)
# v    (B, Hk, Lk, Dv)─┘        ▲
#                               │ at most: keep, bias   (B or 1, H or 1, Lq or 1, Lk)
# ```
#
# Tile by tile, `down` reads *the cat sat down* (the picture): after the first two keys the largest
# score is 1.91 and the sum of the exponentials 1.23. The next tile has a larger score, 3.02, so the
# old sum is multiplied by `exp(1.91 - 3.02)`, which is 0.33, before the new tile is added.
#
# **By hand.** Queries of zeros have the same score with every key, so an output is the mean of the
# values that its query may see. Two queries at the end of three keys see two and three values: of
# `6, 2, 1` the means are `8 / 2` and `9 / 3`. PyTorch's own `is_causal=True` counts from the other
# corner as soon as `Lq != Lk`, and lets them see one and two:
#
# ```pycon
# >>> q, k = torch.zeros(1, 2, 1), torch.zeros(1, 3, 1)
# >>> v = torch.tensor([[[6.0], [2.0], [1.0]]])
# >>> fast_attention(q, k, v, causal=True).flatten().round(decimals=4).tolist()
# [4.0, 3.0]
# >>> F.scaled_dot_product_attention(q, k, v, is_causal=True).flatten().round(decimals=4).tolist()
# [6.0, 4.0]
# >>> best_backend(q, k, v).split(":")[0]
# 'flash'
# ```
#
# **The traps.**
#
# - `is_causal=True` for a few new queries after a long cache. Every new word then reads the
#   beginning of the text and nothing else; nothing crashes.
# - `attn_mask` beside `is_causal=True` is refused by PyTorch. If you drop one of the two to silence
#   the error, the model runs, and is wrong.
# - A mask built because it was easy to build. It costs `Lq x Lk` memory and, on CUDA, flash.
# - A scale that is 0 or negative. A kernel may hide scores before it scales them, and `-inf * -1`
#   is not hidden: with `is_causal=True` the CPU's kernel gives NaN. Change the sign of Q instead.
# - A float mask with -10,000 for "hidden". In a row where everything is hidden it hides nothing.
# - `repeat_interleave` on K and V before a kernel that takes grouped heads as they are
#   (`enable_gqa=True`).
# - Inputs in half precision converted to another dtype "to be safe". The kernels already add up in
#   float32.
#
# **What is graded.** On any machine: values in every dtype, with any leading dimensions and all
# combinations of `keep`, `causal`, `scale` and `bias`; the alignment for `Lq < Lk` and `Lq > Lk`;
# empty rows; grouped heads; hidden keys and values as large as 1e30; large scores; empty batches
# and lengths; any layout and device; gradients; the two paths of the module. On CUDA: that a
# fused kernel takes the calls, and four points for its speed. Without a GPU these are reported as
# *needs CUDA*, and their points are left out of the total. **Out of scope:** dropout; NaN and
# infinity behind a mask (a weight of 0 does not silence them: `0 * nan` is `nan`); how the kernels
# work (ex10, ex14, ex15). **Not allowed:** other people's kernels (`flash_attn`, `xformers`);
# PyTorch's own attention is the point here. About 90 minutes.

# %% [markdown] tags=["zh"]
# # 快速路径
#
# **问题。** 前面写的注意力都会存下全部分数：每个头一个 `Lq x Lk` 矩阵。32 个头、16,384 个 token、
# 每个数两字节，一层就是 16 GiB：先写进内存，做 softmax 时读出来，再写回去，再读一遍。
# 耗时的不是算术，是这些读写。怎样得到同样的结果，却根本不存分数？
#
# **答案**是*融合 kernel*：一段 GPU 程序，分块读入键，把一块的分数放在片上的高速存储里，
# 把这一块的贡献加进输出，随即丢弃。（这样 softmax 为什么还算得对，见 ex10。）不需要你自己写。
# PyTorch 的 `F.scaled_dot_product_attention` 一个函数背后就有好几个 kernel，每次调用选一个。
# 这道题要做的，是把调用写成快的 kernel 能接的样子。
#
# **公式**还是原来那个，外加一个可选的偏置：
#
# $$\text{softmax}\left(\frac{QK^T}{\sqrt{D}} + \text{bias, hidden scores} = -\infty\right)V$$
#
# **有哪些 kernel。** 一个 kernel 接不了的调用会交给下一个，没有任何提示。排在最后的是 `math`：
# 它什么都接，存下全部分数，而且一声不吭。
#
# | kernel | 支持 | 不支持 |
# |---|---|---|
# | `flash`，CUDA | float16、bfloat16；分组的头 | float32；掩码；`Dv != D`；宽度超过 256 |
# | `efficient`，CUDA | float32 也行；掩码；偏置 | float64；不规整的宽度；分组的头（多数情况下） |
# | `cudnn`，CUDA | float16、bfloat16；掩码；分组的头 | float32；不规整或非常大的宽度 |
# | `flash`，CPU | 所有 dtype；掩码；分组的头 | `Dv != D`；要求梯度的偏置 |
# | `math`，任何设备 | 什么都接，但遇到分组的头会拷贝 K 和 V | |
#
# 这张表按 PyTorch 2.13 整理，不同显卡略有差别。可以直接问：`torch.backends.cuda` 里有
# `can_use_flash_attention`、`can_use_efficient_attention` 和 `can_use_cudnn_attention`。
# 它们各接收一个 `SDPAParams`，回答能或不能；没有 CUDA 时一律回答不能。`torch.nn.attention` 里的
# `sdpa_kernel` 用作 `with` 块，块内只允许你选定的 kernel 运行；如果一个都跑不了，调用会抛出异常，
# 并用 *warning* 给出原因。
#
# **形状。** 所有融合 kernel 都要求四个维度：
#
# ```text
# q    (B, H,  Lq, D) ─┐
# k    (B, Hk, Lk, D) ─┼─> 一个 kernel，逐块计算 ──> 输出 (B, H, Lq, Dv)
# v    (B, Hk, Lk, Dv)─┘        ▲
#                               │ 至多再加：keep、bias  (B 或 1, H 或 1, Lq 或 1, Lk)
# ```
#
# `down` 分块读 *the cat sat down*（见图）：读完前两个键，最大的分数是 1.91，指数之和是 1.23。
# 下一块有更大的分数 3.02，所以先把原来的和乘以 `exp(1.91 - 3.02)`，即 0.33，再加上新的一块。
#
# **手算。** 全零的查询对所有键一视同仁，所以输出是该查询能看到的值的平均。三个键末尾的两个查询，
# 分别看到两个和三个值：值是 `6, 2, 1`，平均是 `8 / 2` 和 `9 / 3`。只要 `Lq != Lk`，PyTorch 自己的
# `is_causal=True` 就从另一个角数起，让它们只看到一个和两个：
#
# ```pycon
# >>> q, k = torch.zeros(1, 2, 1), torch.zeros(1, 3, 1)
# >>> v = torch.tensor([[[6.0], [2.0], [1.0]]])
# >>> fast_attention(q, k, v, causal=True).flatten().round(decimals=4).tolist()
# [4.0, 3.0]
# >>> F.scaled_dot_product_attention(q, k, v, is_causal=True).flatten().round(decimals=4).tolist()
# [6.0, 4.0]
# >>> best_backend(q, k, v).split(":")[0]
# 'flash'
# ```
#
# **陷阱。**
#
# - 长缓存之后只有几个新查询，却用 `is_causal=True`。每个新词只读到文本开头，别的都看不到；
#   也不会崩溃。
# - 同时给 `attn_mask` 和 `is_causal=True`，PyTorch 会拒绝。为了消掉报错而丢掉其中一个，
#   就得到一个能跑的错误模型。
# - 图方便就建了一个掩码。它要占 `Lq x Lk` 的内存，在 CUDA 上还用不了 flash。
# - 缩放为 0 或负数。kernel 可能先遮住分数再缩放，而 `-inf * -1` 就不再是遮住：
#   带 `is_causal=True` 时，CPU 的 kernel 会给出 NaN。应该改变 Q 的符号。
# - 用 -10,000 表示“遮住”的浮点掩码。整行都被遮住时，它什么也没遮住。
# - 明明 kernel 能直接接分组的头（`enable_gqa=True`），却先对 K 和 V 做 `repeat_interleave`。
# - “为了保险”把半精度降低或提升。kernel 本来就用 float32 累加。
#
# **评分内容。** 在任何机器上：所有 dtype、任意前置维度，以及 `keep`、`causal`、`scale` 和 `bias`
# 的各种组合下的数值；`Lq < Lk` 和 `Lq > Lk` 时的对齐；空行；分组的头；大到 1e30 的被遮住的键和值；
# 很大的分数；空的 batch 和长度；任何内存布局和设备；梯度；模块的两条路径。
# 在 CUDA 上：这些调用由融合 kernel 执行，另有四分看速度。没有 GPU 时，
# 这些项目显示为*需要 CUDA*，不扣分。**不涉及：** dropout；掩码遮住的 NaN 和无穷（权重为 0
# 也压不住它们：`0 * nan` 是 `nan`）；kernel 的工作原理（ex10、ex14、ex15）。**不允许：** 别人的
# kernel（`flash_attn`、`xformers`）；PyTorch 自己的注意力正是这道题的主题。约 90 分钟。

# %%
import math
import warnings
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn
from torch.backends.cuda import (
    SDPAParams,
    can_use_cudnn_attention,
    can_use_efficient_attention,
    can_use_flash_attention,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import CausalBias, causal_lower_right

# %% [markdown] tags=["en"]
# ## Task 1: one call that a fast kernel can take
#
# First the cheap part: inputs that the fused kernels refuse, but take after a view or a little
# padding.
#
# - Fewer or more than four dimensions: reshape, and undo it at the end.
# - `Dv != D`, or a width that is no multiple of 8: pad with zeros and cut the output. Zeros change
#   no dot product; but the scale must come from the *real* width.
#
# Then decide how to tell the operator about causality; the speed depends on it. Most calls need no
# mask:
#
# | lengths | say | why |
# |---|---|---|
# | `Lq == Lk` | `is_causal=True` | both corners are the same; the kernel skips the upper half |
# | `Lq == 1` | nothing | the newest word sees all; each step of decoding is this case |
# | `1 < Lq < Lk` | `attn_mask=causal_lower_right(Lq, Lk)` | a rule in the shape of a tensor |
# | `Lq > Lk` | a boolean mask | rare: the first queries come before every key and see nothing |
#
# Of `causal_lower_right` (in `torch.nn.attention.bias`) only the type and the two lengths are read:
# `flash` and `efficient` on CUDA know the rule; elsewhere PyTorch has to write it out as a mask.
# With `keep` or `bias` beside it, causality has to become part of the mask, because the operator
# does not take both. This, and a `keep` or `bias` that differs from query to query, are the
# `Lq x Lk` matrices that cannot be avoided. A padding mask of one row, `(B, 1, 1, Lk)`, stays one
# row.
#
# What a kernel makes of a row with nothing to attend to depends on the kernel and the release. Do
# not rely on it: let an empty row look at everything, and set its output to 0 afterwards. The zero
# also stops its gradient.
#
# If the heads are grouped and only `math` would take `enable_gqa=True`, repeat K and V after all:
# `math` would copy them too, and store the scores besides.
#
# Left alone, PyTorch tries `flash`, `efficient`, `math` and then `cudnn`, which therefore never has
# its turn; on Hopper and Blackwell cards, with a recent cuDNN, it comes first. If you know which
# kernel you want, say so with `sdpa_kernel`.

# %% [markdown] tags=["zh"]
# ## 任务 1：快的 kernel 能接的一次调用
#
# 先做便宜的部分：kernel 不接受、但用视图或少量填充就能解决的问题。
#
# - 维度多于或少于四个：reshape，最后再还原。
# - `Dv != D`，或宽度不是 8 的倍数：补零，最后裁剪输出。补零不改变任何点积；
#   但缩放必须取自*真实的*宽度。
#
# 接下来的问题决定速度：因果性怎么表达。多数调用不需要掩码：
#
# | 长度 | 写法 | 原因 |
# |---|---|---|
# | `Lq == Lk` | `is_causal=True` | 两种对齐相同；kernel 跳过上半部分 |
# | `Lq == 1` | 什么都不写 | 最新的词能看到全部；解码的每一步都是这种情况 |
# | `1 < Lq < Lk` | `attn_mask=causal_lower_right(Lq, Lk)` | 一条写成张量样子的规则 |
# | `Lq > Lk` | 布尔掩码 | 少见：最前面的查询排在所有键之前，什么都看不到 |
#
# 对于 `causal_lower_right`（在 `torch.nn.attention.bias` 里），只有它的类型和两个长度会被读取：CUDA
# 上的 `flash` 和 `efficient` 认得这条规则；其他情况下 PyTorch 只能把它展开成掩码。如果同时有 `keep`
# 或 `bias`，因果性就得并入掩码，因为算子不能两者都接。避免不了的 `Lq x Lk` 矩阵只有两种：这一种，
# 以及各查询不同的 `keep` 或 `bias`。只有一行的填充掩码 `(B, 1, 1, Lk)` 就保持一行。
#
# 遇到空行，kernel 输出什么取决于 kernel 和 PyTorch 版本。不要依赖它：让空行看到全部，
# 事后把它的输出置为 0。置 0 也截断了它的梯度。
#
# 如果头是分组的，而 `enable_gqa=True` 只有 `math` 肯接，那就还是重复 K 和 V：`math` 也一样要拷贝，
# 还要多存全部分数。
#
# 不加干预时，PyTorch 依次尝试 `flash`、`efficient`、`math`，最后才是 `cudnn`，所以永远轮不到它；在
# Hopper 和 Blackwell 显卡上，如果 cuDNN 够新，它排第一。如果你知道想用哪个 kernel，就用
# `sdpa_kernel` 指定。


# %%
### BEGIN SOLUTION
def _check_shapes(q, k, v):
    for what, one, other in (
        ("widths of q and k", q.shape[-1], k.shape[-1]),
        ("lengths of k and v", k.shape[-2], v.shape[-2]),
        ("heads of k and v", k.shape[-3], v.shape[-3]),
    ):
        if one != other:
            raise ValueError(f"the {what} differ: {one} and {other}")
    if q.shape[-3] % k.shape[-3]:
        raise ValueError(f"{q.shape[-3]} query heads cannot share {k.shape[-3]} key/value heads")


def _padded(x, width):
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def _four_dims(x):
    """(..., H, L, D) as (B, H, L, D), the numbers of the last dimension side by side."""
    x = x.reshape(x.shape[:-3].numel(), *x.shape[-3:])
    return x if x.stride(-1) == 1 else x.contiguous()


def _mask_four_dims(mask, q, k_len):
    """What broadcasts to (..., H, Lq, Lk), as (B or 1, H or 1, Lq or 1, Lk)."""
    mask = mask[(None,) * (q.ndim - mask.ndim)]
    if q.ndim != 4:
        mask = mask.expand(*q.shape[:-3], *mask.shape[-3:])
    return _four_dims(mask.expand(*mask.shape[:-1], k_len))


def _call(q, k, v, keep, causal, scale, bias):
    """How to call PyTorch's operator, and which rows of the output are 0."""
    q_len, k_len, mask, empty = q.shape[-2], k.shape[-2], bias, None
    causal = causal and q_len > 1  # a single query is the newest: it sees everything
    if causal and (keep is not None or bias is not None or q_len > k_len):
        behind = torch.ones(q_len, k_len, dtype=torch.bool, device=q.device).tril(k_len - q_len)
        keep, causal = behind if keep is None else keep & behind, False
    if keep is not None:
        empty = ~keep.any(-1, keepdim=True)  # (..., H, Lq, 1), or 1 for any of them
        # What a kernel makes of an empty row differs: let it see everything, and zero it after.
        mask = keep | empty if bias is None else torch.where(keep | empty, bias, -torch.inf)
    if mask is not None:
        mask = _mask_four_dims(mask, q, k_len)
    elif causal and q_len < k_len:
        mask, causal = causal_lower_right(q_len, k_len), False

    width = -(-max(q.shape[-1], v.shape[-1]) // 8) * 8
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if scale <= 0:  # some kernels hide scores before they scale them: -inf * -1 is no longer hidden
        q, scale = (-q, -scale) if scale else (0 * q, 1.0)
    query, key, value = (_four_dims(_padded(x, width)) for x in (q, k, v))
    call = {"query": query, "key": key, "value": value, "attn_mask": mask}
    call |= {"is_causal": causal, "scale": scale, "enable_gqa": q.shape[-3] != k.shape[-3]}
    if call["enable_gqa"] and _kernel(call) == "math":  # which would copy them, and store scores
        group = q.shape[-3] // k.shape[-3]
        key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
        call |= {"key": key, "value": value, "enable_gqa": False}
    return call, empty


_KERNELS = {
    "flash": (SDPBackend.FLASH_ATTENTION, can_use_flash_attention),
    "efficient": (SDPBackend.EFFICIENT_ATTENTION, can_use_efficient_attention),
    "cudnn": (SDPBackend.CUDNN_ATTENTION, can_use_cudnn_attention),
}


def _candidates(device):
    """The names of the fused kernels for a device, the one that PyTorch prefers first."""
    if device.type != "cuda":
        return ["flash"]
    if torch.cuda.get_device_capability(device)[0] in (9, 10):  # Hopper, Blackwell
        return ["cudnn", "flash", "efficient"]
    return ["flash", "efficient", "cudnn"]


def _takes(name, call):
    """Whether a fused kernel can run this call."""
    q, k, v, mask = (call[part] for part in ("query", "key", "value", "attn_mask"))
    if not q.is_cuda:  # PyTorch answers for CUDA only
        return bool(q.shape[-2] and k.shape[-2])
    if isinstance(mask, CausalBias):  # a rule, which counts as no mask
        if name == "cudnn" or (name == "efficient" and call["enable_gqa"]):
            return False  # they do not know it
        mask = None
    params = SDPAParams(q, k, v, mask, 0.0, call["is_causal"], call["enable_gqa"])
    return _KERNELS[name][1](params)


def _kernel(call):
    """The name of the kernel to run this call on."""
    names = _candidates(call["query"].device)
    return next((name for name in names if _takes(name, call)), "math")


### END SOLUTION


def fast_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keep: torch.Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attend on a fused kernel, without an Lq x Lk matrix wherever one can be avoided.

    q       (..., H, Lq, D), float16, bfloat16, float32 or float64, of any size and in any layout;
            no batch is needed, and its size, Lq and Lk may be 0; no input is changed
    k       (..., Hk, Lk, D); query head h reads key/value head h // (H // Hk)
    v       (..., Hk, Lk, Dv)
    keep    bool tensor that broadcasts to (..., H, Lq, Lk), True = may attend; None hides nothing;
            keys and values hidden from a query have no influence on its output, even 1e30
    causal  whether query i, at position i + Lk - Lq, sees no key ahead of itself
    scale   factor of the scores, which may be 0 or negative; None means 1 / sqrt(D)
    bias    finite numbers of the dtype of `q`, added to the scaled scores; broadcasts as `keep`
    returns output (..., H, Lq, Dv) of the dtype and device of `q`, a new one at each call, through
            which gradients flow to `q`, `k`, `v` and `bias`; a query that may attend to nothing has
            output 0 and gradient 0; float64 is computed in float64, half precision is scaled and
            added up in float32 (neither scale * q nor products of 256 overflow), and scores may be
            thousands apart, and as low as -1e32
    raises  ValueError, naming both numbers, if the widths of `q` and `k`, the lengths of `k` and
            `v` or their heads differ, or if Hk does not divide H
    """
    ### BEGIN SOLUTION
    _check_shapes(q, k, v)
    call, empty = _call(q, k, v, keep, causal, scale, bias)
    name = _kernel(call)
    # Left alone, PyTorch would prefer math to cuDNN. There is nothing to choose on the CPU.
    pinned = q.is_cuda and name != "math"
    with sdpa_kernel(_KERNELS[name][0]) if pinned else nullcontext():
        output = F.scaled_dot_product_attention(**call)  # (B, H, Lq, D or more)
    output = output[..., : v.shape[-1]].reshape(*q.shape[:-1], v.shape[-1])
    return output if empty is None else output.masked_fill(empty, 0.0)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: which kernel, and why not a faster one
#
# The fall to `math` is silent, so a program that must be fast asks before it is too late. Answer
# for the call that your `fast_attention` makes, with the word first: `flash`, `efficient`, `cudnn`
# or `math`, then a colon and the reasons. On the CPU, PyTorch's fused kernel counts as `flash`.
#
# On CUDA, ask the three `can_use_...` functions; nothing is computed. On the CPU there is a single
# fused kernel, and after task 1 your calls suit it unless there are no queries or no keys.
#
# PyTorch hands out its reasons as warnings. Allow one kernel only (`sdpa_kernel`), make the call
# that it cannot take, and when the `RuntimeError` comes, read what
# `warnings.catch_warnings(record=True)` has caught.

# %% [markdown] tags=["zh"]
# ## 任务 2：用哪个 kernel，为什么不是更快的
#
# 退到 `math` 没有任何提示，所以对速度有要求的程序要提前问清楚。针对你的 `fast_attention`
# 发出的那次调用作答，开头写名字：`flash`、`efficient`、`cudnn` 或 `math`，然后是冒号和原因。在 CPU
# 上，PyTorch 的融合 kernel 算作 `flash`。
#
# 在 CUDA 上，问那三个 `can_use_...` 函数；不会做任何计算。在 CPU 上只有一个融合 kernel，做完任务 1
# 后，你的调用它都能接，除非没有查询或没有键。
#
# PyTorch 用 warning 给出原因。只允许一个 kernel（`sdpa_kernel`），发出它接不了的调用，等
# `RuntimeError` 抛出后，读 `warnings.catch_warnings(record=True)` 捕获的内容。


# %%
### BEGIN SOLUTION
def _why_not(name, call):
    """PyTorch's reasons for not running this call on a kernel that does not take it."""
    rule = isinstance(call["attn_mask"], CausalBias)
    call = call | {"attn_mask": None} if rule else call
    with warnings.catch_warnings(record=True) as caught, sdpa_kernel(_KERNELS[name][0]):
        warnings.simplefilter("always")
        try:
            F.scaled_dot_product_attention(**call)
        except RuntimeError as error:
            said = [str(warning.message).split(" (Triggered")[0] for warning in caught]
            # The kernels that were not asked appear too, as "disabled", each under a headline.
            reasons = [s for s in said if "disabled" not in s and not s.endswith("because:")]
            return " ".join(reasons) or str(error)
    return "it does not know the bottom-right rule" if rule else "there is nothing to compute"


### END SOLUTION


def best_backend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keep: torch.Tensor | None = None,
    causal: bool = False,
) -> str:
    """Name the kernel that attention on these tensors will run on, and why no faster one will.

    q, k, v, keep, causal   as for `fast_attention`
    returns "flash: ...", "efficient: ...", "cudnn: ..." or "math: ...", where ... says for each
            fused kernel that cannot take the call what it dislikes; on the CPU flash, and
            math wherever there are no queries or no keys
    """
    ### BEGIN SOLUTION
    call, _ = _call(q, k, v, keep, causal, None, None)
    reasons = []
    for name in _candidates(q.device):
        if _takes(name, call):
            return f"{name}: " + ("; ".join(reasons) or "no other is preferred to it")
        reasons.append(f"{name} will not run ({_why_not(name, call)})")
    return "math: " + "; ".join(reasons)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 3: a module with two paths
#
# This is the self-attention of timm's vision transformers. One matrix makes queries, keys and
# values at once; its 3E outputs are laid out as three blocks of H heads of D numbers:
#
# ```text
#                         ┌ q: head 0 | head 1 | ... ┐
# qkv(x)  (B, L, 3*E)  =  │ k: head 0 | head 1 | ... │   ->   (B, L, 3, H, D)
#                         └ v: head 0 | head 1 | ... ┘
# ```
#
# `q_norm` and `k_norm` normalise each head's queries and keys (over D numbers), so that scores
# cannot grow without bound; without `qk_norm` they are `nn.Identity()`. `proj` is `nn.Linear(E, E)`
# with a bias, as in timm; `qkv_bias` is about `qkv` only.
#
# The attribute `fused` switches between `fast_attention` and the formula written out, scores and
# all. The slow path is worth keeping: weights can be read off it, it exports everywhere, and it
# tells you whether the fast one is right. So both must agree in everything, also in half precision
# (add up in float32) and in empty rows.

# %% [markdown] tags=["zh"]
# ## 任务 3：有两条路径的模块
#
# 这是 timm 的 vision transformer 里的自注意力。一个矩阵一次算出查询、键和值；它的 3E
# 个输出排成三块，每块 H 个头，每个头 D 个数：
#
# ```text
#                         ┌ q: 头 0 | 头 1 | ... ┐
# qkv(x)  (B, L, 3*E)  =  │ k: 头 0 | 头 1 | ... │   ->   (B, L, 3, H, D)
#                         └ v: 头 0 | 头 1 | ... ┘
# ```
#
# `q_norm` 和 `k_norm` 对每个头的查询和键做归一化（在 D 个数上），使分数不会无限增大；没有 `qk_norm`
# 时，它们是 `nn.Identity()`。`proj` 是带偏置的 `nn.Linear(E, E)`，与 timm 相同；`qkv_bias` 只管
# `qkv`。
#
# 属性 `fused` 切换两条路径：`fast_attention`，或者按公式逐步计算、存下全部分数的非融合路径。
# 慢的这条值得保留：权重可以从中读出，在哪里都能导出，还能告诉你快的那条对不对。
# 所以两者必须处处一致，包括半精度（用 float32 累加）和空行。


# %%
### BEGIN SOLUTION
def _written_out(q, k, v, keep):
    """The same attention with all scores stored: q, k, v (..., H, L, D)."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).mT / math.sqrt(q.shape[-1])  # (..., H, L, L)
    if keep is None:
        weights = scores.softmax(-1)
    else:  # an empty row is NaN after the softmax, and 0 in the end
        weights = scores.masked_fill(~keep, -torch.inf).softmax(-1).masked_fill(~keep, 0.0)
    return (weights @ v.to(wide)).to(q.dtype)  # (..., H, L, D)


### END SOLUTION


class FusedAttention(nn.Module):
    """Self-attention with one projection for queries, keys and values, fused or written out."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        qkv_bias: bool = False,
        qk_norm: bool = False,
        fused: bool = True,
    ) -> None:
        """Create `qkv`, `q_norm`, `k_norm` and `proj`, and remember `fused`.

        d_model     E, the width of the input and the output
        num_heads   H; D = E / H
        qkv_bias    whether `qkv`, nn.Linear(E, 3 * E), has a bias; `proj`, nn.Linear(E, E), has one
        qk_norm     whether `q_norm` and `k_norm` are nn.LayerNorm(D); else nn.Identity()
        fused       which path `forward` takes; may be set at any time, by the caller alone
        raises      ValueError, naming both numbers, if num_heads does not divide d_model
        """
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        self.num_heads, self.fused = num_heads, fused
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=qkv_bias)
        self.q_norm = nn.LayerNorm(d_model // num_heads) if qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(d_model // num_heads) if qk_norm else nn.Identity()
        self.proj = nn.Linear(d_model, d_model)
        ### END SOLUTION

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        """Attend within x, on the fused path or on the one written out.

        x       (..., L, E), of any size and in any layout, on the device of the weights and of
                their dtype, which is one of the four; a batch of 0 too; it is not changed
        keep    bool tensor that broadcasts to (..., H, L, L), True = may attend; None hides nothing
        returns (..., L, E), the same in .train() and .eval(), through which gradients flow to x and
                to every weight and bias; a token that may attend to nothing gets the bias of
                `proj`; half precision, digits and large scores are as in `fast_attention` on both
                paths, whose last digits may differ; hidden keys and values have no influence, even
                1e30, nor on gradients
        """
        ### BEGIN SOLUTION
        parts = self.qkv(x).unflatten(-1, (3, self.num_heads, -1))  # (..., L, 3, H, D)
        q, k, v = (part.transpose(-3, -2) for part in parts.unbind(-3))  # (..., H, L, D) each
        q, k = self.q_norm(q), self.k_norm(k)
        output = fast_attention(q, k, v, keep) if self.fused else _written_out(q, k, v, keep)
        return self.proj(output.transpose(-3, -2).flatten(-2))  # (..., L, E)
        ### END SOLUTION
