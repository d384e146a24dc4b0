"""The kernels: values at ragged sizes first, then what a kernel gets wrong at its edges."""

import pytest
import torch
from torch import bfloat16, float16, float32

from grader.judging import Hard, agree, check, expect, lasting, untouched
from grader.suites.ex14_triton import together
from reference import ex14_triton as reference
from reference import raised

ROWS = [(3, 5), (2, 64), (7, 65), (1, 1000)]  # M, N
WHOLE = 384  # a length that tiles of 16, 32, 64 or 128 fill exactly, and so do tiles of 24 or 48
SIZES = [  # Lq, Lk, D
    *[(3, 17, 32), (33, 200, 16), (17, 65, 64), (9, 40, 128)],
    *[(WHOLE, 1, 16), (1, WHOLE, 16), (1, WHOLE - 1, 16)],
]
# Lq, Lk, D. The key that a tile of queries sees last begins a tile of its own in the fifth one and
# in the next to last; in the last one the first query sees all of a tile but its last key.
CAUSAL = [
    *[(5, 5, 16), (1, 65, 16), (17, 150, 16), (65, 3, 16), (130, 131, 16)],
    *[(70, 90, 128), (260, 20, 16), (2, 1030, 16), (WHOLE, WHOLE + 1, 16), (2, WHOLE, 16)],
]
FEW = {"B": 1, "H": 1, "Lq": 3, "Lk": 17}
OF_KIND = {Hard.ONE: {"B": 2, "H": 2}, Hard.SQUARE: {"Lk": 5}}
# Heads of all batches lie in one direction of the grid, and each costs the interpreter 4 ms.
LONGEST = {"B": 0, "H": 64}
LARGE = [((2, 3), 1000, 1000, 64), ((1, 2), 300, 2100, 128), ((3, 1), 777, 200, 32)]


def qkv(draw, q_len, k_len, width=16, *, lead=(1, 2), dtype=float32):
    """Queries, keys and values (B, H, L, D)."""
    return [draw.normal(*lead, length, width, dtype=dtype) for length in (q_len, k_len, k_len)]


def aimed(draw, scores):
    """Queries, keys and values whose scores are those given (..., 16, Lk), at a scale of 1."""
    turn, _ = torch.linalg.qr(draw.normal(16, 16))  # its rows are at right angles
    k = scores.mT @ turn
    return turn.expand(*scores.shape[:-1], 16), k, draw.normal(*k.shape)


@check(points=1)
@pytest.mark.parametrize("kind", [None, Hard.ONE, Hard.LONG])
def test_softmax(student, draw, kind):
    """softmax gives exp(x) / sum(exp(x)) for each row of float32, in one or many rows of any length
    up to 4096."""
    shapes = ROWS
    if kind:
        shapes = [size.values() for size in draw.hard(kind, {"M": 64}, M=2, N=5)]
    for shape in shapes:
        x = draw.normal(*shape, scale=2.0)
        agree(student.softmax(x), reference.softmax(x))


@check(points=1, needs=[test_softmax])
def test_softmax_extremes(student, draw):
    """softmax takes numbers up to 3e4 either way, rows that fall or are all negative, a few large
    ones among thousands, rows that begin with minus infinity, and gives zeros for a row of nothing
    else, in one column too."""
    for x in (*draw.scores(2, 100).values(), draw.logits(3, 65, bound=3e4)):
        agree(student.softmax(x), reference.softmax(x))
    x[0] -= 3e4
    x[1] = -torch.inf
    x[2, ::2] = -torch.inf
    agree(student.softmax(x), reference.softmax(x), says="y (row 1 is -inf)")
    draw.hard(Hard.ONE)
    agree(student.softmax(x[1:, :1]), reference.softmax(x[1:, :1]), says="y (of one column)")
    x = draw.normal(2, 4096)
    x[0, ::1000] += 12.0
    x[1, :1024] = -torch.inf  # the first tile, of any size, holds no number
    agree(student.softmax(x), reference.softmax(x))


