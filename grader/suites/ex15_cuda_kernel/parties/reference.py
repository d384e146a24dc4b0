"""The reference: PyTorch's memory-efficient kernel, in float32."""

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def tiled_attention(q, k, v, scale, causal):
    """q (..., L, D), k (..., L, D), v (..., L, D) -> (..., L, D)."""
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        return scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
