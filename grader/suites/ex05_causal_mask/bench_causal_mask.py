"""The speed case of causal attention."""

from grader.judging import speed


@speed(points=2)
def bench_causal_attention(draw):
    """As fast as PyTorch's fused operator; the textbook's causal attention earns 0."""
    return "causal_attention", tuple(draw.normal(1, 4, 2048, 64) for _ in range(3))
