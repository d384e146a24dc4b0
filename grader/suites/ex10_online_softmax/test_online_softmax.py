"""Online softmax: the statistics by themselves, the merging of two answers, attention in tiles."""

import math

import pytest
import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import (
    Hard,
    agree,
    backward,
    check,
    expect,
    gradcheck,
    lasting,
    rejects,
    untouched,
)
from reference import ex10_online_softmax as reference
from reference.expected import add_up

from .few_keys import few_keys_agree
from .together import attention_together

ROWS = [(1,), (2, 3, 17), (4, 65), (1, 2, 3), (1, 64)]
SIZES = {  # leading dimensions, Lq, Lk, D, Dv, block_size
    "one key": ((), 1, 1, 1, 3, 64),
    "blocks of one": ((2, 3), 3, 17, 8, 5, 1),
    "a short last block": ((3,), 17, 65, 16, 16, 16),
    "whole blocks": ((1, 2, 2), 5, 64, 4, 7, 32),
    "few keys": ((2,), 65, 3, 3, 2, 2),
    "one block": ((2, 1), 9, 17, 8, 8, 17),
}
CAUSAL = {  # Lq, Lk, block_size
    "as many": (17, 17, 4),
    "more keys": (5, 65, 16),
    "one query": (1, 33, 8),
    "a block in one": (9, 16, 64),
    "more queries": (65, 17, 8),
    "one key": (33, 1, 8),
    "a block of queries without a key": (29, 17, 8),
}
HALVES = [float16, bfloat16]
ORDINARY = {"B": 2, "H": 3, "Lq": 5, "Lk": 7, "D": 4, "Dv": 3}
LONGEST = {"B": 0, "H": 64}  # more of them are more of the same
each_dtype = pytest.mark.parametrize("dtype", [float32, *HALVES])


def inputs(draw, leading, q_len, k_len, dim, value_dim, dtype):
    shapes = (q_len, dim), (k_len, dim), (k_len, value_dim)
    return [draw.normal(*leading, *shape, dtype=dtype) for shape in shapes]


def part(draw, *shape, dtype, spread=2.0):
    """An output and its lse, which is as wide as `spread`."""
    wide = torch.promote_types(dtype, float32)
    return draw.normal(*shape, dtype=dtype), draw.normal(*shape[:-1], dtype=wide, scale=spread)


@check(points=1)
@pytest.mark.parametrize("shape", [*ROWS, "of size one and long"], ids=str)
def test_online(student, draw, shape):
    """online_softmax gives the maximum of each row and the sum of exp(x - maximum), whatever the
    size of its blocks and of x."""
    shapes = [shape]
    if isinstance(shape, str):
        ordinary = {"B": 2, "L": 3, "n": 5}
        hard = [*draw.hard(Hard.ONE, **ordinary), *draw.hard(Hard.LONG, **ordinary)]
        shapes = [sizes.values() for sizes in hard]
    for sizes in shapes:
        for block_size in (1, 2, 16, 100) if sizes is shape else (3, 600):
            x = draw.normal(*sizes, scale=3)
            answer = student.online_softmax(x, block_size)
            agree(answer, reference.online_softmax(x, block_size))


@check(points=1, needs=[test_online])
@each_dtype
def test_online_extremes(student, draw, dtype):
    """online_softmax takes scores of any size, -inf among them, and counts up to 70,000 in half
    precision."""
    wave = draw.normal(3, 33, dtype=dtype)
    ramp = torch.linspace(-300, 300, 33, dtype=dtype, device=wave.device)
    hidden = wave.clone()
    hidden[0, :20] = hidden[1, 8:16] = hidden[2] = -torch.inf
    sparse = torch.where(draw.keep(3, 33), wave, -torch.inf)
    large = draw.logits(3, 33, bound=1e4, dtype=dtype)
    runs = draw.scores(3, 70, dtype=dtype).values()
    for x in (large, wave - 1000, wave + ramp, wave - ramp, hidden, sparse, hidden.flip(-1), *runs):
        for block_size in (1, 8):
            answer = student.online_softmax(x, block_size)
            agree(answer, reference.online_softmax(x, block_size))
    x = draw.normal(2, 1, dtype=dtype).expand(2, 70_000)
    agree(student.online_softmax(x, 10_000), reference.online_softmax(x, 10_000))