@check(points=1, needs=[test_softmax])
@pytest.mark.parametrize("case", ["each alone", "together"])
def test_softmax_layout(student, draw, case):
    """softmax leaves x as it was and reads it anew in every call; x may be transposed, cut out of a
    larger one, or expanded, whatever its size, numbers and dtype."""
    if case == "together":
        together.rows_together(student, draw, float32)
        return
    inputs = {
        "transposed": draw.strided(5, 17),
        "every third column": draw.normal(7, 65)[1::2, ::3],
        "expanded": draw.normal(1, 17).expand(3, 17),
        "contiguous": draw.normal(3, 5),
    }
    for how, x in inputs.items():
        y = untouched(lambda x=x: student.softmax(x))
        agree(y, reference.softmax(x), says=f"y (x is {how})")
    draw.hard(Hard.CHANGED)
    with lasting(student.softmax, x):
        x.neg_()
        agree(student.softmax(x), reference.softmax(x), says="y (x has changed)")


@check(points=1)
@pytest.mark.parametrize("kind", [None, Hard.ONE, Hard.LONG, Hard.SQUARE])
def test_attention(student, draw, kind):
    """flash_attention gives softmax(q k^T / sqrt(D)) v in float32, at lengths that tiles divide or
    do not, from one query and one key to many tiles, and for one or many heads."""
    sizes = [(1, 1, *size) for size in SIZES]
    if kind:
        few = FEW | OF_KIND.get(kind, {})
        sizes = [(*size.values(), 16) for size in draw.hard(kind, LONGEST, **few)]
    for batch, heads, q_len, k_len, width in sizes:
        q, k, v = qkv(draw, q_len, k_len, width, lead=(batch, heads))
        agree(student.flash_attention(q, k, v), reference.flash_attention(q, k, v))


@check(points=1, needs=[test_attention])
@pytest.mark.parametrize(("q_len", "k_len", "width"), CAUSAL)
def test_causal(student, draw, q_len, k_len, width):
    """With causal=True the last query lines up with the last key, a query before the first key gets
    zeros, and later keys count for nothing, not even 3e38; with one query or one key, too."""
    q, k, v = qkv(draw, q_len, k_len, width)
    if q_len == k_len:
        for size in draw.hard(Hard.ONE, Lq=q_len, Lk=k_len):
            some = q[:, :, : size["Lq"]], k[:, :, : size["Lk"]], v[:, :, : size["Lk"]]
            right = reference.flash_attention(*some, causal=True)
            agree(student.flash_attention(*some, causal=True), right)
    right = reference.flash_attention(q, k, v, causal=True)
    agree(student.flash_attention(q, k, v, causal=True), right)
    if 1 < q_len <= k_len:
        early = reference.flash_attention(q[:, :, :-1], k[:, :, :-1], v[:, :, :-1], causal=True)
        k[:, :, -1], v[:, :, -1] = 3e38, 3e38
        output = student.flash_attention(q, k, v, causal=True)
        agree(output[:, :, :-1], early, says="output (the last key and value are 3e38)")
    if k_len == 3:  # of each row that sees keys the last one takes nearly all the weight
        q[:], k[:], v[:] = 1.0, torch.arange(3.0)[:, None], 2e38
        right = reference.flash_attention(q, k, v, causal=True)
        output = student.flash_attention(q, k, v, causal=True)
        agree(output, right, says="output (every value is 2e38)")


@check(points=1, needs=[test_attention])
@pytest.mark.parametrize("causal", [False, True])
def test_scores(student, draw, causal):
    """flash_attention takes any scale, 0 and negative ones too, with and without causal, and scores
    that fall, rise, jump by hundreds from tile to tile, or are all negative, down to -3e4."""
    draw.hard(Hard.OPTIONS)
    q, k, v = qkv(draw, 40, 70, lead=(1, 1))
    for scale in (0.125, 3, 0.0, -0.6):
        right = reference.flash_attention(q, k, v, causal, scale)
        agree(student.flash_attention(q, k, v, causal, scale), right)
    scores = draw.scores(1, 1, 16, 100)
    scores["-3e4"] = scores["negative"] - 3e4
    for name, hard in scores.items():
        q, k, v = aimed(draw, hard)
        q = 4 * q  # a query is 16 wide, so the scale is 1 / 4
        right = reference.flash_attention(q, k, v, causal)
        output = student.flash_attention(q, k, v, causal)
        agree(output, right, says=f"output (scores: {name})")
        output = student.flash_attention(-q, k, v, causal, -0.25)
        agree(output, right, says=f"output (scores: {name}; a scale of -0.25)")


