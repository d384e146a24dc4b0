"""The checks of ex15: two kernels of attention, on the CPU thread by thread or on a GPU."""

import math
from functools import partial
from itertools import product

import pytest
import torch

import reference.ex15_cuda_kernel as reference
from grader.judging import Hard, agree, check, expect, untouched

WHOLE = 384  # a length that tiles of 16, 32, 64 or 128 fill exactly, and so do tiles of 24 or 48
# (N, Lq, Lk, D): below, at and above the size of any tile; no width a multiple of all others. Wide
# heads come in their order: once a kernel has asked for shared memory, it has it in later calls.
SIZES = [
    *[(2, 3, 17, 5), (1, 17, 3, 64), (3, 65, 33, 17)],
    *[(1, 1, 1, width) for width in range(90, 129)],
    *[(1, 33, 65, 128), (1, 3, 40, 100), (1, 1, 20_000, 1), (2, 49, 1, 1)],
    *[(1, WHOLE, 1, 1), (1, 1, WHOLE, 1), (1, 1, WHOLE - 1, 1)],
]
FEW = {"N": 2, "Lq": 3, "Lk": 17, "D": 5}
MANY_ROWS = (1, 33_000, 1, 1)  # more than 256 blocks of 128 threads have
LONGEST = {"N": 64, "D": 64}  # a width ends at 128
# In two of these whole tiles of queries see nothing; in the next two even a large tile of queries
# sees keys far behind those of its own numbers. In the next to last one the key that a tile of
# queries sees last begins a tile; in the last one the first query sees all of a tile but one key.
CAUSAL = [
    *[(1, 3, 3, 4), (2, 17, 33, 5), (2, 33, 17, 31), (1, 65, 65, 33)],
    *[(1, 65, 17, 8), (1, 300, 3, 8), (1, 8, 300, 8), (1, 130, 400, 5)],
    *[(1, WHOLE, WHOLE + 1, 1), (1, 2, WHOLE, 4)],
]
# Past 2**32 numbers in q and out, and in k and v: (heads, Lq, Lk) at a width of 128. A last block
# of any usual size has few rows left to compute, and blocks are a multiple of 8.
FAR = [(59_400, 1025, 2), (59_400, 2, 600)]

each_kind = pytest.mark.parametrize("kind", [None, Hard.ONE, Hard.LONG, Hard.SQUARE])
each_causal_size = pytest.mark.parametrize("size", CAUSAL)
each_kernel = pytest.mark.parametrize("name", ["naive_attention", "tiled_attention"])


def given(draw, heads, q_len, k_len, width):
    """q, k, v and a scale of about 1/sqrt(D)."""
    q, k, v = (draw.normal(heads, n, width) for n in (q_len, k_len, k_len))
    if k_len > 2000:  # weights of 1 and whole values: no order of summing makes a difference
        q, v = 0 * q, v.round()
    return q, k, v, draw.integer(50, 200) / 100 / math.sqrt(width)


def sizes(draw, kind):
    """The sizes of a kind, the ordinary ones if it is None."""
    few = FEW | {"N": 1} if kind is Hard.LONG else FEW
    return [size.values() for size in draw.hard(kind, LONGEST, **few)] if kind else SIZES


def aimed(draw, scores):
    """Queries, keys and values (N, ..., 16) whose scores are those given (N, 16, Lk)."""
    turn, _ = torch.linalg.qr(draw.normal(16, 16))  # its rows are at right angles
    k = scores.mT @ turn
    return turn.expand(*scores.shape[:-1], 16), k, draw.normal(*k.shape)


@check(points=1)
@each_kind
def test_naive_values(student, draw, kind):
    """The naive kernel computes attention for any number of heads, any lengths and any width, from
    1 on."""
    for size in (*sizes(draw, kind), *([MANY_ROWS] if kind is Hard.LONG else [])):
        asked = given(draw, *size)
        agree(student.naive_attention(*asked, False), reference.naive_attention(*asked, False))


@check(points=1, needs=[test_naive_values])
@each_causal_size
def test_naive_causal(student, draw, size):
    """The naive kernel's causal mask is aligned bottom-right; a row that sees nothing is 0."""
    many = [given(draw, *size)]
    if size == CAUSAL[0]:
        few = dict(zip(FEW, size, strict=True))
        many += [given(draw, *one.values()) for one in draw.hard(Hard.ONE, **few)]
    for asked in many:
        agree(student.naive_attention(*asked, True), reference.naive_attention(*asked, True))


