"""The memory case of tiled attention."""

from grader.judging import agree, speed
from reference import ex10_online_softmax as reference

# More keys than queries, and narrow: what honest code keeps beside a tile is then small beside the
# table of scores, 256 MiB, which the zero turns into its exponentials in place.
QUERIES, KEYS, WIDTH, BLOCK = 4096, 16384, 32, 64
ROWS = 16  # verified in each round
LOUD = 4.0  # times the usual scores, so that a table in half precision is far off
ROUNDINGS = 16.0  # those of 256 tiles add up to so many times those of one


@speed(points=4, measures="memory")
def bench_peak_memory(race):
    """The peak memory does not grow as Lq x Lk, at 4096 queries and 16,384 keys: one whole table of
    scores earns 0."""
    for draw in race:
        q = draw.normal(1, 1, QUERIES, WIDTH, scale=LOUD)
        k, v = (draw.normal(1, 1, KEYS, WIDTH) for _ in range(2))
        rows = draw.permutation(QUERIES)[:ROWS].tolist()
        expected = [_row(q, k, v, i) for i in rows]
        for output, lse in race.time("flash_attention", q, k, v, causal=True, block_size=BLOCK):
            for i, right in zip(rows, expected, strict=True):
                agree(output[..., i : i + 1, :], right[0], says=f"row {i} of output")
                agree(lse[..., i : i + 1], right[1], says=f"row {i} of lse")


def _row(q, k, v, i):
    """The answer to one query, which is given no key that it may not see."""
    seen = i + 1 + KEYS - QUERIES
    found = reference.flash_attention(q[..., i : i + 1, :], k[..., :seen, :], v[..., :seen, :])
    return [one._replace(magnitude=ROUNDINGS * one.magnitude) for one in found]
