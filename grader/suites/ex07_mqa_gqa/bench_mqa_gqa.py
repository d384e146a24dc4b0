"""The memory case of grouped-query attention."""

import reference
from grader.judging import agree, speed


@speed(points=2, measures="memory")
def bench_decode_memory(race):
    """The peak memory of one decode step over 16,384 keys: repeated keys and values earn 0."""
    for draw in race:
        q = draw.normal(1, 32, 1, 64)
        k, v = (draw.normal(1, 2, 16384, 64) for _ in range(2))
        expected = reference.grouped_query_attention(q, k, v)
        for found in race.time("grouped_query_attention", q, k, v):
            agree(found, expected)
