"""The speed case of the production path."""

import torch

from grader.judging import speed


@speed(points=4, cuda=True)
def bench_fast_attention(draw):
    """As fast as PyTorch's fastest fused kernel; its math backend earns 0."""
    shape = (4, 16, 4096, 128)
    q, k, v = (draw.normal(*shape, dtype=torch.bfloat16) for _ in range(3))
    return "fast_attention", (q, k, v, None, True)
