"""The speed case of scaled dot-product attention."""

from grader.judging import speed


@speed(points=3)
def bench_attention(draw):
    """As fast as the best code that returns its weights; a loop over heads and rows earns 0."""
    return "scaled_dot_product_attention", tuple(draw.normal(1, 8, 512, 64) for _ in range(3))
