"""Right kernels written otherwise: edits of the solution's text that must earn everything."""

from grader.judging import variant

NAIVE, TILED = "naive_attention", "tiled_attention"
PARAMETERS = """const float* q, const float* k, const float* v, float* out,
                 int heads, int Lq, int Lk, int D, float scale, int causal"""
NAIVE_DOOR = 'extern "C" void naive_attention('
TILED_DOOR = 'extern "C" void tiled_attention('
NAIVE_LAUNCH = (
    "naive_attention_kernel<<<blocks, threads>>>(q, k, v, out, heads, Lq, Lk, D, scale, causal);"
)
TILED_LAUNCH = (
    "tiled_attention_kernel<<<grid, block, bytes>>>(q, k, v, out, heads, Lq, Lk, D, scale, causal);"
)
ARGUMENTS = "(q, k, v, out, heads, Lq, Lk, D, scale, causal)"


def another(kernel, door, launch, instead):
    """Edits that put a kernel before the function and launch it instead."""
    return [(door, f"{kernel}\n\n{door}"), (launch, f"{instead}{ARGUMENTS};")]


ONE_PASS = f"""
// One pass with a running maximum, the output in registers (or local memory).
__global__ void one_pass({PARAMETERS}) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= Lq) return;
  size_t head = blockIdx.y;
  const float* query = q + (head * Lq + i) * D;
  float sum[128], m = -INFINITY, l = 0.f;
  for (int d = 0; d < D; ++d) sum[d] = 0.f;
  for (int j = 0; j < Lk; ++j) {{
    if (causal && j > i + Lk - Lq) break;
    const float *key = k + (head * Lk + j) * D, *value = v + (head * Lk + j) * D;
    float s = 0.f;
    for (int d = 0; d < D; ++d) s += query[d] * key[d];
    s *= scale;
    float top = fmaxf(m, s), old = __expf(m - top), p = __expf(s - top);
    l = l * old + p;
    for (int d = 0; d < D; ++d) sum[d] = sum[d] * old + p * value[d];
    m = top;
  }}
  for (int d = 0; d < D; ++d) out[(head * Lq + i) * D + d] = l > 0.f ? __fdividef(sum[d], l) : 0.f;
}}
"""


@variant(of=NAIVE, edits=another(ONE_PASS, NAIVE_DOOR, NAIVE_LAUNCH,
                                 "one_pass<<<dim3((Lq + 63) / 64, heads), 64>>>"))  # fmt: skip
def naive_one_pass_heads_in_y():
    """A block for 64 queries of one head; one pass, the row kept by its thread."""


STRIDED = f"""
// As many blocks as there are, each with rows far apart; sums in double.
__global__ void strided({PARAMETERS}) {{
  size_t rows = size_t(heads) * Lq, step = size_t(gridDim.x) * blockDim.x;
  for (size_t row = blockIdx.x * size_t(blockDim.x) + threadIdx.x; row < rows; row += step) {{
    const size_t first = row / Lq * Lk;
    const int n = causal ? max(0, min(Lk, int(row % Lq) + Lk - Lq + 1)) : Lk;
    double top = -INFINITY, total = 0, sum[128] = {{}};
    auto score = [&](int j) {{
      double s = 0;
      for (int d = 0; d < D; ++d) s += double(q[row * D + d]) * k[(first + j) * D + d];
      return s * scale;
    }};
    for (int j = 0; j < n; ++j) top = fmax(top, score(j));
    for (int j = 0; j < n; ++j) {{
      double weight = exp(score(j) - top);
      total += weight;
      for (int d = 0; d < D; ++d) sum[d] += weight * v[(first + j) * D + d];
    }}
    for (int d = 0; d < D; ++d) out[row * D + d] = n ? float(sum[d] / total) : 0.f;
  }}
}}
"""


@variant(of=NAIVE, edits=another(STRIDED, NAIVE_DOOR, NAIVE_LAUNCH,
                                 "strided<<<min((int)blocks, 2048), 256>>>"))  # fmt: skip
def naive_grid_stride_in_double():
    """A loop over rows with the stride of the grid, sums in double."""


@variant(of=NAIVE, edits=[("const int threads = 128;", "const int threads = 1024;")])
def naive_largest_blocks():
    """The largest block there can be."""


@variant(of=TILED, edits=[("TILE = 32;", "TILE = 16;"), ("SIDE = 8;", "SIDE = 4;"),
                          ("COLUMNS = 4;", "COLUMNS = 8;")])  # fmt: skip
def tiled_half_a_warp():
    """Tiles of 16 with 16 threads, fewer than a warp has."""


