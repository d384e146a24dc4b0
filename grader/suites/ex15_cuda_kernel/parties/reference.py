"""The reference: PyTorch's matrix products, in float32.

Its fused kernel for float32 runs on tensor cores, in three products of TF32 (CUTLASS' "fast F32").
A kernel in plain CUDA C++ cannot, and neither do the matrix products while TF32 is off.
"""

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def tiled_attention(q, k, v, scale, causal):
    """q (..., L, D), k (..., L, D), v (..., L, D) -> (..., L, D)."""
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
