# %% [markdown] tags=["en"]
# # Positions
#
# **The question.** Attention does not know the order of its tokens: exchange two of them, and two
# rows of the answer are exchanged, no more. "Dog bites man" and "man bites dog" would be the same.
# How do we tell the model where a token sits, for texts of any length, and best of all so that a
# score depends on how far apart two tokens are, not on where the text happens to begin?
#
# **The formula.** A clock tells the time with hands of different speeds. We do the same: pair $i$
# of $D/2$ has a hand that turns by $\theta_i$ with every token, the first fast, the last very slow.
#
# $$\theta_i = \text{base}^{-2i/D} \qquad\text{angle} = p\,\theta_i \quad\text{at position } p$$
#
# The *sinusoidal embedding* (the first Transformer) writes down where the hands point, and is added
# to the token's vector once, at the input:
#
# $$e_{2i} = \sin(p\,\theta_i) \qquad e_{2i+1} = \cos(p\,\theta_i)$$
#
# The *rotary embedding* (RoPE, in most language models of today) adds nothing. It takes the places
# of every query and key in pairs, as points of a plane, and turns them, counter-clockwise:
#
# $$\begin{pmatrix}a'\\b'\end{pmatrix} = \begin{pmatrix}\cos p\theta_i & -\sin p\theta_i\\
# \sin p\theta_i & \cos p\theta_i\end{pmatrix}\begin{pmatrix}a\\b\end{pmatrix}$$
#
# Turn a query by its position $m$ and a key by its position $n$. What their dot product sees is the
# angle between them, and that has changed by $(m-n)\,\theta_i$: by the distance alone.
#
# **The shapes.** `x` is `(..., L, D)`, the angles are `(L, D/2)`. Two ways to pair the places are
# in use. They are equally good, but a model that was trained with one is useless with the other:
#
# ```text
#   place              0    1    2    3    4    5         D = 6, so 3 pairs
#   interleaved       └─ 0 ─┘   └─ 1 ─┘   └─ 2 ─┘         (2i, 2i + 1): GPT-J, Meta's Llama
#   not interleaved    0    1    2    0    1    2         (i, i + D/2): GPT-NeoX, Hugging Face
# ```
#
# **By hand.** A quarter turn takes (1, 0) to (0, 1), and (0, 1) to (-1, 0). With `D = 2` there is
# one pair, and its $\theta$ is 1, so a quarter turn is the position $\pi/2$:
#
# ```pycon
# >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
# >>> quarter = torch.tensor([torch.pi / 2, torch.pi / 2], dtype=torch.float64)
# >>> apply_rope(x, quarter).round(decimals=4).tolist()
# [[0.0, 1.0], [-1.0, 0.0]]
# ```
#
# The score of two equal vectors that are 2 apart is $\cos 2 = -0.4161$, wherever they are:
#
# ```pycon
# >>> same = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
# >>> for positions in ([3, 5], [100, 102]):
# ...     q, k = apply_rope(same, torch.tensor(positions))
# ...     print(round((q @ k).item(), 4))
# -0.4161
# -0.4161
# ```
#
# **The traps.**
#
# - The exponent. It is $2i/D$ if $i$ counts *pairs*, and $i/D$ if $i$ counts the even places. Mix
#   them up and the hands turn too fast or too slowly.
# - Angles that are laid out for one pairing (`cat([angles, angles])`) while the numbers are taken
#   in the other. No error is raised, since the shapes are the same.
# - Angles in half precision. bfloat16 has 8 significant bits: position 257 becomes 256. Compute
#   angles in float32 at least, whatever `x` is, and convert the result.
# - Positions counted from 0 in every call. A token that is decoded after `n` others sits at
#   position `n`. Use the positions that you are given.
# - Writing the new `a` into `x` and then computing the new `b` from it.
# - Turning the values too, or a cached key once more at every step. Turn queries and keys, once.
#
# **What is graded.** Values in every dtype, both pairings, positions that are far away, negative,
# fractional, or different for each text of a batch; that scores depend on distances only; grids;
# gradients with respect to `x`; errors for wrong sizes. **Out of scope:** positions that are
# learned, heads of which only a part is turned, frequencies stretched for longer contexts (NTK,
# YaRN), and speed. **Not allowed:** PyTorch's attention operators and modules, which you would not
# need here. About 60 minutes.

