# %% [markdown] tags=["en"]
# # Attention in plain Python
#
# **The question.** Take every library away: no arrays, no tensors, no broadcasting. What is left of
# attention? Numbers in lists, and five short functions. Once you have written the loops, you know
# what each symbol of the formula costs, and which index runs where.
#
# **The formula.** A query is compared with every key, the comparisons become weights, and the
# weights mix the values. For query $i$:
#
# $$s_{ij} = \frac{1}{\sqrt{D}} \sum_{d} q_{id} k_{jd} \qquad
#   w_{ij} = \frac{e^{s_{ij}}}{\sum_{j'} e^{s_{ij'}}} \qquad
#   o_{id} = \sum_{j} w_{ij} v_{jd}$$
#
# The first sum is a product of matrices, `q` times `k` turned on its side; so is the last, of the
# weights and `v`.
#
# **The shapes.** A matrix is a list of rows, a row is a list of numbers. `len(a)` counts the rows
# and `len(a[0])` the numbers in each. One row of `q` for each of `Lq` queries, one row of `k` and
# one of `v` for each of `Lk` keys:
#
# ```text
#   q   Lq rows of D ──┐
#                      ├─ matmul(q, transpose(k)), times 1/sqrt(D) ──> scores   Lq rows of Lk
#   k   Lk rows of D ──┘                                                 │ apply_mask
#                                                                        │ row_softmax
#                                                                        v
#                                                                      weights  Lq rows of Lk
#   v   Lk rows of Dv ───────────────────────────── weights times v ─────┴──> output, Lq rows of Dv
# ```
#
# **By hand.** First one row times one column, `1*3 + 2*4`. The last two calls have a query of zero.
# It has the same score with both keys, so the output is the average of their values; where the
# first key is hidden, it is the second value alone.
#
# ```pycon
# >>> matmul([[1, 2]], [[3], [4]])
# [[11]]
# >>> transpose([[1, 2, 3], [4, 5, 6]])
# [[1, 4], [2, 5], [3, 6]]
# >>> row_softmax([[0.0, 0.0], [500.0, -math.inf]])
# [[0.5, 0.5], [1.0, 0.0]]
# >>> attention([[0.0]], [[5.0], [7.0]], [[2.0], [4.0]])
# ([[3.0]], [[0.5, 0.5]])
# >>> attention([[0.0]], [[5.0], [7.0]], [[2.0], [4.0]], keep=[[False, True]])
# ([[4.0]], [[0.0, 1.0]])
# ```
#
# **The traps.**
#
# - `[[0.0] * m] * n` holds the same row `n` times: a number written into the first row appears in
#   all of them. A list comprehension makes a new row each time.
# - `zip` stops at the shorter of two lists and says nothing. A dot product of vectors that do not
#   fit then comes out, wrong. `zip(*a)` also gives tuples, where lists are wanted.
# - `math.exp(710)` raises `OverflowError`. Subtract the largest number of the row first.
# - In a row of nothing but `-math.inf` that subtraction gives `-inf - -inf`, which is NaN.
# - `0.0 * math.nan` is NaN, and so is `0.0 * math.inf`. A weight of zero does not hide a value that
#   is NaN or infinite: leave hidden values out of the sum.
# - A list that came in belongs to the caller. Build new ones, and write into those.
#
# **What is graded.** The values of all five functions for ints and floats and for any sizes from 1
# on (`transpose` takes no rows, too); scores of ten thousand either way; masks, with rows that see
# nothing and with anything at all in what is hidden; the arguments left as they were; `ValueError`
# for a product that does not exist. **Out of scope:** several heads, batches, gradients, speed.
# **Not allowed:** every module but `math`. About 40 minutes.

