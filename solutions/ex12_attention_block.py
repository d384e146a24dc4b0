# %% [markdown] tags=["en"]
# # An attention block
#
# **The question.** A model that paints videos, such as Wan, repeats one block some forty times. In
# the block stands the attention of the earlier exercises, with a few parts around it: a norm that
# keeps the scores in range, a rotation that tells tokens apart by where they stand, dropout, a
# second attention that reads a prompt (and perhaps a picture), and two linear layers. Every part is
# a line or two. What makes or breaks the model is which tensor each part touches, and in which
# order. The weights of a checkpoint are matched by name, and a part in the wrong place changes no
# shape: the model runs, and paints noise. What is the right order?
#
# **The formulas.** The norm divides a row by its root mean square; $g$ is the learned weight:
#
# $$\text{RMSNorm}(x) = \frac{x}{\sqrt{\frac{1}{E}\sum_j x_j^2 + \epsilon}} \odot g$$
#
# Self-attention normalises queries and keys, not values, over the whole model width; it rotates
# queries and keys, not values, head by head. With $R$ for the rotation (RoPE), one head computes
#
# $$\text{head} = \text{dropout}\left(\text{softmax}\left(\frac{R(\hat q)\, R(\hat k)^\top}
# {\sqrt{D}}\right)\right) v, \qquad \hat q = \text{RMSNorm}(W_q x),\quad
# \hat k = \text{RMSNorm}(W_k x)$$
#
# RoPE takes the numbers of a head in pairs, `(0, 1)`, `(2, 3)` and so on. For a token at position
# $p$, pair $i$ turns by the angle $p \cdot \text{base}^{-2i/D}$: $(a, b)$ becomes
# $(a \cos - b \sin,\ a \sin + b \cos)$. (ex11 says why.) Cross-attention attends to the text
# and to the picture separately and adds the two outputs; then comes the projection:
#
# $$\text{out} = W_o\,\left(\text{attend}(q, K_{text}, V_{text}) +
# \text{attend}(q, K_{img}, V_{img})\right)$$
#
# **The shapes.** Four heads, `E = 4 D`:
#
# ```text
#   x (B, L, E)
#   ├─ q (B, L, E) ─ norm_q ─┬─ split ─ (B, 4, L, D) ─ RoPE ─┐
#   │            whole width │         head by head          ├─ (B, 4, L, L) ─ softmax ─ dropout ─┐
#   ├─ k (B, L, E) ─ norm_k ─┴─ split ─ (B, 4, L, D) ─ RoPE ─┘                                    @
#   └─ v (B, L, E) ──────────── split ─ (B, 4, L, D) ─────────────────────────────────────────────┤
#                                                                  o (B, L, E) ─ merge (B, L, E) ─┘
#
#   context (B, Lc, E)    ┌───────────────┬────────────────────────────────┐
#                         │ image_tokens  │  text: Lc - image_tokens       │
#                         └───────────────┴────────────────────────────────┘
#                       k_img, norm_k_img, v_img    k, norm_k, v; `keep` covers only these
# ```
#
# **By hand.** The row `1, 7` has the mean square `(1 + 49) / 2 = 25`, so its root mean square is 5.
# LayerNorm would subtract the mean 4 first and give `-1, 1`; this norm does not:
#
# ```pycon
# >>> RMSNorm(2).double()(torch.tensor([1.0, 7.0]).double()).detach().numpy().round(4).tolist()
# [0.2, 1.4]
# ```
#
# Cross-attention of width 1, with all weights 1 and all biases 0. The context is a picture of one
# token, 10, and a text of two, 2 and 4. All keys become 1 by the norm, so the text answers with the
# mean 3, the picture with 10, and the sum is 13. One softmax over all three would give 16/3:
#
# ```pycon
# >>> block = CrossAttention(1, 1, image_tokens=1)
# >>> for name, parameter in block.named_parameters():
# ...     _ = nn.init.constant_(parameter, 0.0 if name.endswith("bias") else 1.0)
# >>> context = torch.tensor([[[10.0], [2.0], [4.0]]])
# >>> round(block(torch.tensor([[[5.0]]]), context).item(), 4)
# 13.0
# ```
#
# **The traps.**
#
# - Norm and rotation do not commute. RoPE turns a pair of numbers; the norm's weight then stretches
#   the two of them differently, and the angle is gone. Norm first.
# - A norm per head is another function, although it looks alike: it has a mean square for each head
#   and a weight of `D` numbers. Other models (Qwen 3) do that; this one takes the whole width.
# - `x.float()` for the statistics of the norm. It is right in half precision, but in float64 it
#   throws away half of the digits. `torch.promote_types(x.dtype, torch.float32)` is right in both.
# - A table of angles as a buffer. `module.to(torch.float16)` converts buffers too, and in float16
#   the numbers between 256 and 512 stand a quarter apart: far too coarse for an angle.
#   `module.to(torch.float64)`, on the other hand, does not bring back digits that float32 lost.
#   And a table has an end: a video of five seconds has tens of thousands of tokens.
# - The weights of q, k and v joined once, in `__init__` (task 2 joins them). Weights that are
#   loaded later never get there, nor do the steps of the optimiser. Join them in every call.
# - Dropout in evaluation. `F.dropout(weights, p)` drops always: it needs `training=self.training`.
# - In cross-attention the mask covers the text only: the picture's tokens are not in it.
#
# **What is graded.** All four modules with weights that the grader sets, in every dtype
# (`module.to`), with `fused` True and False (task 2); texts of thousands of tokens; masks, and
# tokens that see nothing; the state of dropout in training and in evaluation, whatever random
# numbers you use; gradients of inputs and parameters; inputs that are strided, empty, and left as
# they were. **Out of scope:** how the time step scales and shifts the block (its modulation),
# residuals, rotation in three dimensions (ex11), causal masks, caches, and speed. **Not allowed:**
# PyTorch's fused attention, its attention modules, and its own RMSNorm. About 80 minutes.

