// %% [markdown] tags=["en"]
// # Attention in CUDA C++
//
// **The question.** A GPU has thousands of threads. Which of them computes what, from which memory,
// and where must they wait for each other? The same attention is written twice: once so that it is
// obviously right, and once so that it is fast.
//
// **The formula.** For each head, with a `scale` that is given (most often $1/\sqrt{D}$):
//
// $$o_i = \sum_j w_{ij} v_j, \qquad w_{ij} = \frac{e^{s_{ij} - m_i}}{\sum_{j'} e^{s_{ij'} - m_i}},
// \qquad s_{ij} = \text{scale} \cdot q_i \cdot k_j, \qquad m_i = \max_j s_{ij}$$
//
// **Threads, blocks, grid.** A *kernel* is a function that many threads run at the same time. The
// launch says how many: `kernel<<<grid, block, bytes>>>(...)` starts `grid` blocks of `block` threads
// each (at most 1024), and every thread can read its own number:
//
// ```text
//    grid: 3 blocks        block 0          block 1          block 2
//    block: 4 threads    [ 0 1 2 3 ]      [ 0 1 2 3 ]      [ 0 1 2 3 ]     threadIdx.x
//    row of the thread     0 1 2 3          4 5 6 7          8 9 . .       blockIdx.x * blockDim.x
//                                                                ^ ^           + threadIdx.x
//    10 rows: the grid is (10 + 4 - 1) / 4 = 3, rounded up, and two threads have nothing to do
// ```
//
// Blocks run in any order and cannot wait for each other. The threads of one block can: at
// `__syncthreads()` each thread waits until all have come. Threads run in *warps* of 32, which may also
// exchange numbers directly (`__shfl_xor_sync`).
//
// **Memory.** There are three kinds; use the nearest one that you can:
//
// ```text
//    registers           a thread's own variables          nearest
//    shared memory       one per block, about 48 KiB       near: bring here what several threads read
//    global memory       q, k, v, out                      far
// ```
//
// **The shapes.** All arrays are contiguous float32: `q` and `out` are `(heads, Lq, D)`, `k` and `v` are
// `(heads, Lk, D)`, and `heads` is batch times heads. So the number `d` of row `i` of head `h` lies at
// `q[(h * Lq + i) * D + d]`. `D` is at most 128 and need not be a multiple of anything.
//
// **By hand.** A query of zero has the same score with every key, so its output is the average of the
// values that it sees; with `causal` it sees fewer of them. The checks call your functions from Python,
// with a `scale` and whether it is causal:
//
// ```pycon
// >>> zero = torch.zeros(1, 2, 1)
// >>> v = torch.tensor([[[2.0], [4.0]]])
// >>> naive_attention(zero, zero, v, 1.0, False).tolist()
// [[[3.0], [3.0]]]
// >>> tiled_attention(zero, zero, v, 1.0, True).tolist()
// [[[2.0], [3.0]]]
// ```
//
// **Without a GPU.** Your kernels run on the CPU, thread by thread. That is slow, but it finds more
// mistakes than a GPU does: every access to memory is checked before it happens. So the report names a
// missing `__syncthreads()` with both lines, even where the result happens to be right. It also names a
// place outside of an array, shared memory that nobody has written, a barrier that some threads never
// reach, a number too large for its type, an `assert` that fails, and a launch that CUDA would refuse.
// `printf` works in a kernel. With a GPU (`DEVICE=cuda`) the same file is compiled by nvcc and runs there,
// and where compute-sanitizer is installed, it checks the kernels as well (`ISOLATION=process`).
//
// **The traps.**
//
// - A grid rounded down. No thread computes the last rows; `out` is filled with NaN before the call, and
//   there it stays NaN.
// - A grid rounded up, and no guard: threads past the end read and write beyond the arrays.
// - Such a thread must not `return` before a `__syncthreads()` that the others reach.
// - One barrier instead of two. A tile must be complete before any thread uses it, and all
//   threads must have used it before the next tile is written over it.
// - The last tile of keys. Its empty places need the score `-INFINITY`: a score of 0 would take a share of
//   the weight.
// - `int` ends at 2,147,483,647. `h * Lq * D` of a large batch does not fit: begin with `(size_t)h`.
// - With `causal`, query `i` stands at position `i + Lk - Lq`. A row that sees nothing is 0, not NaN.
// - The pointers are addresses on the device: the host launches kernels with them, and cannot follow
//   them itself. `extern "C"` must stay, so that the functions are found under their names.
//
// **What is graded.** The values at any sizes from 1 on (heads up to 65,535), causal and not; with scores
// that rise, fall, jump by hundreds, or are all negative, down to -3e4; with any `scale`, 0 and negative
// ones too. The checks also demand that
//
// - inputs stay as they are, also if `q`, `k` and `v` are one array;
// - kernels do all the work, and no number is copied to the host;
// - the naive kernel has one thread for each query and uses no shared memory;
// - the tiled kernel brings keys and values to shared memory, once for several queries;
// - the last place of an array with more than 4 billion numbers is found.
//
// On a GPU, a run under compute-sanitizer is worth 1 point and the speed of the tiled kernel 4.
// **Out of scope:** half precision,
// tensor cores, asynchronous copies, gradients. **Not allowed:** inline PTX, and headers other than CUDA's
// runtime and the usual ones of C. About 180 minutes.

