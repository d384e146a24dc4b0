"""Wrong answers to `naive_attention`."""

import torch

from grader.judging import mistake
from grader.suites.ex15_cuda_kernel.test_cuda_kernel import (
    test_far_places,
    test_large_scores,
    test_naive_causal,
    test_naive_is_plain,
    test_naive_values,
)

from .shared import NAIVE, PARAMETERS

NAIVE_LAUNCH = (
    "naive_attention_kernel<<<blocks, threads>>>(q, k, v, out, heads, Lq, Lk, D, scale, causal);"
)


@mistake(
    of=NAIVE,
    caught_by=test_naive_values,
    edits=[("  if (row >= (size_t)heads * Lq) return;\n", "")],
)
def no_guard():
    """Threads of the last block whose row does not exist work all the same, past the end of the
    arrays.

    Let a thread return if its row is not below heads * Lq.
    """


@mistake(
    of=NAIVE,
    caught_by=test_naive_values,
    edits=[
        ("blocks = (rows + threads - 1) / threads;", "blocks = max(rows / threads, (size_t)1);")
    ],
)
def naive_grid_rounded_down():
    """The grid is rounded down, so the rows after the last whole block are never computed.

    Round up: (rows + threads - 1) / threads blocks.
    """


@mistake(
    of=NAIVE,
    caught_by=test_naive_values,
    edits=[("size_t head = row / Lq;", "size_t head = row / Lk;")],
)
def head_by_the_keys():
    """The head of a row is found by dividing by Lk; a head has Lq rows.

    head = row / Lq, and the query within it is row % Lq.
    """


@mistake(
    of=NAIVE,
    caught_by=test_naive_values,
    edits=[("for (int d = 0; d < D; ++d) out[d] /= sum;", ";")],
)
def never_divided():
    """The weighted values are never divided by the sum of the weights.

    After the last key, divide the row by the sum.
    """


@mistake(
    of=NAIVE,
    caught_by=test_naive_values,
    edits=[("// the last one may be partly idle", "\n  if (blocks > 256) blocks = 256;")],
)
def blocks_up_to_256():
    """No more than 256 blocks are launched, so that the rows after 32,768 belong to no thread.

    Launch as many blocks as there are rows for; a grid may have 2**31 - 1 of them.
    """


@mistake(
    of=NAIVE,
    caught_by=test_large_scores,
    edits=[
        (
            "largest = fmaxf(largest, scale * dot(q, k + (size_t)j * D, D));",
            "largest = fmaxf(largest, dot(q, k + (size_t)j * D, D));\n  largest *= scale;",
        )
    ],
)
def maximum_before_the_scale():
    """The largest dot product is taken and then scaled. With a negative scale that is the smallest
    score, and the exponentials of the others overflow.

    Take the largest of the scaled scores.
    """


@mistake(
    of=NAIVE,
    caught_by=test_large_scores,
    edits=[("float largest = -INFINITY;", "float largest = -10000.0f;")],
)
def largest_from_minus_1e4():
    """The largest score begins at -10000. Where all scores lie below, every weight vanishes.

    Start at -INFINITY, which is below every score.
    """


@mistake(
    of=NAIVE,
    caught_by=test_large_scores,
    edits=[
        (
            "  size_t rows = (size_t)heads * Lq;",
            "  if (scale == 0) scale = 1 / sqrtf(D);\n  size_t rows = (size_t)heads * Lq;",
        )
    ],
)
def scale_of_zero_replaced():
    """A scale of 0 is replaced by 1/sqrt(D).

    Take the scale as it is: with 0 the output is the average of the values that are seen.
    """


@mistake(
    of=NAIVE,
    caught_by=test_large_scores,
    edits=[
        (
            "expf(scale * dot(q, k + (size_t)j * D, D) - largest)",
            "expf(scale * dot(q, k + (size_t)j * D, D))",
        )
    ],
)
def no_maximum():
    """exp is taken of the scores as they are. From about 88 on that is infinite in float, and the
    row NaN.

    Take the largest score of the row away from every score first.
    """


@mistake(
    of=NAIVE,
    caught_by=test_naive_causal,
    edits=[("min(i + Lk - Lq + 1, Lk)", "min(i + Lk - Lq, Lk)")],
)
def diagonal_hidden():
    """With causal, a query does not see the key at its own position.

    Query i sees the keys up to and with i + Lk - Lq: i + Lk - Lq + 1 of them.
    """