@check(points=1, needs=[test_online])
@each_dtype
def test_online_manners(student, draw, dtype):
    """online_softmax leaves x alone, looks at it anew in every call, takes strided and empty ones,
    has the gradient of log-sum-exp, hidden scores or not, and refuses a block_size below 1
    (ValueError with the number)."""
    strided, empty = draw.strided(2, 3, 17, dtype=dtype), draw.normal(0, 5, dtype=dtype)
    for x in strided, strided.transpose(0, 1), empty:
        answer = untouched(lambda x=x: student.online_softmax(x, 4))
        agree(answer, reference.online_softmax(x, 4))
    draw.hard(Hard.CHANGED)
    with lasting(student.online_softmax, strided, 4):
        agree(student.online_softmax(strided.neg_(), 4), reference.online_softmax(strided, 4))
    plain, hidden = draw.normal(3, 17, dtype=dtype), draw.normal(3, 17, dtype=dtype)
    hidden[0, :9] = hidden[1, 6:] = -torch.inf
    for x in plain, hidden:
        row_max, row_sum = student.online_softmax(x.requires_grad_(), 4)
        lse = row_max + row_sum.log()
        upstream = draw.normal(3, dtype=torch.promote_types(dtype, float32))
        [got] = backward(lse, x, upstream=upstream)
        [expected] = reference.online_softmax_gradients(x, upstream=upstream)
        agree(got, expected, says="gradient of x through row_max + log(row_sum)")
    for block_size in 0, -3, -draw.integer(20, 99):
        for some in x, empty:
            rejects(lambda n=block_size, some=some: student.online_softmax(some, n), block_size)


@check(points=1)
@each_dtype
@pytest.mark.parametrize("shape", [(1, 1), (2, 3, 17, 16), (3, 65)], ids=str)
def test_merge(student, draw, shape, dtype):
    """merge_partials weights both outputs by exp(lse) and returns the lse of both, however large
    they are and whichever is larger; output and lse keep their dtypes."""
    for spread in (0.5, 3.0, 100.0):
        a, b = (part(draw, *shape, dtype=dtype, spread=spread) for _ in "ab")
        agree(student.merge_partials(a, b), reference.merge_partials(a, b))
    output, lse = (x.clone() for x in a)  # another check asks whether inputs are left alone
    low = -1e32 * (1 + lse.abs())  # that of very low scores
    agree(student.merge_partials((output.clone(), low.clone()), (b[0], 2 * low)), (output, low))


@check(points=1, needs=[test_merge])
@pytest.mark.parametrize("kind", ["one", "long", "same", "changed"])
def test_merge_sizes(student, draw, kind):
    """merge_partials takes parts of any size, one part twice, and one output with two weights, and
    looks at them anew in every call."""
    ordinary = {"B": 2, "L": 5, "D": 3}
    for sizes in draw.hard(Hard(kind), **ordinary):
        a, b = (part(draw, *sizes.values(), dtype=float32) for _ in "ab")
        pairs = [(a, a), (a, (a[0], b[1]))] if kind == "same" else [(a, b)]
        for some in pairs:
            answer = untouched(lambda some=some: student.merge_partials(*some))
            agree(answer, reference.merge_partials(*some))
    if kind == "changed":
        with lasting(student.merge_partials, a, b):
            for x in (*a, *b):
                x.neg_()
                agree(student.merge_partials(a, b), reference.merge_partials(a, b))


@check(points=1, needs=[test_merge])
@each_dtype
def test_merge_empty(student, draw, dtype):
    """merge_partials leaves out a part whose lse is -inf, even if its output is NaN, in gradients
    too; of two such parts comes (0, -inf). Its gradients are right, its inputs left alone."""
    for nothing in None, 0.0, torch.nan, torch.inf:
        a, b = (part(draw, 2, 6, 3, dtype=dtype) for _ in "ab")
        if nothing is not None:
            for (output, lse), rows in (a, slice(0, 3)), (b, slice(2, 4)):
                output[:, rows], lse[:, rows] = nothing, -torch.inf
        answer = untouched(lambda a=a, b=b: student.merge_partials(a, b))
        agree(answer, reference.merge_partials(a, b))
        leaves = [x.requires_grad_() for x in (*a, *b)]
        answer = student.merge_partials(a, b)
        for of, names in (0, ("a[0]", "a[1]", "b[0]", "b[1]")), (1, ("a[1]", "b[1]")):
            upstream = draw.normal(*answer[of].shape, dtype=answer[of].dtype)
            if nothing is not None:
                upstream[:, 2] = 0.0  # where both are empty the slope of lse has no meaning
            through = leaves[of :: of + 1]
            got = backward(answer[of], *through, upstream=upstream)
            expected = reference.merge_partials_gradients(a, b, upstream=upstream, of=of)
            for name, one, right in zip(names, got, expected, strict=True):
                agree(one, right, says=f"gradient of {name} through the {('output', 'lse')[of]}")
    for alone in leaves:  # of the last pair, which has parts that are empty
        for x in leaves:
            x.requires_grad_(x is alone)
        output, _ = student.merge_partials(a, b)
        upstream = 0 * output.detach() + 1
        right = reference.merge_partials_gradients(a, b, upstream=upstream, of=0)
        [got] = backward(output, alone, upstream=upstream)
        place = next(i for i, x in enumerate(leaves) if x is alone)
        says = f"gradient of {('a[0]', 'a[1]', 'b[0]', 'b[1]')[place]} (which alone learns)"
        agree(got, right[place], says=says)


