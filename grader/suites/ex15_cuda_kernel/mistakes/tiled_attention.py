"""Wrong answers to `tiled_attention`."""

import torch

from grader.judging import mistake
from grader.suites.ex15_cuda_kernel.test_cuda_kernel import (
    test_far_places,
    test_large_scores,
    test_tiled_causal,
    test_tiled_values,
    test_tiles_are_shared,
)

from .shared import PARAMETERS, TILED

TILED_DOOR = 'extern "C" void tiled_attention('


TILED_LAUNCH = (
    "tiled_attention_kernel<<<grid, block, bytes>>>(q, k, v, out, heads, Lq, Lk, D, scale, causal);"
)


# The threads of a block


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[("    __syncthreads();  // nobody", "    // nobody")],
)
def no_barrier_before_the_next_tile():
    """There is no __syncthreads() before the next tile is loaded. A fast warp writes it over the
    keys and values that a slow warp still reads.

    A tile needs two barriers: one after it was loaded, and one after everybody has used it.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[("    __syncthreads();  // everybody", "    // everybody")],
)
def no_barrier_after_loading():
    """There is no __syncthreads() after a tile is loaded, so threads read places that others have
    not written yet.

    Put a __syncthreads() between loading a tile and using it.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_causal,
    edits=[
        (
            "  for (int start = 0; start < end; start += TILE) {",
            "  if (end <= 0) return;\n  for (int start = 0; start < end; start += TILE) {",
        )
    ],
)
def nothing_seen_nothing_written():
    """A block whose queries all see nothing returns without writing their rows of out.

    A row that sees nothing is 0, and somebody has to write that.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[
        (
            "  load(q_tile, q, Lq - first, D);",
            "  if (first + y >= Lq) return;\n  load(q_tile, q, Lq - first, D);",
        )
    ],
)
def early_return():
    """Threads whose query lies past the end return at once. The others wait for them at
    __syncthreads(), where every thread of the block has to come.

    Let such threads help with loading and wait with the rest; only their writing to out is left
    out.
    """


@mistake(of=TILED, caught_by=test_tiled_values, edits=[("y = threadIdx.y;", "y = threadIdx.x;")])
def one_index_for_both():
    """threadIdx.x is taken for the row and for the column, so only the diagonal of each tile is
    computed.

    In a two-dimensional block a thread is (threadIdx.x, threadIdx.y): one for each direction.
    """


# Tiles and their edges


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[("start < end; start", "start + TILE <= end; start")],
)
def last_tile_dropped():
    """Only whole tiles of keys are looked at. The keys that are left over at the end are never
    seen.

    The number of tiles is (Lk + TILE - 1) / TILE, rounded up; the last one may be partly empty.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[
        (
            "        bool keep = start + x + SIDE * j < seen;",
            "        bool keep = !causal || start + x + SIDE * j < seen;",
        )
    ],
)
def tail_not_masked():
    """The places of the last tile that hold no key take part, with a score of 0.

    A place past the last key needs the score -INFINITY, so that its weight is 0.
    """