# %% [markdown] tags=["zh"]
# # 注意力模块
#
# **问题。** 像 Wan 这样的视频生成模型，是把同一个模块重复四十来遍。模块的核心是前几题的注意力，
# 外加几个部件：一个归一化，让分数不至于过大；一个旋转，让 token 带上自己的位置；dropout；
# 第二个注意力，用来读提示词（也许还有一张图片）；最后是两个线性层。每个部件只有一两行。
# 模型成败取决于：每个部件作用在哪个张量上，按什么顺序。权重是按名字加载的，
# 部件放错了位置，形状一点不变：模型照样能跑，画出来的却是噪声。正确的顺序是什么？
#
# **公式。** 归一化把一行除以它的均方根；$g$ 是学到的权重：
#
# $$\text{RMSNorm}(x) = \frac{x}{\sqrt{\frac{1}{E}\sum_j x_j^2 + \epsilon}} \odot g$$
#
# 自注意力对查询和键做归一化（值不做），范围是整个模型宽度；
# 再对查询和键做旋转（值不做），逐头进行。用 $R$ 表示旋转（RoPE），一个头计算的是
#
# $$\text{head} = \text{dropout}\left(\text{softmax}\left(\frac{R(\hat q)\, R(\hat k)^\top}
# {\sqrt{D}}\right)\right) v, \qquad \hat q = \text{RMSNorm}(W_q x),\quad
# \hat k = \text{RMSNorm}(W_k x)$$
#
# RoPE 把一个头里的数两两配对：`(0, 1)`、`(2, 3)`，依此类推。位置为 $p$ 的 token，
# 第 $i$ 对转过的角度是 $p \cdot \text{base}^{-2i/D}$：$(a, b)$ 变成
# $(a \cos - b \sin,\ a \sin + b \cos)$。（为什么这样做，见 ex11。）
# 交叉注意力分别查询文本和图片，把两个结果相加，然后才做输出投影：
#
# $$\text{out} = W_o\,\left(\text{attend}(q, K_{text}, V_{text}) +
# \text{attend}(q, K_{img}, V_{img})\right)$$
#
# **形状。** 四个头，`E = 4 D`：
#
# ```text
#   x (B, L, E)
#   ├─ q (B, L, E) ─ norm_q ─┬─ split ─ (B, 4, L, D) ─ RoPE ─┐
#   │            整个宽度    │          逐头进行             ├─ (B, 4, L, L) ─ softmax ─ dropout ─┐
#   ├─ k (B, L, E) ─ norm_k ─┴─ split ─ (B, 4, L, D) ─ RoPE ─┘                                    @
#   └─ v (B, L, E) ──────────── split ─ (B, 4, L, D) ─────────────────────────────────────────────┤
#                                                                  o (B, L, E) ─ merge (B, L, E) ─┘
#
#   context (B, Lc, E)    ┌───────────────┬────────────────────────────────┐
#                         │ image_tokens  │  文本：Lc - image_tokens       │
#                         └───────────────┴────────────────────────────────┘
#                       k_img, norm_k_img, v_img    k, norm_k, v；`keep` 只管这些
# ```
#
# **手算一遍。** 一行 `1, 7` 的平方均值是 `(1 + 49) / 2 = 25`，均方根就是 5。
# LayerNorm 会先减去均值 4，得到 `-1, 1`；RMSNorm 不减：
#
# ```pycon
# >>> RMSNorm(2).double()(torch.tensor([1.0, 7.0]).double()).detach().numpy().round(4).tolist()
# [0.2, 1.4]
# ```
#
# 宽度为 1 的交叉注意力，权重全是 1，偏置全是 0。context 里有一张图片，只有一个 token：10；
# 还有两个 token 的文本：2 和 4。归一化之后所有的键都是 1，所以文本部分的结果是平均值 3，
# 图片部分是 10，相加得 13。如果三个 token 共用一个 softmax，得到的是 16/3：
#
# ```pycon
# >>> block = CrossAttention(1, 1, image_tokens=1)
# >>> for name, parameter in block.named_parameters():
# ...     _ = nn.init.constant_(parameter, 0.0 if name.endswith("bias") else 1.0)
# >>> context = torch.tensor([[[10.0], [2.0], [4.0]]])
# >>> round(block(torch.tensor([[[5.0]]]), context).item(), 4)
# 13.0
# ```
#
# **陷阱。**
#
# - 归一化和旋转不能交换。RoPE 转动一对数；如果之后再归一化，权重会把这两个数按不同比例拉伸，
#   角度就毁了。先归一化。
# - 逐头归一化看着相似，其实是另一个函数：每个头有自己的均方，权重只有 `D` 个数。
#   别的模型（Qwen 3）是那样做的；这里用整个宽度。
# - 算归一化的统计量时写 `x.float()`。半精度时是对的，float64 时却丢掉一半有效数字。
#   `torch.promote_types(x.dtype, torch.float32)` 两头都顾到。
# - 把角度表存成 buffer。`module.to(torch.float16)` 也会转换 buffer，
#   而 float16 在 256 到 512 之间，相邻两数相差四分之一：对角度来说太粗了。
#   反过来，`module.to(torch.float64)` 也找不回 float32 已经丢掉的数字。
#   而且表总有尽头：五秒钟的视频就有几万个 token。
# - 在 `__init__` 里把三个权重拼好。之后加载的权重、优化器的更新，都到不了那里。每次调用时再拼。
# - 评估时还在 dropout。`F.dropout(weights, p)` 总是会丢：要写 `training=self.training`。
# - 掩码只管文本。图片的 token 不在掩码里，既不在开头，也不在末尾。
#
# **评分内容。** 四个模块，权重由测试加载，各种 dtype（用 `module.to` 转换），`fused` 的两种取值；
# 几千个 token 的长文本；掩码，以及什么都看不到的 token；
# 训练和评估时的 dropout（不论用的是哪些随机数）；
# 输入和参数的梯度；内存不连续的输入、空输入，以及输入不被改动。
# **不在范围内：** 模块里的调制和残差、三维旋转（ex11）、因果掩码、缓存，以及速度。
# **不允许：** PyTorch 的融合注意力算子、它的注意力模块，以及它自带的 RMSNorm。约 80 分钟。