@mistake(
    of=NAIVE, caught_by=test_naive_causal, edits=[("min(i + Lk - Lq + 1, Lk)", "min(i + 1, Lk)")]
)
def naive_top_left():
    """The causal mask is aligned at the top left: query i sees the keys up to i. Where Lk is not
    Lq, that is another mask.

    Query i stands at position i + Lk - Lq, and sees the keys up to there.
    """


@mistake(
    of=NAIVE,
    caught_by=test_far_places,
    edits=[
        (
            "size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;",
            "int row = blockIdx.x * blockDim.x + threadIdx.x;",
        )
    ],
)
def row_in_int():
    """The place of a row is computed in int, which ends at 2**31 - 1; row * D does not fit for
    larger arrays.

    Compute places in size_t: cast the first factor, (size_t)row * D.
    """


@mistake(
    of=NAIVE,
    caught_by=test_far_places,
    edits=[
        ("  size_t row = (size_t)blockIdx.x", "  for (int row = blockIdx.x"),
        (
            " + threadIdx.x;  // of all heads * Lq rows\n"
            "  if (row >= (size_t)heads * Lq) return;\n  size_t head",
            " + threadIdx.x; row < heads * Lq;\n       row += gridDim.x * blockDim.x) {\n"
            "  size_t head",
        ),
        ("  q += row * D;            // (D)\n", "  const float* query = q + row * D;\n"),
        ("  k += head * Lk * D;      //", "  const float* keys = k + head * Lk * D;  //"),
        ("  v += head * Lk * D;      //", "  const float* values = v + head * Lk * D;  //"),
        ("  out += row * D;          // (D)\n", "  float* mine = out + row * D;\n"),
        (
            "scale * dot(q, k + (size_t)j * D, D));",
            "scale * dot(query, keys + (size_t)j * D, D));",
        ),
        ("for (int d = 0; d < D; ++d) out[d] = 0.0f;", "for (int d = 0; d < D; ++d) mine[d] = 0;"),
        (
            "expf(scale * dot(q, k + (size_t)j * D, D) - largest)",
            "expf(scale * dot(query, keys + (size_t)j * D, D) - largest)",
        ),
        ("out[d] += weight * v[", "mine[d] += weight * values["),
        (
            "for (int d = 0; d < D; ++d) out[d] /= sum;",
            "for (int d = 0; d < D; ++d) mine[d] /= sum;\n  }",
        ),
        ("<<<blocks, threads>>>", "<<<64, threads>>>"),
    ],
)
def loop_in_int():
    """A few blocks go over all rows, and the place of a row is computed in int, which ends at
    2**31 - 1.

    Compute places in size_t: cast the first factor, (size_t)row * D.
    """


@mistake(
    of=NAIVE,
    caught_by=test_naive_values,
    edits=[
        ("  float largest = -INFINITY;", "  float largest = -INFINITY, scores[2048];"),
        (
            "largest = fmaxf(largest, scale * dot(q, k + (size_t)j * D, D));",
            "{\n    scores[j] = scale * dot(q, k + (size_t)j * D, D);\n"
            "    largest = fmaxf(largest, scores[j]);\n  }",
        ),
        ("expf(scale * dot(q, k + (size_t)j * D, D) - largest)", "expf(scores[j] - largest)"),
    ],
)
def scores_in_an_array():
    """A thread keeps the scores of its query in an array of a fixed size, and writes past its end
    where there are more keys.

    Lk can be any number: compute each score where it is needed, or keep a running maximum.
    """


@mistake(
    of=NAIVE,
    caught_by=test_naive_is_plain,
    edits=[
        ("  size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;", "  size_t row = 0;"),
        (
            "  size_t head = row / Lq;",
            "  for (; row < (size_t)heads * Lq; ++row) {\n  size_t head = row / Lq;",
        ),
        ("  out += row * D;          // (D)\n", ""),
        ("  q += row * D;            // (D)\n", ""),
        ("  k += head * Lk * D;      // (Lk, D)\n", ""),
        ("  v += head * Lk * D;      // (Lk, D)\n", ""),
        (
            "largest = fmaxf(largest, scale * dot(q, k + (size_t)j * D, D));",
            "largest = fmaxf(largest, scale * dot(q + row * D, k + (head * Lk + j) * D, D));",
        ),
        ("out[d] = 0.0f;\n  for", "out[row * D + d] = 0.0f;\n  for"),
        (
            "expf(scale * dot(q, k + (size_t)j * D, D) - largest)",
            "expf(scale * dot(q + row * D, k + (head * Lk + j) * D, D) - largest)",
        ),
        (
            "out[d] += weight * v[(size_t)j * D + d]",
            "out[row * D + d] += weight * v[(head * Lk + j) * D + d]",
        ),
        ("out[d] /= sum;", "out[row * D + d] /= sum;\n  }"),
        ("<<<blocks, threads>>>", "<<<1, 1>>>"),
    ],
)
def one_thread_for_everything():
    """A single thread computes all rows one after another, and the rest of the GPU stands idle.

    Launch a thread for each of the heads * Lq rows; each finds its own by blockIdx and threadIdx.
    """


