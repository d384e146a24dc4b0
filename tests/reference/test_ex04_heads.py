"""ex04: the solution, the oracle and the yardstick agree, and PyTorch agrees with them."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal, assert_equal
from torch import nn

from grader.core.catalog import ROOT
from grader.worker.parent.in_process import load_file_without_wall
from reference import ex04_heads as reference
from reference import raised

solution = load_file_without_wall(ROOT / "solutions" / "ex04_heads.py", "solution_ex04")

NAMES = ("w_q", "w_k", "w_v", "w_o")
HALVES = [torch.float16, torch.bfloat16]
# (B, Lq, Lk, E, H)
SIZES = [(2, 3, 5, 12, 4), (2, 5, 3, 6, 1), (1, 1, 1, 3, 3), (3, 17, 17, 10, 2), (0, 3, 5, 4, 2)]
# name -> a mask that broadcasts to (2, 4, 3, 5)
MASKS = {
    "none": None,
    "keys": torch.tensor([True, False, True, True, False]),
    "padding": torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool()[:, None, None],
    "causal, bottom right": torch.ones(3, 5).tril(2).bool(),
    "per head": torch.arange(60).reshape(4, 3, 5) % 4 != 1,
    "everything": (torch.arange(120) * 7 % 5 != 2).reshape(2, 4, 3, 5),
    "an empty row": (torch.arange(3) != 1)[:, None],
    "an empty batch": torch.tensor([True, False])[:, None, None, None],
}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(4)


def draw(batch=2, q_len=3, k_len=5, width=12, dtype=torch.float64):
    """x (B, Lq, E) and a context (B, Lk, E)."""
    x = torch.randn(batch, q_len, width, dtype=dtype)
    return x, torch.randn(batch, k_len, width, dtype=dtype)


def layers(width=12, heads=4, bias=False, dtype=torch.float64):
    """A solution's layer and an oracle with its weights."""
    layer = solution.MultiHeadAttention(width, heads, bias=bias).to(dtype)
    oracle = reference.MultiHeadAttention(width, heads, bias=bias)
    oracle.load_state_dict(layer.state_dict())
    return layer, oracle


def arrays(width=12, **sizes):
    """The first seven arguments of `multi_head_attention_numpy`, float64."""
    query, key = draw(width=width, **sizes)
    matrices = [torch.randn(width, width, dtype=torch.float64) / math.sqrt(width) for _ in NAMES]
    return [x.numpy() for x in (query, key, torch.randn_like(key), *matrices)]


def as_float64(x):
    return x.detach().double().numpy() if isinstance(x, torch.Tensor) else x.astype(np.float64)


def agree(got, expected, tolerance=1e-12):
    """Each part of an answer, and the yardstick beside it, is within `tolerance` of the oracle."""
    for part, right in zip(got, expected, strict=True):
        assert (part.dtype, part.shape) == (right.plain.dtype, right.plain.shape)
        for answer in (part, right.plain):
            assert_allclose(as_float64(answer), right.exact, rtol=0, atol=tolerance)


def agree_in_numpy(args, tolerance=1e-12):
    got = solution.multi_head_attention_numpy(*args)
    agree(got, reference.multi_head_attention_numpy(*args), tolerance)


def torch_s_own(layer, x, context, keep):
    """What `nn.MultiheadAttention` answers with the layer's weights."""
    heads, width = layer.num_heads, x.shape[-1]
    module = nn.MultiheadAttention(width, heads, batch_first=True, dtype=x.dtype)
    projections = (layer.w_q, layer.w_k, layer.w_v)
    state = {f"out_proj.{kind}": values for kind, values in layer.w_o.state_dict().items()}
    for kind in ("weight", "bias"):
        state[f"in_proj_{kind}"] = torch.cat([getattr(w, kind) for w in projections])
    module.load_state_dict(state)
    shape = (x.shape[0], heads, x.shape[1], context.shape[1])
    blocked = None if keep is None else ~keep.expand(shape).flatten(0, 1)
    return module(x, context, context, attn_mask=blocked, average_attn_weights=False)


def test_each_head_owns_its_own_slice_of_every_token():
    x = torch.arange(24).reshape(1, 2, 12)
    heads = solution.split_heads(x, 3)
    assert heads[0, :, 1].tolist() == [[12, 13, 14, 15], [16, 17, 18, 19], [20, 21, 22, 23]]
    assert_array_equal(reference.split_heads(x, 3).exact, heads)
    assert_array_equal(reference.split_heads(x, 3).plain, heads)