# %%
import math

import torch
import torch.nn.functional as F
from torch import nn

# %% [markdown] tags=["en"]
# ## Task 1: the norm
#
# LayerNorm without its mean. `eps` stands inside the root: a row of zeros then comes out as zeros,
# and its gradient is finite, because with `eps` the root is never taken of 0.
#
# The square of 300 is beyond float16, and the square of 0.0001 below it, so half precision needs
# float32 for the mean of the squares. The weight is a parameter of the module, ones at first, and
# the answer has the dtype of `x`.

# %% [markdown] tags=["zh"]
# ## 任务 1：归一化
#
# 就是不减均值的 LayerNorm。`eps` 在根号里面：这样，全零的一行输出还是零，
# 梯度也是有限的，因为根号下永远不是 0。
#
# 300 的平方超出 float16 的范围，0.0001 的平方又小得表示不了，
# 所以半精度要用 float32 求平方的均值。权重是模块的参数，初始全是 1；结果的 dtype 与 `x` 相同。


# %%
class RMSNorm(nn.Module):
    """Rows divided by the root of their mean square, times a weight for each column.

    weight   nn.Parameter (dim,), ones at first
    """

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        """Create the weight of the norm, `dim` ones.

        eps   what is added to the mean square, 0 or more
        """
        super().__init__()
        ### BEGIN SOLUTION
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Divide every row by sqrt(mean square + eps), then multiply by the weight.

        The mean square of half precision is computed in float32, where it neither overflows nor
        vanishes; float64 is computed in float64. It uses the weight as it is at the time of the
        call, in .train() and in .eval(). Gradients reach x and the weight. Tensors returned earlier
        do not change.

        x       (..., E), where E is `dim`, in the dtype of the weight, left as it is; it may be
                strided, and have no rows
        returns (..., E), in the dtype of x
        raises  ValueError if the width of x is not `dim`, naming both numbers
        """
        ### BEGIN SOLUTION
        if x.shape[-1] != len(self.weight):
            raise ValueError(f"x has a width of {x.shape[-1]}, the norm of {len(self.weight)}")
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        rms = torch.sqrt(wide.square().mean(-1, keepdim=True) + self.eps)  # (..., 1)
        return (wide / rms).to(x.dtype) * self.weight  # (..., E)
        ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: self-attention
#
# The order is: project, normalise q and k over the whole width, split into heads (head `h` is the
# `h`-th run of `D` numbers), rotate q and k, attend, drop, mix the values, merge, project.
#
# There are two ways to compute the projections. Three products are easy to read; one product with
# the three weights stacked, `(3E, E)`, keeps a GPU busier and gives q, k and v side by side. The
# attribute `fused` chooses. The parameters stay three, under the names `q`, `k` and `v`, so that a
# checkpoint fits either way. Both ways give the same numbers. To see which one ran, the grader
# counts the products of matrices that PyTorch computes for your code, whichever operator you call.
#
# Dropout sets each weight to zero with probability `dropout` and divides the others by
# `1 - dropout`, so that the mean of each stays what it was. The weights of a query then no longer
# sum to one; this is intended. `module.train()` and `module.eval()` set `self.training`.
#
# A token that may attend to nothing has weights of 0. `softmax` of nothing but `-inf` is NaN, and
# to overwrite that NaN afterwards is not always enough: where `-inf` was added to the scores, it
# comes back in the gradient. Finite scores before the softmax and zeros after it are safe.

# %% [markdown] tags=["zh"]
# ## 任务 2：自注意力
#
# 顺序是：投影；q 和 k 在整个宽度上归一化；拆成多个头（头 `h` 是第 `h` 段，每段连续 `D` 个数）；
# 旋转 q 和 k；算注意力权重；dropout；混合值；合并各头；再投影。
#
# 投影有两种做法。三次乘法容易读；把三个权重上下拼成 `(3E, E)`，一次乘法并排得到 q、k、v，
# 更能让 GPU 吃饱。由属性 `fused` 选择。参数始终是三份，名字是 `q`、`k`、`v`，
# 所以不论哪种做法，都能加载同一份权重。从结果的数值看不出用的是哪一种，
# 所以测试会数一数，PyTorch 为你的代码做了几次矩阵乘法，不论你用哪种写法。
#
# dropout 以概率 `dropout` 把每个权重置零，其余的除以 `1 - dropout`，这样每个权重的期望不变。
# 于是一个查询的权重之和不再是 1，本该如此。
# `module.train()` 和 `module.eval()` 设置的是 `self.training`。
#
# 什么都看不到的 token，权重全是 0。对全是 `-inf` 的一行做 `softmax` 得到 NaN；
# 事后把 NaN 盖掉未必够：如果 `-inf` 是加到分数上的，NaN 还会在梯度里冒出来。
# softmax 之前给这样的行填上有限的分数，之后再置零，就不会有事。


# %%
### BEGIN SOLUTION
def _split(x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """(B, L, E) -> (B, H, L, D)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def _merge(heads: torch.Tensor) -> torch.Tensor:
    """(B, H, L, D) -> (B, L, E)."""
    return heads.transpose(1, 2).flatten(2)


