"""The oracle, the yardstick and the solution of the block agree, and PyTorch agrees with them."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from grader.core.catalog import find_catalog_exercise
from grader.worker.child.prelude import run_worker_prelude
from reference import blocks
from reference import ex12_attention_block as reference

SOURCE = Path(__file__).parents[2] / "solutions" / "ex12_attention_block.py"
spec = importlib.util.spec_from_file_location("solution_ex12_attention_block", SOURCE)
assert spec is not None and spec.loader is not None
solution = importlib.util.module_from_spec(spec)
spec.loader.exec_module(solution)

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 2e-1}
SELF = [
    {"qk_norm": False},
    {},
    {"qk_norm": False, "rope_base": 10000.0},
    {"rope_base": 100.0},
]


@pytest.fixture(autouse=True)
def one_seed_for_all():
    torch.manual_seed(12)


def draw(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def close(got, expected, tolerance=1e-12):
    got, expected = torch.as_tensor(got), torch.as_tensor(expected)
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance)


def agree(got, expected):
    """The answer is the yardstick's and the oracle's, up to the rounding of its dtype."""
    torch.testing.assert_close(got, expected.plain, rtol=0, atol=TOLERANCE[got.dtype])
    close(got.double(), expected.exact, TOLERANCE[got.dtype])


def pair(name, *args, dtype=torch.float64, **options):
    """The solution's module and the oracle, with the same weights, none of them special."""
    module = getattr(solution, name)(*args, **options).to(dtype)
    state = {name: draw(*x.shape, dtype=dtype) / 3 for name, x in module.state_dict().items()}
    module.load_state_dict(state)
    oracle = getattr(reference, name)(*args, **options)
    assert oracle.state_dict().keys() == state.keys()
    oracle.load_state_dict(state)
    return module, oracle


def keeps(*shape):
    """A mask whose first row sees nothing."""
    keep = torch.rand(*shape) < 0.6
    keep[..., 0, :] = False
    return keep


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", [(5,), (2, 3, 17), (0, 4), (1, 1)], ids=str)
@pytest.mark.parametrize("eps", [1e-6, 0.1])
def test_the_norm_is_pytorchs(dtype, shape, eps):
    module, oracle = pair("RMSNorm", shape[-1], dtype=dtype, eps=eps)
    theirs = nn.RMSNorm(shape[-1], eps=eps).to(dtype)
    theirs.load_state_dict(module.state_dict())
    for x in (draw(*shape, dtype=dtype), torch.zeros(shape, dtype=dtype)):
        agree(module(x), oracle(x))
        close(module(x), theirs(x), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [500.0, 2e-4])
def test_the_norm_survives_squares_beyond_half_precision(dtype, size):
    module = solution.RMSNorm(33).to(dtype)
    x = size * draw(5, 33, dtype=dtype)
    exact = blocks.PlainRMSNorm(33).double()(x.double())
    close(module(x).double(), exact, 4 * TOLERANCE[dtype])


@pytest.mark.parametrize("width", [4, 1])
def test_the_norm_refuses_another_width(width):
    for module in (solution.RMSNorm(7), blocks.PlainRMSNorm(7)):
        with pytest.raises(ValueError, match=rf"{width}\D+7"):
            module(draw(3, width))


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_without_norms_self_attention_is_pytorchs_module(fused, mask):
    module, oracle = pair("SelfAttention", 12, 3, qk_norm=False)
    module.fused = fused
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    three = [module.q, module.k, module.v]
    state = {f"out_proj.{name}": x for name, x in module.o.state_dict().items()}
    state["in_proj_weight"] = torch.cat([layer.weight for layer in three])
    state["in_proj_bias"] = torch.cat([layer.bias for layer in three])
    theirs.load_state_dict(state)
    x, keep = draw(2, 5, 12), (torch.rand(5, 5) < 0.6) | torch.eye(5, dtype=torch.bool)
    expected, _ = theirs(x, x, x, attn_mask=~keep if mask else None, need_weights=False)
    close(module(x, keep if mask else None), expected)
    close(oracle(x, keep if mask else None).exact, expected)