# %% [markdown] tags=["zh"]
# # 纯 Python 写注意力
#
# **问题**：把所有的库都拿走，没有数组，没有张量，也没有广播，注意力还剩下什么？
# 剩下列表里的数，和五个很短的函数。亲手写过一遍这些循环，
# 就知道公式里每个符号要花多少计算，哪个下标在哪里跑。
#
# **公式**：一个查询与每个键比较，比较的结果变成权重，再用权重把值混合起来。对查询 $i$：
#
# $$s_{ij} = \frac{1}{\sqrt{D}} \sum_{d} q_{id} k_{jd} \qquad
#   w_{ij} = \frac{e^{s_{ij}}}{\sum_{j'} e^{s_{ij'}}} \qquad
#   o_{id} = \sum_{j} w_{ij} v_{jd}$$
#
# 第一个求和是矩阵乘法：`q` 乘以转置后的 `k`；最后一个也是：权重乘以 `v`。
#
# **形状**：矩阵是由行组成的列表，行是由数组成的列表。`len(a)` 是行数，`len(a[0])` 是每行有几个数。
# `Lq` 个查询各占 `q` 的一行，`Lk` 个键各占 `k` 的一行和 `v` 的一行：
#
# ```text
#   q   Lq 行，每行 D 个 ───┐
#                           ├─ matmul(q, transpose(k))，乘 1/sqrt(D) ──> 分数  Lq 行 Lk 列
#   k   Lk 行，每行 D 个 ───┘                                             │ apply_mask
#                                                                         │ row_softmax
#                                                                         v
#                                                                        权重  Lq 行 Lk 列
#   v   Lk 行，每行 Dv 个 ──────────────────────────── 权重乘以 v ────────┴──> 输出  Lq 行 Dv 列
# ```
#
# **手算**：先是一行乘一列，`1*3 + 2*4`。然后是全零的查询：在它看来两个键一样好，
# 所以输出是两个值的平均；把第一个键遮住，输出就只剩第二个值。
#
# ```pycon
# >>> matmul([[1, 2]], [[3], [4]])
# [[11]]
# >>> transpose([[1, 2, 3], [4, 5, 6]])
# [[1, 4], [2, 5], [3, 6]]
# >>> row_softmax([[0.0, 0.0], [500.0, -math.inf]])
# [[0.5, 0.5], [1.0, 0.0]]
# >>> attention([[0.0]], [[5.0], [7.0]], [[2.0], [4.0]])
# ([[3.0]], [[0.5, 0.5]])
# >>> attention([[0.0]], [[5.0], [7.0]], [[2.0], [4.0]], keep=[[False, True]])
# ([[4.0]], [[0.0, 1.0]])
# ```
#
# **陷阱**
#
# - `[[0.0] * m] * n` 是同一行出现 `n` 次：往第一行写什么，每一行都会变。列表推导式每次都新建一行。
# - `zip` 到较短的列表为止，而且不报错。长度不符的两个向量照样算得出“点积”，只是错的。
#   另外 `zip(*a)` 给出的是元组，而这里要的是列表。
# - `math.exp(710)` 会抛 `OverflowError`。先减去这一行的最大值。
# - 一整行都是 `-math.inf` 时，这个减法就成了 `-inf - -inf`，结果是 NaN。
# - `0.0 * math.nan` 是 NaN，`0.0 * math.inf` 也是。权重为零并不能遮住一个不是数的值：
#   求和时要跳过被遮住的值。
# - 传进来的列表属于调用者。新建列表，只往新列表里写。
#
# **评分内容**：五个函数的数值，整数和浮点数，从 1 起的任意大小（`transpose` 还有零行的情形）；
# 正负一万以内的分数；掩码，包括什么都看不到的行，以及被遮住的位置里放着任何东西；参数保持原样；
# 不存在的矩阵乘积抛 `ValueError`。**不考**：多头、batch、梯度、速度。
# **禁用**：`math` 以外的所有模块。约 40 分钟。

# %%
import math

# %% [markdown] tags=["en"]
# ## Task 1: the product of two matrices
#
# Number `j` of row `i` is row `i` of `a` times column `j` of `b`: multiply the numbers at the same
# places, and add up. The rows of `a` must be as long as `b` has rows. If they are not, there is no
# such product: raise a `ValueError` whose message names both numbers.

# %% [markdown] tags=["zh"]
# ## 任务 1：两个矩阵的乘积
#
# 第 `i` 行第 `j` 个数，是 `a` 的第 `i` 行乘以 `b` 的第 `j` 列：相同位置的数相乘，再全部加起来。
# `a` 每行的长度必须等于 `b` 的行数；不相等就没有这个乘积，报错时要把两个数都告诉调用者。