def _rotate(x: torch.Tensor, base: float) -> torch.Tensor:
    """Turn the pairs (2i, 2i + 1) of x (B, H, L, D), the token at place p by p * base^(-2i/D)."""
    length, width = x.shape[-2:]
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    places = torch.arange(length, dtype=wide.dtype, device=x.device)
    speeds = base ** (-torch.arange(0, width, 2, dtype=wide.dtype, device=x.device) / width)
    angles = places[:, None] * speeds  # (L, D/2)
    cos, sin = angles.cos(), angles.sin()
    a, b = wide[..., 0::2], wide[..., 1::2]  # (B, H, L, D/2)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2).to(x.dtype)


def _attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keep: torch.Tensor | None = None,
    dropout: float = 0.0,
) -> torch.Tensor:
    """Attention of q (B, H, Lq, D) to k and v (B, H, Lk, D), with weights dropped at random."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).mT / math.sqrt(q.shape[-1])  # (B, H, Lq, Lk)
    if keep is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        empty = ~keep.any(dim=-1, keepdim=True)  # (..., Lq, 1)
        scores = scores.masked_fill(~keep, -torch.inf).masked_fill(empty, 0.0)
        weights = torch.softmax(scores, dim=-1).masked_fill(empty, 0.0)
    weights = F.dropout(weights, dropout)
    return (weights @ v.to(wide)).to(q.dtype)  # (B, H, Lq, D)


### END SOLUTION


class SelfAttention(nn.Module):
    """Self-attention with normalised queries and keys, rotary positions and dropout.

    q, k, v, o       nn.Linear(d_model, d_model), with bias
    norm_q, norm_k   RMSNorm(d_model), there only with `qk_norm`
    fused            whether one product gives q, k and v, or three do
    """

    fused: bool

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        qk_norm: bool = True,
        rope_base: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        """Create the projections and the norms of self-attention, with `fused` True.

        rope_base   the base of the angles of RoPE, or None for no RoPE. After the norms RoPE turns
                    the numbers 2i and 2i + 1 of each head of q and k by the angle
                    p * base**(-2i/D) at position p, for any number of tokens
        dropout     the probability, below 1, with which each attention weight is dropped
                    independently, after the softmax and in .train() alone; the others are divided
                    by 1 - dropout
        raises      ValueError if `d_model` is not divisible by `num_heads`, or with RoPE if the
                    width of a head is odd; with `d_model` and `num_heads`
        """
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads:
            raise ValueError(f"a width of {d_model} does not divide into {num_heads} heads")
        if rope_base is not None and d_model // num_heads % 2:
            raise ValueError(f"{num_heads} heads of {d_model} numbers have no pairs to turn")
        self.num_heads, self.rope_base, self.dropout = num_heads, rope_base, dropout
        self.fused = True
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model)
        self.norm_q = RMSNorm(d_model) if qk_norm else nn.Identity()
        self.norm_k = RMSNorm(d_model) if qk_norm else nn.Identity()
        ### END SOLUTION

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        """Attend from every token to every token that `keep` allows.

        Norms, angles, scores and softmax of half precision are computed in float32, where a sum of
        64 products of 256 and 256 is finite; in float64 everything is computed in float64. Scores
        may be of any size. It uses the weights as they are at the time of the call, in .train() and
        in .eval(). Hidden tokens count for nothing, however large their numbers (1e10). A token
        that may attend to nothing in a head has zeros there, before `o`. Gradients reach x and
        every parameter, and no empty row makes them NaN. Tensors returned earlier do not change.

        x       (B, L, E), left as it is; it may be strided, and B may be 0
        keep    None, or bool that broadcasts to (B, H, L, L), True = may attend; one of shape
                (H, L, L) has a mask for each head; left as it is
        returns the output (B, L, E), in the dtype of x
        """
        ### BEGIN SOLUTION
        if self.fused:
            three = (self.q, self.k, self.v)
            weight = torch.cat([layer.weight for layer in three])  # (3E, E)
            bias = torch.cat([layer.bias for layer in three])  # (3E,)
            q, k, v = F.linear(x, weight, bias).chunk(3, dim=-1)  # (B, L, E) each
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        q, k, v = (_split(y, self.num_heads) for y in (self.norm_q(q), self.norm_k(k), v))
        if self.rope_base is not None:
            q, k = _rotate(q, self.rope_base), _rotate(k, self.rope_base)
        heads = _attend(q, k, v, keep, self.dropout if self.training else 0.0)
        return self.o(_merge(heads))  # (B, L, E)
        ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 3: cross-attention with a picture
#
# The queries come from the video's tokens, keys and values from the prompt. When a video is made
# from a picture, the picture's tokens stand at the front of the context. They have projections of
# their own, because they come from another encoder and are unlike text. They have a softmax of
# their own, so that a long prompt cannot take all the weight. Each query thus has two outputs,
# which are added before `o`.
#
# There is no rotation here: a word of a prompt has no position in the picture. Without image tokens
# the module has none of the three extra parts, and the checkpoint has no entries for them.

# %% [markdown] tags=["zh"]
# ## 任务 3：带图片的交叉注意力
#
# 查询来自视频的 token，键和值来自提示词。由图片生成视频时，图片的 token 排在 context 的最前面。
# 它们来自另一个编码器，和文本完全不同，所以有自己的投影；
# 也有自己的 softmax，这样提示词再长也不会盖过图片。每个查询得到两个结果，在 `o` 之前相加。
#
# 这里没有旋转：提示词在画面里没有位置。没有图片 token 时，模块就没有那三个额外的部件，
# 权重文件里连它们的名字也没有。


# %%
class CrossAttention(nn.Module):
    """Attention to a context whose first tokens may be an image, read apart from the text.

    q, k, v, o       nn.Linear(d_model, d_model), with bias
    norm_q, norm_k   RMSNorm(d_model)
    k_img, v_img, norm_k_img   the same for the image, there only with image tokens
    """

    def __init__(self, d_model: int, num_heads: int, image_tokens: int = 0) -> None:
        """Create the projections and the norms of cross-attention.

        image_tokens   how many tokens at the front of every context are an image
        raises         ValueError if `d_model` is not divisible by `num_heads`, naming both numbers
        """
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads:
            raise ValueError(f"a width of {d_model} does not divide into {num_heads} heads")
        self.num_heads, self.image_tokens = num_heads, image_tokens
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model)
        self.norm_q, self.norm_k = RMSNorm(d_model), RMSNorm(d_model)
        if image_tokens:
            self.k_img = nn.Linear(d_model, d_model)
            self.v_img = nn.Linear(d_model, d_model)
            self.norm_k_img = RMSNorm(d_model)
        ### END SOLUTION

    def forward(
        self, x: torch.Tensor, context: torch.Tensor, keep: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Attend from x to the text and to the image of the context, and add the two.

        Norms, scores and softmax of half precision are computed in float32; in float64 everything
        is computed in float64. Scores may be of any size. It uses the weights as they are at the
        time of the call, in .train() and in .eval(). Hidden tokens count for nothing, however large
        their numbers (1e10). A query without text to attend to gets zeros for the text, in the
        heads where that is so. Gradients reach x, the context and every parameter, and no empty row
        makes them NaN. Tensors returned earlier do not change.

        x         (B, L, E), left as it is; it may be strided, and B may be 0
        context   (B, Lc, E), of which the first `image_tokens` are the image; it may be x itself,
                  or the image alone; left as it is, and it may be strided
        keep      None, or bool that broadcasts to (B, H, L, Lc - image_tokens): the text's keys;
                  left as it is
        returns   the output (B, L, E), in the dtype of x
        raises    ValueError if Lc is less than `image_tokens`, naming both numbers
        """
        ### BEGIN SOLUTION
        count = self.image_tokens
        if context.shape[1] < count:
            raise ValueError(f"{count} image tokens, but a context of {context.shape[1]}")
        image, text = context[:, :count], context[:, count:]
        q = _split(self.norm_q(self.q(x)), self.num_heads)  # (B, H, L, D)
        k, v = self.norm_k(self.k(text)), self.v(text)  # (B, Lc - count, E)
        heads = _attend(q, _split(k, self.num_heads), _split(v, self.num_heads), keep)
        if count:
            k, v = self.norm_k_img(self.k_img(image)), self.v_img(image)  # (B, count, E)
            heads = heads + _attend(q, _split(k, self.num_heads), _split(v, self.num_heads))
        return self.o(_merge(heads))  # (B, L, E)
        ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 4: the feed-forward
