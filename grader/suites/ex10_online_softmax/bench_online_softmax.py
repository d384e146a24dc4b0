"""The memory case of tiled attention: one process runs three calls, its highest peak counts.

In each call a whole table of scores, or a copy of a whole row, takes 256 MiB, even if the scores
become exponentials in place. An answer in blocks may well hold the little that is beside these.
Tensors that are sent to the process are not counted.
"""

from torch import float32, float64

from grader.judging import agree, speed
from reference import ex10_online_softmax as reference

# More keys than queries, and narrow: the inputs and the output are small beside the table.
MANY = {"heads": 1, "queries": 2048, "keys": 32768, "width": 32, "dtype": float32}
# So few queries that an answer may well take them at once. Keys and values are as narrow as can be,
# and as wide numbers as can be: a copy of them is a sixteenth of the table, and there is no other
# reason for one. Even two queries at a time, over whole rows, cost half the points.
FEW = {"heads": 8, "queries": 16, "keys": 1 << 18, "width": 1, "dtype": float64}
ROWS = 8  # verified of each answer
LOUD = 4.0  # times the usual scores, so that a table in half precision is far off
ROUNDINGS = 64.0  # those of many tiles add up to so many times those of one

BLOCK, TURNS = 1 << 16, 1100  # columns that are read at once; how often the row repeats itself


@speed(points=4, measures="memory")
def bench_peak_memory(race):
    """The peak memory does not grow as Lq x Lk, at 2048 queries and 32,768 keys, and at 16 queries
    and 262,144 keys in 8 heads; online_softmax reads about 71 million columns in blocks of 65,536.
    One whole table of scores, or one whole row of those columns, earns 0."""
    for draw in race:
        reads(race, draw)
        attends(race, draw, **MANY, causal=True, block_size=64)
        attends(race, draw, **FEW, causal=False, block_size=512)


def attends(race, draw, *, heads, queries, keys, width, dtype, causal, block_size):
    """Request attention, and compare some rows."""
    q = draw.normal(1, heads, queries, width, dtype=dtype, scale=LOUD)
    k, v = (draw.normal(1, heads, keys, width, dtype=dtype) for _ in range(2))
    rows = [divmod(number, queries) for number in draw.permutation(heads * queries)[:ROWS].tolist()]
    seen = [i + 1 + keys - queries if causal else keys for _, i in rows]
    expected = [
        row(q[:, h], k[:, h, :n], v[:, h, :n], i) for (h, i), n in zip(rows, seen, strict=True)
    ]
    for output, lse in race.time("flash_attention", q, k, v, causal=causal, block_size=block_size):
        for (h, i), right in zip(rows, expected, strict=True):
            agree(output[:, h, i : i + 1], right[0], says=f"row {i} of output, head {h}")
            agree(lse[:, h, i : i + 1], right[1], says=f"row {i} of lse, head {h}")


def row(q, k, v, i):
    """Return the answer to one query, which gets only the keys that it may see."""
    found = reference.flash_attention(q[:, i : i + 1], k, v)
    return [one._replace(magnitude=ROUNDINGS * one.magnitude) for one in found]


def reads(race, draw):
    """Request the statistics of a row of about 71 million columns, in which one part repeats.

    The part is about as long as a block, and nobody can tell the row from another.
    """
    part = draw.normal(1, BLOCK - draw.integer(1, 999))
    row_max, row_sum = reference.online_softmax(part, BLOCK)
    expected = (
        row_max,
        row_sum._replace(
            exact=row_sum.exact * TURNS,
            plain=row_sum.plain * TURNS,
            magnitude=ROUNDINGS * row_sum.magnitude * TURNS,
        ),
    )
    for answer in race.time("online_softmax", part.repeat(1, TURNS), BLOCK):
        agree(answer, expected)