// %% [markdown] tags=["zh"]
// # 用 CUDA C++ 写注意力
//
// **问题。** GPU 有成千上万个线程。每个线程算什么、从哪种内存里读、在哪里必须互相等待？
// 同一个注意力要写两遍：第一遍一看就知道是对的，第二遍要快。
//
// **公式。** 对每个头，`scale` 由调用者给出（通常是 $1/\sqrt{D}$）：
//
// $$o_i = \sum_j w_{ij} v_j, \qquad w_{ij} = \frac{e^{s_{ij} - m_i}}{\sum_{j'} e^{s_{ij'} - m_i}},
// \qquad s_{ij} = \text{scale} \cdot q_i \cdot k_j, \qquad m_i = \max_j s_{ij}$$
//
// **线程、线程块、网格。** **核函数**（kernel）是许多线程同时执行的函数。启动时说明有多少线程：
// `kernel<<<grid, block, bytes>>>(...)` 启动 `grid` 个线程块，每块 `block` 个线程（最多 1024 个），
// 每个线程可以读出自己的编号：
//
// ```text
//    网格：3 个块            块 0             块 1             块 2
//    每块：4 个线程      [ 0 1 2 3 ]      [ 0 1 2 3 ]      [ 0 1 2 3 ]     threadIdx.x
//    线程负责的行          0 1 2 3          4 5 6 7          8 9 . .       blockIdx.x * blockDim.x
//                                                                ^ ^           + threadIdx.x
//    共 10 行：网格为 (10 + 4 - 1) / 4 = 3，向上取整，于是有两个线程无事可做
// ```
//
// 线程块以任意顺序执行，彼此不能等待。同一块里的线程可以：在 `__syncthreads()` 处，
// 每个线程都等到全体到齐。线程每 32 个组成一个**线程束**（warp），束内还可以直接交换数据
// （`__shfl_xor_sync`）。
//
// **内存。** 有三种，尽量用近的：
//
// ```text
//    寄存器              线程自己的变量                    最近
//    共享内存            每块一份，约 48 KiB               近：多个线程都要读的放到这里
//    全局内存            q、k、v、out                      远
// ```
//
// **形状。** 所有数组都是连续的 float32：`q` 和 `out` 是 `(heads, Lq, D)`，`k` 和 `v` 是
// `(heads, Lk, D)`，`heads` 是批大小乘头数。所以第 `h` 个头第 `i` 行的第 `d` 个数位于
// `q[(h * Lq + i) * D + d]`。`D` 最大为 128，不必是任何数的倍数。
//
// **手算一遍。** 查询为零时，所有分数都相等，输出就是看得见的各个值的平均；因果时看得见的值少一些。
// 检查从 Python 里调用你的函数，给出 `scale` 以及是否因果：
//
// ```pycon
// >>> zero = torch.zeros(1, 2, 1)
// >>> v = torch.tensor([[[2.0], [4.0]]])
// >>> naive_attention(zero, zero, v, 1.0, False).tolist()
// [[[3.0], [3.0]]]
// >>> tiled_attention(zero, zero, v, 1.0, True).tolist()
// [[[2.0], [3.0]]]
// ```
//
// **没有 GPU 时。** 核函数在 CPU 上一个线程一个线程地执行。这样很慢，却能比 GPU 找出更多错误：
// 每次访存之前都会检查。缺了 `__syncthreads()`，即使结果碰巧正确，报告也会指出相关的两行；
// 数组越界、读到没人写过的共享内存、有些线程到不了的同步点、放不进类型的整数、不成立的 `assert`、
// CUDA 会拒绝的启动，也都会报告。核函数里可以用 `printf`。有 GPU 时（`DEVICE=cuda`），同一个文件由 nvcc
// 编译并在 GPU 上运行；装有 compute-sanitizer 时，也用它检查一遍（`ISOLATION=process`）。
//
// **陷阱。**
//
// - 网格向下取整。最后几行没有线程计算；`out` 在调用前填满 NaN，那里就一直是 NaN。
// - 网格向上取整，却没有边界判断：末尾之外的线程会读写数组之外的地方。
// - 这样的线程不能在其他线程要到达的 `__syncthreads()` 之前 `return`。
// - 该有两个同步点，却只有一个。一块数据要全部到位才能用，要所有线程都用完才能被下一块覆盖。
// - 最后一块键。空着的位置，分数必须是 `-INFINITY`：0 会参与进来。
// - `int` 最大是 2,147,483,647。批很大时 `h * Lq * D` 放不下：从 `(size_t)h` 开始乘。
// - `causal` 时，查询 `i` 位于位置 `i + Lk - Lq`。什么都看不到的行是 0，不是 NaN。
// - 传进来的指针是设备上的地址：主机把它们交给核函数，自己不能去读写。`extern "C"` 要保留，
//   这样才能按名字找到函数。
//
// **评分内容。** 从 1 开始的各种大小（头最多 65,535 个）下的数值，因果与非因果；上升、下降、跳变几百、
// 或者全为负（低至 -3e4）的分数；任意的 `scale`，包括 0 和负数；输入保持不变，
// `q`、`k`、`v` 是同一个数组时也一样；
// 计算全部由核函数完成，不把数拷贝到主机；朴素核函数每个查询一个线程，不用共享内存；
// 分块核函数把键和值装入共享内存，装一次供多个查询使用；数组超过 40 亿个数时，最后的位置也要找对；
// 在 GPU 上，compute-sanitizer 的检查占 1 分，分块核函数的速度占 4 分。
// **不在范围内：** 半精度、张量核心、异步拷贝、梯度。
// **不允许：** 内联 PTX，以及 CUDA 运行时和常用 C 头文件之外的头文件。大约 180 分钟。