WARP_PER_ROW = f"""
// A warp for each query, eight in a block; a tile of 32 keys and values serves them all.
__global__ void warp_per_row({PARAMETERS}) {{
  extern __shared__ float tile[];
  float *keys = tile, *values = tile + 32 * (D + 1);
  const unsigned all = 0xffffffffu;
  int lane = threadIdx.x, warp = threadIdx.y, i = blockIdx.x * blockDim.y + warp;
  size_t head = blockIdx.y;
  float sum[4] = {{0.f, 0.f, 0.f, 0.f}}, m = -INFINITY, l = 0.f;
  for (int start = 0; start < Lk; start += 32) {{
    for (int n = warp * 32 + lane; n < 32 * D; n += 256) {{
      int j = n / D, d = n % D;
      bool there = start + j < Lk;
      keys[j * (D + 1) + d] = there ? k[(head * Lk + start + j) * D + d] : 0.f;
      values[j * (D + 1) + d] = there ? v[(head * Lk + start + j) * D + d] : 0.f;
    }}
    __syncthreads();
    int j = start + lane;
    bool keep = i < Lq && j < Lk && (!causal || j <= i + Lk - Lq);
    float s = -INFINITY;
    if (keep) {{
      s = 0.f;
      for (int d = 0; d < D; ++d) s += q[(head * Lq + i) * D + d] * keys[lane * (D + 1) + d];
      s *= scale;
    }}
    float top = s;
    for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_down_sync(all, top, o));
    top = fmaxf(m, __shfl_sync(all, top, 0));
    float old = m == -INFINITY ? 0.f : expf(m - top), p = keep ? expf(s - top) : 0.f, part = p;
    for (int o = 16; o; o >>= 1) part += __shfl_xor_sync(all, part, o);
    l = l * old + part;
    for (int c = 0; c < 4; ++c) sum[c] *= old;
    for (int other = 0; other < 32; ++other) {{
      float w = __shfl_sync(all, p, other);
      for (int c = 0; c < 4; ++c)
        if (lane + 32 * c < D) sum[c] += w * values[other * (D + 1) + lane + 32 * c];
    }}
    m = top;
    __syncthreads();
  }}
  if (i < Lq)
    for (int c = 0; c < 4; ++c)
      if (lane + 32 * c < D) out[(head * Lq + i) * D + lane + 32 * c] = l > 0.f ? sum[c] / l : 0.f;
}}
"""


@variant(of=TILED, edits=another(WARP_PER_ROW, TILED_DOOR, TILED_LAUNCH,
    "warp_per_row<<<dim3((Lq + 7) / 8, heads), dim3(32, 8), 2 * 32 * (D + 1) * sizeof(float)>>>"),
)  # fmt: skip
def tiled_warp_per_row():
    """A warp for each query, with shuffles; eight of them share a tile."""


THREAD_PER_ROW = f"""
// A thread for each query, as the first FlashAttention is often taught; widths by template.
template <int WIDTH>
__global__ void __launch_bounds__(64) thread_per_row({PARAMETERS}) {{
  __shared__ float keys[16][WIDTH], values[16][WIDTH];
  int i = blockIdx.x * 64 + threadIdx.x;
  size_t head = blockIdx.y;
  float query[WIDTH], sum[WIDTH], m = -INFINITY, l = 0.f;
#pragma unroll
  for (int d = 0; d < WIDTH; ++d) {{
    query[d] = i < Lq && d < D ? q[(head * Lq + i) * D + d] : 0.f;
    sum[d] = 0.f;
  }}
  for (int start = 0; start < Lk; start += 16) {{
    __syncthreads();
    for (int n = threadIdx.x; n < 16 * WIDTH; n += 64) {{
      int j = n / WIDTH, d = n % WIDTH;
      bool there = start + j < Lk && d < D;
      keys[j][d] = there ? k[(head * Lk + start + j) * D + d] : 0.f;
      values[j][d] = there ? v[(head * Lk + start + j) * D + d] : 0.f;
    }}
    __syncthreads();
    for (int j = 0; j < 16; ++j) {{
      if (start + j >= Lk || (causal && start + j > i + Lk - Lq)) break;
      float s = 0.f;
      for (int d = 0; d < WIDTH; ++d) s += query[d] * keys[j][d];
      s *= scale;
      float top = fmaxf(m, s), old = expf(m - top), p = expf(s - top);
      l = l * old + p;
      for (int d = 0; d < WIDTH; ++d) sum[d] = sum[d] * old + p * values[j][d];
      m = top;
    }}
  }}
  if (i < Lq)
    for (int d = 0; d < D; ++d) out[(head * Lq + i) * D + d] = l > 0.f ? sum[d] / l : 0.f;
}}
"""


@variant(of=TILED, edits=[
    (TILED_DOOR, f"{THREAD_PER_ROW}\n\n{TILED_DOOR}"),
    (TILED_LAUNCH, f"dim3 rows((Lq + 63) / 64, heads);\n"
     f"  if (D <= 32) thread_per_row<32><<<rows, 64>>>{ARGUMENTS};\n"
     f"  else if (D <= 64) thread_per_row<64><<<rows, 64>>>{ARGUMENTS};\n"
     f"  else thread_per_row<128><<<rows, 64>>>{ARGUMENTS};"),
])  # fmt: skip
def tiled_thread_per_row():
    """A thread for each query, static shared memory, templates over the width."""