@check(points=1, needs=[test_attention])
@pytest.mark.parametrize("causal", [False, True, "together"])
def test_attention_layout(student, draw, causal):
    """flash_attention keeps batches and heads apart and its inputs as they were, and reads them
    anew in every call; they may be transposed, expanded, or all the same tensor. No options, sizes,
    layouts and dtypes disturb each other."""
    if causal == "together":
        together.attention_together(student, draw, float32)
        return
    attend, right = student.flash_attention, reference.flash_attention
    q, k, v = qkv(draw, 5, 9, lead=(2, 3))
    agree(untouched(lambda: attend(q, k, v, causal)), right(q, k, v, causal))
    draw.hard(Hard.CHANGED)
    with lasting(attend, q, k, v, causal):
        q.neg_(), v.mul_(2)
        agree(attend(q, k, v, causal), right(q, k, v, causal), says="output (q and v have changed)")
    draw.hard(Hard.SAME)
    one = q[:1, :1]
    agree(attend(one, one, one, causal), right(one, one, one, causal), says="output (q is k is v)")
    for lead, how in (((1, 2), "one batch"), ((2, 1), "one head a batch")):
        shared = [draw.normal(*lead, n, 16).expand(2, 2, n, 16) for n in (5, 9, 9)]
        agree(attend(*shared, causal), right(*shared, causal), says=f"output ({how}, expanded)")
        for i, name in enumerate("qkv"):  # beside others that have a number for each place
            some = [*qkv(draw, 5, 9, lead=(2, 2))]
            some[i] = shared[i]
            agree(
                attend(*some, causal), right(*some, causal), says=f"output (only {name} expanded)"
            )


@check(points=1, needs=[test_softmax, test_attention])
def test_half(student, draw):
    """In float16 both functions compute in float32 and round at the end: no score, maximum, sum or
    running output is rounded or overflows, with queries, keys and values of 256 and more."""
    for shape in ((7, 65), (2, 4096)):
        x = draw.normal(*shape, dtype=float16, scale=2.0)
        agree(student.softmax(x), reference.softmax(x))
    x = draw.logits(3, 65, bound=1e4, dtype=float16)
    agree(student.softmax(x), reference.softmax(x))
    for size in ((40, 130, 32), (17, 65, 128)):
        q, k, v = qkv(draw, *size, lead=(1, 1), dtype=float16)
        agree(student.flash_attention(q, k, v), reference.flash_attention(q, k, v))
    q, k, v = qkv(draw, 33, 300, 32, lead=(1, 1), dtype=float16)
    loud = torch.full_like(q[:, :, :9], 256), torch.full_like(k, 256), 6000 + 100 * v
    for causal in (False, True):
        right = reference.flash_attention(q, k, v, causal)
        agree(student.flash_attention(q, k, v, causal), right)
        right = raised(reference.flash_attention, *loud, causal, 0.01)  # scores of 2e4
        output = student.flash_attention(*loud, causal, 0.01)
        agree(output, right, says="output (queries and keys of 256, values of 6,000)")
    values = draw.normal(32, 32, dtype=float16)
    close = [x[None, None] for x in (*draw.ties(5, 32, float16), values)]
    right = raised(reference.flash_attention, *close)
    says = "output (scores of thousands that lie close together)"
    agree(student.flash_attention(*close), right, says=says)
    q, k, v = qkv(draw, 1, 2, 32, lead=(1, 4), dtype=float16)
    k[:, :, 0, 0::2], k[:, :, 0, 1::2] = 512 * q[:, :, 0, 1::2], -512 * q[:, :, 0, 0::2]
    k[:, :, 1] = -k[:, :, 0]  # both scores are 0, unless a query is rounded on the way
    right = raised(reference.flash_attention, q, k, v, False, 0.3)
    agree(student.flash_attention(q, k, v, False, 0.3), right, says="output (scores cancel to 0)")
    q, k, v = qkv(draw, 1, 2100, lead=(1, 1), dtype=float16)
    q[:], k[:], k[:, :, 1:, 0] = 1.0, 0.0, -0.01  # a sum in half would err in each tile alike
    right = reference.flash_attention(q, k, 1 + v / 8, True, 1.0)
    output = student.flash_attention(q, k, 1 + v / 8, True, 1.0)
    agree(output, right, says="output (2,100 keys of nearly equal scores)")
    together.rows_together(student, draw, float16)
    together.attention_together(student, draw, float16)