// %%
#include <cuda_runtime.h>
#include <math.h>

// %% [markdown] tags=["en"]
// ## One thread, one query
//
// The first kernel is the formula itself. Number the `heads * Lq` rows of `out`; a thread takes one,
// finds its head and its query, and goes over the keys: once for the largest score, once more for the
// weights. Nothing is shared, so no thread waits, and none needs to know how large a block is.
//
// It is slow for one reason: every thread fetches all keys and values from global memory for itself.

// %% [markdown] tags=["zh"]
// ## 一个线程，一个查询
//
// 第一个核函数就是公式本身。给 `out` 的 `heads * Lq` 行编号；每个线程取一行，
// 算出它的头和查询，再把键走两遍：一遍求最大分数，一遍求权重。
// 没有共享的东西，所以线程不必互相等待，也不必知道块有多大。
//
// 它慢的原因只有一个：每个线程都为自己从全局内存里取全部的键和值。

// %%
/// BEGIN SOLUTION
/// The dot product of two rows of D numbers.
__device__ float dot(const float* a, const float* b, int D) {
  float sum = 0.0f;
  for (int d = 0; d < D; ++d) sum += a[d] * b[d];
  return sum;
}
/// END SOLUTION

/// Compute a row of the output in one thread: the largest score, the weights, the weighted values.
__global__ void naive_attention_kernel(const float* q, const float* k, const float* v, float* out,
                                       int heads, int Lq, int Lk, int D, float scale, int causal) {
  /// BEGIN SOLUTION
  size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;  // of all heads * Lq rows
  if (row >= (size_t)heads * Lq) return;
  size_t head = row / Lq;
  int i = row % Lq;
  int seen = causal ? min(i + Lk - Lq + 1, Lk) : Lk;  // the number of keys that this query sees

  q += row * D;            // (D)
  k += head * Lk * D;      // (Lk, D)
  v += head * Lk * D;      // (Lk, D)
  out += row * D;          // (D)

  float largest = -INFINITY;
  for (int j = 0; j < seen; ++j) largest = fmaxf(largest, scale * dot(q, k + (size_t)j * D, D));

  float sum = 0.0f;
  for (int d = 0; d < D; ++d) out[d] = 0.0f;
  for (int j = 0; j < seen; ++j) {
    float weight = expf(scale * dot(q, k + (size_t)j * D, D) - largest);
    sum += weight;
    for (int d = 0; d < D; ++d) out[d] += weight * v[(size_t)j * D + d];
  }
  if (sum > 0.0f)
    for (int d = 0; d < D; ++d) out[d] /= sum;
  /// END SOLUTION
}