#
# The rest of the block: two linear layers with a ReLU between them, applied to every token by
# itself. The hidden width is usually four times the model's.

# %% [markdown] tags=["zh"]
# ## 任务 4：前馈网络
#
# 模块的其余部分：两个线性层，中间一个 ReLU，对每个 token 单独计算。隐藏宽度通常是模型宽度的四倍。


# %%
class FeedForward(nn.Module):
    """Two linear layers with a ReLU between them.

    w1, w2   nn.Linear(d_model, hidden) and nn.Linear(hidden, d_model), with bias
    """

    def __init__(self, d_model: int, hidden: int) -> None:
        """Create the two layers of the feed-forward."""
        super().__init__()
        ### BEGIN SOLUTION
        self.w1 = nn.Linear(d_model, hidden)
        self.w2 = nn.Linear(hidden, d_model)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply w1, ReLU and w2 to every token.

        It uses the weights as they are at the time of the call, in any dtype, in .train() and in
        .eval(). Gradients reach x and every parameter. Tensors returned earlier do not change.

        x       (..., E), in the dtype of the weights, left as it is; it may be strided, and have no
                tokens
        returns (..., E), in the dtype of x
        """
        ### BEGIN SOLUTION
        return self.w2(torch.relu(self.w1(x)))
        ### END SOLUTION
