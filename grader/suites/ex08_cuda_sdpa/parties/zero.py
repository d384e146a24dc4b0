"""The zero: PyTorch's operator on its math backend, which stores the scores."""

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def fast_attention(q, k, v, causal=False):
    """q (B, H, L, D), k (B, H, L, D), v (B, H, L, D) -> (B, H, L, D)."""
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(q, k, v, is_causal=causal)


def best_backend(q, k, v, keep=None, causal=False):
    """Return the name of the math backend, the only one allowed here."""
    return "math: pinned"