/// Launch the naive kernel with one thread for each of the heads * Lq rows; others stay idle.
/// The scale may be any number, 0 and negative ones too; causal is 0 or 1. Each row of out is written,
/// that of a query that sees nothing with 0. Memory from cudaMalloc is gone when the call has ended.
extern "C" void naive_attention(const float* q, const float* k, const float* v, float* out,
                                int heads, int Lq, int Lk, int D, float scale, int causal) {
  /// BEGIN SOLUTION
  const int threads = 128;
  size_t rows = (size_t)heads * Lq;
  unsigned blocks = (rows + threads - 1) / threads;  // the last one may be partly idle
  naive_attention_kernel<<<blocks, threads>>>(q, k, v, out, heads, Lq, Lk, D, scale, causal);
  /// END SOLUTION
}

// %% [markdown] tags=["en"]
// ## One block, one tile of queries
//
// Now a block takes a tile of queries, and goes over the keys in tiles as well:
//
// ```text
//                   k, v  | tile 0 | tile 1 | tile 2 |            for each tile of keys and values:
//    q    first ->  ......|........|........|........|               all threads load it   (shared)
//         + TILE    ......|........|........|........|               __syncthreads()
//                         one block goes this way -->                all threads use it
//                                                                    __syncthreads()
// ```
//
// A key that has been loaded once serves all queries of the block. The weights of a row are never in
// memory all at once, so the softmax is taken *online*: beside the output so far, keep the largest score
// $m$ and the sum $l$ of the weights. When a tile brings a larger maximum $m'$, what was summed up before
// is multiplied by $e^{m - m'}$, output and sum alike. At the end the output is divided by the sum.
//
// You decide how the work of a tile is spread over the threads. One thread for each query is a good
// beginning. Faster is a thread for several queries and keys at a time, since a number that is in a
// register can be used for all of them.

