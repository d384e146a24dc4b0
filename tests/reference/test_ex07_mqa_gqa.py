"""ex07: the solution, the oracle and the yardstick agree, and PyTorch agrees with them."""

import importlib.util
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose

from reference import ex07_mqa_gqa as reference

_PATH = Path(__file__).parents[2] / "solutions" / "ex07_mqa_gqa.py"
_SPEC = importlib.util.spec_from_file_location("solution_ex07", _PATH)
solution = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(solution)

HALVES = [torch.float16, torch.bfloat16]
GROUPS = [(6, 1), (6, 2), (6, 6), (1, 1)]
# name -> a mask that broadcasts to (2, 6, 3, 5)
MASKS = {
    "none": None,
    "keys": torch.tensor([True, False, True, True, False]),
    "padding": torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool()[:, None, None],
    "causal, bottom right": torch.ones(3, 5).tril(2).bool(),
    "per head": torch.arange(90).reshape(6, 3, 5) % 4 != 1,
    "everything": (torch.arange(180) * 7 % 5 != 2).reshape(2, 6, 3, 5),
    "an empty row": (torch.arange(3) != 1)[:, None],
    "an empty batch": torch.tensor([True, False])[:, None, None, None],
}
# the arguments of kv_cache_bytes -> the bytes
CACHES = [
    ((1, 8, 8192, 128, torch.bfloat16, 80), 5 * 2**29),
    ((3, 2, 7, 5, torch.float64, 11), 36960),
]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(7)


def draw(heads=6, kv_heads=2, dtype=torch.float64, lead=(2,), q_len=3, k_len=5):
    """q (..., H, Lq, 4), k (..., Hk, Lk, 4), v (..., Hk, Lk, 3)."""
    q = torch.randn(*lead, heads, q_len, 4, dtype=dtype)
    k = torch.randn(*lead, kv_heads, k_len, 4, dtype=dtype)
    return q, k, torch.randn(*lead, kv_heads, k_len, 3, dtype=dtype)


def layers(heads=6, kv_heads=2, bias=False, dtype=torch.float64):
    """A solution's layer of width 12 and an oracle with its weights."""
    layer = solution.GroupedQueryAttention(12, heads, kv_heads, bias=bias).to(dtype)
    oracle = reference.GroupedQueryAttention(12, heads, kv_heads, bias=bias)
    oracle.load_state_dict(layer.state_dict())
    return layer, oracle


def agree(got, expected, tolerance=1e-12):
    assert got.dtype == expected.plain.dtype
    for answer in (got, expected.plain):
        assert answer.shape == expected.exact.shape
        near(answer.detach().double(), expected.exact, tolerance)


def near(got, exact, tolerance=1e-12):
    assert_allclose(got, exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (3, 1, 2), (0, 2, 3, 4), (2, 2, 1, 3, 1)])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_repeats_agree(shape, n):
    x = torch.randn(shape)
    agree(solution.repeat_kv(x, n), reference.repeat_kv(x, n), tolerance=0)


def test_copies_of_a_head_stand_next_to_each_other():
    x = torch.tensor([10, 20, 30]).reshape(1, 3, 1, 1)
    assert solution.repeat_kv(x, 2).flatten().tolist() == [10, 10, 20, 20, 30, 30]
    assert reference.repeat_kv(x, 2).exact.ravel().tolist() == [10, 10, 20, 20, 30, 30]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_outputs_agree_and_torch_agrees_with_them(mask, kv_heads):
    q, k, v = draw(6, kv_heads)
    expected = reference.grouped_query_attention(q, k, v, MASKS[mask])
    agree(solution.grouped_query_attention(q, k, v, MASKS[mask]), expected)
    keep = torch.ones(2, 6, 3, 5).bool() if MASKS[mask] is None else MASKS[mask]
    fused = F.scaled_dot_product_attention(q, k, v, keep.expand(2, 6, 3, 5), enable_gqa=True)
    fused = fused.masked_fill(~keep.any(-1, keepdim=True), 0.0)  # torch leaves an empty row open
    near(fused, expected.exact)


