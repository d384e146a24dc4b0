"""Grouped queries: the right head for each query, then the layer and its past."""

import pytest
import torch
from torch import bfloat16, float16, float32, float64, nan

from grader.judging import agree, backward, check, expect, gradcheck, rejects, same, untouched
from reference import ex07_mqa_gqa as reference
from reference import raised

DTYPES = [float32, float64, float16, bfloat16]
SHAPES = [  # H, Hk, Lq, Lk, D, Dv
    (6, 1, 5, 7, 4, 4), (6, 2, 17, 3, 8, 5), (6, 3, 3, 65, 16, 16), (6, 6, 1, 9, 3, 1),
    (4, 2, 7, 7, 8, 8), (8, 1, 3, 1, 1, 3), (1, 1, 4, 4, 2, 2),
]  # fmt: skip


def qkv(draw, num_heads=6, num_kv_heads=2, q_len=5, k_len=9, dtype=float64):
    """Queries, keys and values of two sequences, D = 4 and Dv = 3."""
    q = draw.normal(2, num_heads, q_len, 4, dtype=dtype)
    k = draw.normal(2, num_kv_heads, k_len, 4, dtype=dtype)
    return q, k, draw.normal(2, num_kv_heads, k_len, 3, dtype=dtype)


def layers(student, draw, device, d_model, num_heads, num_kv_heads, bias=False, dtype=float64):
    """The student's layer and the oracle's, with the same weights."""
    kv_width = d_model // num_heads * num_kv_heads
    widths = {"w_q": d_model, "w_k": kv_width, "w_v": kv_width, "w_o": d_model}
    scale = d_model**-0.5
    state = {
        f"{name}.weight": draw.normal(width, d_model, dtype=dtype, scale=scale)
        for name, width in widths.items()
    }
    if bias:
        state |= {f"{name}.bias": draw.normal(n, dtype=dtype) for name, n in widths.items()}
    module = student.GroupedQueryAttention(d_model, num_heads, num_kv_heads, bias=bias)
    for name, weight in state.items():
        right, got = tuple(weight.shape), getattr(module.read(name), "shape", None)
        got = got if got is None else tuple(got)
        expect(got == right, f"the shape of {name} is {got}, but should be {right}")
    module.to(device, dtype)
    module.load_state_dict(state, strict=False)  # a module may have buffers of its own
    oracle = reference.GroupedQueryAttention(d_model, num_heads, num_kv_heads, bias)
    oracle.load_state_dict(state)
    return module, oracle


@check(points=1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("num_kv_heads", "n"), [(3, 2), (2, 3), (1, 4), (4, 1)])
def test_repeat_kv(student, draw, num_kv_heads, n, dtype):
    """repeat_kv puts n copies of every key/value head next to each other; gradients flow."""
    x = draw.normal(2, num_kv_heads, 5, 3, dtype=dtype)
    agree(untouched(lambda: student.repeat_kv(x, n)), reference.repeat_kv(x, n))
    turned = draw.normal(2, 5, num_kv_heads, 3, dtype=dtype).transpose(1, 2)
    agree(student.repeat_kv(turned, n), reference.repeat_kv(turned, n))
    for other in (x[0], turned.unsqueeze(1)):
        agree(student.repeat_kv(other, n), reference.repeat_kv(other, n))
    x.requires_grad_()
    upstream = draw.normal(2, num_kv_heads * n, 5, 3, dtype=dtype)
    [got] = backward(student.repeat_kv(x, n), x, upstream=upstream)
    [expected] = reference.gradients(
        lambda x: x.repeat_interleave(n, 1), x, upstream=upstream, magnitude=4.0
    )
    agree(got, expected, says="gradient of x")