// %% [markdown] tags=["zh"]
// ## 一个线程块，一块查询
//
// 现在一个线程块负责一块查询，键也一块一块地走：
//
// ```text
//                   k, v  |  块 0  |  块 1  |  块 2  |            对每一块键和值：
//    q    first ->  ......|........|........|........|               全体线程把它装入共享内存
//         + TILE    ......|........|........|........|               __syncthreads()
//                         线程块沿这个方向走 -->                     全体线程使用它
//                                                                    __syncthreads()
// ```
//
// 键装入一次，就供线程块里所有的查询使用。一行的权重从来不会同时在手，所以 softmax 要**在线**地算：
// 除了到目前为止的输出，还要记住最大分数 $m$ 和权重之和 $l$。某一块带来更大的最大值 $m'$ 时，
// 之前累加的都要乘以 $e^{m - m'}$，输出和总和都一样。最后用输出除以总和。
//
// 一块的工作怎样分给各个线程，由你决定。先让一个线程负责一个查询就很好。
// 让一个线程同时负责几个查询和几个键会更快，因为寄存器里的一个数可以给它们全体使用。

// %%
/// BEGIN SOLUTION
constexpr int TILE = 32;           // queries of a block, and keys of a tile
constexpr int SIDE = 8;            // a block has SIDE x SIDE threads
constexpr int EACH = TILE / SIDE;  // a thread has EACH x EACH of the scores: rows y + SIDE * i
constexpr int COLUMNS = 4;         // and of the output, in EACH rows, COLUMNS times four columns
constexpr int WEIGHTS = TILE + 4;  // from one row of the tile of weights to the next

/// From one row of a tile to the next: whole float4s, and four banks further than the last row.
__host__ __device__ int stride_of(int D) { return (D + 3) / 4 * 4 + 4; }

/// Copies rows (count, D) into a tile (TILE, stride); what is not there becomes 0.
__device__ void load(float* tile, const float* rows, int count, int D) {
  int stride = stride_of(D);
  for (int r = threadIdx.y; r < TILE; r += SIDE)
    for (int d = threadIdx.x; d < stride; d += SIDE)
      tile[r * stride + d] = r < count && d < D ? rows[(size_t)r * D + d] : 0.0f;
}

__device__ float4 four(const float* x) { return *reinterpret_cast<const float4*>(x); }

/// The largest, and the sum, over the SIDE threads of a row, which are neighbours in a warp.
__device__ float row_max(float x) {
  for (int other = SIDE / 2; other > 0; other /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, other));
  return x;
}
__device__ float row_sum(float x) {
  for (int other = SIDE / 2; other > 0; other /= 2) x += __shfl_xor_sync(0xffffffff, x, other);
  return x;
}
/// END SOLUTION

