"""ex08: the solution, the oracle, the yardstick and the fast path agree, and PyTorch with them."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose
from torch.nn.attention.bias import CausalBias
from torch.overrides import TorchFunctionMode

from reference import ex08_cuda_sdpa as reference
from reference import fused

_PATH = Path(__file__).parents[2] / "solutions" / "ex08_cuda_sdpa.py"
_SPEC = importlib.util.spec_from_file_location("solution_ex08", _PATH)
solution = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(solution)

MODULES = [solution, fused]
FAST = [solution.fast_attention, fused.fused_attention]
LENGTHS = [(5, 5), (3, 5), (5, 3), (1, 5), (5, 1)]
HALVES = [torch.float16, torch.bfloat16]
MASKS = {  # for (2, 4, Lq, Lk)
    "none": lambda q_len, k_len: None,
    "of keys": lambda q_len, k_len: torch.rand(k_len) > 0.4,
    "padding": lambda q_len, k_len: torch.rand(2, 1, 1, k_len) > 0.4,
    "of queries": lambda q_len, k_len: torch.rand(2, 1, q_len, 1) > 0.4,
    "everything": lambda q_len, k_len: torch.rand(2, 4, q_len, k_len) > 0.4,
    "transposed": lambda q_len, k_len: (torch.rand(k_len, q_len) > 0.4).mT,
}
KEEP = torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 0, 0, 1, 0]]).bool()  # an empty row


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(8)


def draw(q_len=3, k_len=5, kv_heads=2, widths=(5, 3), lead=(2,), dtype=torch.float64):
    """q (..., 4, Lq, D), k (..., Hk, Lk, D), v (..., Hk, Lk, Dv)."""
    q = torch.randn(*lead, 4, q_len, widths[0], dtype=dtype)
    k = torch.randn(*lead, kv_heads, k_len, widths[0], dtype=dtype)
    return q, k, torch.randn(*lead, kv_heads, k_len, widths[1], dtype=dtype)


def near(got, exact, tolerance=1e-12):
    assert_allclose(got, exact, rtol=tolerance, atol=tolerance)


def agree(got, expected):
    assert got.dtype == expected.plain.dtype
    for answer in (got, expected.plain):
        assert answer.shape == expected.exact.shape
        near(answer.detach(), expected.exact)


def within_the_yardstick(got, expected):
    """The rule for half precision: twice the yardstick's largest error, plus rounding."""
    assert got.dtype == expected.plain.dtype
    unit = {torch.float16: 2**-11, torch.bfloat16: 2**-8, torch.float32: 2**-21}[got.dtype]
    errors = [np.abs(x.double().cpu().numpy() - expected.exact) for x in (got, expected.plain)]
    assert errors[0].max() <= 2 * errors[1].max() + 2 * unit * expected.magnitude


class Watch(TorchFunctionMode):
    """Keeps the keyword arguments of the calls of PyTorch's operator."""

    calls = ()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is F.scaled_dot_product_attention:
            self.calls += (kwargs,)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("attend", FAST)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("q_len", "k_len"), LENGTHS)
def test_values_agree_under_every_mask(attend, causal, mask, q_len, k_len):
    for kv_heads in (4, 2, 1):
        q, k, v = draw(q_len, k_len, kv_heads)
        keep = MASKS[mask](q_len, k_len)
        agree(attend(q, k, v, keep, causal), reference.fast_attention(q, k, v, keep, causal))


@pytest.mark.parametrize("attend", FAST)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("keep", [None, KEEP])
@pytest.mark.parametrize("shape", [(2, 4, 3, 5), (4, 3, 5), (1, 4, 1, 5), (3, 1)])
def test_a_bias_is_added_to_the_scaled_scores(attend, causal, keep, shape):
    q, k, v = draw()
    bias = torch.randn(shape, dtype=torch.float64)
    expected = reference.fast_attention(q, k, v, keep, causal, 0.3, bias)
    agree(attend(q, k, v, keep, causal, 0.3, bias), expected)


def test_pytorch_agrees_when_it_is_given_the_mask():
    q, k, v = draw()
    mask = torch.ones(3, 5).tril(2).bool() & KEEP
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True, scale=0.7)
    agree(theirs, reference.fast_attention(q, k, v, KEEP, causal=True, scale=0.7))


@pytest.mark.parametrize("attend", FAST)
@pytest.mark.parametrize("causal", [False, True])
def test_no_keys_give_zeros_and_no_queries_nothing(attend, causal):
    assert attend(*draw(4, 0), None, causal).tolist() == torch.zeros(2, 4, 4, 3).tolist()
    assert attend(*draw(0, 4), None, causal).shape == (2, 4, 0, 3)