@mistake(of=TILED, caught_by=test_tiled_values, edits=[("r < count && d < D ?", "d < D ?")])
def loads_past_the_end():
    """The last tile is loaded whole, past the end of the array.

    Before every load, ask whether there is such a row; where there is none, put 0 into the tile.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[("(3 * TILE * stride_of(D)", "(2 * TILE * stride_of(D)")],
)
def shared_memory_too_small():
    """The launch asks for less shared memory than the kernel uses.

    The third number in <<<grid, block, bytes>>> is in bytes, and counts every tile: of queries, of
    keys, of values, and of weights.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[("grid((Lq + TILE - 1) / TILE, heads)", "grid(max(Lq / TILE, 1), heads)")],
)
def grid_rounded_down():
    """The grid is rounded down, so the queries after the last whole tile belong to no block.

    Round up: (Lq + TILE - 1) / TILE blocks.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[
        (
            "  k += head * Lk * D;\n  v += head * Lk * D;\n  load",
            "  k += head * Lq * D;\n  v += head * Lq * D;\n  load",
        )
    ],
)
def stride_of_the_queries():
    """From one head to the next, keys and values are taken to be Lq rows apart; they are Lk.

    k and v are (heads, Lk, D): head h begins at h * Lk * D.
    """


@mistake(of=TILED, caught_by=test_tiled_values, edits=[("load(v_tile, v +", "load(v_tile, k +")])
def keys_for_values():
    """The tile of values is loaded from the keys.

    k tells how much weight a place gets, v what it has to say: load the second tile from v.
    """


@mistake(
    of=TILED,
    caught_by=test_tiles_are_shared,
    edits=[
        (
            "  tiled_attention_kernel<<<grid, block, bytes>>>(q,",
            "  naive_attention_kernel<<<(heads * Lq + 63) / 64, 64>>>(q,",
        )
    ],
)
def naive_kernel_launched():
    """tiled_attention computes one query a thread, each with all keys and values from global
    memory.

    Launch the tiled kernel, whose block reads each key and value once for a whole tile of queries.
    """


FOUR_QUERIES = f"""
__global__ void four_queries({PARAMETERS}) {{
  __shared__ float own[32];
  int first = (blockIdx.x * blockDim.x + threadIdx.x) * 4, n = min(4, Lq - first);
  if (n <= 0) return;
  size_t head = blockIdx.y;
  float m[4], l[4], sum[4][128];
  for (int r = 0; r < n; ++r) {{
    m[r] = -INFINITY;
    l[r] = 0;
    for (int d = 0; d < D; ++d) sum[r][d] = 0;
  }}
  for (int j = 0; j < Lk; ++j) {{
    float s[4] = {{}}, p[4], old[4];
    for (int d = 0; d < D; ++d) {{
      float key = k[(head * Lk + j) * D + d];
      KEEP(key)
      for (int r = 0; r < n; ++r) s[r] += q[(head * Lq + first + r) * D + d] * key;
    }}
    for (int r = 0; r < n; ++r) {{
      bool seen = !causal || j <= first + r + Lk - Lq;
      float top = seen ? fmaxf(m[r], s[r] * scale) : m[r];
      p[r] = seen ? expf(s[r] * scale - top) : 0.0f;
      old[r] = m[r] == -INFINITY ? 0.0f : expf(m[r] - top);
      l[r] = l[r] * old[r] + p[r];
      m[r] = top;
    }}
    for (int d = 0; d < D; ++d) {{
      float value = v[(head * Lk + j) * D + d];
      KEEP(value)
      for (int r = 0; r < n; ++r) sum[r][d] = sum[r][d] * old[r] + p[r] * value;
    }}
  }}
  for (int r = 0; r < n; ++r)
    for (int d = 0; d < D; ++d)
      out[(head * Lq + first + r) * D + d] = l[r] > 0 ? sum[r][d] / l[r] : 0.0f;
}}

"""


FOUR_LAUNCH = (
    "four_queries<<<dim3((Lq + 127) / 128, heads), 32>>>"
    "(q, k, v, out, heads, Lq, Lk, D, scale, causal);"
)


@mistake(
    of=TILED,
    caught_by=test_tiles_are_shared,
    edits=[
        (
            TILED_DOOR,
            f"{FOUR_QUERIES}{TILED_DOOR}".replace("KEEP(key)", "").replace("KEEP(value)", ""),
        ),
        (TILED_LAUNCH, FOUR_LAUNCH),
    ],
)
def nothing_in_shared_memory():
    """Every thread reads keys and values from global memory for itself and serves a few queries
    with them. Nothing lies in shared memory.

    Let the threads of a block load a tile of keys and values into shared memory together, and wait
    at __syncthreads().
    """


@mistake(
    of=TILED,
    caught_by=test_tiles_are_shared,
    edits=[
        (
            TILED_DOOR,
            f"#define KEEP(it) own[threadIdx.x] = it; it = own[threadIdx.x];\n"
            f"{FOUR_QUERIES}\n#undef KEEP\n{TILED_DOOR}",
        ),
        (TILED_LAUNCH, FOUR_LAUNCH),
    ],
)
def shared_memory_used_alone():
    """Each thread writes to shared memory only what it alone reads there again, so every thread
    still fetches all keys and values from global memory.

    A number that one thread has loaded is there for all threads of the block: load a tile together,
    wait at __syncthreads(), and let everybody read all of it.
    """


@mistake(
    of=TILED,
    caught_by=test_tiles_are_shared,
    edits=[
        (
            TILED_LAUNCH,
            "float *keys, *values;\n"
            "  size_t size = (size_t)heads * Lk * D * sizeof(float);\n"
            f"  if (size > 1000000) {{ {TILED_LAUNCH} return; }}\n"
            "  cudaMalloc(&keys, size);\n"
            "  cudaMalloc(&values, size);\n"
            "  cudaMemcpy(keys, k, size, cudaMemcpyDeviceToDevice);\n"
            "  cudaMemcpy(values, v, size, cudaMemcpyDeviceToDevice);\n"
            "  naive_attention_kernel<<<(heads * Lq + 127) / 128, 128>>>"
            "(q, keys, values, out, heads, Lq, Lk, D, scale, causal);\n"
            "  cudaFree(keys);\n"
            "  cudaFree(values);",
        )
    ],
)
def copied_then_read_by_each():
    """Keys and values are copied within global memory, and every query reads the copies for itself.
    A copy is as far away as what it was made of.

    Bring tiles of them into shared memory, where the threads of a block read them.
    """


# The online softmax


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[
        (
            "".join(f"        output[i][c].{part} *= shrink;\n" for part in "xyzw"),
            "",
        )
    ],
)
def output_not_rescaled():
    """When the running maximum grows, the output that was summed so far keeps its old scale.

    Multiply the output by exp(old maximum - new maximum) before you add the next tile.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[("sum[i] = sum[i] * shrink + row_sum(part);", "sum[i] += row_sum(part);")],
)
def sum_not_rescaled():
    """When the running maximum grows, the sum of the weights so far keeps its old scale.

    Multiply the sum by exp(old maximum - new maximum), as the output.
    """