@check(points=1)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_values(student, draw, sizes):
    """flash_attention gives softmax(q k^T / sqrt(D)) v and the natural logarithm of the sum of the
    exponentials, for blocks of any size, the last one short or not."""
    *sizes, block_size = sizes
    q, k, v = inputs(draw, *sizes, float32)
    answer = student.flash_attention(q, k, v, block_size=block_size)
    agree(answer, reference.flash_attention(q, k, v))
    agree(student.flash_attention(q, k, v), reference.flash_attention(q, k, v))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("kind", ["one", "square", "long", "same", "changed", "together"])
def test_sizes(student, draw, kind):
    """flash_attention takes one or many of everything, causal or not, the same tensor as queries,
    keys and values, and looks at its inputs anew in every call; no options, sizes, layouts and
    dtypes disturb each other."""
    attend = student.flash_attention
    if kind == "together":
        attention_together(student, draw, float32)
        return
    if kind in ("one", "square", "long"):
        limits = LONGEST if kind == "long" else None
        for sizes in draw.hard(Hard(kind), limits, **ORDINARY):
            leading, *others = (sizes.pop("B"), sizes.pop("H")), *sizes.values()
            q, k, v = inputs(draw, leading, *others, float32)
            for causal in (False, True):
                expected = reference.flash_attention(q, k, v, causal)
                agree(attend(q, k, v, causal, block_size=48), expected)
        if kind == "long":
            few_keys_agree(student, draw)
        return
    draw.hard(Hard(kind))
    q, k, v = inputs(draw, (2,), 9, 9, 4, 4, float32)
    q, k, v = (q, q, q) if kind == "same" else (q, k, v)
    for causal in (False, True, False):
        agree(attend(q, k, v, causal, block_size=4), reference.flash_attention(q, k, v, causal))
        with lasting(attend, q, k, v, causal, block_size=4):
            for x in (q,) if kind == "same" else (q, k, v):
                x.mul_(-0.7)
            agree(attend(q, k, v, causal, block_size=4), reference.flash_attention(q, k, v, causal))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("causal", [False, True])
def test_scores(student, draw, device, causal):
    """flash_attention takes a scale as it is given (0 or negative), causal or not, and scores that
    rise, that fall, that are all far below 0, and that jump from tile to tile, by hundreds or by
    tens beside values of 1e25."""
    draw.hard(Hard.OPTIONS)
    for scale in (0.0, -0.3, 0.125, 2):
        q, k, v = inputs(draw, (2,), 9, 17, 8, 5, float32)
        answer = student.flash_attention(q, k, v, causal, scale, 4)
        agree(answer, reference.flash_attention(q, k, v, causal, scale))
    one_each = torch.eye(6, device=device)  # query i chooses row i of the scores
    higher = draw.normal(6, 70) + 40.0 * (torch.arange(70, device=device) > 15)
    asked = [*((scores, 1.0) for scores in draw.scores(6, 70).values()), (higher, 1e25)]
    for scores, size in asked:
        for block_size in (1, 16):
            q, k, v = one_each, scores.mT, draw.normal(70, 3, scale=size)
            answer = student.flash_attention(q, k, v, causal, 1.0, block_size)
            agree(answer, reference.flash_attention(q, k, v, causal, 1.0))


