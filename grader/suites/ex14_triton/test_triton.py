"""The kernels: values at ragged sizes first, then what a kernel gets wrong at its edges."""

import pytest
import torch
from torch import bfloat16, float16, float32

from grader.judging import agree, check, expect, untouched
from reference import ex14_triton as reference
from reference import raised

ROWS = [(1, 1), (3, 5), (2, 64), (7, 65), (1, 1000)]  # M, N
SIZES = [  # Lq, Lk, D, dtype
    *[(1, 1, 16, float32), (3, 17, 32, float32), (65, 33, 16, float32), (33, 200, 16, float32)],
    *[(130, 130, 32, float32), (17, 65, 64, float32), (9, 40, 128, float32)],
    *[(3, 17, 16, float16), (40, 130, 32, float16), (17, 65, 128, float16)],
]
# Lq, Lk. In the last one the key that a tile of queries sees last begins a tile of its own.
CAUSAL = [(5, 5), (1, 65), (17, 150), (65, 3), (130, 131)]
LARGE = [((2, 3), 1000, 1000, 64), ((1, 2), 300, 2100, 128), ((3, 1), 777, 200, 32)]


def qkv(draw, q_len, k_len, width=16, *, lead=(1, 2), dtype=float32):
    """Queries, keys and values (B, H, L, D)."""
    return [draw.normal(*lead, length, width, dtype=dtype) for length in (q_len, k_len, k_len)]


@check(points=1)
@pytest.mark.parametrize("dtype", [float32, float16])
@pytest.mark.parametrize("shape", ROWS)
def test_softmax(student, draw, shape, dtype):
    """softmax gives exp(x) / sum(exp(x)) for each row, in rows of any length and the dtype of x."""
    x = draw.normal(*shape, dtype=dtype, scale=2.0)
    agree(student.softmax(x), reference.softmax(x))


@check(points=1, needs=[test_softmax])
@pytest.mark.parametrize("dtype", [float32, float16])
def test_softmax_extremes(student, draw, dtype):
    """softmax takes logits up to 1e4 either way and rows of 4096, gives zeros for a row of minus
    infinity, and keeps its statistics in float32."""
    x = draw.logits(3, 65, bound=1e4, dtype=dtype)
    agree(student.softmax(x), reference.softmax(x))
    x[1] = -torch.inf
    x[2, ::2] = -torch.inf
    agree(student.softmax(x), reference.softmax(x), says="y (row 1 is -inf)")
    x = draw.normal(2, 4096, dtype=dtype)
    agree(student.softmax(x), reference.softmax(x))


@check(points=1, needs=[test_softmax])
@pytest.mark.parametrize("dtype", [float32, float16])
def test_softmax_layout(student, draw, device, dtype):
    """softmax leaves x as it was; x may be transposed, cut out of a larger one, expanded, empty."""
    inputs = {
        "transposed": draw.strided(5, 17, dtype=dtype),
        "every third column": draw.normal(7, 65, dtype=dtype)[1::2, ::3],
        "expanded": draw.normal(1, 17, dtype=dtype).expand(3, 17),
        "empty": torch.empty(0, 5, dtype=dtype, device=device),
    }
    for how, x in inputs.items():
        y = untouched(lambda x=x: student.softmax(x))
        agree(y, reference.softmax(x), says=f"y (x is {how})")


@check(points=1)
@pytest.mark.parametrize(("q_len", "k_len", "width", "dtype"), SIZES)
def test_attention(student, draw, q_len, k_len, width, dtype):
    """flash_attention gives softmax(q k^T / sqrt(D)) v at lengths that no tile divides."""
    q, k, v = qkv(draw, q_len, k_len, width, dtype=dtype)
    agree(student.flash_attention(q, k, v), reference.flash_attention(q, k, v))