@pytest.mark.parametrize("options", SELF, ids=str)
def test_self_attention_is_pytorchs_operators_step_by_step(options):
    module, oracle = pair("SelfAttention", 12, 3, **options)
    x, keep = draw(2, 7, 12), keeps(2, 3, 7, 7)
    q, k, v = module.q(x), module.k(x), module.v(x)
    if "qk_norm" not in options:
        q = F.rms_norm(q, (12,), module.norm_q.weight, 1e-6)
        k = F.rms_norm(k, (12,), module.norm_k.weight, 1e-6)
    q, k, v = (y.view(2, 7, 3, 4).transpose(1, 2) for y in (q, k, v))
    if base := options.get("rope_base"):
        speeds = torch.tensor([1.0, 1 / math.sqrt(base)], dtype=torch.float64)
        turns = torch.polar(torch.ones(7, 2).double(), torch.arange(7)[:, None] * speeds)
        q, k = (
            torch.view_as_real(torch.view_as_complex(y.unflatten(-1, (2, 2))) * turns).flatten(-2)
            for y in (q, k)
        )
    heads = F.scaled_dot_product_attention(q, k, v, keep).nan_to_num()
    expected = module.o(heads.transpose(1, 2).flatten(2))
    close(module(x, keep), expected)
    close(oracle(x, keep).exact, expected)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("options", SELF, ids=str)
@pytest.mark.parametrize("fused", [False, True])
def test_self_attention_agrees_with_the_oracle_in_every_dtype(dtype, options, fused):
    module, oracle = pair("SelfAttention", 12, 3, dtype=dtype, **options)
    module.fused = fused
    for batch, length in ((2, 17), (1, 1), (0, 3)):
        x = draw(batch, length, 12, dtype=dtype)
        agree(module(x), oracle(x))
        agree(module(x, keep := keeps(3, length, length)), oracle(x, keep))


def test_some_rows_of_the_oracle_are_rows_of_the_whole():
    _, oracle = pair("SelfAttention", 12, 3, rope_base=100.0)
    x, rows = draw(2, 7, 12), [0, 2, 6]
    some, whole = oracle.rows(x, rows), oracle(x)
    close(some.exact, whole.exact[:, rows])
    close(some.plain, whole.plain[:, rows])
    assert some.magnitude == whole.magnitude


X, Y = draw(2, 3), draw(3, 4)


@pytest.mark.parametrize(
    "product, recorded",
    [
        (lambda: X @ Y, [[3, 24]]),
        (lambda: X.matmul(Y[:, 0]), [[3, 6]]),
        (lambda: torch.dot(X[0], Y[:, 0]), [[3, 3]]),
        (lambda: torch.bmm(X[None], Y[None]), [[3, 24]]),
        (lambda: F.linear(X, Y.mT, Y[0]), [[3, 24]]),
        (lambda: nn.Linear(3, 4).double()(X), [[3, 24]]),
        (lambda: torch.addmm(Y[:2], X, Y), [[3, 24]]),
        (lambda: Y[:2].clone().addmm_(X, Y), [[3, 24]]),
        (lambda: torch.einsum("ij,jk->ik", X, Y), [[3, 24]]),
        (lambda: torch.tensordot(X, Y, 1), [[3, 24]]),
        (lambda: torch.vmap(lambda row: row @ Y)(X), [[3, 24]]),
        (lambda: F.conv1d(X.mT[None], Y.mT[..., None]), [[3, 24]]),
        (lambda: F.bilinear(X, X[:, :1], Y.mT[..., None]), [[3, 24]]),
        (lambda: X @ Y @ Y.mT, [[3, 24], [4, 24]]),
        (lambda: X * X + X.sum(), []),
    ],
)
def test_the_prelude_records_every_product_once(product, recorded):
    prelude = run_worker_prelude(find_catalog_exercise("ex12_attention_block").prelude)
    prelude.start()
    product()
    assert prelude.stop() == recorded
    product()
    assert prelude.stop() == []


def test_scores_with_rope_depend_on_distances_alone():
    x = draw(3, 20, 8)
    same = x[:, :1].expand(3, 20, 8).contiguous()
    turned = blocks.plain_turn(same, blocks.plain_angles(same, 100.0))
    close(turned, reference.exact_rotate(same.numpy(), 100.0))
    scores = turned @ turned.mT
    close(scores[:, 5:, 5:], scores[:, :15, :15])
    close(turned.norm(dim=-1), same.norm(dim=-1))


@pytest.mark.parametrize("image", [0, 4, 9])
@pytest.mark.parametrize("mask", [False, True])
def test_cross_attention_is_two_of_pytorchs_added(image, mask):
    module, oracle = pair("CrossAttention", 12, 3, image)
    x, context, keep = draw(2, 5, 12), draw(2, 9, 12), keeps(2, 3, 5, 9 - image)

    def read(tokens, ending, keep):
        k, v, norm = (getattr(module, f"{n}{ending}") for n in ("k", "v", "norm_k"))
        k = F.rms_norm(k(tokens), (12,), norm.weight, 1e-6)
        q = F.rms_norm(module.q(x), (12,), module.norm_q.weight, 1e-6)
        heads = (y.unflatten(-1, (3, 4)).transpose(1, 2) for y in (q, k, v(tokens)))
        answer = F.scaled_dot_product_attention(*heads, keep).nan_to_num()
        return answer.transpose(1, 2).flatten(2)

    expected = read(context[:, image:], "", keep if mask else None)
    if image:
        expected = expected + read(context[:, :image], "_img", None)
    close(module(x, context, keep if mask else None), module.o(expected))
    close(oracle(x, context, keep if mask else None).exact, module.o(expected))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("image", [0, 4, 9])