@check(points=1)
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_values(student, draw, shape, dtype):
    """Query head h attends, with the scale 1/sqrt(D), to key/value head h // (H // Hk)."""
    num_heads, num_kv_heads, q_len, k_len, width, v_width = shape
    q = draw.normal(2, num_heads, q_len, width, dtype=dtype)
    k = draw.normal(2, num_kv_heads, k_len, width, dtype=dtype)
    v = draw.normal(2, num_kv_heads, k_len, v_width, dtype=dtype)
    agree(student.grouped_query_attention(q, k, v), reference.grouped_query_attention(q, k, v))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize(
    ("num_kv_heads", "masked"), [(2, False), (2, True), (1, False), (1, True), (4, False)]
)
@pytest.mark.parametrize(
    ("dtype", "scale"), [(float16, 1), (bfloat16, 1), (float32, 5), (float64, 3000)]
)
def test_precision(student, draw, dtype, scale, num_kv_heads, masked):
    """Half precision is computed in float32 and converted back; large scores do not overflow; both
    with a mask and without."""
    q = draw.normal(2, 4, 17, 16, dtype=dtype, scale=scale)  # scores up to ±1e4 in float64
    k, v = (draw.normal(2, num_kv_heads, 17, 16, dtype=dtype) for _ in range(2))
    keep = draw.keep(2, 4, 17, 17) if masked else None
    if masked:
        keep[:, 1, 4] = False  # this query sees nothing
    right = reference.grouped_query_attention(q, k, v, keep)
    agree(student.grouped_query_attention(q, k, v, keep), right)
    if dtype.itemsize > 2:
        return
    loud = torch.full_like(q, 256)  # 16 products of 256 * 256 are too much for float16
    some = draw.keep(2, num_kv_heads, 1, 17).mT * torch.full_like(k, 256)  # these share all weight
    right = raised(reference.grouped_query_attention, loud, some, v, keep)
    output = student.grouped_query_attention(loud, some, v, keep)
    agree(output, right, says="output for queries and keys of 256")


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize(
    "shape", [(5, 9), (2, 6, 5, 9), (1, 1, 5, 9), (2, 1, 1, 9), (6, 1, 9), (9,)]
)
@pytest.mark.parametrize(("num_kv_heads", "q_len"), [(2, 5), (1, 5), (6, 5), (2, 1)])
def test_mask(student, draw, num_kv_heads, q_len, shape, dtype):
    """A query attends where keep is True; keep may differ between the H heads, and broadcasts."""
    q, k, v = qkv(draw, 6, num_kv_heads, q_len, dtype=dtype)
    keep = draw.keep(*shape)[..., -q_len:, :] if len(shape) > 1 else draw.keep(*shape)
    right = reference.grouped_query_attention(q, k, v, keep)
    agree(student.grouped_query_attention(q, k, v, keep), right)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("num_kv_heads", "dtype"),
    [(1, float64), (2, float64), (4, float64), (2, float32), (2, float16), (1, bfloat16)],
)
def test_gradient(student, draw, num_kv_heads, dtype, masked):
    """Gradients flow to q, k and v and are right, with a mask and in any dtype: a shared head sums
    those of its whole group."""
    leaves = [x.requires_grad_() for x in qkv(draw, 4, num_kv_heads, dtype=dtype)]
    keep = draw.keep(2, 4, 5, 9) if masked else None
    upstream = draw.normal(2, 4, 5, 3, dtype=dtype)
    output = student.grouped_query_attention(*leaves, keep)
    grads = backward(output, *leaves, upstream=upstream)
    rights = reference.grouped_query_attention_gradients(*leaves, keep, upstream=upstream)
    for name, got, right in zip("qkv", grads, rights, strict=True):
        agree(got, right, says=f"gradient of {name}")
    if num_kv_heads == 1 and not masked:
        small = [draw.normal(1, heads, 2, 2, dtype=float64) for heads in (2, 1, 1)]
        gradcheck(student.grouped_query_attention, *(x.requires_grad_() for x in small))