def test_the_oracle_shares_in_consecutive_groups_and_counts_from_the_last_key():
    q, k, v = torch.zeros(4, 2, 1), torch.zeros(2, 3, 1), torch.tensor([[6.0, 2, 1], [9, 3, 0]])
    exact = reference.fast_attention(q, k, v.unsqueeze(-1), causal=True).exact
    assert exact[..., 0].tolist() == [[4, 3], [4, 3], [6, 4], [6, 4]]


@pytest.mark.parametrize("attend", FAST)
@pytest.mark.parametrize("lead", [(), (0,), (2, 3), (1, 2, 1)])
@pytest.mark.parametrize("keep", [None, KEEP, KEEP[:1], KEEP[:, :1]])
def test_any_leading_dimensions(attend, lead, keep):
    q, k, v = draw(lead=lead)
    agree(attend(q, k, v, keep, True), reference.fast_attention(q, k, v, keep, True))


@pytest.mark.parametrize("attend", FAST)
@pytest.mark.parametrize("large", [1e4, 1e30])
def test_what_is_hidden_has_no_influence_however_large(attend, large):
    q, k, v = draw()
    clean, before = reference.fast_attention(q, k, v, KEEP), attend(q, k, v, causal=True)
    k[..., 4, :] = v[..., 4, :] = large
    k.requires_grad_(), v.requires_grad_()
    near(attend(q, k, v, causal=True)[..., :2, :].detach(), before[..., :2, :])
    output = attend(q, k, v, KEEP)
    agree(output, clean)
    for gradient in torch.autograd.grad(output.sum(), (k, v)):
        assert gradient.isfinite().all() and not gradient[..., 4, :].any()


@pytest.mark.parametrize("attend", FAST)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("keep", [None, torch.arange(40) % 3 != 1])
def test_half_precision_is_as_good_as_the_yardstick(attend, dtype, keep):
    q, k, v = draw(30, 40, widths=(16, 16), dtype=dtype)
    expected = reference.fast_attention(q, k, v, keep, causal=True)
    within_the_yardstick(attend(q, k, v, keep, causal=True), expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("lengths", "keep"), [((3, 5), None), ((3, 5), KEEP), ((5, 3), KEEP.mT)])
def test_gradients_agree_with_finite_differences_of_the_oracle(causal, keep, lengths):
    q, k, v = draw(*lengths, lead=(1,), widths=(2, 3))
    bias = torch.randn(4, *lengths, dtype=torch.float64)
    upstream = torch.randn(1, 4, lengths[0], 3, dtype=torch.float64)
    arguments = (keep, causal, 0.6, bias)
    expected = reference.fast_attention_gradients(q, k, v, *arguments, upstream=upstream)
    inputs = [x.requires_grad_() for x in (q, k, v, bias)]
    output = solution.fast_attention(q, k, v, keep, causal, 0.6, bias)
    for got, answer in zip(torch.autograd.grad(output, inputs, upstream), expected, strict=True):
        agree(got, answer)

    arrays = [x.detach().numpy() for x in inputs]
    mask = None if keep is None else keep.numpy()
    for i, answer in enumerate(expected):

        def output(x, i=i):
            q, k, v, bias = (*arrays[:i], x, *arrays[i + 1 :])
            return reference.exact_fast_attention(q, k, v, mask, causal, 0.6, bias)

        along_a_line(output, arrays[i], upstream.numpy(), answer.exact)


def along_a_line(output, x, upstream, gradient, step=1e-5):
    """The gradient of `(output(x) * upstream).sum()` is right in some direction, by differences."""
    direction = torch.randn(x.shape, dtype=torch.float64).numpy()
    ends = [(output(x + move * direction) * upstream).sum() for move in (step, -step)]
    near((ends[0] - ends[1]) / (2 * step), (gradient * direction).sum(), 1e-7)


@pytest.mark.parametrize("attend", FAST)
def test_causality_alone_needs_no_mask(attend):
    with Watch() as watch:
        for lengths in ((6, 6), (1, 6), (4, 6)):
            attend(*draw(*lengths), causal=True)
    square, decode, chunk = watch.calls
    assert square["attn_mask"] is decode["attn_mask"] is None
    assert isinstance(chunk["attn_mask"], CausalBias)
    assert [call["is_causal"] for call in watch.calls] == [True, False, False]


