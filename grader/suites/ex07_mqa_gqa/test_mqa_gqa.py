"""Grouped queries: the right head for each query, then the layer and its past."""

from functools import partial

import pytest
import torch
from torch import bfloat16, float16, float32, float64, nan

from grader.judging import Hard, agree, backward, check, lasting, rejects, same, untouched
from reference import ex07_mqa_gqa as reference

from . import together
from .extremes import (
    ATTENTION,
    beyond_float32_agrees,
    heads_of,
    layer_agrees,
    right_in_float32,
    small_weight_counts,
    ties_agree,
)
from .inputs import (
    USUAL,
    agrees_after_double,
    attends,
    changed_weights_agree,
    gradients_agree,
    gradients_outlast_a_call,
    layer_gradients_agree,
    layers,
    qkv,
    same_tensor_learns,
)
from .manners import answers_agree, layouts_agree, on_its_device
from .past import continuations_agree, layer_in, long_pasts_agree, step_gradients_agree

DTYPES = [float32, float64, float16, bfloat16]
SHAPES = [  # B, Hk, G, Lq, Lk, D, Dv
    (2, 1, 6, 5, 7, 4, 4), (2, 2, 3, 17, 3, 8, 5), (2, 3, 2, 3, 65, 16, 16), (2, 6, 1, 1, 9, 3, 1),
    (2, 2, 2, 7, 7, 8, 8), (2, 1, 8, 3, 1, 1, 3), (2, 1, 1, 4, 4, 2, 2),
]  # fmt: skip
TOGETHER = {
    **{f"copies together in {d}": partial(together.copies_agree, dtype=d) for d in DTYPES},
    **{f"{n} together": partial(ask, dtype=float32) for n, ask in together.ATTENTION.items()},
}
LAYER = {"B": 2, "Hk": 2, "G": 3, "L": 5, "D": 4}
WIDEST = {"Hk": 64, "G": 64, "L": 256, "D": 64}  # a layer has (Hk * G * D) ** 2 weights


def calls(draw, case, usual, limits=None):
    """The sizes of a case: those of a hard kind, or its own."""
    if isinstance(case, Hard):
        return draw.hard(case, limits, **usual)
    return [dict(zip(usual, case, strict=True))]


@check(points=1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "case", [(2, 3, 5, 3, 2), (2, 2, 5, 3, 3), (2, 1, 5, 3, 4), (2, 4, 5, 3, 1)]
)
def test_repeat_kv(student, draw, case, dtype):
    """repeat_kv puts n copies of every key/value head next to each other, for any sizes and any
    leading dimensions; gradients flow."""
    B, Hk, L, D, n = case
    x = draw.normal(B, Hk, L, D, dtype=dtype)
    agree(untouched(lambda: student.repeat_kv(x, n)), reference.repeat_kv(x, n))
    if Hk > 1 and n > 1:  # else the answer may be a view of x
        draw.hard(Hard.CHANGED)
        with lasting(student.repeat_kv, x, n):
            x.neg_()
            agree(student.repeat_kv(x, n), reference.repeat_kv(x, n))
    turned = draw.normal(B, L, Hk, D, dtype=dtype).transpose(1, 2)
    for other in (turned, x[0], turned.unsqueeze(1)):
        agree(student.repeat_kv(other, n), reference.repeat_kv(other, n))
    x.requires_grad_()
    upstream = draw.normal(B, Hk * n, L, D, dtype=dtype)
    [got] = backward(student.repeat_kv(x, n), x, upstream=upstream)
    [expected] = reference.gradients(
        lambda x: x.repeat_interleave(n, 1), x, upstream=upstream, magnitude=4.0
    )
    agree(got, expected, says="gradient of x")
    if dtype is not float32 or n != 2:
        return
    sizes = {"B": 2, "Hk": 3, "L": 5, "D": 3, "n": 2}
    for s in draw.hard(Hard.ONE, **sizes) + draw.hard(Hard.LONG, **sizes):
        *shape, n = s.values()
        x = draw.normal(*shape)
        agree(student.repeat_kv(x, n), reference.repeat_kv(x, n))
    draw.hard(Hard.CHANGED)
    x.neg_()
    agree(student.repeat_kv(x, n), reference.repeat_kv(x, n), says="copies of the changed x")
    x[0, 0] = nan  # in one head alone
    whole = torch.full_like(x, 3**39, dtype=torch.int64)  # no float holds this
    for other in (x, whole, whole > x):
        same(student.repeat_kv(other, n), other.repeat_interleave(n, 1))