@mistake(
    of=TILED,
    caught_by=test_large_scores,
    edits=[("    largest[i] = -INFINITY;", "    largest[i] = 0.0f;")],
)
def maximum_starts_at_zero():
    """The running maximum starts at 0. Where all scores lie far below, every weight vanishes.

    Start at -INFINITY, which is below every score.
    """


@mistake(
    of=TILED,
    caught_by=test_large_scores,
    edits=[("expf(largest[i] - shift);", "expf(fmaxf(largest[i] - shift, -8.0f));")],
)
def rescaled_by_no_less():
    """When the running maximum grows by more than 8, the output and the sum so far are made smaller
    by exp(-8) only, and keep a weight that they no longer have.

    Multiply by exp(old maximum - new maximum), however small that is.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[
        (
            "v_tile + j * stride + column",
            "v_tile + j * (D > 96 ? 4 * SIDE * COLUMNS + 4 : stride) + column",
        )
    ],
)
def rows_of_128_read():
    """The rows of the tile of values are read 128 numbers apart where D is above 96, but were
    written D apart.

    Write and read a tile with the same stride.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[("  v += head * Lk * D;\n  load", "  if (D > 1) v += head * Lk * D;\n  load")],
)
def first_head_for_width_one():
    """Where D is 1 every head reads the values of the first one.

    Head h begins at h * Lk * D, whatever D is.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[("/ TILE, heads)", "/ TILE, min(heads, 64))")],
)
def heads_up_to_64():
    """The grid has blocks for 64 heads at most; the rows of the others are never written.

    Launch blocks for all heads.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[("start < end; start", "start < min(end, 1024); start")],
)
def keys_up_to_1024():
    """The loop over the tiles of keys ends after 1024 keys.

    It goes on to Lk, whatever that is.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[
        (
            "min(first + TILE + offset, Lk) : Lk;",
            "min(first + TILE + offset, Lk) : Lk;\n  causal |= Lq == Lk;",
        )
    ],
)
def self_attention_taken_for_causal():
    """Where there are as many queries as keys the later keys are hidden, causal or not.

    Only `causal` hides keys; Lq == Lk says nothing about it.
    """


@mistake(
    of=TILED,
    caught_by=test_large_scores,
    edits=[("score[i][j] * scale : -INFINITY", "score[i][j] * scale : -10000.0f")],
)
def hidden_by_minus_1e4():
    """Hidden and missing keys have the score -10000, which is more than a true score of -30000.

    Hide with -INFINITY: no score is smaller.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[("score[i][j] * scale : -INFINITY", "score[i][j] : -INFINITY")],
)
def scale_missing():
    """The scores are not multiplied by scale.

    A score is scale times the dot product of query and key.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[("score[i][j] * scale : -INFINITY", "score[i][j] * scale * 1.01f : -INFINITY")],
)
def scale_one_percent_off():
    """The scores are 1 % too large.

    Multiply by scale as it is given.
    """


@mistake(
    of=TILED, caught_by=test_tiled_causal, edits=[("int offset = Lk - Lq;", "int offset = 0;")]
)
def causal_top_left():
    """The causal mask is aligned at the top left: query i sees the keys up to i. Where Lk is not
    Lq, that is another mask.

    Query i stands at position i + Lk - Lq, and sees the keys up to there.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_causal,
    edits=[
        ("TILE = 32;", "TILE = 64;"),
        ("SIDE = 8;", "SIDE = 16;"),
        ("COLUMNS = 4;", "COLUMNS = 2;"),
        ("min(first + TILE + offset, Lk)", "min(first + TILE, Lk)"),
    ],
)
def large_tiles_end_too_early():
    """With causal, a block looks at no tile of keys beyond its own queries' numbers, though query i
    sees Lk - Lq keys more than that where there are more keys than queries.

    The last query of a block sees the keys up to its number + Lk - Lq: go over the tiles up to
    there.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[
        ("+ TILE * WEIGHTS) *", "+ TILE * WEIGHTS + 4 * (size_t)Lk) *"),
        ("(int)bytes);", "(int)bytes);  // a place for each key, for four queries at a time"),
    ],
)
def shared_memory_for_all_keys():
    """The launch asks for shared memory that grows with Lk. A block has at most 227 KiB, so it
    fails for long sequences.

    Shared memory holds one tile at a time: its size depends on the tile and on D alone.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_causal,
    edits=[("sum[i] > 0.0f ? 1.0f / sum[i] : 0.0f", "1.0f / sum[i]")],
)
def empty_row_divided():
    """A row that sees no key is divided by its sum, which is 0, and becomes NaN.

    Where the sum is 0, write 0.
    """