@pytest.mark.parametrize("lead", [(), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize(("q_len", "k_len"), [(3, 5), (5, 3), (1, 1), (0, 5)])
def test_any_leading_dimensions_and_lengths(lead, q_len, k_len):
    q, k, v = draw(lead=lead, q_len=q_len, k_len=k_len)
    keep = torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len)
    expected = reference.grouped_query_attention(q, k, v, keep)
    agree(solution.grouped_query_attention(q, k, v, keep), expected)


def test_expanded_and_transposed_inputs():
    q, k, v = draw()
    q = q.transpose(0, 2).contiguous().transpose(0, 2)
    k, v = k[:1].expand(2, -1, -1, -1), v.mT.contiguous().mT
    before = [x.clone() for x in (q, k, v)]
    agree(solution.grouped_query_attention(q, k, v), reference.grouped_query_attention(q, k, v))
    assert all(torch.equal(x, y) for x, y in zip((q, k, v), before, strict=True))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_precision_keeps_its_statistics_wide(dtype):
    q, k, v = draw(lead=(4,), q_len=17, k_len=65, dtype=dtype)
    got, expected = (x.grouped_query_attention(q, k, v) for x in (solution, reference))
    exact = torch.from_numpy(expected.exact)
    errors = [(x.double() - exact).abs().mean() for x in (got, expected.plain)]
    assert got.dtype == dtype
    assert errors[0] < errors[1]


def test_products_that_overflow_half_precision():
    q, k, v = (x.half() for x in draw())
    q[:], k[:] = 256.0, 256.0
    got = solution.grouped_query_attention(q, k, v)
    near(got, reference.grouped_query_attention(q, k, v).exact, 2e-3)


@pytest.mark.parametrize("poison", [-1e30, 1e30])
@pytest.mark.parametrize("where", ["keys", "padding", "causal, bottom right", "per head"])
def test_what_is_hidden_has_no_influence_on_the_rows_that_hide_it(poison, where):
    keep = MASKS[where].expand(2, 6, 3, 5)
    hides = ~keep[..., -2]  # the rows that hide key 3; others may see it
    clean = [x.requires_grad_() for x in draw()]
    dirty = [x.detach().clone() for x in clean]
    dirty[1][:, :, 3], dirty[2][:, :, 3] = poison, poison
    dirty = [x.requires_grad_() for x in dirty]
    outputs = [solution.grouped_query_attention(*x, keep)[hides] for x in (clean, dirty)]
    assert torch.equal(*outputs)
    grads = [torch.autograd.grad(y.sum(), x) for y, x in zip(outputs, (clean, dirty), strict=True)]
    assert all(torch.equal(got, right) for right, got in zip(*grads, strict=True))


@pytest.mark.parametrize("mask", MASKS)
def test_gradients_agree_with_finite_differences_of_the_oracle(mask):
    leaves = [x.requires_grad_() for x in draw()]
    keep, upstream = MASKS[mask], torch.randn(2, 6, 3, 3, dtype=torch.float64)
    output = solution.grouped_query_attention(*leaves, keep)
    got = torch.autograd.grad(output, leaves, upstream)
    expected = reference.grouped_query_attention_gradients(*leaves, keep, upstream=upstream)
    for grad, right in zip(got, expected, strict=True):
        agree(grad, right)
    assert_slope(
        lambda *x: reference.grouped_query_attention(*x, keep).exact, leaves, expected, upstream
    )


def test_no_tensor_of_the_size_of_the_repeated_keys_is_made():
    q, k, v = draw(32, 2, lead=(1,), q_len=1, k_len=512)
    with Largest() as largest:
        solution.grouped_query_attention(q, k, v)
    assert largest.elements <= max(k.numel(), 32 * 512)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads"), GROUPS)
def test_layers_agree(heads, kv_heads, bias):
    layer, oracle = layers(heads, kv_heads, bias)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    keep = torch.rand(2, heads, 5, 5) > 0.4
    agree(layer(x), oracle.forward(x))
    agree(layer(x, keep), oracle.forward(x, keep))


def test_the_layer_with_all_heads_is_torchs_multi_head_attention():
    right = torch.nn.MultiheadAttention(12, 6, bias=False, batch_first=True).double()
    names = [f"{name}.weight" for name in ("w_q", "w_k", "w_v", "w_o")]
    weights = (*right.in_proj_weight.detach().chunk(3), right.out_proj.weight)
    oracle = reference.GroupedQueryAttention(12, 6, 6)
    oracle.load_state_dict(dict(zip(names, weights, strict=True)))
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    keep = torch.ones(5, 5, dtype=torch.bool).tril()
    near(oracle.forward(x, keep).exact, right(x, x, x, attn_mask=~keep)[0].detach())


@pytest.mark.parametrize("chunks", [(6,), (1,) * 6, (2, 1, 3), (5, 1)], ids=str)
@pytest.mark.parametrize(("heads", "kv_heads"), GROUPS)
def test_steps_of_any_size_agree_with_one_causal_call(heads, kv_heads, chunks):
    layer, oracle = layers(heads, kv_heads, bias=True)
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    past = oracle_past = None
    outputs = []
    for chunk in x.split(chunks, dim=1):
        from_students_past, _ = oracle.step(chunk, past)
        expected, oracle_past = oracle.step(chunk, oracle_past)
        output, past = layer.step(chunk, past)
        agree(output, expected)
        agree(output, from_students_past)
        agree(past[0], oracle_past[0])
        agree(past[1], oracle_past[1])
        outputs.append(output.detach())
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    near(torch.cat(outputs, dim=1), oracle.forward(x, causal).exact)


def test_a_later_token_never_reaches_an_earlier_one():
    layer, _ = layers()
    x = torch.randn(2, 4, 12, dtype=torch.float64)
    right, _ = layer.step(x)
    x[:, 3] = 1e30
    assert torch.equal(layer.step(x)[0][:, :3], right[:, :3])


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_weights_are_rounded_as_the_students_are(dtype):
    layer, oracle = layers(dtype=torch.float32)
    x = torch.randn(2, 5, 12, dtype=dtype)
    expected = oracle.forward(x)
    assert expected.plain.dtype == dtype
    near(layer.to(dtype).double()(x.double()).detach(), expected.exact)


def test_gradients_of_the_layer_agree_with_finite_differences_of_the_oracle():
    layer, oracle = layers(bias=True)
    x, upstream = torch.randn(2, 2, 3, 12, dtype=torch.float64)
    keep = torch.rand(2, 6, 3, 3) > 0.4
    expected = oracle.forward_gradients(x, keep, upstream=upstream)
    assert_slope(lambda x: oracle.forward(x, keep).exact, [x], expected, upstream)
    leaf = x.clone().requires_grad_()
    agree(torch.autograd.grad(layer(leaf, keep), leaf, upstream)[0], expected[0])


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: solution.grouped_query_attention(*draw(6, 4)), "6.*4"),
        (lambda: solution.GroupedQueryAttention(12, 5, 1), "12.*5"),
        (lambda: solution.GroupedQueryAttention(12, 6, 4), "6.*4"),
    ],
)
def test_sizes_that_do_not_divide_are_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()


@pytest.mark.parametrize(("sizes", "count"), CACHES, ids=str)
def test_bytes_of_a_cache(sizes, count):
    got, expected = solution.kv_cache_bytes(*sizes), reference.kv_cache_bytes(*sizes)
    assert (got, type(got)) == (count, int)
    assert (int(expected.exact), int(expected.plain)) == (count, count)


class Largest(torch.utils._python_dispatch.TorchDispatchMode):
    """The number of elements of the largest tensor that an operator writes (views are free)."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and not func.is_view:
            self.elements = max(self.elements, out.numel())
        return out


def assert_slope(f, inputs, expected, upstream, step=1e-5):
    """The gradients of `(f(*inputs) * upstream).sum()` give its slope in a random direction."""
    ways = [torch.randn_like(x) for x in inputs]
    ahead, behind = (
        f(*(x + move * way for x, way in zip(inputs, ways, strict=True))) for move in (step, -step)
    )
    slope = sum((e.exact * way.numpy()).sum() for e, way in zip(expected, ways, strict=True))
    near(slope, ((ahead - behind) * upstream.numpy()).sum() / (2 * step), 1e-7)