/// Compute a tile of queries in a block, going over tiles of keys and values in shared memory.
__global__ void tiled_attention_kernel(const float* q, const float* k, const float* v, float* out,
                                       int heads, int Lq, int Lk, int D, float scale, int causal) {
  /// BEGIN SOLUTION
  extern __shared__ __align__(16) float shared[];
  int stride = stride_of(D);
  float* q_tile = shared;                   // (TILE, stride)
  float* k_tile = q_tile + TILE * stride;   // (TILE, stride)
  float* v_tile = k_tile + TILE * stride;   // (TILE, stride)
  float* weights = v_tile + TILE * stride;  // (TILE, WEIGHTS)

  int x = threadIdx.x, y = threadIdx.y;
  int first = blockIdx.x * TILE;  // the first query of this block
  size_t head = blockIdx.y;
  q += (head * Lq + first) * D;
  out += (head * Lq + first) * D;
  k += head * Lk * D;
  v += head * Lk * D;
  load(q_tile, q, Lq - first, D);

  float largest[EACH], sum[EACH];           // of the rows y + SIDE * i, so far
  float4 output[EACH][COLUMNS];             // not yet divided by the sum
  for (int i = 0; i < EACH; ++i) {
    largest[i] = -INFINITY;
    sum[i] = 0.0f;
    for (int c = 0; c < COLUMNS; ++c) output[i][c] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }

  int offset = Lk - Lq;  // query i stands at position i + offset
  int end = causal ? min(first + TILE + offset, Lk) : Lk;  // no query of the block sees more keys
  for (int start = 0; start < end; start += TILE) {
    __syncthreads();  // nobody reads the last tile any more
    load(k_tile, k + (size_t)start * D, Lk - start, D);
    load(v_tile, v + (size_t)start * D, Lk - start, D);
    __syncthreads();  // everybody's part of this one is there

    float score[EACH][EACH] = {};  // of query y + SIDE * i and key x + SIDE * j
    for (int d = 0; d < D; d += 4) {
      float4 key[EACH];
#pragma unroll
      for (int j = 0; j < EACH; ++j) key[j] = four(k_tile + (x + SIDE * j) * stride + d);
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        float4 query = four(q_tile + (y + SIDE * i) * stride + d);
#pragma unroll
        for (int j = 0; j < EACH; ++j)
          score[i][j] += query.x * key[j].x + query.y * key[j].y + query.z * key[j].z +
                         query.w * key[j].w;
      }
    }

#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      int row = y + SIDE * i;
      int seen = causal ? min(first + row + offset + 1, Lk) : Lk;
      float top = -INFINITY;
#pragma unroll
      for (int j = 0; j < EACH; ++j) {
        bool keep = start + x + SIDE * j < seen;
        score[i][j] = keep ? score[i][j] * scale : -INFINITY;
        top = fmaxf(top, score[i][j]);
      }
      top = fmaxf(largest[i], row_max(top));
      float shift = top == -INFINITY ? 0.0f : top;  // a row that has seen nothing yet
      float shrink = expf(largest[i] - shift);      // what came before, on the new scale
      float part = 0.0f;
#pragma unroll
      for (int j = 0; j < EACH; ++j) {
        float weight = expf(score[i][j] - shift);
        weights[row * WEIGHTS + x + SIDE * j] = weight;
        part += weight;
      }
      largest[i] = top;
      sum[i] = sum[i] * shrink + row_sum(part);
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) {
        output[i][c].x *= shrink;
        output[i][c].y *= shrink;
        output[i][c].z *= shrink;
        output[i][c].w *= shrink;
      }
    }
    __syncwarp();  // the weights of a row are written and read within one warp

    for (int j = 0; j < TILE; ++j)
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) {
        int column = 4 * (x + SIDE * c);
        if (column >= D) break;
        float4 value = four(v_tile + j * stride + column);
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
          float weight = weights[(y + SIDE * i) * WEIGHTS + j];
          output[i][c].x += weight * value.x;
          output[i][c].y += weight * value.y;
          output[i][c].z += weight * value.z;
          output[i][c].w += weight * value.w;
        }
      }
  }

  for (int i = 0; i < EACH; ++i) {
    int row = y + SIDE * i;
    if (first + row >= Lq) continue;
    float share = sum[i] > 0.0f ? 1.0f / sum[i] : 0.0f;  // a row that saw nothing is 0
    for (int c = 0; c < COLUMNS; ++c) {
      float4 o = output[i][c];
      float four_columns[4] = {o.x, o.y, o.z, o.w};
      for (int d = 0; d < 4; ++d) {
        int column = 4 * (x + SIDE * c) + d;
        if (column < D) out[(size_t)row * D + column] = four_columns[d] * share;
      }
    }
  }
  /// END SOLUTION
}

/// Launch the tiled kernel with a block for each tile of queries, and the shared memory it needs.
/// Heads are at most 65,535, D is at most 128; the rest is as for naive_attention.
extern "C" void tiled_attention(const float* q, const float* k, const float* v, float* out,
                                int heads, int Lq, int Lk, int D, float scale, int causal) {
  /// BEGIN SOLUTION
  dim3 grid((Lq + TILE - 1) / TILE, heads);
  dim3 block(SIDE, SIDE);
  size_t bytes = (3 * TILE * stride_of(D) + TILE * WEIGHTS) * sizeof(float);
  // Above 48 KiB a kernel has to ask first.
  cudaFuncSetAttribute(tiled_attention_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       (int)bytes);
  tiled_attention_kernel<<<grid, block, bytes>>>(q, k, v, out, heads, Lq, Lk, D, scale, causal);
  /// END SOLUTION
}