@pytest.mark.parametrize("attend", FAST)
def test_grouped_heads_and_a_row_of_padding_are_passed_as_they_are(attend):
    q, k, v = draw(widths=(8, 8))
    with Watch() as watch:
        attend(q, k, v)
        attend(q, k, v, torch.zeros(2, 1, 1, 5, dtype=torch.bool))
    grouped, padded = watch.calls
    assert grouped["enable_gqa"]
    for name, x in (("key", k), ("value", v)):
        assert grouped[name].data_ptr() == x.data_ptr()
    assert padded["attn_mask"].shape == (2, 1, 1, 5)
    assert padded["attn_mask"].all()  # no kernel is given an empty row


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("keep", [None, KEEP, torch.arange(60).reshape(4, 3, 5) % 7 > 2])
def test_without_a_kernel_for_groups_keys_and_values_are_repeated(monkeypatch, module, keep):
    monkeypatch.setattr(module, "_takes", lambda name, call: not call["enable_gqa"])
    q, k, v = draw()
    assert module.best_backend(q, k, v, keep, causal=True).startswith("flash: ")
    with Watch() as watch:
        answer = FAST[MODULES.index(module)](q, k, v, keep, causal=True)
    assert [call["key"].shape[1] for call in watch.calls] == [4]
    agree(answer, reference.fast_attention(q, k, v, keep, causal=True))


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("keep", [None, KEEP])
@pytest.mark.parametrize("causal", [False, True])
def test_the_cpu_has_a_fused_kernel_for_every_call_with_a_key(module, keep, causal):
    for dtype in (torch.float32, torch.float64, *HALVES):
        assert module.best_backend(*draw(dtype=dtype), keep, causal).startswith("flash: ")
    reason = "math: flash will not run (there is nothing to compute)"
    assert module.best_backend(*draw(k_len=0)) == reason


@pytest.mark.parametrize("module", MODULES)
def test_the_reason_is_pytorchs_own(module):
    q, k, v = draw()
    call = {"query": q, "key": k, "value": v, "attn_mask": KEEP[None, None], "enable_gqa": True}
    reason = module._why_not("flash", call)
    assert reason.startswith("Flash attention requires q,k,v to have the same last dimension.")
    assert "Triggered" not in reason


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("major", [8, 9, 10, 12])
def test_the_order_of_the_kernels_is_pytorchs(monkeypatch, module, major):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (major, 0))
    names = module._candidates(torch.device("cuda"))
    assert names[0] == ("cudnn" if major in (9, 10) else "flash")
    assert sorted(names) == ["cudnn", "efficient", "flash"]


def layers(qkv_bias=True, qk_norm=False, fused=True):
    """A solution's module of width 12 with 3 heads, and an oracle with its weights."""
    layer = solution.FusedAttention(12, 3, qkv_bias, qk_norm, fused).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    oracle = reference.FusedAttention(12, 3, qkv_bias, qk_norm, fused)
    oracle.load_state_dict(layer.state_dict())
    return layer, oracle


@pytest.mark.parametrize(("qkv_bias", "qk_norm"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("keep", [None, KEEP[[0, 1, 2, 0, 2]], torch.arange(5) < 3])
@pytest.mark.parametrize("lead", [(2,), (), (2, 3)])
def test_both_paths_of_the_module_agree(qkv_bias, qk_norm, keep, lead):
    layer, oracle = layers(qkv_bias, qk_norm)
    x = torch.randn(*lead, 5, 12, dtype=torch.float64)
    for layer.fused in (False, True):
        agree(layer(x, keep), oracle(x, keep))


def test_pytorchs_module_has_the_same_layout():
    layer, oracle = layers()
    theirs = torch.nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    theirs.in_proj_weight, theirs.in_proj_bias = layer.qkv.weight, layer.qkv.bias
    theirs.out_proj = layer.proj
    x, keep = torch.randn(2, 5, 12, dtype=torch.float64), torch.arange(5) < 3
    agree(theirs(x, x, x, key_padding_mask=~keep.expand(2, 5))[0], oracle(x, keep))


@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize("keep", [None, KEEP[[0, 1, 2, 0, 2]]])
def test_gradients_of_the_module_agree_with_finite_differences(is_fused, keep):
    layer, oracle = layers(qk_norm=True, fused=is_fused)
    x = torch.randn(1, 5, 12, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(1, 5, 12, dtype=torch.float64)
    (expected,) = oracle.forward_gradients(x, keep, upstream=upstream)
    (got,) = torch.autograd.grad(layer(x, keep), x, upstream)
    agree(got, expected)
    exact = [x.detach().numpy(), upstream.numpy(), expected.exact]
    along_a_line(lambda x: oracle(torch.from_numpy(x), keep).exact, *exact)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("causal", [False, True])
def test_cuda_runs_a_fused_kernel_that_is_right(dtype, causal):
    q, k, v = (x.cuda() for x in draw(30, 40, widths=(20, 20), dtype=dtype))
    for keep in (None, (torch.arange(40) % 3 != 1).cuda()):
        expected = reference.fast_attention(q, k, v, keep, causal)
        for module, attend in zip(MODULES, FAST, strict=True):
            assert module.best_backend(q, k, v, keep, causal)[:4] != "math"
            within_the_yardstick(attend(q, k, v, keep, causal), expected)