# %%
def matmul(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
    """Multiply two matrices: each row of a with each column of b.

    a       n rows of m numbers, int or float; it is not changed
    b       m rows of p numbers; it is not changed
    returns n rows of p numbers
    raises  ValueError if the rows of a are not as long as b has rows, naming both numbers
    """
    ### BEGIN SOLUTION
    for row in a:
        if len(row) != len(b):
            raise ValueError(f"rows of {len(row)} numbers cannot be multiplied with {len(b)} rows")
    width = len(b[0]) if b else 0
    return [[sum(row[i] * b[i][j] for i in range(len(b))) for j in range(width)] for row in a]
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 2: rows become columns
#
# The scores need every query times every *key*, row by row. With the keys turned on their side they
# are an ordinary product.

# %% [markdown] tags=["zh"]
# ## 任务 2：行变成列
#
# 分数需要每个查询与每个**键**相乘，也就是行与行相乘。把键转置之后，就是普通的矩阵乘法。


# %%
def transpose(a: list[list[float]]) -> list[list[float]]:
    """Turn the rows of a matrix into its columns.

    a       n rows of m numbers; it is not changed
    returns m rows of n numbers; of no rows at all, or of rows without a number, no rows
    """
    ### BEGIN SOLUTION
    return [list(column) for column in zip(*a, strict=True)]
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 3: scores become weights
#
# Each row by itself: subtract its maximum, take the exponentials, divide by their sum. The
# exponential of minus infinity is 0, so a score of `-math.inf` gets the weight 0; the mask of the
# next task relies on this. A row that holds nothing but `-math.inf` needs care.

# %% [markdown] tags=["zh"]
# ## 任务 3：分数变成权重
#
# 每行单独算：减去这一行的最大值，取指数，再除以指数之和。负无穷的指数是 0，
# 所以分数为 `-math.inf` 的位置没有权重，下一个任务的掩码靠的就是这一点。
# 有一种行要小心：里面除了 `-math.inf` 什么都没有。


# %%
def row_softmax(rows: list[list[float]]) -> list[list[float]]:
    """Turn each row of scores into weights that sum to one.

    rows    n rows of m numbers, up to 10,000 either way, or -math.inf; they are not changed
    returns n rows of m weights: 0 for -math.inf, and in a row of nothing else zeros
    """
    ### BEGIN SOLUTION
    weights = []
    for row in rows:
        top = max(row, default=-math.inf)
        if top == -math.inf:
            weights.append([0.0] * len(row))
            continue
        powers = [math.exp(x - top) for x in row]
        total = sum(powers)
        weights.append([power / total for power in powers])
    return weights
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 4: the mask
#
# The mask says `True` where a query may attend to a key. *Replace* a hidden score; do not
# add to it or multiply it: if it is NaN, the result is NaN again.

# %% [markdown] tags=["zh"]
# ## 任务 4：遮住不该看的
#
# 掩码里的 `True` 表示查询可以看这个键。被遮住的分数要**替换掉**，而不是拿来运算：
# NaN 无论加上什么、乘以什么，仍然是 NaN。


# %%
def apply_mask(scores: list[list[float]], keep: list[list[bool]]) -> list[list[float]]:
    """Put -math.inf in the place of every score that is not kept.

    scores  n rows of m numbers; where hidden, anything at all; they are not changed
    keep    n rows of m bools, True = may attend; it is not changed
    returns n rows of m numbers
    """
    ### BEGIN SOLUTION
    return [
        [score if kept else -math.inf for score, kept in zip(row, row_keep, strict=True)]
        for row, row_keep in zip(scores, keep, strict=True)
    ]
    ### END SOLUTION


# %% [markdown] tags=["en"]
# ## Task 5: attention
#
# Call the four functions one after the other. Two things are new: the scale `1/sqrt(D)`, and the
# last product, in which a hidden value must not take part, not even with a weight of zero.

# %% [markdown] tags=["zh"]
# ## 任务 5：注意力
#
# 把前面四个函数连起来。新的只有两处：缩放因子 `1/sqrt(D)`；
# 还有最后那个乘积，被遮住的值不能参与，哪怕它的权重是零。


# %%
def attention(
    q: list[list[float]],
    k: list[list[float]],
    v: list[list[float]],
    keep: list[list[bool]] | None = None,
) -> tuple[list[list[float]], list[list[float]]]:
    """Mix the values, for each query by how well the keys fit it.

    None of the arguments is changed.

    q       Lq rows of D numbers, the queries, with scores up to 10,000 either way
    k       Lk rows of D numbers, the keys
    v       Lk rows of Dv numbers, the values
    keep    None, or Lq rows of Lk bools, True = may attend; what is hidden has no influence,
            be it NaN, inf or 1e30
    returns the output, Lq rows of Dv numbers, and the weights, Lq rows of Lk numbers; both are 0
            for a query that may attend to nothing
    """
    ### BEGIN SOLUTION
    scale = 1 / math.sqrt(len(k[0]))
    scores = [[score * scale for score in row] for row in matmul(q, transpose(k))]  # Lq rows of Lk
    if keep is not None:
        scores = apply_mask(scores, keep)
    weights = row_softmax(scores)
    columns = transpose(v)  # Dv rows of Lk
    output = [
        [sum(row[j] * column[j] for j in range(len(v)) if row[j]) for column in columns]
        for row in weights
    ]
    return output, weights
    ### END SOLUTION