# %% [markdown] tags=["zh"]
# # 位置编码
#
# **问题。** 注意力不知道 token 的顺序：交换两个 token，只是输出的两行跟着交换，别的什么都不变。
# “狗咬人”和“人咬狗”就成了一回事。怎样告诉模型每个 token 在哪里，而且文本多长都行？
# 最好还能让分数只取决于两个 token 相距多远，与文本从哪里开始无关。
#
# **公式。** 钟表用几根快慢不同的指针来表示时间，这里也一样：一共 $D/2$ 对，第 $i$ 对有一根指针，
# 每过一个 token 转过 $\theta_i$；第一根最快，最后一根极慢。
#
# $$\theta_i = \text{base}^{-2i/D} \qquad\text{角度} = p\,\theta_i \quad\text{（位置 } p\text{）}$$
#
# **正弦位置编码**（最早的 Transformer）把各根指针的指向写下来，
# 在输入处加到 token 的向量上，只加一次：
#
# $$e_{2i} = \sin(p\,\theta_i) \qquad e_{2i+1} = \cos(p\,\theta_i)$$
#
# **旋转位置编码**（RoPE，如今大多数语言模型都用它）不做加法。它把每个查询和键的分量两两配对，
# 看作平面上的点，再逆时针旋转：
#
# $$\begin{pmatrix}a'\\b'\end{pmatrix} = \begin{pmatrix}\cos p\theta_i & -\sin p\theta_i\\
# \sin p\theta_i & \cos p\theta_i\end{pmatrix}\begin{pmatrix}a\\b\end{pmatrix}$$
#
# 查询按自己的位置 $m$ 旋转，键按自己的位置 $n$ 旋转。点积看到的是两者的夹角，
# 而夹角变化了 $(m-n)\,\theta_i$：只与距离有关。
#
# **形状。** `x` 是 `(..., L, D)`，角度是 `(L, D/2)`。配对方式有两种，都在用，也没有优劣之分，
# 但用一种方式训练的模型，换成另一种就全乱了：
#
# ```text
#   分量               0    1    2    3    4    5         D = 6，共 3 对
#   interleaved       └─ 0 ─┘   └─ 1 ─┘   └─ 2 ─┘         (2i, 2i + 1)：GPT-J、Meta 的 Llama
#   非 interleaved     0    1    2    0    1    2         (i, i + D/2)：GPT-NeoX、Hugging Face
# ```
#
# **手算一遍。** 转四分之一圈，(1, 0) 变成 (0, 1)，(0, 1) 变成 (-1, 0)。`D = 2` 时只有一对，
# 它的 $\theta$ 是 1，所以四分之一圈就是位置 $\pi/2$：
#
# ```pycon
# >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
# >>> quarter = torch.tensor([torch.pi / 2, torch.pi / 2], dtype=torch.float64)
# >>> apply_rope(x, quarter).round(decimals=4).tolist()
# [[0.0, 1.0], [-1.0, 0.0]]
# ```
#
# 两个相同的向量相距 2，分数就是 $\cos 2 = -0.4161$，不管它们在哪里：
#
# ```pycon
# >>> same = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
# >>> for positions in ([3, 5], [100, 102]):
# ...     q, k = apply_rope(same, torch.tensor(positions))
# ...     print(round((q @ k).item(), 4))
# -0.4161
# -0.4161
# ```
#
# **陷阱。**
#
# - 指数。$i$ 数的是**对**时，指数是 $2i/D$；$i$ 取偶数分量的下标时，指数是 $i/D$。
#   两种写法各取一半，指针不是转得太快，就是转得太慢。
# - 角度按一种配对方式排列（`cat([angles, angles])`），分量却按另一种方式取。
#   形状完全一样，不会有任何报错。
# - 用半精度算角度。bfloat16 只有 8 位有效二进制数字：位置 257 会变成 256。
#   不管 `x` 是什么类型，角度至少用 float32 计算，最后再转换结果。
# - 每次调用都从 0 数位置。带缓存解码时，新 token 的位置是 `n`，不是 0。要用传进来的位置。
# - 先把新的 `a` 写进 `x`，再用它去算新的 `b`。
# - 把值也转了，或者每一步都把缓存里的键再转一次。只转查询和键，只转一次。
#
# **评分内容。** 各种数据类型下的数值；两种配对方式；很远的、负的、带小数的位置，
# 以及 batch 中每段文本各不相同的位置；分数只取决于距离；三维网格；对 `x` 的梯度；
# 尺寸不合时报错。**不在范围内：** 可学习的位置编码、只旋转头的一部分、
# 为更长上下文拉伸频率（NTK、YaRN），以及速度。
# **不允许：** PyTorch 的注意力算子和模块，这里也用不到。约 60 分钟。

# %%
from math import prod

import torch