@mistake(
    of=NAIVE,
    caught_by=test_naive_is_plain,
    edits=[
        (
            'extern "C" void naive_attention(',
            f'extern "C" void tiled_attention({PARAMETERS});\nextern "C" void naive_attention(',
        ),
        (NAIVE_LAUNCH, "tiled_attention(q, k, v, out, heads, Lq, Lk, D, scale, causal);"),
    ],
)
def tiled_kernel_launched():
    """naive_attention launches the tiled kernel, so there is only one kernel in the file.

    Write the naive one as well: one thread for each query, and no shared memory. It is what the
    tiled kernel is compared with.
    """


@mistake(
    of=NAIVE,
    caught_by=test_naive_is_plain,
    edits=[
        (
            "size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;",
            "size_t place = (size_t)blockIdx.x * blockDim.x + threadIdx.x, row = place / D;\n"
            "  int c = place % D;",
        ),
        ("for (int d = 0; d < D; ++d) out[d] = 0.0f;", "out[c] = 0.0f;"),
        (
            "for (int d = 0; d < D; ++d) out[d] += weight * v[(size_t)j * D + d];",
            "out[c] += weight * v[(size_t)j * D + c];",
        ),
        ("for (int d = 0; d < D; ++d) out[d] /= sum;", "out[c] /= sum;"),
        ("size_t rows = (size_t)heads * Lq;", "size_t rows = (size_t)heads * Lq * D;"),
    ],
)
def a_thread_for_each_number():
    """There is a thread for each number of the output, so the scores and weights of a query are
    computed D times.

    Let one thread have a query: it computes each weight once, and all D numbers of the row.
    """


@mistake(
    of=NAIVE,
    caught_by=test_naive_is_plain,
    edits=[
        (
            "  float largest = -INFINITY;",
            "  __shared__ float tops[1024];\n  float& largest = tops[threadIdx.x];\n"
            "  largest = -INFINITY;",
        )
    ],
)
def shared_memory_in_the_naive_kernel():
    """The naive kernel keeps numbers in shared memory that only one thread uses.

    What one thread needs belongs into its own variables, which are registers and nearer. Shared
    memory is for what several threads read.
    """


@mistake(
    of=NAIVE,
    caught_by=test_naive_values,
    edits=[
        (
            NAIVE_LAUNCH,
            "float* keys = (float*)malloc((size_t)heads * Lk * D * sizeof(float));\n"
            "  cudaMemcpy(keys, k, (size_t)heads * Lk * D * sizeof(float),"
            " cudaMemcpyDeviceToHost);\n"
            f"  {NAIVE_LAUNCH}\n"
            "  free(keys);",
        )
    ],
)
def copied_to_the_host():
    """The keys are copied to the host, which has nothing to compute here.

    The kernels do all the work: launch them with the pointers that the function is given.
    """


@mistake(
    of=NAIVE,
    caught_by=test_naive_values,
    edits=[
        (
            "size_t head = row / Lq;\n  int i = row % Lq;",
            "size_t head = (size_t)(row * (1.0 / Lq));\n  int i = row - head * Lq;",
        )
    ],
)
def head_by_a_rounded_product():
    """The head is row * (1.0 / Lq): the product may be rounded to just below a whole number, and
    the row then counts as one more query of the head before.

    Divide whole numbers: row / Lq, and row % Lq.
    """


# No attention at all


@mistake(of=NAIVE, caught_by=test_naive_values, null=True)
def naive_zeros(q, k, v, scale, causal):
    """The output is zero everywhere.

    Write each row of out from one thread.
    """
    return torch.zeros_like(q)


@mistake(of=NAIVE, caught_by=test_naive_values, null=True)
def naive_mean(q, k, v, scale, causal):
    """Every key has the same weight: the output is the mean of the values.

    The weights are the softmax of scale times the scores.
    """
    return v.mean(1, keepdim=True).expand_as(q).contiguous()