@check(points=1, needs=[test_mask, test_gradient])
@pytest.mark.parametrize(
    ("num_kv_heads", "dtype"),
    [(2, float32), (2, float64), (1, float64), (2, float16), (6, bfloat16)],
)
def test_hidden_keys(student, draw, device, dtype, num_kv_heads):
    """Hidden keys count for nothing, even 1e30 or NaN; a query that sees no key gets zeros."""
    q, k, v = qkv(draw, 6, num_kv_heads, dtype=dtype)
    lengths = torch.tensor([4, 7], device=device)[:, None, None, None]
    keep = torch.arange(9, device=device) < lengths  # (B, 1, 1, Lk)
    hidden = ~keep.mT  # (B, 1, Lk, 1)
    right = reference.grouped_query_attention(q, k, v, keep)
    large = 6e4 if dtype is float16 else 1e30
    loud = student.grouped_query_attention(
        q, k.masked_fill(hidden, large), v.masked_fill(hidden, large), keep
    )
    agree(loud, right, says=f"output with {large:g} in the hidden keys and values")
    unset = student.grouped_query_attention(q, k.masked_fill(hidden, nan), v, keep)
    agree(unset, right, says="output with NaN in the hidden keys")

    none = keep.logical_and(lengths != 4)  # the first sentence is nothing but padding
    right = reference.grouped_query_attention(q, k, v, none)
    agree(student.grouped_query_attention(q, k, v, none), right,
          says="output where every key of a sentence is hidden")  # fmt: skip
    keep = draw.keep(2, 6, 5, 9)
    keep[:, :, 2] = False  # one query sees nothing in any head, one in a single head of a group
    keep[:, 1, 4] = False
    leaves = [x.requires_grad_() for x in (q, k, v)]
    upstream = draw.normal(2, 6, 5, 3, dtype=dtype)
    output = student.grouped_query_attention(q, k, v, keep)
    agree(output, reference.grouped_query_attention(q, k, v, keep),
          says="output where query 2 of every head sees nothing")  # fmt: skip
    grads = backward(output, *leaves, upstream=upstream)
    rights = reference.grouped_query_attention_gradients(q, k, v, keep, upstream=upstream)
    for name, got, right in zip("qkv", grads, rights, strict=True):
        agree(got, right, says=f"gradient of {name} where query 2 of every head sees nothing")


@check(points=1)
@pytest.mark.parametrize(
    ("num_kv_heads", "bias", "dtype", "length"),
    [
        (2, False, float64, 5), (1, True, float64, 17), (6, False, float64, 1),
        (2, True, float32, 17), (2, False, float16, 33), (2, False, bfloat16, 33),
    ],
)  # fmt: skip
def test_layer(student, draw, device, num_kv_heads, bias, dtype, length):
    """The layer projects, attends with H heads to Hk and merges; gradients reach x and weights."""
    module, oracle = layers(student, draw, device, 24, 6, num_kv_heads, bias, dtype)
    x = draw.normal(2, length, 24, dtype=dtype)
    agree(module(x), oracle(x))
    keep = draw.keep(2, 6, length, length)
    agree(module(x, keep=keep), oracle(x, keep=keep))
    x.requires_grad_()
    upstream = draw.normal(2, length, 24, dtype=dtype)
    for mask in (keep, None) if length == 5 else (keep,):
        module.zero_grad()
        [got] = backward(module(x, mask), x, upstream=upstream)
        [right] = oracle.forward_gradients(x, mask, upstream=upstream)
        agree(got, right, says="gradient of x")
        rights = oracle.weight_gradients(x, mask, upstream=upstream)
        for name, right in rights.items():
            if dtype is float64 or (dtype is float32 and name.endswith("weight")):
                agree(module.read(f"{name}.grad"), right)  # w_k.bias: 0 but for rounding


@check(points=1, needs=[test_layer])
@pytest.mark.parametrize(
    ("sizes", "num_kv_heads", "bias", "dtype"),
    [
        ((6,), 2, False, float64), ((1,) * 6, 2, True, float64), ((3, 1, 2), 2, False, float32),
        ((1, 5), 1, True, float64), ((4, 2), 6, False, float64), ((2, 1, 3), 2, True, float16),
        ((1, 2, 3), 1, False, bfloat16),
    ],
)  # fmt: skip
def test_step(student, draw, device, sizes, num_kv_heads, bias, dtype):
    """Steps of any size agree with one causal call; the past has Hk heads and grows at its end;
    gradients flow through both."""
    module, oracle = layers(student, draw, device, 24, 6, num_kv_heads, bias, dtype)
    texts = [draw.normal(2, 6, 24, dtype=dtype) for _ in range(2)]
    pasts, right_pasts = [None, None], [None, None]
    for pieces in zip(*(x.split(sizes, dim=1) for x in texts), strict=True):
        for i, piece in enumerate(pieces):  # two texts in turn: the layer itself remembers nothing
            step = untouched(lambda piece=piece, i=i: module.step(piece, pasts[i]))
            right = oracle.step(piece, right_pasts[i])
            agree(step, right)
            pasts[i], right_pasts[i] = step[1], right[1]
    if dtype.itemsize == 2:
        return
    first, last = (x.clone().requires_grad_() for x in (texts[0], texts[1][:, :2]))
    output, _ = module.step(last, module.step(first)[1])
    plain = reference.PlainGroupedQueryAttention(24, 6, num_kv_heads, bias)

    def second(first, last):
        plain.load_state_dict(oracle.plain.state_dict())
        plain.to(last.device, last.dtype)
        return plain.step(last, plain.step(first)[1])[0]

    grads = backward(output, first, last, upstream=last.detach())
    rights = reference.gradients(second, first, last, upstream=last.detach(), magnitude=4.0)
    for name, got, right in zip(("the first", "the second"), grads, rights, strict=True):
        agree(got, right, says=f"gradient of x of {name} of two steps")