# %% [markdown] tags=["en"]
# ## Task 1: where the hands point
#
# The frequencies fall from 1 towards `1/base`. With `dim = 128` and a base of 10,000 the first hand
# goes round once in about 6 tokens, the last once in about 54,000. Nearby positions are told apart
# by the fast hands, far ones by the slow.
#
# `positions` may have any shape, and the answer has one axis more. A whole number has no float
# dtype to inherit, so it gives float32; so does half precision, which could not hold the angles.

# %% [markdown] tags=["zh"]
# ## 任务 1：指针指向哪里
#
# 频率从 1 开始逐渐下降，趋近 `1/base`。`dim = 128`、base 为 10,000 时，
# 第一根指针约 6 个 token 转一圈，最后一根约 54,000 个 token 转一圈。
# 近处的位置靠快指针区分，远处的靠慢指针。
#
# `positions` 的形状任意，结果比它多一个轴。整数没有浮点类型可以沿用，所以结果是 float32；
# 半精度也得到 float32，因为半精度存不下这些角度。


# %%
### BEGIN SOLUTION
def _angles(positions: torch.Tensor, pairs: int, base: float, dtype: torch.dtype) -> torch.Tensor:
    """The angle of every pair at every position (...), (..., pairs), in `dtype`."""
    exponents = torch.arange(pairs, dtype=dtype, device=positions.device) / pairs  # 2i / D
    return positions.to(dtype)[..., None] * base**-exponents


### END SOLUTION


