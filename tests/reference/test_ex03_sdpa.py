"""Scaled dot-product attention: oracle, yardstick, solution and PyTorch's operator agree."""

import doctest
import importlib.util
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import approx_fprime

from reference import ex03_sdpa as reference
from reference.expected import f64

SOURCE = Path(__file__).parents[2] / "solutions" / "ex03_sdpa.py"
spec = importlib.util.spec_from_file_location("solution_ex03", SOURCE)
solution = importlib.util.module_from_spec(spec)
spec.loader.exec_module(solution)

PADDING = torch.arange(5) < 3  # the last two of five keys are hidden from every query
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()
SCATTERED = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 0, 1], [1, 1, 1, 1, 1]]).bool()
EMPTY_ROW = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 1, 1, 0, 1]]).bool()

# name: leading dimensions, Lq, Lk, D, Dv, keep, scale
CASES = {
    "one matrix": ((), 3, 5, 4, 4, None, None),
    "length 1": ((2, 1), 1, 1, 4, 4, None, None),
    "wider values": ((2,), 3, 5, 4, 7, None, None),
    "more queries than keys": ((2, 3), 5, 3, 4, 2, None, None),
    "more keys than queries": ((2, 3), 3, 65, 4, 2, None, None),
    "five dimensions": ((2, 1, 3), 3, 5, 4, 4, SCATTERED, None),
    "empty batch": ((0, 2), 3, 5, 4, 4, SCATTERED, None),
    "given scale": ((2,), 3, 5, 4, 4, None, -0.3),
    "scale of zero": ((2,), 3, 5, 4, 4, SCATTERED, 0.0),
    "padding mask": ((2, 3), 3, 5, 4, 4, PADDING.expand(2, 1, 1, 5), None),
    "mask of keys": ((2, 3), 3, 5, 4, 4, PADDING, None),
    "mask of queries": ((2, 3), 3, 5, 4, 4, torch.tensor([[True], [False], [True]]), None),
    "causal mask": ((2, 3), 5, 5, 4, 4, CAUSAL, None),
    "mask per head": ((2, 2), 3, 5, 4, 4, torch.stack([SCATTERED, EMPTY_ROW])[None], None),
    "nothing kept": ((2, 3), 3, 5, 4, 4, torch.zeros(3, 5, dtype=torch.bool), None),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def draw(leading=(2,), q_len=3, k_len=5, dim=4, value_dim=2, dtype=torch.float64):
    generator = torch.Generator().manual_seed(7)
    shapes = (q_len, dim), (k_len, dim), (k_len, value_dim)
    return [torch.randn(*leading, *s, generator=generator).to(dtype) for s in shapes]


def fused(q, k, v, keep=None, scale=None):
    """PyTorch's operator, which gives zeros for an empty row too, but wants masks of rank 2."""
    mask = None if keep is None else torch.atleast_2d(keep)
    return F.scaled_dot_product_attention(q, k, v, mask, scale=scale)


def on_arrays(attend):
    """A function of arrays as one of tensors."""

    def call(q, k, v, keep=None, scale=None):
        arrays = [None if x is None else x.numpy() for x in (q, k, v, keep)]
        return tuple(torch.from_numpy(x) for x in attend(*arrays, scale))

    return call


ATTENTIONS = {
    "oracle": on_arrays(reference.exact_attention),
    "yardstick": reference.plain_attention,
    "numpy": on_arrays(solution.attention_numpy),
    "torch": solution.scaled_dot_product_attention,
}


def each(*names):
    attentions = [ATTENTIONS[name] for name in names]
    return pytest.mark.parametrize("attend", attentions, ids=names)


def close(got, expected, tolerance=1e-12):
    np.testing.assert_allclose(f64(got), f64(expected), rtol=tolerance, atol=tolerance)


@each_case
@each(*ATTENTIONS)
def test_output_is_that_of_pytorchs_operator(attend, case):
    *sizes, keep, scale = case
    inputs = *draw(*sizes), keep, scale
    close(attend(*inputs)[0], fused(*inputs))


@each_case
@each(*ATTENTIONS)
def test_weights_are_what_pytorchs_operator_makes_of_the_identity(attend, case):
    *sizes, keep, scale = case
    q, k, v = draw(*sizes)
    identity = torch.eye(k.shape[-2], dtype=q.dtype).expand(*q.shape[:-2], -1, -1)
    close(attend(q, k, v, keep, scale)[1], fused(q, k, identity, keep, scale))


@each(*ATTENTIONS)
def test_empty_row_and_hidden_weights_are_exactly_zero(attend):
    output, weights = attend(*draw(), EMPTY_ROW)
    assert torch.equal(weights > 0, EMPTY_ROW.expand(2, 3, 5))
    assert torch.equal(output != 0, EMPTY_ROW.any(-1, keepdim=True).expand(2, 3, 2))


def spoilt(x, keys, garbage):
    x = x.clone()
    x[..., keys, :] = garbage
    return x


each_garbage = pytest.mark.parametrize(
    "which, garbage",
    [(x, y) for x in "kv" for y in (1e30, -1e30)]
    + [("k", x) for x in (math.nan, math.inf, -math.inf)],
)


@each_garbage
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@each(*ATTENTIONS)
def test_rows_that_hide_a_key_do_not_notice_what_it_holds(attend, dtype, which, garbage):
    inputs = dict(zip("qkv", draw(q_len=5, dtype=dtype), strict=True))
    output, weights = attend(**inputs, keep=CAUSAL)
    bad = attend(**inputs | {which: spoilt(inputs[which], [2], garbage)}, keep=CAUSAL)
    close(bad[0][:, :2], output[:, :2], 1e-6)
    close(bad[1][:, :2], weights[:, :2], 1e-6)


UPSTREAM = torch.linspace(-1, 2, 12, dtype=torch.float64).reshape(2, 3, 2)


def gradients(attend, inputs, keep, scale, upstream):
    leaves = [x.clone().requires_grad_() for x in inputs]
    return torch.autograd.grad(attend(*leaves, keep, scale)[0], leaves, upstream)


def slope_of_oracle(inputs, which, keep, scale, upstream):
    """Central differences of `sum(upstream * output)` along the input number `which`."""
    x = inputs[which]

    def loss(step):
        moved = x + torch.from_numpy(step).reshape(x.shape)
        output, _ = ATTENTIONS["oracle"](*inputs[:which], moved, *inputs[which + 1 :], keep, scale)
        return (upstream * output).sum().item()

    central = approx_fprime(np.zeros(x.numel()), lambda s: (loss(s) - loss(-s)) / 2, 1e-5)
    return central.reshape(x.shape)


@pytest.mark.parametrize("which", [0, 1, 2], ids="qkv")
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize(
    "keep", [None, PADDING, EMPTY_ROW], ids=["unmasked", "padding", "empty row"]
)
@each("yardstick", "torch")
def test_gradients_are_the_slopes_of_the_oracle(attend, keep, scale, which):
    inputs = draw()
    got = gradients(attend, inputs, keep, scale, UPSTREAM)[which]
    close(got, slope_of_oracle(inputs, which, keep, scale, UPSTREAM), 1e-8)


@pytest.mark.parametrize("which", [0, 1, 2], ids="qkv")
def test_expected_gradients_are_those_of_pytorchs_operator(which):
    inputs = draw()
    expected = reference.attention_gradients(*inputs, EMPTY_ROW, upstream=UPSTREAM)[which]
    operator = gradients(lambda *x: [fused(*x)], inputs, EMPTY_ROW, None, UPSTREAM)[which]
    close(expected.exact, operator)
    close(expected.plain, operator)


@pytest.mark.parametrize("which", [0, 1, 2], ids="qkv")
@each("yardstick", "torch")
def test_what_padding_holds_does_not_reach_the_gradients(attend, which):
    q, k, v = draw()
    bad = q, spoilt(k, [3, 4], 1e30), spoilt(v, [3, 4], -1e30)
    got = gradients(attend, bad, PADDING, None, UPSTREAM)[which]
    close(got, gradients(attend, (q, k, v), PADDING, None, UPSTREAM)[which])


@each("yardstick", "torch")
def test_no_nan_arises_on_the_way_back_from_an_empty_row(attend):
    with torch.autograd.set_detect_anomaly(True):
        _, _, of_v = gradients(attend, draw(), EMPTY_ROW, None, UPSTREAM)
    assert of_v.isfinite().all()


def test_gradients_flow_through_the_weights_of_the_solution_too():
    leaves = [x.requires_grad_() for x in draw()]
    attend = solution.scaled_dot_product_attention
    assert torch.autograd.gradcheck(lambda *x: attend(*x, EMPTY_ROW), leaves)


FLOATS = {"numpy": ["float16", "float32", "float64"]}
FLOATS["torch"] = [*FLOATS["numpy"], "bfloat16"]


@pytest.mark.parametrize("keep", [None, EMPTY_ROW], ids=["unmasked", "empty row"])
@pytest.mark.parametrize("name, dtype", [(name, x) for name in FLOATS for x in FLOATS[name]])
def test_solution_keeps_the_dtype_and_rounds_once(name, dtype, keep):
    inputs = draw(dtype=getattr(torch, dtype))
    wide = ATTENTIONS["oracle"](*(x.double() for x in inputs), keep)
    for got, exact in zip(ATTENTIONS[name](*inputs, keep), wide, strict=True):
        assert got.dtype == inputs[0].dtype
        close(got, exact, 2 * torch.finfo(got.dtype).eps)


@each("numpy", "torch")
def test_solution_survives_products_that_overflow_in_half_precision(attend):
    q = torch.full((2, 16), 256.0, dtype=torch.float16)  # q @ k.mT is 2^20
    k = torch.stack([q[0], q[0], -q[0]])
    v = torch.tensor([[2.0], [4.0], [99.0]], dtype=torch.float16)
    output, weights = attend(q, k, v)
    assert weights.tolist() == [[0.5, 0.5, 0.0]] * 2
    assert output.tolist() == [[3.0]] * 2


@each(*ATTENTIONS)
def test_views_are_as_good_as_copies(attend):
    q, k, v = draw((2, 3))
    strided, shared = q.mT.contiguous().mT, k[:, :1].expand(2, 3, 5, 4)
    mask = SCATTERED.T.contiguous().T
    close(attend(strided, shared, v, mask)[0], fused(q, shared.clone(), v, SCATTERED))


def test_numpy_reference_and_solution_take_reversed_arrays():
    q, k, v, keep = (x.numpy() for x in (*draw(), SCATTERED))
    backwards = q[:, ::-1], k[:, ::-1], v[:, ::-1], keep[::-1, ::-1]
    forwards = reference.attention_numpy(q, k, v, keep)[0].exact[:, ::-1]
    close(reference.attention_numpy(*backwards)[0].plain, forwards)
    close(solution.attention_numpy(*backwards)[0], forwards)


@each(*ATTENTIONS)
def test_inputs_stay_as_they_were(attend):
    q, k, v = draw()
    inputs = q, spoilt(k, [3, 4], 1e30), spoilt(v, [3, 4], 1e30), PADDING.clone()
    before = [x.clone() for x in inputs]
    attend(*inputs)
    assert all(map(torch.equal, inputs, before))


@each("numpy", "torch")
def test_without_any_keys_the_output_is_zero(attend):
    assert attend(*draw(k_len=0))[0].tolist() == [[[0.0, 0.0]] * 3] * 2


@pytest.mark.parametrize(
    "shapes, numbers",
    [([(3, 4), (5, 6), (5, 2)], "4.*6"), ([(3, 4), (5, 4), (7, 2)], "5.*7")],
    ids=["widths of q and k", "lengths of k and v"],
)
@each("numpy", "torch")
def test_solution_refuses_what_does_not_fit(attend, shapes, numbers):
    with pytest.raises(ValueError, match=numbers):
        attend(*map(torch.ones, shapes))


def test_yardstick_has_the_type_and_dtype_of_the_answer():
    q, k, v = draw(dtype=torch.float16)
    tensors = reference.scaled_dot_product_attention(q, k, v, PADDING)
    arrays = reference.attention_numpy(q.numpy(), k.numpy(), v.numpy(), PADDING.numpy())
    assert [x.plain.dtype for x in tensors] == [torch.float16] * 2
    assert [x.plain.dtype for x in arrays] == [np.float16] * 2
    assert [x.exact.dtype for x in tensors + arrays] == [np.float64] * 4


def test_examples_of_the_lesson_are_true():
    prose = re.sub(r"^# ?", "", SOURCE.read_text(), flags=re.MULTILINE)
    examples = "".join(re.findall(r"```pycon\n(.*?)```", prose, re.DOTALL))
    names = vars(solution) | {"np": np, "torch": torch}
    test = doctest.DocTestParser().get_doctest(examples, names, SOURCE.name, None, 0)
    assert doctest.DocTestRunner().run(test) == (0, 16)  # eight in each language
