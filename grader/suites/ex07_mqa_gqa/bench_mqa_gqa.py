"""The memory case of grouped-query attention."""

from grader.judging import speed


@speed(points=2)
def bench_decode_memory(draw):
    """The peak memory of one decode step over 16,384 keys: repeated keys and values earn 0."""
    q, (k, v) = draw.normal(1, 32, 1, 64), (draw.normal(1, 2, 16384, 64) for _ in range(2))
    return "grouped_query_attention", (q, k, v)
