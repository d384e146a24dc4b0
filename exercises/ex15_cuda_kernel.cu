// Skeleton ex15_cuda_kernel 6e41dea3e914b00f. The lesson: docs/lessons/ex15_cuda_kernel.en.md
// Attention in CUDA C++: write the bodies, then run `make grade EX=ex15_cuda_kernel`.
//
// Write the kernels with CUDA's own language: threads, blocks, shared memory, __syncthreads.

#include <cuda_runtime.h>
#include <math.h>

/// Compute a row of the output in one thread: the largest score, the weights, the weighted values.
__global__ void naive_attention_kernel(const float* q, const float* k, const float* v, float* out,
                                       int heads, int Lq, int Lk, int D, float scale, int causal) {
}

/// Launch the naive kernel with one thread for each of the heads * Lq rows; others stay idle.
/// The scale may be any number, 0 and negative ones too; causal is 0 or 1. Each row of out is written,
/// that of a query that sees nothing with 0. Memory from cudaMalloc is gone when the call has ended.
extern "C" void naive_attention(const float* q, const float* k, const float* v, float* out,
                                int heads, int Lq, int Lk, int D, float scale, int causal) {
}

/// Compute a tile of queries in a block, going over tiles of keys and values in shared memory.
__global__ void tiled_attention_kernel(const float* q, const float* k, const float* v, float* out,
                                       int heads, int Lq, int Lk, int D, float scale, int causal) {
}

/// Launch the tiled kernel with a block for each tile of queries, and the shared memory it needs.
/// Heads are at most 65,535, D is at most 128; the rest is as for naive_attention.
extern "C" void tiled_attention(const float* q, const float* k, const float* v, float* out,
                                int heads, int Lq, int Lk, int D, float scale, int causal) {
}