@check(points=1, needs=[test_attention])
@pytest.mark.parametrize(("q_len", "k_len"), CAUSAL)
def test_causal(student, draw, q_len, k_len):
    """With causal=True the last query lines up with the last key, a query before the first key gets
    zeros, and later keys count for nothing, not even 1e30."""
    q, k, v = qkv(draw, q_len, k_len)
    right = reference.flash_attention(q, k, v, causal=True)
    agree(student.flash_attention(q, k, v, causal=True), right)
    if 1 < q_len <= k_len:
        early = reference.flash_attention(q[:, :, :-1], k[:, :, :-1], v[:, :, :-1], causal=True)
        k[:, :, -1], v[:, :, -1] = 1e30, 1e30
        output = student.flash_attention(q, k, v, causal=True)
        agree(output[:, :, :-1], early, says="output (the last key and value are 1e30)")


@check(points=1, needs=[test_attention])
@pytest.mark.parametrize("causal", [False, True])
def test_precision(student, draw, causal):
    """flash_attention takes a given scale, scores of a hundred and float16 inputs of 256 and more:
    scores, maximum, sum and output are kept in float32."""
    q, k, v = qkv(draw, 40, 70)
    for scale in (0.6, 8.0):
        right = reference.flash_attention(q, k, v, causal, scale)
        agree(student.flash_attention(q, k, v, causal, scale), right)
    q, k, v = qkv(draw, 33, 300, 32, dtype=float16)
    right = reference.flash_attention(q, k, v, causal)
    agree(student.flash_attention(q, k, v, causal), right)
    loud = torch.full_like(q[:, :, :9], 256), torch.full_like(k, 256), 300 + v
    right = raised(reference.flash_attention, *loud, causal)
    output = student.flash_attention(*loud, causal)
    agree(output, right, says="output (queries and keys of 256, values of 300)")


@check(points=1, needs=[test_attention])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_layout(student, draw, causal):
    """flash_attention keeps batches and heads apart and its inputs as they were; these may be
    transposed, expanded or empty."""
    attend, right = student.flash_attention, reference.flash_attention
    q, k, v = qkv(draw, 5, 9, lead=(2, 3))
    agree(untouched(lambda: attend(q, k, v, causal)), right(q, k, v, causal))
    turned = [draw.normal(2, n, 3, 16).transpose(1, 2) for n in (5, 9, 9)]
    agree(attend(*turned, causal), right(*turned, causal), says="output (of (B, L, H, D), turned)")
    mixed = q, draw.strided(2, 3, 9, 16), turned[2]
    agree(attend(*mixed, causal), right(*mixed, causal), says="output (other strides in each)")
    shared = [draw.normal(1, 1, n, 16).expand(2, 3, n, 16) for n in (5, 9, 9)]
    agree(attend(*shared, causal), right(*shared, causal), says="output (one head, expanded)")
    agree(attend(q[:0], k[:0], v[:0], causal), right(q[:0], k[:0], v[:0], causal))
    none = [x[:, :, :0] for x in (k, v)]
    agree(attend(q, *none, causal), right(q, *none, causal), says="output (no keys)")


def told(student, what, kernel):
    """A number that the process of the answer keeps for each kernel."""
    numbers = student.told(what)
    number = numbers.get(kernel, 0) if isinstance(numbers, dict) else 0
    return number if isinstance(number, int) else 0


@check(
    points=1,
    needs=[test_softmax_extremes, test_softmax_layout, test_causal, test_precision,
           test_attention_layout],
)  # fmt: skip
def test_launches(student, draw):
    """softmax launches softmax_kernel, and flash_attention flash_attention_kernel, which takes the
    keys tile by tile: at most 1024 at once."""
    calls = {
        "softmax": [draw.normal(2, 3)],
        "flash_attention": qkv(draw, 3, 2100, 128, lead=(1, 1)),
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


@check(points=1, needs=[test_causal, test_precision], cuda=True)
@pytest.mark.parametrize("dtype", [float32, float16, bfloat16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("lead", "q_len", "k_len", "width"), LARGE)
def test_cuda_attention(student, draw, lead, q_len, k_len, width, causal, dtype):
    """On CUDA flash_attention is right in every dtype, at sizes of many tiles; float32 is not
    rounded to TF32."""
    q, k, v = qkv(draw, q_len, k_len, width, lead=lead, dtype=dtype)
    agree(student.flash_attention(q, k, v, causal), reference.flash_attention(q, k, v, causal))