def sinusoidal_embedding(positions: torch.Tensor, dim: int, base: float = 10000.0) -> torch.Tensor:
    """Write sines on the even and cosines on the odd places, a frequency for each pair.

    positions  integers or floats of any dtype and shape (...), near or far, of either sign
    dim        how many places, an even number
    returns    (..., dim): place 2i is sin(position * base**(-2i/dim)), place 2i + 1 the cosine of
               the same angle; float64 for float64 positions, float32 for all others
    raises     ValueError if `dim` is odd, naming it
    """
    ### BEGIN SOLUTION
    if dim % 2:
        raise ValueError(f"sines and cosines come in pairs, but dim is {dim}")
    dtype = torch.promote_types(positions.dtype, torch.float32)
    angles = _angles(positions, dim // 2, base, dtype)  # (..., dim/2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)  # (..., dim)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: turning queries and keys
#
# Take the first and the second place of every pair, `a` and `b`, each `(..., L, D/2)`; turn; put
# the two back where they came from. Only the taking and the putting back know about the pairing.
#
# Two texts of a batch may sit at different positions, as when one of them is padded on the left.
# Then `positions` is `(B, L)`, and between `B` and `L` there may be heads. Angles of `(B, L, D/2)`
# beside an `a` of `(B, H, L, D/2)` are lined up from the right, `B` under `H`: an error in most
# cases, but when `B = H` each head silently gets the positions of a text. Give the angles an axis
# of length 1 wherever `x` has an axis more.
#
# Positions may be fractions or negative: turning back by `-p` undoes a turn by `p`.

# %% [markdown] tags=["zh"]
# ## 任务 2：旋转查询和键
#
# 取出每一对的前一个分量 `a` 和后一个分量 `b`，各是 `(..., L, D/2)`；旋转；再放回原来的地方。
# 只有取出和放回这两步与配对方式有关。
#
# 同一个 batch 里的两段文本，位置可能不同，例如其中一段在左边做了填充。
# 这时 `positions` 是 `(B, L)`，而 `x` 在 `B` 和 `L` 之间还可能有头。
# `(B, L, D/2)` 的角度遇到 `(B, H, L, D/2)` 的 `a`，广播从右边对齐，`B` 对上了 `H`：多数时候会报错，
# 但 `B = H` 时不报错，每个头悄悄用上了某段文本的位置。
# `x` 多出来的每个轴，都要给角度补上一个长度为 1 的轴。
#
# 位置可以是小数，也可以是负数：转过 `p` 之后再转 `-p`，就回到原样。


# %%
def apply_rope(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0, interleaved: bool = True
) -> torch.Tensor:
    """Turn every pair of places by its angle, the position times the frequency of the pair.

    x            (..., L, D), queries or keys
    positions    integers or floats of any dtype, (L,); or (B, L) if the first dimension of x is B
    interleaved  True: pair i of D/2 is the places (2i, 2i + 1); False: (i, i + D/2)
    returns      (..., L, D) in the dtype of x: (a cos - b sin, a sin + b cos) for every pair
                 (a, b), whose angle is position * base**(-2i/D), computed in float32 at least and
                 in float64 for a float64 x. x stays as it was; gradients flow to it
    raises       ValueError if D is odd, naming it
    """
    ### BEGIN SOLUTION
    width = x.shape[-1]
    if width % 2:
        raise ValueError(f"the places are turned in pairs, but D is {width}")
    if positions.ndim == 2:
        batch, length = positions.shape
        positions = positions.reshape(batch, *[1] * (x.ndim - 3), length)  # (B, 1, ..., L)
    wide = torch.promote_types(x.dtype, torch.float32)
    angles = _angles(positions, width // 2, base, wide)  # (L, D/2) or (B, 1, ..., L, D/2)
    cos, sin = angles.cos(), angles.sin()
    sizes, axis = ((width // 2, 2), -1) if interleaved else ((2, width // 2), -2)
    a, b = x.to(wide).unflatten(-1, sizes).unbind(axis)  # (..., L, D/2) each
    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=axis)
    return turned.flatten(-2).to(x.dtype)  # (..., L, D)
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 3: a position with three coordinates
#
# The tokens of a video lie in a grid, and come one after the other, the width running fastest. Here
# is `grid = (2, 2, 3)`: 2 frames of 2 rows and 3 columns.
#
# ```text
#   token    0  1  2  3  4  5  6  7  8  9 10 11
#   frame    0  0  0  0  0  0  1  1  1  1  1  1
#   row      0  0  0  1  1  1  0  0  0  1  1  1
#   column   0  1  2  0  1  2  0  1  2  0  1  2
#
#   pair     0  1  2  3 │ 4  5 │ 6  7        D = 16, so c = 8 pairs and c // 3 = 2
#   turns with  frame   │ row  │ column
# ```
#
# The pairs are shared out among the axes; what does not divide by three goes to the frames. Each
# axis then is a small RoPE of its own, with its own frequencies, which begin at 1 again: the `i`-th
# of its `n` pairs turns by `position * base**(-i/n)`.

# %% [markdown] tags=["zh"]
# ## 任务 3：三个坐标的位置
#
# 视频的 token 排成网格，一个接一个地送进来，宽度变化最快。
# 下面是 `grid = (2, 2, 3)`：2 帧，每帧 2 行 3 列。
#
# ```text
#   token    0  1  2  3  4  5  6  7  8  9 10 11
#   帧       0  0  0  0  0  0  1  1  1  1  1  1
#   行       0  0  0  1  1  1  0  0  0  1  1  1
#   列       0  1  2  0  1  2  0  1  2  0  1  2
#
#   对       0  1  2  3 │ 4  5 │ 6  7        D = 16，所以 c = 8 对，c // 3 = 2
#   随什么转     帧     │  行  │  列
# ```
#
# 各对分给三个轴；不能被三整除时，多出来的归帧。每个轴各是一个小小的 RoPE，
# 有自己的一组频率，重新从 1 开始：一个轴有 `n` 对时，其中第 `i` 对转过 `position * base**(-i/n)`。


# %%
def rope_3d(x: torch.Tensor, grid: tuple[int, int, int], base: float = 10000.0) -> torch.Tensor:
    """Turn the first pairs by the token's frame, the next by its row, the last by its column.

    x        (..., frames * height * width, D), the tokens of the grid, width fastest
    grid     (frames, height, width)
    returns  (..., frames * height * width, D) in the dtype of x, which stays as it was; gradients
             flow to it, and float64 is computed in float64. Of the c = D/2 (3 or more) interleaved
             pairs the first c - 2*(c//3) turn with the frame, the next c//3 with the row, the last
             c//3 with the column; the i-th of an axis's n pairs by position * base**(-i/n)
    raises   ValueError if the number of tokens is not the product of the grid, naming both numbers,
             or if D is odd, naming it
    """
    ### BEGIN SOLUTION
    length, width = x.shape[-2:]
    if width % 2:
        raise ValueError(f"the places are turned in pairs, but D is {width}")
    if length != prod(grid):
        raise ValueError(f"there are {length} tokens, but the grid has {prod(grid)} places")
    _, rows, columns = grid
    token = torch.arange(length, device=x.device)
    coordinates = token // (rows * columns), token // columns % rows, token % columns  # (L,) each
    third = width // 2 // 3
    parts = x.split([width - 4 * third, 2 * third, 2 * third], dim=-1)  # (..., L, 2n) each
    turned = [apply_rope(part, at, base) for part, at in zip(parts, coordinates, strict=True)]
    return torch.cat(turned, dim=-1)  # (..., L, D)
    ### END SOLUTION