@check(points=1)
def test_float64(student, draw):
    """All three functions compute float64 in float64, to its last digits: with large scores and
    scales, causal or not, and in the gradients."""
    x = draw.logits(3, 33, bound=1e4, dtype=float64)
    for some in x, draw.normal(3, 33, dtype=float64):
        agree(student.online_softmax(some, 8), reference.online_softmax(some, 8))
    for spread in (3.0, 1e4):
        a, b = (part(draw, 2, 6, 3, dtype=float64, spread=spread) for _ in "ab")
        agree(student.merge_partials(a, b), reference.merge_partials(a, b))
    attend = student.flash_attention
    for causal in (False, True):
        q, k, v = inputs(draw, (2,), 9, 17, 4, 5, float64)
        for scale in (None, 1000.0):
            answer = attend(q, k, v, causal, scale, 4)
            agree(answer, reference.flash_attention(q, k, v, causal, scale))
        for first, last in (-1e4, 1e4), (1e4, -1e4), (-2e4, -3e4), (3000, 3000):
            some = moved(*inputs(draw, (2,), 9, 17, 4, 5, float64), first, last)
            answer = attend(*some, causal, block_size=4)
            agree(answer, reference.flash_attention(*some, causal))
        low = *draw.low(5, 9, 4, float64), draw.normal(9, 3, dtype=float64)
        answer = attend(*low, causal, block_size=4)
        agree(answer, reference.flash_attention(*low, causal))
        q, k, v = (x.requires_grad_() for x in inputs(draw, (), 2, 3, 2, 1, float64))
        gradcheck(lambda q, k, v, c=causal: attend(q, k, v, c, -0.7, 2)[0], q, k, v)
    attention_together(student, draw, float64)


def moved(q, k, v, first, last):
    """The same, with `first` to `last` added to the scores of the keys, for a scale of 1/2."""
    q[..., 0] = 2.0
    k[..., 0] += torch.linspace(first, last, k.shape[-2], dtype=k.dtype, device=k.device)
    return q, k, v


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("sizes", CAUSAL.values(), ids=CAUSAL)
def test_causal(student, draw, sizes):
    """With `causal` query i sees the keys up to i + Lk - Lq, in every tile; later keys change
    nothing; a query that sees none has output 0 and lse -inf."""
    q_len, k_len, block_size = sizes
    q, k, v = inputs(draw, (2, 3), q_len, k_len, 8, 5, float32)
    expected = reference.flash_attention(q, k, v, causal=True)
    agree(student.flash_attention(q, k, v, causal=True, block_size=block_size), expected)
    k[..., -1, :] = v[..., -1, :] = 1e30
    leaves = [x.requires_grad_() for x in (q, k, v)]
    output, lse = student.flash_attention(*leaves, causal=True, block_size=block_size)
    for got, right in (output[..., :-1, :], expected[0]), (lse[..., :-1], expected[1]):
        before = (slice(None), slice(None), slice(0, -1))
        right = right._replace(exact=right.exact[before], plain=right.plain[before])
        agree(got, right, says="with 1e30 in the last key, what comes before its query")
    upstream = draw.normal(*output.shape)
    upstream[..., -1, :] = 0.0  # of the only query that sees the last key
    for name, got in zip("qkv", backward(output, *leaves, upstream=upstream), strict=True):
        problem = f"the gradient of {name} is not finite beside 1e30 in the last key"
        expect(bool(got.isfinite().all()), problem)
    low = *draw.low(q_len, k_len, 8), draw.normal(k_len, 5)
    for some in (False, True):
        answer = student.flash_attention(*low, causal=some, block_size=block_size)
        agree(answer, reference.flash_attention(*low, causal=some))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision(student, draw, device, dtype, causal):
    """In half precision the output keeps its dtype and lse is float32; products of 256s and sums of
    70,000 do not overflow."""
    q, k, v = inputs(draw, (2, 4), 33, 49, 16, 17, dtype)
    answer = student.flash_attention(q, k, v, causal, block_size=16)
    agree(answer, reference.flash_attention(q, k, v, causal))
    k = (256 * (draw.integers(0, 1, 2, 33, 64) * 2 - 1)).to(dtype)
    q = k if causal else k[:, draw.permutation(33)]  # each query matches one key, by 524,288
    v = draw.normal(2, 33, 5, dtype=dtype)
    close = *draw.ties(24, 24, dtype), draw.normal(24, 5, dtype=dtype)
    low = *draw.low(5, 5, 4, dtype), draw.normal(5, 3, dtype=dtype)
    hard = {"products of 256s": (q, k, v), "scores of hundreds that lie close together": close}
    hard |= {"very low scores": low}
    for scores, given in hard.items():  # in half precision, no plain formula is right
        output, lse = reference.flash_attention(*(x.float() for x in given), causal)
        # The weights may be rounded as well as the output.
        plain, size = output.plain.to(dtype), 2 * output.magnitude
        expected = output._replace(plain=plain, magnitude=size), lse
        answer = student.flash_attention(*given, causal, block_size=8)
        for what, got, right in zip(("output", "lse"), answer, expected, strict=True):
            agree(got, right, says=f"{what} for {scores}")
    if not causal:
        q, k = draw.normal(1, 1, dtype=dtype), torch.zeros(70_000, 1, dtype=dtype, device=device)
        output, lse = student.flash_attention(q, k, torch.ones_like(k), block_size=8192)
        agree(output, torch.ones(1, 1), says="mean of 70,000 ones", within=0.005)
        agree(lse, torch.tensor([math.log(70_000)]), says="lse of 70,000 zeros", within=1e-3)
    if causal:
        attention_together(student, draw, dtype)