@check(points=1, needs=[test_naive_values])
def test_naive_is_plain(student, draw):
    """In the naive kernel one thread works on each query, and shared memory is not used."""
    heads, q_len = draw.integer(2, 5), draw.integer(520, 700)  # more than a block has threads
    asked = given(draw, heads, q_len, 3, 4)
    rows = heads * q_len
    workers, _, stored, _ = student.counted("naive_attention", *asked, False)
    expect(
        stored == 0, f"the kernel writes {stored:,} numbers to shared memory, but should use none"
    )
    expect(
        workers == rows,
        f"the threads that work on {rows:,} queries are {workers:,}, but should be one for each",
    )


@check(points=2)
@each_kind
def test_tiled_values(student, draw, kind):
    """The tiled kernel computes attention for any number of heads, any lengths and any width, from
    1 on."""
    for size in sizes(draw, kind):
        asked = given(draw, *size)
        agree(student.tiled_attention(*asked, False), reference.tiled_attention(*asked, False))


@check(points=1, needs=[test_tiled_values])
@each_causal_size
def test_tiled_causal(student, draw, size):
    """The tiled kernel's causal mask is aligned bottom-right; a row that sees nothing is 0."""
    many = [given(draw, *size)]
    if size == CAUSAL[0]:
        few = dict(zip(FEW, size, strict=True))
        many += [given(draw, *one.values()) for one in draw.hard(Hard.ONE, **few)]
    for asked in many:
        agree(student.tiled_attention(*asked, True), reference.tiled_attention(*asked, True))


@check(points=1, needs=[test_naive_values, test_tiled_values])
@each_kernel
@pytest.mark.parametrize("causal", [False, True])
def test_large_scores(student, draw, name, causal):
    """Scores that rise, fall, jump by hundreds from tile to tile, or are all negative, down to
    -3e4, neither overflow nor vanish; the scale may be 0 or negative."""
    call = getattr(student, name)
    scores = draw.scores(1, 16, 70)
    scores["-3e4"] = scores["negative"] - 3e4
    draw.hard(Hard.OPTIONS)
    for kind, hard in scores.items():
        q, k, v = aimed(draw, hard)
        for asked in ((q, k, v, 1.0), (-q, k, v, -1.0)):
            expected = reference.naive_attention(*asked, causal)
            # A weight is off by the rounding of its score, and of the products that make it.
            larger = max(1.0, float(hard.abs().max()) / 4)
            expected = expected._replace(magnitude=larger * expected.magnitude)
            says = f"output (scores: {kind}; the scale is {asked[3]:g})"
            agree(call(*asked, causal), expected, says)
    agree(call(q, k, v, 0.0, causal), reference.naive_attention(q, k, v, 0.0, causal))


@check(points=1, needs=[test_naive_values, test_tiled_values])
@each_kernel
def test_manners(student, draw, name):
    """The inputs stay as they are, and asked again the kernels answer the same, or what follows
    from inputs that have changed; q, k and v may be the same array."""
    call = getattr(student, name)
    draw.hard(Hard.CHANGED)
    draw.hard(Hard.SAME)
    for causal in (False, True, False):
        q, k, v, scale = given(draw, 2, 9, 12, 16)
        expected = reference.naive_attention(q, k, v, scale, causal)
        agree(untouched(partial(call, q, k, v, scale, causal)), expected)
        agree(call(q, k, v, scale, causal), expected, "the second answer")
        q.neg_(), v.mul_(2)
        expected = reference.naive_attention(q, k, v, scale, causal)
        agree(call(q, k, v, scale, causal), expected, "output (q and v have changed)")
        expected = reference.naive_attention(q, q, q, scale, causal)
        agree(call(q, q, q, scale, causal), expected, "output (q is k is v)")


@check(points=1, needs=[test_tiled_values])
def test_tiles_are_shared(student, draw):
    """Keys and values come to shared memory, once for several queries and not for each anew."""
    q_len, k_len, width = draw.integer(60, 73), draw.integer(60, 73), draw.integer(13, 18)
    asked = given(draw, 1, q_len, k_len, width)
    _, read, _, exchanged = student.counted("tiled_attention", *asked, False)
    once, alone = 2 * k_len * width, 2 * q_len * k_len * width
    expect(
        read <= alone // 4,
        f"the kernel reads {read:,} numbers from k and v, or from copies of them, for {q_len} "
        f"queries and {k_len} keys of width {width}, but should read at most {alone // 4:,}: each "
        f"query for itself needs {alone:,}",
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
