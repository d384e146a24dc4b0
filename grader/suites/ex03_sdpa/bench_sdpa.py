"""The speed case of scaled dot-product attention."""

import reference
from grader.judging import agree, speed

HEADS, LENGTH, WIDTH = 4, 512, 64
WORK = 4 * HEADS * LENGTH**2 * WIDTH  # floating point operations


@speed(points=3)
def bench_attention(race):
    """As fast as the best code that returns its weights; a loop over heads and rows earns 0."""
    for draw in race:
        q, k, v = (draw.normal(1, HEADS, LENGTH, WIDTH) for _ in range(3))
        rows = draw.rows(LENGTH)
        expected = reference.scaled_dot_product_attention(q[..., rows, :], k, v)
        for found in race.time("scaled_dot_product_attention", q, k, v, work=WORK):
            agree(tuple(x[..., rows, :] for x in found), expected)
