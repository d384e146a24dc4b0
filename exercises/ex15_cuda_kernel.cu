// Skeleton ex15_cuda_kernel acc659abc6302db0. The lesson: docs/lessons/ex15_cuda_kernel.en.md
// Attention in CUDA C++: write the bodies, then run `make grade EX=ex15_cuda_kernel`.
//
// Write the kernels with CUDA's own language: threads, blocks, shared memory, __syncthreads.

#include <cuda_runtime.h>
#include <math.h>

/// Compute a row of the output in one thread: the largest score, the weights, the weighted values.
__global__ void naive_attention_kernel(const float* q, const float* k, const float* v, float* out,
                                       int heads, int Lq, int Lk, int D, float scale, int causal) {
}

/// Launch the naive kernel with one thread for each of the heads * Lq rows.
extern "C" void naive_attention(const float* q, const float* k, const float* v, float* out,
                                int heads, int Lq, int Lk, int D, float scale, int causal) {
}

/// Compute a tile of queries in a block, going over tiles of keys and values in shared memory.
__global__ void tiled_attention_kernel(const float* q, const float* k, const float* v, float* out,
                                       int heads, int Lq, int Lk, int D, float scale, int causal) {
}

/// Launch the tiled kernel with a block for each tile of queries, and the shared memory it needs.
extern "C" void tiled_attention(const float* q, const float* k, const float* v, float* out,
                                int heads, int Lq, int Lk, int D, float scale, int causal) {
}
