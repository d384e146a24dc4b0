# %% [markdown] tags=["en"]
# # Kernels in Triton
#
# **The question.** Five PyTorch operators make a softmax, and each of them reads the whole matrix
# from the GPU's memory and writes it back: ten passes over memory for a few additions per number.
# Attention makes the same passes with a table of `Lq x Lk` scores. How do we write one program that
# fetches a piece of the input once, does everything to it on the chip, and writes down nothing but
# the answer?
#
# **The formula.** A kernel sees the keys tile by tile. It keeps, for each query, the largest score
# so far $m$, the sum of the powers $\ell$ and the weighted sum of values $o$. A tile with scores
# $s_j$ and values $v_j$ changes them to
#
# $$m' = \max(m, \max_j s_j) \qquad \ell' = \ell\, e^{m - m'} + \sum_j e^{s_j - m'} \qquad
# o' = o\, e^{m - m'} + \sum_j e^{s_j - m'} v_j$$
#
# and after the last tile the output is $o / \ell$: the softmax, without ever having a whole row. A
# GPU has an instruction for $2^x$ and none for $e^x$; since $e^x = 2^{x \log_2 e}$, kernels
# multiply the scale by $\log_2 e = 1.4426950408889634$ once and use `exp2`.
#
# **The shapes.** A kernel is launched as a *grid* of programs, all of them the same function. Each
# asks for its place in the grid, and works on a tile of a size fixed when it is compiled. Here is
# one head, causal, with 8 queries and keys in tiles of 2: every row of tiles is one program.
#
# ```text
#                     keys (BLOCK_K = 2 each)
#                      0-1    2-3    4-5    6-7
#   program 0   q 0-1  edge                         edge    some keys are hidden: needs a mask
#   program 1   q 2-3  whole  edge                  whole   every query sees every key: no mask
#   program 2   q 4-5  whole  whole  edge           (blank) nobody sees anything: never computed
#   program 3   q 6-7  whole  whole  whole  edge
# ```
#
# A pointer and strides are all that a kernel is given. The element `[b, h, l, d]` of a tensor lies
# `b*stride_b + h*stride_h + l*stride_l + d*stride_d` elements after its first one. `tl.load` takes
# a tile of such addresses, and a mask of the same shape that says which of them exist.
#
# **Running it without a GPU.** Triton (for Linux: `pip install triton`) brings an *interpreter*.
# Set `TRITON_INTERPRET=1` in the shell before Python starts, or `%env TRITON_INTERPRET=1` in a
# notebook before `import triton`, and kernels run on ordinary CPU tensors: one program after
# another, each operation in NumPy. `make grade` does this by itself where there is no GPU. It is
# slow, a few milliseconds for each step of a loop, so try small sizes; but `print` works inside a
# kernel, and so does a debugger. Two warnings. Arithmetic in bfloat16 is wrong in the interpreter:
# use float32 and float16 there. And it lets pass what the compiler refuses, such as a `tl.dot` of
# tiles narrower than 16.
#
# **By hand.** Two equal scores get equal weights, and the output for a query of zero is the average
# of the values:
#
# ```pycon
# >>> softmax(torch.tensor([[1.0, 1.0], [3.0, -torch.inf]])).tolist()
# [[0.5, 0.5], [1.0, 0.0]]
# >>> zeros = torch.zeros(1, 1, 2, 16)
# >>> v = torch.tensor([2.0, 4.0]).view(1, 1, 2, 1).expand(1, 1, 2, 16)
# >>> flash_attention(zeros, zeros, v)[0, 0, :, 0].tolist()
# [3.0, 3.0]
# >>> flash_attention(zeros, zeros, v, causal=True)[0, 0, :, 0].tolist()
# [2.0, 3.0]
# ```
#
# **The traps.**
#
# - A load without a mask. Tiles have powers of two as sizes and matrices do not, so that the last
#   tile hangs over the edge. The numbers there belong to the next row, or to nobody. The grader
#   tells you which program reached how far.
# - A mask in the load alone. A key that is not there is loaded as 0, and its score is then 0, which
#   is not minus infinity: it takes its share of the weight.
# - `m` starts at minus infinity, and so does a row whose keys are all hidden: minus infinity minus
#   itself is NaN.
# - The sum is rescaled and the output is not. With a single tile the result is still right.
# - `start` forgotten: the causal test compares positions in the sequence, not in the tile.
# - `exp2` without the factor $\log_2 e$ is a softmax, of other numbers; with only a few of its
#   digits it is one of other numbers, too.
# - Strides taken for granted. `x.T` steps through memory by rows; `torch.empty_like(x.T)` does too.
# - On a GPU `tl.dot` rounds float32 to TF32, ten bits, unless it is told `input_precision="ieee"`.
#
# **What is graded.** The values of both functions in float32, at sizes that no tile divides, from
# one row, query, key or head to more than a thousand; numbers and scores that rise, fall, jump, or
# are all negative, down to -3e4; rows that are all minus infinity or see nothing; causal with `Lq
# != Lk`; any scale, 0 and negative ones too; inputs with any strides, which stay as they were.
# Separate checks, for a point each, test float16, which is computed in float32 and rounded at the
# end, and empty inputs. Your functions must launch kernels called `softmax_kernel` and
# `flash_attention_kernel`, and the second may read at most 1024 keys at once; you choose their
# parameters and tiles. With a GPU also bfloat16 and larger sizes, and for 4 of the points the speed
# of `flash_attention` there. **Out of scope:** float64, the backward pass, masks other than causal,
# grouped heads, values of another width than keys, offsets beyond 2^31 elements, and
# `triton.autotune`, which has nothing to measure in the interpreter. **Not allowed:** arithmetic
# outside the kernels, be it PyTorch's, NumPy's or Python's on single numbers, and `tl.softmax`.
# About 120 minutes.

