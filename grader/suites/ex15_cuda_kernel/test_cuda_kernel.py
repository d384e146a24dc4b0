"""The checks of ex15: two kernels of attention, on the CPU thread by thread or on a GPU."""

import math
from functools import partial
from itertools import product

import pytest
import torch

import reference.ex15_cuda_kernel as reference
from grader.judging import agree, check, expect, untouched

# (N, Lq, Lk, D): below, at and above the size of any tile; no width a multiple of all others
SIZES = [(1, 1, 1, 1), (2, 3, 17, 5), (1, 17, 3, 64), (3, 65, 33, 17), (1, 33, 65, 128),
         (1, 2, 1100, 3), (1, 1100, 2, 3), (1, 1, 20_000, 1)]  # fmt: skip
# In two of these whole tiles of queries see nothing; in the last ones even a large tile of queries
# sees keys far behind those of its own numbers.
CAUSAL = [
    *[(1, 3, 3, 4), (2, 17, 33, 5), (2, 33, 17, 31), (1, 65, 65, 33)],
    *[(1, 65, 17, 8), (1, 300, 3, 8), (1, 8, 300, 8), (1, 130, 400, 5)],
]
# Past 2**32 numbers in q and out, and in k and v: (heads, Lq, Lk) at a width of 128. A last block
# of any usual size has few rows left to compute, and blocks are a multiple of 8.
FAR = [(59_400, 1025, 2), (59_400, 2, 600)]

each_size = pytest.mark.parametrize("size", SIZES)
each_causal_size = pytest.mark.parametrize("size", CAUSAL)
each_kernel = pytest.mark.parametrize("name", ["naive_attention", "tiled_attention"])


def given(draw, heads, q_len, k_len, width):
    """q, k, v and a scale of about 1/sqrt(D)."""
    q, k, v = (draw.normal(heads, n, width) for n in (q_len, k_len, k_len))
    if k_len > 2000:  # weights of 1 and whole values: no order of summing makes a difference
        q, v = 0 * q, v.round()
    return q, k, v, draw.integer(50, 200) / 100 / math.sqrt(width)


@check(points=1)
@each_size
def test_naive_values(student, draw, size):
    """The naive kernel computes attention for any number of heads, any lengths and any width."""
    asked = given(draw, *size)
    agree(student.naive_attention(*asked, False), reference.naive_attention(*asked, False))


@check(points=1, needs=[test_naive_values])
@each_causal_size
def test_naive_causal(student, draw, size):
    """The naive kernel's causal mask is aligned bottom-right; a row that sees nothing is 0."""
    asked = given(draw, *size)
    agree(student.naive_attention(*asked, True), reference.naive_attention(*asked, True))


@check(points=1, needs=[test_naive_values])
def test_naive_is_plain(student, draw):
    """In the naive kernel one thread works on each query, and shared memory is not used."""
    asked = given(draw, 2, 600, 3, 4)  # more queries than a block can have threads
    workers, _, stored, _ = student.counted("naive_attention", *asked, False)
    expect(
        stored == 0, f"the kernel writes {stored:,} numbers to shared memory, but should use none"
    )
    expect(
        workers == 1200,
        f"the threads that work on 1,200 queries are {workers:,}, but should be one for each",
    )


@check(points=2)
@each_size
def test_tiled_values(student, draw, size):
    """The tiled kernel computes attention for any number of heads, any lengths and any width."""
    asked = given(draw, *size)
    agree(student.tiled_attention(*asked, False), reference.tiled_attention(*asked, False))


@check(points=1, needs=[test_tiled_values])
@each_causal_size
def test_tiled_causal(student, draw, size):
    """The tiled kernel's causal mask is aligned bottom-right; a row that sees nothing is 0."""
    asked = given(draw, *size)
    agree(student.tiled_attention(*asked, True), reference.tiled_attention(*asked, True))


@check(points=1, needs=[test_naive_values, test_tiled_values])
@each_kernel
@pytest.mark.parametrize("offset", [-1, 1])
def test_large_scores(student, draw, name, offset):
    """Scores of several hundred, all positive or all negative, neither overflow nor vanish."""
    q, k, v, _ = given(draw, 2, 5, 70, 8)
    # The first number of every query and key moves all scores alike, by 400 times the scale.
    q[..., 0], k[..., 0] = 20.0, offset * 20.0
    expected = reference.naive_attention(q, k, v, 1.0, False)
    agree(getattr(student, name)(q, k, v, 1.0, False), expected)


@check(points=1, needs=[test_naive_values, test_tiled_values])
@each_kernel
def test_manners(student, draw, name):
    """The inputs stay as they are, and asked again the kernels answer the same."""
    call = getattr(student, name)
    for causal in (False, True, False):
        asked = (*given(draw, 2, 9, 12, 16), causal)
        expected = reference.naive_attention(*asked)
        agree(untouched(partial(call, *asked)), expected)
        agree(call(*asked), expected, "the second answer")


@check(points=1, needs=[test_tiled_values])
def test_tiles_are_shared(student, draw):
    """Keys and values come to shared memory, once for several queries and not for each anew."""
    asked = given(draw, 1, 64, 64, 16)
    _, read, _, exchanged = student.counted("tiled_attention", *asked, False)
    once, alone = 2 * 64 * 16, 2 * 64 * 64 * 16
    expect(
        read <= alone // 4,
        f"the kernel reads {read:,} numbers from k and v, or from copies of them, for 64 queries "
        f"and 64 keys of width 16, but should read at most {alone // 4:,}: each query for itself "
        f"needs {alone:,}",
    )
    expect(
        exchanged >= once,
        f"threads read {exchanged:,} numbers in shared memory that others have written, but should "
        f"read {once:,} at least: what one thread loads is for all of the block",
    )


@check(points=1, needs=[test_naive_values, test_tiled_values])
def test_far_places(student, draw):
    """Where an array has more than 2**32 numbers, the last row of the last head is found."""
    unknown = False
    for name, (heads, q_len, k_len) in product(["naive_attention", "tiled_attention"], FAR):
        q, k, v = draw.normal(128), draw.normal(k_len, 128), draw.normal(k_len, 128)
        found = student.last_row(name, q, k, v, heads, q_len, 0.1)
        if found is None:
            unknown = True
            continue
        expect(not torch.isnan(found).all(), "the last row is never written")
        agree(found, reference.last_row(q.cpu(), k.cpu(), v.cpu(), 0.1), "the last row")
    if unknown:  # of one of them: then the others do not earn the point
        pytest.skip("too much to be done thread by thread")


@check(points=1, needs=[test_naive_values, test_tiled_values], cuda=True)
@each_kernel
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_sanitizer(student, name, tool):
    """compute-sanitizer, where it is installed and the wall lets it start, finds nothing wrong."""
    if not student.sanitized(name, tool, (2, 65, 33, 17), True):
        pytest.skip("compute-sanitizer cannot be run here")