@pytest.mark.parametrize("shape", [(2, 3, 12), (1, 1, 4), (0, 3, 8)], ids=str)
def test_merging_undoes_splitting(shape):
    x = torch.randn(shape)
    heads = solution.split_heads(x, 4)
    assert heads.shape == (shape[0], 4, shape[1], shape[2] // 4)
    assert torch.equal(solution.merge_heads(heads), x)
    assert_array_equal(reference.merge_heads(heads).exact, x)
    assert_array_equal(reference.merge_heads(heads).plain, x)


@pytest.mark.parametrize(
    "call",
    [
        lambda: solution.split_heads(torch.zeros(2, 3, 10), 4),
        lambda: solution.MultiHeadAttention(10, 4),
        lambda: solution.multi_head_attention_numpy(*arrays(width=10), 4),
    ],
    ids=["split_heads", "MultiHeadAttention", "multi_head_attention_numpy"],
)
def test_a_width_that_heads_do_not_divide_is_an_error_with_both_numbers(call):
    with pytest.raises(ValueError, match=r"\b10\b.*\b4\b"):
        call()


@pytest.mark.parametrize("keep", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("bias", [False, True])
def test_module_under_every_mask(bias, keep):
    layer, oracle = layers(bias=bias)
    x, context = draw()
    agree(layer(x, context, keep), oracle(x, context, keep))


@pytest.mark.parametrize("keep", MASKS.values(), ids=MASKS)
def test_numpy_under_every_mask(keep):
    agree_in_numpy((*arrays(), 4, None if keep is None else keep.numpy()))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_module_and_numpy_in_every_size(sizes):
    batch, q_len, k_len, width, heads = sizes
    layer, oracle = layers(width, heads)
    x, context = draw(batch, q_len, k_len, width)
    agree(layer(x, context), oracle(x, context))
    agree_in_numpy((*arrays(width, batch=batch, q_len=q_len, k_len=k_len), heads))


def test_self_attention_is_attention_to_oneself():
    layer, oracle = layers()
    x, _ = draw()
    agree(layer(x), oracle(x, x))
    agree(layer(x, x), oracle(x))


@pytest.mark.parametrize("name", [name for name in MASKS if "empty" not in name])
def test_pytorch_s_own_module_agrees(name):
    layer, _ = layers(bias=True)
    args = (*draw(), MASKS[name])
    for got, right in zip(layer(*args), torch_s_own(layer, *args), strict=True):
        assert_allclose(as_float64(got), as_float64(right), rtol=0, atol=1e-12)


def test_an_empty_row_has_no_weights_and_leaves_the_bias():
    layer, _ = layers(bias=True)
    output, weights = layer(*draw(), MASKS["an empty row"])
    assert weights[:, :, 1].abs().max() == 0
    assert torch.equal(output[:, 1], layer.w_o.bias.expand(2, 12))


def test_a_hidden_token_does_not_count_however_large_it_is():
    layer, _ = layers()
    x, context = draw()
    keep = MASKS["causal, bottom right"]  # the last token is seen by the last row alone
    loud = context.clone()
    loud[:, -1] = 1e30
    for clean, got in zip(layer(x, context, keep), layer(x, loud, keep), strict=True):
        assert torch.equal(got[..., :-1, :], clean[..., :-1, :])


def test_a_hidden_token_does_not_count_in_numpy():
    args, keep = arrays(), MASKS["keys"].numpy()
    clean = solution.multi_head_attention_numpy(*args, 4, keep)
    args[1][:, ~keep] = args[2][:, ~keep] = 1e30
    assert_equal(solution.multi_head_attention_numpy(*args, 4, keep), clean)


@pytest.mark.parametrize("name", ["none", "causal, bottom right", "everything", "an empty row"])
@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
def test_gradients_are_those_of_finite_differences(cross, name):
    layer, oracle = layers(bias=True)
    x, context = draw(k_len=5 if cross else 3)
    keep = MASKS[name] if cross or MASKS[name] is None else MASKS[name][..., -3:]
    upstream = torch.randn_like(x)
    inputs = {"x": x, "context": context} if cross else {"x": x}
    answers = oracle.forward_gradients(*inputs.values(), keep=keep, upstream=upstream)
    leaves = inputs | layer.state_dict()

    def loss(moved):
        oracle.load_state_dict({name: moved[name] for name in layer.state_dict()})
        return (oracle(moved["x"], moved.get("context"), keep)[0].exact * upstream.numpy()).sum()

    for (name, leaf), answer in zip(leaves.items(), answers, strict=True):
        step = 1e-6 * torch.randn_like(leaf)
        rise = loss(leaves | {name: leaf + step}) - loss(leaves | {name: leaf - step})
        predicted = 2 * (answer.exact * step.numpy()).sum()
        assert_allclose(predicted, rise, rtol=0, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("name", MASKS)
def test_the_solution_s_gradients(name):
    layer, oracle = layers(bias=True)
    x, context = (t.requires_grad_() for t in draw())
    upstream = torch.randn(2, 3, 12, dtype=torch.float64)
    layer(x, context, MASKS[name])[0].backward(upstream)
    got = [leaf.grad for leaf in (x, context, *layer.parameters())]
    agree(got, oracle.forward_gradients(x, context, MASKS[name], upstream=upstream))


@pytest.mark.parametrize("name", ["none", "everything", "an empty row"])
@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
def test_lower_precision_keeps_its_dtype(dtype, name):
    layer, oracle = layers(dtype=dtype)
    x, context = draw(dtype=dtype)
    tolerance = 1e-6 if dtype == torch.float32 else 0.03
    agree(layer(x, context, MASKS[name]), oracle(x, context, MASKS[name]), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float16, 5e-3), (np.float32, 1e-6)])
def test_lower_precision_keeps_its_dtype_in_numpy(dtype, tolerance):
    agree_in_numpy((*(x.astype(dtype) for x in arrays()), 4), tolerance)


@pytest.mark.parametrize("dtype", HALVES)
def test_products_that_half_precision_cannot_hold(dtype):
    layer, oracle = layers(dtype=dtype)
    eye = {f"{name}.weight": torch.eye(12, dtype=dtype) for name in NAMES}
    layer.load_state_dict(eye)
    oracle.load_state_dict(eye)
    x = torch.tensor([256.0, 128.0], dtype=dtype)[None, :, None].expand(1, 2, 12)
    agree(layer(x), raised(oracle, x))


def test_inputs_of_any_layout_are_read_and_left_alone():
    layer, oracle = layers()
    x = torch.randn(12, 3, 2, dtype=torch.float64).permute(2, 1, 0)
    context = torch.randn(1, 5, 12, dtype=torch.float64).expand(2, 5, 12)
    keep = MASKS["keys"].expand(2, 4, 3, 5)
    before = [t.clone() for t in (x, context, keep)]
    agree(layer(x, context, keep), oracle(x, context, keep))
    assert all(torch.equal(now, then) for now, then in zip((x, context, keep), before, strict=True))


def test_arrays_of_any_layout_are_read_and_left_alone():
    args = [np.asfortranarray(x) for x in arrays()]
    for x in args:
        x.flags.writeable = False
    agree_in_numpy((*args, 4, np.broadcast_to(MASKS["keys"].numpy(), (2, 4, 3, 5))))


def test_the_oracle_rounds_the_weights_it_was_given_anew_for_every_dtype():
    layer, oracle = layers(dtype=torch.float16)
    state = {f"{name}.weight": torch.randn(12, 12, dtype=torch.float64) / 4 for name in NAMES}
    layer.load_state_dict(state)
    oracle.load_state_dict(state)
    x, _ = draw()
    wide = oracle(x)
    agree(layer(x.half()), oracle(x.half()), 0.03)
    assert_array_equal(oracle(x)[0].exact, wide[0].exact)


def test_one_step_replaced_makes_a_mistake_of_both_forms():
    class NoScale(reference.PlainMultiHeadAttention):
        def scale(self, q):
            return 1.0

    args = (*arrays(), 4)
    output, _ = reference.plain_multi_head_attention_numpy(*args, module=NoScale)
    right, _ = reference.multi_head_attention_numpy(*args)
    scaled = [args[0] * math.sqrt(3), *args[1:]]
    assert_allclose(output, reference.multi_head_attention_numpy(*scaled)[0].exact, atol=1e-12)
    assert np.abs(output - right.exact).max() > 0.01
