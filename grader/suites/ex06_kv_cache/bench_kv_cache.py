"""The speed case of the key/value cache."""

from grader.judging import speed


@speed(points=3)
def bench_decode(draw):
    """One token at context 4096 as fast as a preallocated cache; full recomputation earns 0."""
    return "CachedAttention", (512, 8)