@check(points=1, needs=[test_softmax, test_attention])
def test_empty(student, draw):
    """softmax takes no rows or no columns, flash_attention an empty batch, no queries, or no keys,
    where every output is 0."""
    for shape in ((0, 5), (3, 0)):
        x = draw.normal(*shape)
        agree(student.softmax(x), reference.softmax(x))
    q, k, v = qkv(draw, 5, 9)
    for causal in (False, True):
        for some in ((q[:0], k[:0], v[:0]), (q[:, :, :0], k, v), (q, k[:, :, :0], v[:, :, :0])):
            right = reference.flash_attention(*some, causal)
            agree(student.flash_attention(*some, causal), right)


def told(student, what, kernel):
    """A number that the process of the answer keeps for each kernel."""
    numbers = student.told(what)
    number = numbers.get(kernel, 0) if isinstance(numbers, dict) else 0
    return number if isinstance(number, int) else 0


@check(
    points=1,
    needs=[test_softmax_extremes, test_softmax_layout, test_causal, test_scores,
           test_attention_layout],
)  # fmt: skip
def test_launches(student, draw):
    """softmax launches softmax_kernel, and flash_attention flash_attention_kernel, which takes the
    keys tile by tile: at most 1024 at once."""
    calls = {
        "softmax": [draw.normal(2, 3)],
        "flash_attention": qkv(draw, 3, 1100, 128, lead=(1, 1)),
    }
    for name, inputs in calls.items():
        kernel = f"{name}_kernel"
        before = told(student, "launches", kernel)
        getattr(student, name)(*inputs)
        count = told(student, "launches", kernel) - before
        expect(count > 0, f"{name} launched no {kernel}: it is the kernel that should compute")
    at_once = told(student, "largest", kernel) // 128  # no head was wider so far
    expect(
        at_once <= 1024,
        f"flash_attention_kernel reads {at_once} keys at once: walk over them in tiles",
    )


@check(points=1, needs=[test_softmax_extremes], cuda=True)
@pytest.mark.parametrize("dtype", [float32, float16, bfloat16])
@pytest.mark.parametrize("shape", [(1000, 777), (130, 4096)])
def test_cuda_softmax(student, draw, shape, dtype):
    """On CUDA softmax is right in every dtype, on many rows at once."""
    x = draw.normal(*shape, dtype=dtype, scale=2.0)
    agree(student.softmax(x), reference.softmax(x))


@check(points=1, needs=[test_causal, test_scores], cuda=True)
@pytest.mark.parametrize("dtype", [float32, float16, bfloat16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("lead", "q_len", "k_len", "width"), LARGE)
def test_cuda_attention(student, draw, lead, q_len, k_len, width, causal, dtype):
    """On CUDA flash_attention is right in every dtype, at sizes of many tiles; float32 is not
    rounded to TF32."""
    q, k, v = qkv(draw, q_len, k_len, width, lead=lead, dtype=dtype)
    agree(student.flash_attention(q, k, v, causal), reference.flash_attention(q, k, v, causal))