@variant(of=TILED, edits=[
    ("      tile[r * stride + d] = r < count && d < D ? rows[(size_t)r * D + d] : 0.0f;",
     "      tile[r * stride + d] = 0.0f;\n"
     "  __syncthreads();\n"
     "  if (D % 4 == 0) {\n"
     "    for (int r = threadIdx.y; r < min(count, TILE); r += SIDE)\n"
     "      for (int d = 4 * threadIdx.x; d < D; d += 4 * SIDE)\n"
     "        *(float4*)(tile + r * stride + d) = *(const float4*)(rows + (size_t)r * D + d);\n"
     "  } else {\n"
     "    for (int r = threadIdx.y; r < min(count, TILE); r += SIDE)\n"
     "      for (int d = threadIdx.x; d < D; d += SIDE)\n"
      "        tile[r * stride + d] = rows[(size_t)r * D + d];\n"
     "  }"),
    ("expf(largest[i] - shift)", "exp2f((largest[i] - shift) * 1.44269504f)"),
    ("expf(score[i][j] - shift)", "exp2f((score[i][j] - shift) * 1.44269504f)"),
])  # fmt: skip
def tiled_four_at_a_time():
    """Four numbers a load where the width allows it, and powers of two for exp."""


STRUCT = f"""
// Two tiles of each in turn, in a struct without a name: the next is loaded while one is used.
__global__ void in_a_struct({PARAMETERS}) {{
  __shared__ struct {{
    float keys[2][16][128];
    float values[1][16][128];
  }} tile;
  int i = blockIdx.x * 64 + threadIdx.x, tiles = (Lk + 15) / 16;
  size_t head = blockIdx.y;
  float sum[128] = {{}}, m = -INFINITY, l = 0.f;
  auto fetch = [&](float (*to)[128], const float* rows, int start) {{
    for (int n = threadIdx.x; n < 16 * D; n += 64)
      to[n / D][n % D] = start + n / D < Lk ? rows[(head * Lk + start + n / D) * D + n % D] : 0.f;
  }};
  fetch(tile.keys[0], k, 0);
  for (int t = 0; t < tiles; ++t) {{
    fetch(tile.values[0], v, 16 * t);
    __syncthreads();
    fetch(tile.keys[(t + 1) % 2], k, 16 * t + 16);
    for (int j = 0; j < 16 && i < Lq; ++j) {{
      if (16 * t + j >= Lk || (causal && 16 * t + j > i + Lk - Lq)) break;
      float s = 0.f;
      for (int d = 0; d < D; ++d) s += q[(head * Lq + i) * D + d] * tile.keys[t % 2][j][d];
      s *= scale;
      float top = fmaxf(m, s), old = expf(m - top), p = expf(s - top);
      l = l * old + p;
      for (int d = 0; d < D; ++d) sum[d] = sum[d] * old + p * tile.values[0][j][d];
      m = top;
    }}
    __syncthreads();
  }}
  if (i < Lq)
    for (int d = 0; d < D; ++d) out[(head * Lq + i) * D + d] = l > 0.f ? sum[d] / l : 0.f;
}}
"""


@variant(of=TILED, edits=another(STRUCT, TILED_DOOR, TILED_LAUNCH,
                                 "in_a_struct<<<dim3((Lq + 63) / 64, heads), 64>>>"))  # fmt: skip
def tiled_in_a_struct():
    """Tiles in a shared struct without a name, the keys in two buffers."""


CHECKED = """
#define CHECK(call)                                                                     \\
  do {                                                                                  \\
    cudaError_t code = (call);                                                          \\
    if (code != cudaSuccess) {                                                          \\
      fprintf(stderr, "%s at %s:%d\\n", cudaGetErrorString(code), __FILE__, __LINE__);   \\
      exit(1);                                                                          \\
    }                                                                                   \\
  } while (0)
"""


@variant(of=TILED, edits=[
    ("#include <math.h>", f"#include <math.h>\n#include <assert.h>\n#include <stdio.h>\n{CHECKED}"),
    ("  load(q_tile, q, Lq - first, D);", "  assert(D <= 128);\n  load(q_tile, q, Lq - first, D);"),
    (TILED_LAUNCH, "static cudaDeviceProp device;\n"
     "  if (device.warpSize == 0) CHECK(cudaGetDeviceProperties(&device, 0));\n"
     "  int number, most;\n"
     "  CHECK(cudaGetDevice(&number));\n"
     "  CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, number));\n"
     "  assert(bytes <= most && bytes <= device.sharedMemPerBlockOptin);\n"
     "  cudaStream_t stream;\n"
     "  CHECK(cudaStreamCreate(&stream));\n"
     "  CHECK(cudaMemsetAsync(out, 0, (size_t)heads * Lq * min(D, 2) * sizeof(float), stream));\n"
     f"  tiled_attention_kernel<<<grid, block, bytes, stream>>>{ARGUMENTS};\n"
     "  CHECK(cudaGetLastError());\n"
     "  CHECK(cudaStreamSynchronize(stream));\n"
     "  CHECK(cudaStreamDestroy(stream));"),
])  # fmt: skip
def tiled_checked_on_a_stream():
    """On a stream, with every call checked and the device asked for its limits."""