# %% [markdown] tags=["zh"]
# # 用 Triton 写内核
#
# **问题。** 用五个 PyTorch 算子拼出一个 softmax，每个算子都要把整个矩阵从显存读一遍，再写回去：
# 每个数只做几次加法，却来回搬了十趟。注意力也一样，搬的还是一张 `Lq x Lk` 的分数表。
# 怎样写一个程序，把输入的一小块只取一次，在芯片上做完所有计算，只把答案写回去？
#
# **公式。** 内核一块一块地看键。对每个查询，它记着三样东西：到目前为止最大的分数 $m$、
# 指数之和 $\ell$、值的加权和 $o$。来了一块分数 $s_j$ 和值 $v_j$，就更新为
#
# $$m' = \max(m, \max_j s_j) \qquad \ell' = \ell\, e^{m - m'} + \sum_j e^{s_j - m'} \qquad
# o' = o\, e^{m - m'} + \sum_j e^{s_j - m'} v_j$$
#
# 最后一块之后，输出就是 $o / \ell$：得到的是 softmax，却从来没有存过完整的一行。
# GPU 有计算 $2^x$ 的指令，没有 $e^x$ 的；因为 $e^x = 2^{x \log_2 e}$，
# 内核先把缩放系数乘一次 $\log_2 e = 1.4426950408889634$，然后一律用 `exp2`。
#
# **形状。** 启动内核，就是启动一个由许多程序组成的**网格**，每个程序都是同一个函数。
# 程序先问自己在网格里的位置，然后处理一块数据，块的大小在编译时就定了。
# 下图是一个头、因果、8 个查询和 8 个键，块大小为 2：每一行的块由一个程序处理。
#
# ```text
#                        键（每块 BLOCK_K = 2 个）
#                      0-1    2-3    4-5    6-7
#   程序 0   查询 0-1  边缘                         边缘    有些键看不见：需要掩码
#   程序 1   查询 2-3  完整   边缘                  完整    每个查询看得见每个键：不要掩码
#   程序 2   查询 4-5  完整   完整   边缘           （空）  谁都看不见：根本不算
#   程序 3   查询 6-7  完整   完整   完整   边缘
# ```
#
# 内核拿到的只有指针和步长。张量的元素 `[b, h, l, d]` 位于第一个元素之后
# `b*stride_b + h*stride_h + l*stride_l + d*stride_d` 个元素处。`tl.load` 接收一块这样的地址，
# 以及一个同样形状的掩码，指明其中哪些真的存在。
#
# **没有 GPU 怎么运行。** Triton（在 Linux 上：`pip install triton`）自带一个**解释器**。
# 在启动 Python 之前，在 shell 里设置 `TRITON_INTERPRET=1`；在 notebook 里，就在 `import triton`
# 之前写 `%env TRITON_INTERPRET=1`。这样内核就在普通的 CPU 张量上运行：程序一个接一个，
# 每个操作用 NumPy 完成。没有 GPU 的地方，`make grade` 会自动这样做。它很慢，
# 循环的每一步要几毫秒，所以先用小尺寸试；但是在内核里可以 `print`，也可以用调试器。
# 两点提醒：解释器里 bfloat16 的运算是错的，请用 float32 和 float16；
# 编译器不接受的东西它也放行，例如宽度不到 16 的块做 `tl.dot`。
#
# **手算一遍。** 两个相等的数平分权重；查询为零时，输出是值的平均：
#
# ```pycon
# >>> softmax(torch.tensor([[1.0, 1.0], [3.0, -torch.inf]])).tolist()
# [[0.5, 0.5], [1.0, 0.0]]
# >>> zeros = torch.zeros(1, 1, 2, 16)
# >>> v = torch.tensor([2.0, 4.0]).view(1, 1, 2, 1).expand(1, 1, 2, 16)
# >>> flash_attention(zeros, zeros, v)[0, 0, :, 0].tolist()
# [3.0, 3.0]
# >>> flash_attention(zeros, zeros, v, causal=True)[0, 0, :, 0].tolist()
# [2.0, 3.0]
# ```
#
# **陷阱。**
#
# - 读取时没有掩码。块的大小是 2 的幂，矩阵却不是，所以最后一块会伸到边缘之外。
#   那里的数属于下一行，或者不属于任何人。评分器会指出是哪个程序、超出了多远。
# - 只在读取时用了掩码。不存在的键读成 0，它的分数就是 0，而不是负无穷：照样会分走权重。
# - `m` 从负无穷开始，所有键都被遮住的行也是负无穷：负无穷减负无穷等于 NaN。
# - 指数之和重新缩放了，输出却没有。只有一块时看不出来。
# - 忘了加 `start`：因果判断比较的是序列里的位置，不是块里的位置。
# - 用了 `exp2` 却没有乘 $\log_2 e$：也是 softmax，但算的是别的数；只写它的前几位也一样。
# - 想当然地使用步长。`x.T` 在内存里按行跳着走；`torch.empty_like(x.T)` 也一样。
# - 在 GPU 上，`tl.dot` 会把 float32 舍入成 TF32，只剩十位尾数，除非写明 `input_precision="ieee"`。
#
# **评分内容。** 两个函数在 float32 下的数值，尺寸都不是块大小的整数倍，行、查询、键、头从一个
# 到上千个；上升、下降、跳变或者全为负（低至 -3e4）的数和分数；全是负无穷的行、什么都看不到的行；
# `Lq != Lk` 的因果掩码；任意的 scale，包括 0 和负数；任意步长的输入，而且输入保持不变。
# 各占 1 分的还有：float16（用 float32 计算，最后才舍入），以及空的输入。
# 还要看启动的确实是名为 `softmax_kernel` 和 `flash_attention_kernel` 的内核，
# 后者一次最多读 1024 个键；它们的参数和块大小由你决定。有 GPU 时还有 bfloat16 和更大的尺寸，
# 另有 4 分给 `flash_attention` 在 GPU 上的速度。**不在范围内：** float64、反向传播、因果以外的
# 掩码、分组的头、宽度与键不同的值、超过 2^31 个元素的偏移，以及 `triton.autotune`
# （在解释器里没有时间可测）。
# **不允许：** 在内核之外做算术，不管是用 PyTorch、NumPy，还是用 Python 逐个数地算；
# 也不允许 `tl.softmax`。约 120 分钟。