@check(points=1)
@pytest.mark.parametrize("case", [*SHAPES, Hard.SQUARE, Hard.ONE, Hard.LONG])
def test_values(student, draw, case):
    """Query head h attends, with the scale 1/sqrt(D), to key/value head h // (H // Hk): float32 of
    any sizes."""
    for sizes in calls(draw, case, USUAL):
        attends(student, *qkv(draw, **sizes))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("G", [2, 4, 1])
@pytest.mark.parametrize(
    ("dtype", "scale"), [(float16, 1), (bfloat16, 1), (float32, 5), (float64, 1), (float64, 3000)]
)
def test_precision(student, draw, device, dtype, scale, G, masked):
    """Half precision is computed in float32 and converted back, float64 keeps its digits, and
    scores of any size do not overflow: output, gradients, layer and past."""
    q, k, v = qkv(draw, dtype, Hk=4 // G, G=G, Lq=17, Lk=17, D=16, Dv=16)
    q = q * scale  # scores up to ±1e4 in float64
    keep = draw.keep(2, 4, 17, 17) if masked else None
    attends(student, q, k, v, keep)
    if scale == 1:
        gradients_agree(draw, student, q, k, v, keep)
    if scale == 1 and G == 1:
        same_tensor_learns(student, draw, dtype, masked)
    if scale == 1 and G == 2 and dtype is float64 and masked:
        for one in float32, float64:
            small_weight_counts(student, draw, device, one)
        agrees_after_double(student, draw, device)
    if dtype is float32 and not masked:
        eye = torch.eye(64, device=device).expand(2, 4 // G, 64, 64)  # the scores are q / 8
        for name, scores in draw.scores(2, 4, 5, 64).items():
            v = draw.normal(2, 4 // G, 64, 3)
            for low in (0, 100):
                attends(student, (scores - low) * 8, eye, v, says=f"output ({name} scores)")
    if dtype.itemsize == 2:
        loud = torch.full_like(q, 256)  # 16 products of 256 * 256 are too much for float16
        some = draw.keep(2, 4 // G, 1, 17).mT * torch.full_like(k, 256)  # these share all weight
        says = "output for queries and keys of 256"
        attends(student, loud, some, v, keep, says, right_in_float32)
        if not masked:
            many = loud[..., :1, :].expand(2, 4, 1025, 16)
            attends(student, many, some, v, None, says, right_in_float32)
        ties_agree(student, draw, dtype, 4 // G, masked)
        close = draw.ties(24, 24, dtype)
        layer_agrees(student, draw, device, dtype, *close, "scores of hundreds close together")
    if scale == 3000:
        beyond_float32_agrees(student, draw, device, 4 // G, masked)
    if masked and scale == 1:
        layer_in(dtype, student, draw, device, (4 // G, G))
    if scale == 1 and G == 1 and not masked:
        for ask in together.ATTENTION.values():
            ask(student, draw, device, dtype)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize(
    "shape", [(5, 9), (2, 6, 5, 9), (1, 1, 5, 9), (2, 1, 1, 9), (6, 1, 9), (9,)]
)
@pytest.mark.parametrize(("Hk", "Lq"), [(2, 5), (1, 5), (6, 5), (2, 1)])
def test_mask(student, draw, Hk, Lq, shape):
    """A query attends where keep is True; keep may differ between the H heads, and broadcasts from
    any shape, for inputs of any sizes."""
    sizes = {"Hk": Hk, "G": 6 // Hk, "Lq": Lq, "Lk": 9}
    keep = draw.keep(*shape)[..., -Lq:, :] if len(shape) > 1 else draw.keep(*shape)
    attends(student, *qkv(draw, **sizes), keep)
    if shape != (2, 6, 5, 9) or Lq == 1:
        return
    kinds = {1: [Hard.ONE], 2: [Hard.SQUARE, Hard.LONG], 6: []}[Hk]
    for s in (s for kind in kinds for s in draw.hard(kind, {"D": 0, "Dv": 0}, **USUAL)):
        full = (s["B"], s["Hk"] * s["G"], s["Lq"], s["Lk"])
        attends(student, *qkv(draw, **s), draw.keep(*full))
        attends(student, *qkv(draw, **s), draw.keep(*full[2:]))
        if s["Lq"] > 64:  # one row for many queries
            attends(student, *qkv(draw, **s), draw.keep(1, 1, s["Lk"]))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "case", [(2, 4, 1, 5, 9, 4, 3), (2, 2, 2, 5, 9, 4, 3), Hard.SQUARE, Hard.ONE]
)
def test_gradient(student, draw, case, masked):
    """Gradients flow to q, k and v and are right, with a mask and without: a shared head sums those
    of its whole group."""
    for s in calls(draw, case, USUAL):
        full = (s["B"], s["Hk"] * s["G"], s["Lq"], s["Lk"])
        gradients_agree(draw, student, *qkv(draw, **s), draw.keep(*full) if masked else None)
    draw.hard(Hard.LEARN)
    for name in "qkv":
        gradients_agree(draw, student, *qkv(draw), draw.keep(5, 7) if masked else None, only=name)
    if not isinstance(case, Hard):
        gradients_outlast_a_call(student, draw, draw.keep(5, 7) if masked else None)
        same_tensor_learns(student, draw, float32, masked)


@check(points=1, needs=[test_mask, test_gradient])
@pytest.mark.parametrize(("Hk", "dtype"), [(2, float32), (1, float32), (2, float16), (6, bfloat16)])
def test_hidden_keys(student, draw, device, dtype, Hk):
    """Hidden keys and values count for nothing, even 1e30 in both, or NaN in the keys; a query that
    may attend to nothing gets zeros, and no gradient becomes NaN."""
    sizes = {"Hk": Hk, "G": 6 // Hk, "Lk": 9}
    q, k, v = qkv(draw, dtype, **sizes)

    def hides(right, q, k, v, keep, says):
        output = untouched(lambda: student.grouped_query_attention(q, k, v, keep))
        agree(output.to(dtype), right, says=f"output {says}")

    lengths = torch.tensor([4, 7], device=device)[:, None, None, None]
    keep = torch.arange(9, device=device) < lengths  # (B, 1, 1, Lk)
    hidden = ~keep.mT  # (B, 1, Lk, 1)
    right = ATTENTION(q, k, v, keep)
    large = 6e4 if dtype is float16 else 1e30
    loud = [x.masked_fill(hidden, large) for x in (k, v)]
    hides(right, q, *loud, keep, f"with {large:g} in the hidden keys and values")
    hides(right, q, k.masked_fill(hidden, nan), v, keep, "with NaN in the hidden keys")
    low = *heads_of(draw.low(5, 9, 4, dtype), Hk, 6), v
    hides(right_in_float32(*low, keep), *low, keep, "for very low scores")
    if dtype is float32:
        low = *heads_of(draw.low(5, 300, 4), Hk, 6), draw.normal(2, Hk, 300, 4)
        some = draw.keep(2, 6, 5, 300)
        hides(ATTENTION(*low, some), *low, some, "for very low scores of 300 keys")
    some = draw.keep(2, 6, 5, 9)
    some[..., :3, 8], some[..., 3:, 8] = False, True  # the last key, which some queries see
    right = ATTENTION(q[..., :3, :], k, v, some[..., :3, :])
    spoilt = k.index_fill(-2, torch.tensor(8, device=device), nan)
    output = student.grouped_query_attention(q, spoilt, v, some)[..., :3, :]
    agree(output.to(dtype), right, says="output of queries from which a key of NaN is hidden")
    layer_agrees(student, draw, device, dtype, *draw.low(5, 5, 4, dtype), "very low scores")

    none = keep.logical_and(lengths != 4)  # the first sentence is nothing but padding
    says = "where every key of a sentence is hidden"
    hides(ATTENTION(q, k, v, none), q, k, v, none, says)
    keep = draw.keep(2, 6, 5, 9)
    keep[:, :, 2] = False  # one query sees nothing in any head, one in a single head of a group
    keep[:, 1, 4] = False
    says = "where query 2 of every head sees nothing"
    hides(ATTENTION(q, k, v, keep), q, k, v, keep, says)
    gradients_agree(draw, student, q, k, v, keep, says=f" {says}")


@check(points=1)
@pytest.mark.parametrize(
    ("case", "bias"),
    [
        ((2, 2, 3, 5, 4), False), ((2, 1, 6, 17, 4), True), ((2, 6, 1, 1, 4), False),
        ((2, 2, 3, 70, 4), True), (Hard.ONE, True), (Hard.LONG, False),
    ],
)  # fmt: skip
def test_layer(student, draw, device, case, bias):
    """The layer projects, attends with H heads to Hk and merges, in .train() and in .eval();
    gradients reach x and every weight and bias."""
    for s in calls(draw, case, LAYER, WIDEST):
        heads = (s["Hk"], s["G"])
        module, oracle = layers(student, draw, device, heads, s["D"], bias)
        x = draw.normal(s["B"], s["L"], oracle.plain.w_q.in_features)
        agree(module(x), oracle(x))
        if s["L"] > 99:
            continue
        keep = draw.keep(s["B"], heads[0] * heads[1], s["L"], s["L"])
        agree(module(x, keep=keep), oracle(x, keep=keep))
    if isinstance(case, Hard):
        return
    draw.hard(Hard.OPTIONS)
    upstream = draw.normal(*x.shape)
    draw.hard(Hard.MODES)
    for mode, mask in ((module.train, keep), (module.eval, None)):
        mode()
        layer_gradients_agree(module, oracle, x, mask, upstream, every_weight=True)
    draw.hard(Hard.LEARN)
    module.requires_grad_(False)
    layer_gradients_agree(module, oracle, x, keep, upstream, every_weight=False)
    draw.hard(Hard.CHANGED)
    for mode in module.eval, module.train:
        mode()
        agree(module(x), oracle(x))
        state = {name: -x.detach() for name, x in oracle.plain.state_dict().items()}
        with lasting(module.forward, x):
            module.load_state_dict(state, strict=False)
            oracle.load_state_dict(state)
            x.mul_(-2)
            agree(module(x), oracle(x), says="output for a changed x and changed weights")
    changed_weights_agree(draw, module, oracle, x)


@check(points=1, needs=[test_layer])
@pytest.mark.parametrize(
    ("sizes", "Hk", "bias"),
    [
        ((6,), 2, False), ((1,) * 6, 2, True), ((3, 1, 2), 2, False), ((1, 5), 1, True),
        ((4, 2), 6, False), ((2, 1, 3), 2, True), ((1, 2, 3), 1, False),
    ],
)  # fmt: skip
def test_step(student, draw, device, sizes, Hk, bias):
    """Steps of any size agree with one causal call; the past has Hk heads and grows at its end;
    gradients flow through both; two continuations of one past do not disturb each other."""
    module, oracle = layers(student, draw, device, (Hk, 6 // Hk), bias=bias)
    texts = [draw.normal(2, 6, 24) for _ in range(2)]
    pasts, right_pasts = [None, None], [None, None]
    for pieces in zip(*(x.split(sizes, dim=1) for x in texts), strict=True):
        for i, piece in enumerate(pieces):  # two texts in turn: the layer itself remembers nothing
            step = untouched(lambda piece=piece, i=i: module.step(piece, pasts[i]))
            right = oracle.step(piece, right_pasts[i])
            agree(step, right)
            pasts[i], right_pasts[i] = step[1], right[1]
    says = "output of a whole text after that of its pieces"
    agree(module.step(texts[0])[0], oracle.step(texts[0])[0], says=says)
    step_gradients_agree(draw, module, oracle, texts[0], texts[1][:, :2])
    continuations_agree(draw, module, oracle, texts[0])
    if sizes == (6,):
        long_pasts_agree(student, draw, device)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("case", ["each alone", *TOGETHER])
def test_manners(student, draw, device, case):
    """Strided, expanded, unbatched and empty inputs work, on any device, and stay as they were; so
    do earlier answers; heads that do not divide raise a ValueError with both numbers; no heads,
    sizes, masks, layouts, modes and dtypes disturb each other."""
    if case in TOGETHER:
        TOGETHER[case](student, draw, device)
        return
    attend = student.grouped_query_attention
    q, k, v = qkv(draw, Lk=9)
    keep = draw.keep(2, 6, 5, 9)
    keep[:, 1, 4] = False  # this query sees nothing
    for dtype in DTYPES:
        copies = [x.to(dtype) for x in (q, k, v)]
        for mask in (None, keep, keep[:, :1, 4:]):
            untouched(lambda copies=copies, mask=mask: attend(*copies, mask))
    answers_agree(student, draw, q, k, v, keep)
    layouts_agree(student, draw, device)
    module, oracle = layers(student, draw, device)
    draw.hard(Hard.FAILED)
    for Hk, G, wrong in ((2, 3, 4), (2, 1, 4), (2, 3, 12), (2, 3, draw.integer(20, 99))):
        q, k, v = qkv(draw, Hk=Hk, G=G)
        for mask in (None, draw.keep(5, 7)):
            some = [draw.normal(2, wrong, 7, n) for n in (4, 3)]
            rejects(lambda q=q, some=some, mask=mask: attend(q, *some, mask), Hk * G, wrong)
        attends(student, q, k, v, says="output after a call that raised")
    many = draw.integer(20, 49)
    for width, heads in (30, 4), (6 * many - 2, 2 * many):
        refused = partial(student.GroupedQueryAttention, width, heads, 2)
        rejects(refused, width, heads)
    for heads, pairs in (8, 3), (2 * many + 1, many):
        refused = partial(student.GroupedQueryAttention, 6 * heads, heads, pairs)
        rejects(refused, heads, pairs)
    student.GroupedQueryAttention(24, 4, 1)
    x = draw.normal(2, 5, 24)
    agree(module(x), oracle(x), says="output after other layers were made")
    on_its_device(student, draw, q, k, v)


@check(points=1)
@pytest.mark.parametrize("dtype", [*DTYPES, torch.int8, torch.int16, torch.bool, torch.complex64])
def test_cache_bytes(student, draw, dtype):
    """kv_cache_bytes counts the bytes of K and V together, of Hk heads, in every layer, as an int,
    for any dtype and any sizes, 0 included."""
    names = dict.fromkeys(("batch", "num_kv_heads", "length", "head_dim", "layers"), 3)
    draw.hard(Hard.OPTIONS)
    usual = [{name: draw.integer(2, 90) for name in names}, names | {"length": 0}]
    huge = dict(zip(names, (64, 8, 131_072, 128, 80), strict=True))
    odd = dict(zip(names, (3**8, 3**7, 3**8, 3**8, 3**5), strict=True))  # no float holds these
    for sizes in [*usual, huge, odd, *draw.hard(Hard.ONE, **names), *draw.hard(Hard.LONG, **names)]:
        *four, count = sizes.values()
        right = int(reference.kv_cache_bytes(*four, dtype, count).exact)
        same(student.kv_cache_bytes(*four, dtype, count), right)