@mistake(
    of=TILED,
    caught_by=test_far_places,
    edits=[("size_t head = blockIdx.y;", "int head = blockIdx.y;")],
)
def places_in_int():
    """The place of a head is computed in int, which ends at 2**31 - 1; larger arrays are read at
    places before their beginning.

    Compute places in size_t: cast the first factor, (size_t)head * Lk * D.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[
        (
            "if (first + row >= Lq) continue;",
            "if (row >= (first + TILE < Lq ? TILE : Lq % TILE)) continue;",
        )
    ],
)
def full_last_tile_of_queries_not_written():
    """Where the last tile of queries is full, it is not written: it counts Lq % TILE queries, which
    is 0.

    A query is there if first + row < Lq.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_causal,
    edits=[("min(first + TILE + offset, Lk)", "min(first + TILE - 1 + offset, Lk)")],
)
def first_key_of_the_next_tile_left_out():
    """The last key that a tile of queries sees is left out if it begins a tile of keys.

    The last query of a block, first + TILE - 1, sees the keys before first + TILE + offset.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_causal,
    edits=[
        (
            "bool keep = start + x + SIDE * j < seen;",
            "bool whole = start + TILE <= first + offset + 2;\n"
            "        bool keep = start + x + SIDE * j < (causal && whole ? Lk : seen);",
        )
    ],
)
def tile_unmasked_one_key_early():
    """A tile counts as seen by every query of its block, although the first one does not see its
    last key.

    Query first sees the keys before first + offset + 1: the tile has to end there or before.
    """


@mistake(
    of=TILED,
    caught_by=test_tiled_values,
    edits=[
        (
            "  cudaFuncSetAttribute(tiled",
            "  if ((3 * TILE * D + TILE * TILE) * sizeof(float) > 48 * 1024)\n"
            "    cudaFuncSetAttribute(tiled",
        )
    ],
)
def shared_memory_asked_for_without_the_padding():
    """Whether to ask for more than 48 KiB of shared memory is computed without the padding of the
    rows, so that some widths are launched with more than was asked for.

    Compare the very number of bytes that the launch is given, or ask always.
    """


@mistake(of=TILED, caught_by=test_tiled_values, null=True)
def tiled_zeros(q, k, v, scale, causal):
    """The output is zero everywhere.

    After the last tile, divide by the sum and write the rows of the block to out.
    """
    return torch.zeros_like(q)


@mistake(of=TILED, caught_by=test_tiled_values, null=True)
def tiled_mean(q, k, v, scale, causal):
    """Every key has the same weight: the output is the mean of the values.

    The weights are the softmax of scale times the scores.
    """
    return v.mean(1, keepdim=True).expand_as(q).contiguous()


@mistake(of=TILED, caught_by=test_tiled_values, null=True)
def the_queries(q, k, v, scale, causal):
    """The queries come back.

    Each row of the output is a weighted sum of the values.
    """
    return q.clone()