# %%
import math

import torch
import triton
import triton.language as tl

# %% [markdown] tags=["en"]
# ## Task 1: the softmax of a row
#
# One program takes one row. `BLOCK` is the number of columns it works on, a power of two that is at
# least `n_cols`, so that the whole row fits. The places beyond `n_cols` must not be read, and must
# count for nothing: which number has no influence on a maximum, and none on a sum of powers?
#
# The statistics belong in float32, whatever the row is stored in; the store rounds back. A row of
# minus infinities gives zeros.
#
# The function below the kernel allocates the result and launches one program for each row. It
# computes nothing itself.

# %% [markdown] tags=["zh"]
# ## 任务 1：一行的 softmax
#
# 一个程序处理一行。`BLOCK` 是它处理的列数，是不小于 `n_cols` 的 2 的幂，这样整行都放得下。
# `n_cols` 之后的位置不能读，也不能有任何影响：哪个数不影响最大值，也不影响指数之和？
#
# 不管这一行以什么类型存储，统计量都用 float32；写回时再舍入。全是负无穷的行，结果是零。
#
# 内核下面的函数分配结果，并为每一行启动一个程序。它自己什么都不算。


# %%
@triton.jit
def softmax_kernel(x_ptr, y_ptr, x_row, x_col, y_row, n_cols, BLOCK: tl.constexpr):
    """Write the softmax of one row of x, that of this program's number, into the same row of y.

    x_row, x_col   elements from one row of x to the next, and from one column to the next
    y_row          elements from one row of y to the next; its columns lie side by side
    """
    ### BEGIN SOLUTION
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    x = tl.load(x_ptr + row * x_row + cols * x_col, mask=inside, other=-float("inf"))
    x = x.to(tl.float32)  # (BLOCK,)
    top = tl.max(x, axis=0)
    powers = tl.exp(x - tl.where(top == -float("inf"), 0.0, top))
    total = tl.sum(powers, axis=0)
    y = powers / tl.where(total == 0.0, 1.0, total)
    tl.store(y_ptr + row * y_row + cols, y.to(y_ptr.dtype.element_ty), mask=inside)
    ### END SOLUTION


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Launch softmax_kernel for every row of x, and return the result.

    x        (M, N), float32 or half precision, M and N from 0, N up to 4096; any strides. Numbers
             may be as far from 0 as 3e4, all negative, or -inf; a row of -inf gives zeros
    returns  (M, N), in the dtype of x; the statistics are float32, rounded at the end. x stays as
             it was
    """
    ### BEGIN SOLUTION
    rows, cols = x.shape
    y = torch.empty((rows, cols), dtype=x.dtype, device=x.device)
    if y.numel():
        block = triton.next_power_of_2(cols)
        softmax_kernel[(rows,)](
            x, y, x.stride(0), x.stride(1), y.stride(0), cols,
            BLOCK=block, num_warps=8 if block >= 2048 else 4,
        )  # fmt: skip
    return y
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: attention, tile by tile
#
# A program of the grid has two numbers: which tile of queries, and which head of which batch (`b*H
# + h`). It loads its queries once and then walks over the keys and values that they may see.
# `tl.dot` multiplies two tiles and adds up in float32; `q @ k.T` wants the keys as `(D, BLOCK_K)`,
# which is only another order of the same addresses. Before the second product the powers are
# rounded to the dtype of the values: tensor cores multiply numbers of one dtype.
#
# With `CAUSAL`, query `i` sees the keys up to `i + Lk - Lq`. Most tiles are seen whole and need no
# mask. Those at the diagonal, and the last one, do. Those beyond the diagonal are not visited.
#
# Begin plainly: one loop, every tile masked. Once it is right, two loops save the masks of the
# whole tiles, and `tl.static_range(2)` writes both of them with one text. On a GPU it also pays to
# move a single pointer along with the loop and to keep the tile of offsets as it is: a tile of
# pointers that all move fills the registers.
#
# Tile sizes are the launcher's choice, a power of two and at least 16 for `tl.dot` on a GPU. With
# large tiles K and V are loaded less often, until the registers are full. `num_warps` (groups of 32
# threads that share a program) and `num_stages` (how many tiles are on their way while one is
# worked on) are given at the launch too; the interpreter ignores both.

# %% [markdown] tags=["zh"]
# ## 任务 2：一块一块地做注意力
#
# 网格里的一个程序有两个编号：第几块查询，以及第几个 batch 的第几个头（`b*H + h`）。
# 它把自己的查询只读一次，然后依次处理这些查询看得见的键和值。`tl.dot` 把两块相乘，
# 用 float32 累加；`q @ k.T` 需要形状为 `(D, BLOCK_K)` 的键，这不过是同样的地址换一种排列。
# 第二次相乘之前，把指数舍入到值的类型：张量核心只把同一类型的数相乘。
#
# 有 `CAUSAL` 时，查询 `i` 看得到 `i + Lk - Lq` 为止的键。大多数块整块都看得见，不需要掩码。
# 对角线上的块和最后一块需要。对角线之外的块根本不去访问。
#
# 先写最简单的：一个循环，每块都加掩码。写对之后，分成两个循环，完整的块就省掉了掩码；
# 用 `tl.static_range(2)`，一份代码就能写出两个循环。在 GPU 上还有一点很划算：
# 循环里只移动一个指针，而那一块偏移量保持不变；如果整块指针一起移动，寄存器就会被占满。
#
# 块的大小由启动内核的函数决定，是 2 的幂；在 GPU 上 `tl.dot` 要求至少 16。块越大，K 和 V
# 搬运的次数越少，直到寄存器用完为止。`num_warps`（一个程序用几组线程，每组 32 个）和
# `num_stages`（处理一块的同时有几块正在路上）也在启动时给出；解释器忽略这两个参数。


# %%
@triton.jit
def flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr,
    q_b, q_h, q_l, q_d, k_b, k_h, k_l, k_d, v_b, v_h, v_l, v_d, o_b, o_h, o_l, o_d,
    H, Lq, Lk, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Attend from one tile of BLOCK_Q queries of one head to all the keys that it may see.

    Program (i, n) has the i-th tile of queries in head n % H of batch n // H. The strides are those
    of q, k, v and of the output, along batch, head, length and width.
    """
    ### BEGIN SOLUTION
    tile = tl.program_id(0)
    if CAUSAL:  # the last tiles have the most to do: begin with them
        tile = tl.num_programs(0) - 1 - tile
    batch = (tl.program_id(1) // H).to(tl.int64)
    head = (tl.program_id(1) % H).to(tl.int64)
    rows = tl.arange(0, BLOCK_Q)
    cols = tl.arange(0, BLOCK_K)
    width = tl.arange(0, D)
    first = tile * BLOCK_Q
    in_q = (first + rows < Lq)[:, None]  # (BLOCK_Q, 1)

    q_ptr += batch * q_b + head * q_h + first.to(tl.int64) * q_l
    k_ptr += batch * k_b + head * k_h
    v_ptr += batch * v_b + head * v_h
    k_at = width[:, None] * k_d + cols[None, :] * k_l  # (D, BLOCK_K)
    v_at = cols[:, None] * v_l + width[None, :] * v_d  # (BLOCK_K, D)
    q = tl.load(q_ptr + rows[:, None] * q_l + width[None, :] * q_d, mask=in_q, other=0.0)
    to_log2 = scale * 1.4426950408889634
    if to_log2 < 0:  # so that the largest product is also the largest score
        q = -q
        to_log2 = -to_log2

    seen = first + Lk - Lq + 1  # how many keys the first query of the tile may see
    end = Lk
    whole = Lk // BLOCK_K * BLOCK_K  # before this key every query sees every key
    if CAUSAL:
        end = tl.maximum(tl.minimum(Lk, seen + BLOCK_Q - 1), 0)
        whole = tl.minimum(whole, tl.maximum(seen, 0) // BLOCK_K * BLOCK_K)
    top = tl.full((BLOCK_Q,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    output = tl.zeros((BLOCK_Q, D), tl.float32)
    for edge in tl.static_range(2):  # first the tiles without a mask, then the few with one
        for start in range(whole if edge else 0, end if edge else whole, BLOCK_K):
            if edge:
                in_k = start + cols < Lk
                k = tl.load(k_ptr + k_at, mask=in_k[None, :], other=0.0)
                v = tl.load(v_ptr + v_at, mask=in_k[:, None], other=0.0)
                scores = tl.dot(q, k, input_precision="ieee") * to_log2  # (BLOCK_Q, BLOCK_K)
                keep = in_k[None, :]
                if CAUSAL:
                    keep = keep & ((start + cols)[None, :] < (seen + rows)[:, None])
                scores = tl.where(keep, scores, -float("inf"))
                new_top = tl.maximum(top, tl.max(scores, 1))
                safe_top = tl.where(new_top == -float("inf"), 0.0, new_top)
                powers = tl.exp2(scores - safe_top[:, None])
                shrink = tl.exp2(top - safe_top)
            else:  # the scale and the maximum in one multiplication and addition for each score
                k = tl.load(k_ptr + k_at)
                v = tl.load(v_ptr + v_at)
                products = tl.dot(q, k, input_precision="ieee")  # (BLOCK_Q, BLOCK_K)
                new_top = tl.maximum(top, tl.max(products, 1) * to_log2)
                powers = tl.exp2(products * to_log2 - new_top[:, None])
                shrink = tl.exp2(top - new_top)
            total = total * shrink + tl.sum(powers, 1)
            output = output * shrink[:, None]
            output = tl.dot(powers.to(v.dtype), v, output, input_precision="ieee")
            top = new_top
            k_ptr += BLOCK_K * k_l
            v_ptr += BLOCK_K * v_l

    output = output / tl.where(total == 0.0, 1.0, total)[:, None]  # a row that saw nothing is 0
    o_ptr += batch * o_b + head * o_h + first.to(tl.int64) * o_l
    o_at = rows[:, None] * o_l + width[None, :] * o_d
    tl.store(o_ptr + o_at, output.to(o_ptr.dtype.element_ty), mask=in_q)
    ### END SOLUTION


### BEGIN SOLUTION
def _tiles(width: int, dtype: torch.dtype) -> dict[str, int]:
    """Tile sizes that keep a program's numbers in its registers, and how it is run."""
    if dtype == torch.float32:  # multiplied one by one, not by tensor cores
        if width > 64:
            return {"BLOCK_Q": 32, "BLOCK_K": 16, "num_warps": 8, "num_stages": 2}
        size = 64 if width <= 32 else 32
        return {"BLOCK_Q": size, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2}
    if width <= 64:
        return {"BLOCK_Q": 128, "BLOCK_K": 64, "num_warps": 4, "num_stages": 3}
    return {"BLOCK_Q": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}


### END SOLUTION


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    """Launch flash_attention_kernel for every tile of queries and every head; return the output.

    q        (B, H, Lq, D), float32 or half precision, D one of 16, 32, 64 and 128; any strides
    k, v     (B, H, Lk, D), in the dtype of q, each with strides of its own. B, H, Lq and Lk are any
             numbers, 0 too
    causal   query i sees the keys up to i + Lk - Lq; one that sees none has the output 0, and keys
             that it does not see count for nothing, nor do their values, whatever finite numbers
             they hold
    scale    of the scores, 1/sqrt(D) if it is None; any number, 0 and negative ones too. Scores of
             keys that a query sees may be as far from 0 as 3e4
    returns  (B, H, Lq, D), in the dtype of q; scores, maximum, sum and output are float32, rounded
             at the end. The inputs stay as they were
    """
    ### BEGIN SOLUTION
    batch, heads, q_len, width = q.shape
    scale = 1 / math.sqrt(width) if scale is None else scale
    output = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if output.numel():
        tiles = _tiles(width, q.dtype)
        grid = (triton.cdiv(q_len, tiles["BLOCK_Q"]), batch * heads)
        strides = (*q.stride(), *k.stride(), *v.stride(), *output.stride())
        flash_attention_kernel[grid](
            q, k, v, output, *strides, heads, q_len, k.shape[2], scale,
            CAUSAL=causal, D=width, **tiles,
        )  # fmt: skip
    return output
    ### END SOLUTION