def test_cross_attention_agrees_with_the_oracle_in_every_dtype(dtype, image):
    module, oracle = pair("CrossAttention", 12, 3, image, dtype=dtype)
    for batch, length in ((2, 17), (1, 1), (0, 3)):
        x, context = draw(batch, length, 12, dtype=dtype), draw(batch, 9, 12, dtype=dtype)
        agree(module(x, context), oracle(x, context))
        keep = keeps(3, length, 9 - image)
        agree(module(x, context, keep), oracle(x, context, keep))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_the_feed_forward_is_a_sequence_of_pytorchs_layers(dtype):
    module, oracle = pair("FeedForward", 5, 17, dtype=dtype)
    x = draw(2, 3, 5, dtype=dtype)
    close(module(x), nn.Sequential(module.w1, nn.ReLU(), module.w2)(x))
    agree(module(x), oracle(x))


@pytest.mark.parametrize(
    ("name", "args", "options", "masked"),
    [
        ("RMSNorm", (4,), {}, False),
        ("SelfAttention", (4, 2), {"rope_base": 100.0}, True),
        ("SelfAttention", (4, 2), {"rope_base": 100.0}, False),
        ("CrossAttention", (4, 2), {"image_tokens": 2}, True),
        ("FeedForward", (4, 3), {}, False),
    ],
)
def test_gradients_are_the_finite_differences_of_the_oracle(name, args, options, masked):
    module, oracle = pair(name, *args, **options)
    inputs = [draw(2, 3, 4), draw(2, 5, 4)][: 2 if name == "CrossAttention" else 1]
    keep, upstream = keeps(3, 3) if masked else None, draw(2, 3, 4)
    leaves = [x.clone().requires_grad_() for x in inputs]
    masks = (keep,) if masked else ()
    output = module(*leaves, *masks)
    got = torch.autograd.grad(output, [*leaves, *module.parameters()], upstream)
    names = dict(module.named_parameters())
    assert list(names) == list(oracle.state_dict())
    expected = oracle.gradients(*inputs, keep=keep, upstream=upstream)
    for one, right in zip(got, expected, strict=True):
        agree(one, right)

    def scalar(*inputs):
        return float((oracle(*inputs, *masks).exact * upstream.numpy()).sum())

    for right, difference in zip(expected, differences(scalar, inputs), strict=False):
        close(right.exact, difference, 1e-7)


def differences(scalar, inputs, step=1e-6):
    """Central differences of `scalar(*inputs)` for every element of every input."""
    for x in inputs:
        found = torch.zeros_like(x)
        for index in np.ndindex(*x.shape):
            kept = x[index].item()
            x[index] = kept + step
            up = scalar(*inputs)
            x[index] = kept - step
            found[index] = (up - scalar(*inputs)) / (2 * step)
            x[index] = kept
        yield found


def test_dropout_keeps_the_mean_and_stops_in_evaluation():
    module, oracle = pair("SelfAttention", 12, 3, dropout=0.4)
    x = draw(1, 3, 12)
    several = torch.stack([module(x) for _ in range(4000)])
    deviation = several.std(0) / math.sqrt(len(several))
    assert not torch.equal(several[0], several[1])
    assert ((several.mean(0) - oracle(x).plain).abs() < 6 * deviation).all()
    close(module.eval()(x), oracle(x).exact)


@pytest.mark.parametrize(
    ("make", "numbers"),
    [
        (lambda m: m.SelfAttention(10, 4), r"10\D+4"),
        (lambda m: m.SelfAttention(15, 3, rope_base=100.0), r"15|3"),
        (lambda m: m.CrossAttention(10, 4), r"10\D+4"),
        (lambda m: m.CrossAttention(8, 2, 4)(draw(1, 2, 8), draw(1, 3, 8)), r"4\D+3"),
    ],
)
def test_what_does_not_fit_is_refused(make, numbers):
    with pytest.raises(ValueError, match=numbers):
        make(solution)


def test_parts_that_were_not_asked_for_are_not_there():
    assert not [n for n in solution.SelfAttention(4, 2, False).state_dict() if "norm" in n]
    assert not [n for n in solution.CrossAttention(4, 2).state_dict() if "img" in n]