def each_learns_alone(student, draw, dtype, causal):
    """Each of q, k and v has its gradient where the other two need none."""
    draw.hard(Hard.LEARN)
    given = inputs(draw, (2,), 7, 9, 4, 3, dtype)
    upstream = draw.normal(2, 7, 3, dtype=dtype)
    right = reference.flash_attention_gradients(*given, causal, upstream=upstream, of=0)
    for name, x, expected in zip("qkv", given, right, strict=True):
        x.requires_grad_()
        output, _ = student.flash_attention(*given, causal, block_size=4)
        [got] = backward(output, x, upstream=upstream)
        x.requires_grad_(False)
        agree(got, expected, says=f"gradient of {name} (which alone learns)")


def same_tensor_learns(student, draw, dtype, causal):
    """The gradient of a tensor that is query, key and value at once is the sum of the three."""
    x, upstream = draw.normal(2, 7, 4, dtype=dtype), draw.normal(2, 7, 4, dtype=dtype)
    parts = reference.flash_attention_gradients(x, x, x, causal, upstream=upstream, of=0)
    output, _ = student.flash_attention(x.requires_grad_(), x, x, causal, block_size=4)
    [got] = backward(output, x, upstream=upstream)
    expected = add_up(parts)._replace(magnitude=3 * parts[0].magnitude)
    agree(got, expected, says="gradient of a tensor that is q, k and v")


@check(points=1, needs=[test_values])
@each_dtype
@pytest.mark.parametrize("causal", [False, True])
def test_gradients(student, draw, dtype, causal):
    """Gradients flow through output and lse and are right, 0 where a query sees nothing. Inputs are
    left alone; strided, expanded and empty ones are taken; a block_size below 1 is a ValueError."""
    attend = student.flash_attention
    for q_len, k_len in (7, 9), (9, 6), (8, 8):
        q, k, v = (x.requires_grad_() for x in inputs(draw, (2,), q_len, k_len, 4, 3, dtype))
        answer = attend(q, k, v, causal, block_size=4)
        for of, name in enumerate(("output", "lse")):
            upstream = draw.normal(*answer[of].shape, dtype=answer[of].dtype)
            got = backward(answer[of], *(q, k, v)[: 3 - of], upstream=upstream)
            right = reference.flash_attention_gradients(q, k, v, causal, upstream=upstream, of=of)
            for x, one, expected in zip("qkv", got, right, strict=False):
                agree(one, expected, says=f"gradient of {x} through the {name}")
    each_learns_alone(student, draw, dtype, causal)
    same_tensor_learns(student, draw, dtype, causal)
    strided = [draw.strided(2, 3, 9, n, dtype=dtype) for n in (4, 4, 5)]
    expanded = [x[:, :1].expand(x.shape) for x in strided]
    for q, k, v in strided, expanded, [x[:0] for x in strided]:
        answer = untouched(lambda x=(q, k, v): attend(*x, causal, block_size=4))
        agree(answer, reference.flash_attention(q, k, v, causal))
    for block_size in 0, -3, -draw.integer(20, 99):
        for given in strided, [x[:0] for x in strided]:
            rejects(lambda n=block_size, x=given: attend(*x, causal, block_size=n), block_size)