@check(points=1, needs=[test_values, test_layer])
def test_manners(student, draw, device):
    """Strided, empty and unbatched inputs work and stay as they were; uneven heads are refused."""
    attend, right = student.grouped_query_attention, reference.grouped_query_attention
    q, k, v = qkv(draw)
    keep = draw.keep(2, 6, 5, 9)
    keep[:, 1, 4] = False  # this query sees nothing
    first = untouched(lambda: attend(q, k, v, keep))
    for dtype in DTYPES:
        copies = [x.to(dtype) for x in (q, k, v)]
        for mask in (None, keep, keep[:, :1, 4:]):
            untouched(lambda copies=copies, mask=mask: attend(*copies, mask))
    same(attend(q, k, v, keep), first, says="the second answer to the same call")
    turned = [draw.normal(2, 5, n, 4, dtype=float64).transpose(1, 2) for n in (6, 2, 2)]
    agree(attend(*turned), right(*turned))
    strided = [draw.strided(2, n, 5, 4, dtype=float64) for n in (6, 2, 2)]
    agree(attend(*strided), right(*strided))
    expanded = [draw.normal(1, n, 1, 4, dtype=float64).expand(3, n, 5, 4) for n in (6, 2, 2)]
    agree(attend(*expanded), right(*expanded))
    agree(attend(q[0], k[0], v[0], keep[0]), right(q[0], k[0], v[0], keep[0]))
    deep = [draw.normal(2, 3, n, 5, 4, dtype=float64) for n in (6, 2, 2)]
    agree(attend(*deep, keep[0, :, :, :5]), right(*deep, keep[0, :, :, :5]))
    agree(attend(q[:0], k[:0], v[:0]), torch.empty(0, 6, 5, 3, device=device))
    agree(attend(q[:0], k[:0], v[:0], keep[:0]), torch.empty(0, 6, 5, 3, device=device))
    agree(attend(q[0], k[0], v[0]), right(q[0], k[0], v[0]))
    agree(attend(*strided, keep[..., :5]), right(*strided, keep[..., :5]))
    for mask in (None, keep):
        rejects(lambda mask=mask: attend(q, *qkv(draw, 6, 4)[1:], mask), 6, 4)

    module, oracle = layers(student, draw, device, 24, 6, 2)
    x = draw.normal(5, 2, 24, dtype=float64).transpose(0, 1)
    agree(untouched(lambda: module(x)), oracle(x))
    agree(module(x[:0]), torch.empty(0, 5, 24, device=device))
    rejects(lambda: student.GroupedQueryAttention(30, 4, 2), 30, 4)
    rejects(lambda: student.GroupedQueryAttention(48, 8, 3), 8, 3)


@check(points=1)
@pytest.mark.parametrize("dtype", DTYPES)
def test_cache_bytes(student, draw, dtype):
    """kv_cache_bytes counts the bytes of K and V together, of Hk heads, in every layer."""
    sizes = [draw.integer(2, 9) for _ in range(4)]
    for args in ((*sizes, dtype, draw.integer(3, 90)), (64, 8, 131_072, 128, dtype, 80)):
        same(student.kv_cache_bytes(*args), int(reference.kv_cache_bytes(*args).exact))
