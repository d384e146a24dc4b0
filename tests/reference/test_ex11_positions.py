"""The oracle, the yardstick and the solution of positions agree with complex numbers."""

import cmath
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from reference import ex11_positions as reference

SOURCE = Path(__file__).parents[2] / "solutions" / "ex11_positions.py"
spec = importlib.util.spec_from_file_location("solution_ex11_positions", SOURCE)
assert spec is not None and spec.loader is not None
solution = importlib.util.module_from_spec(spec)
spec.loader.exec_module(solution)

HALVES = [torch.float16, torch.bfloat16]
DTYPES = [torch.float32, torch.float64, *HALVES]
UNIT = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
GRIDS = [((2, 3, 4), 16), ((3, 1, 5), 14), ((1, 4, 2), 18), ((2, 2, 2), 4), ((5, 1, 1), 2)]
SHAPES = [(7, 8), (3, 7, 6), (2, 3, 7, 2), (2, 1, 3, 7, 4), (0, 3, 7, 4)]


@pytest.fixture(autouse=True)
def one_seed_for_all():
    torch.manual_seed(11)


def draw(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=torch.float64).to(dtype)


def close(got, expected, tolerance=1e-12):
    got, expected = torch.as_tensor(got), torch.as_tensor(expected)
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance)


def agree(got, expected):
    """The answer has the yardstick's form, and both are right up to the rounding of their dtype."""
    assert (got.dtype, got.shape) == (expected.plain.dtype, expected.plain.shape)
    allowed = 8 * UNIT.get(got.dtype, 1e-13) * expected.magnitude
    close(got.double(), expected.exact, allowed)
    close(expected.plain.double(), expected.exact, allowed)


def complex_turn(x, angles, interleaved=True):
    """The pairs as complex numbers, multiplied by exp(i angle): x (..., L, D) in float64."""
    half = x.shape[-1] // 2
    z = x[..., 0::2] + 1j * x[..., 1::2] if interleaved else x[..., :half] + 1j * x[..., half:]
    z = z * np.exp(1j * angles)
    axis = -1 if interleaved else -2
    return np.stack([z.real, z.imag], axis).reshape(x.shape)


def frequency(i, pairs, base):
    """`base**(-i/pairs)` by logarithms."""
    return math.exp(-math.log(base) * i / pairs)


def angles(positions, pairs, base=10000.0):
    """One angle after the other, (..., pairs)."""
    table = [[p * frequency(i, pairs, base) for i in range(pairs)] for p in positions.flatten()]
    return np.array(table).reshape(*positions.shape, pairs)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, *DTYPES], ids=str)
@pytest.mark.parametrize("base", [10000.0, 500.0])
@pytest.mark.parametrize("shape", [(), (1,), (5, 3), (0, 2)], ids=str)
def test_an_embedding_is_the_imaginary_and_the_real_part_of_a_power_of_e(shape, base, dtype):
    positions = (draw(*shape) * 50).to(dtype)
    z = [cmath.exp(1j * a) for a in angles(positions.double().numpy(), 5, base).flatten()]
    right = np.array([[one.imag, one.real] for one in z]).reshape(*shape, 10)
    expected = reference.sinusoidal_embedding(positions, 10, base)
    assert expected.plain.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    close(expected.exact, right)
    agree(solution.sinusoidal_embedding(positions, 10, base), expected)


def test_a_step_turns_every_pair_of_an_embedding_by_the_same_angle():
    table = solution.sinusoidal_embedding(torch.arange(50, dtype=torch.float64), 8)
    step = angles(np.array([7.0]), 4)
    ahead = complex_turn(table[:-7].numpy(), -step)  # (sin, cos) goes round clockwise
    close(table[7:], ahead, 1e-10)


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("base", [10000.0, 500.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rope_is_a_product_of_complex_numbers(shape, base, interleaved, dtype):
    x, positions = draw(*shape, dtype=dtype), torch.randint(-90, 90, (7,))
    turns = angles(positions.numpy(), shape[-1] // 2, base)
    expected = reference.apply_rope(x, positions, base, interleaved)
    close(expected.exact, complex_turn(x.double().numpy(), turns, interleaved))
    agree(solution.apply_rope(x, positions, base, interleaved), expected)


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
def test_positions_of_a_batch_are_those_of_its_texts_one_by_one(shape, interleaved):
    x, positions = draw(*shape), torch.randint(0, 90, (shape[0], 7))
    for rope in (
        solution.apply_rope,
        lambda *args: torch.tensor(reference.apply_rope(*args).exact),
        reference.plain_apply_rope,
    ):
        texts = [rope(x[i], positions[i], 500.0, interleaved) for i in range(shape[0])]
        together = rope(x, positions, 500.0, interleaved)
        close(together, torch.stack(texts) if texts else torch.empty_like(x))


def test_a_permutation_of_the_places_leads_from_one_pairing_to_the_other():
    x, positions = draw(2, 7, 10), torch.arange(7)
    order = torch.arange(10).reshape(2, 5).T.flatten()  # 0, 5, 1, 6, ...
    halves = solution.apply_rope(x, positions, interleaved=False)
    close(solution.apply_rope(x[..., order], positions), halves[..., order])


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("start", [0, 5, 100_000, -3])
def test_scores_depend_on_distances_and_lengths_stay(start, interleaved):
    q, k, near = draw(7, 12), draw(7, 12), torch.arange(7)
    here = [solution.apply_rope(x, near, interleaved=interleaved) for x in (q, k)]
    there = [solution.apply_rope(x, near + start, interleaved=interleaved) for x in (q, k)]
    close(there[0] @ there[1].mT, here[0] @ here[1].mT, 1e-8)
    close(there[0].norm(dim=-1), q.norm(dim=-1))
    close(solution.apply_rope(there[0], -near - start, interleaved=interleaved), q, 1e-9)
    close(here[0][0], q[0])


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("farthest", [100, 4000, 100_000])
def test_angles_in_float32_are_allowed_however_they_are_computed(farthest, dtype):
    """The magnitude has room for the rounding of every usual form of the frequencies."""
    x, positions = draw(64, 33, 16, dtype=dtype), torch.randint(0, farthest, (33,))
    expected = reference.apply_rope(x, positions)
    i = torch.arange(8, dtype=torch.float32)
    worst = 0.0
    for frequencies in (
        1.0 / 10000.0 ** (i / 8),
        torch.pow(torch.tensor(10000.0), -2 * i / 16),
        torch.exp(2 * i * (-math.log(10000.0) / 16)),
        torch.exp(-torch.log(torch.tensor(10000.0)) * (i / 8)),
        torch.exp2(-i / 8 * math.log2(10000.0)),
        torch.tensor([10000.0 ** (-k / 8) for k in range(8)]),
    ):
        turned = reference.plain_turn(x.float(), positions[:, None].float() * frequencies)
        error = np.abs(turned.to(dtype).double().numpy() - expected.exact)
        worst = max(worst, float(error.max()))
    assert worst < 8 * UNIT[dtype] * expected.magnitude * (1 if dtype == torch.float32 else 0.25)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("grid, width", GRIDS, ids=str)
@pytest.mark.parametrize("leading", [(), (2, 3), (0,)], ids=str)
def test_a_grid_is_turned_token_by_token(leading, grid, width, dtype):
    x = draw(*leading, math.prod(grid), width, dtype=dtype)
    third = width // 2 // 3
    counts = (width // 2 - 2 * third, third, third)
    turns = [
        [at * frequency(i, n, 500.0) for at, n in zip(place, counts, strict=True) for i in range(n)]
        for place in np.ndindex(*grid)  # the last index runs fastest
    ]
    expected = reference.rope_3d(x, grid, 500.0)
    close(expected.exact, complex_turn(x.double().numpy(), np.array(turns)))
    agree(solution.rope_3d(x, grid, 500.0), expected)


def test_scores_on_a_grid_depend_on_distances_along_each_axis():
    q, k = (draw(24).expand(60, 24) for _ in "qk")
    scores = solution.rope_3d(q, (3, 4, 5)) @ solution.rope_3d(k, (3, 4, 5)).mT
    scores = scores.reshape(3, 4, 5, 3, 4, 5)
    close(scores[1:, 1:, 1:, 1:, 1:, 1:], scores[:-1, :-1, :-1, :-1, :-1, :-1])


def test_a_grid_of_one_frame_and_one_row_turns_the_last_pairs_alone():
    x = draw(6, 18)
    turned = solution.rope_3d(x, (1, 1, 6))
    close(turned[:, :12], x[:, :12])
    close(turned[:, 12:], solution.apply_rope(x[:, 12:], torch.arange(6)))


@pytest.mark.parametrize("interleaved", [True, False])
def test_the_gradient_of_rope_is_a_turn_back(interleaved):
    x, upstream, positions = draw(2, 7, 6).requires_grad_(), draw(2, 7, 6), torch.randint(90, (7,))
    right = reference.apply_rope(upstream, -positions, interleaved=interleaved).exact
    [expected] = reference.apply_rope_gradients(
        x, positions, interleaved=interleaved, upstream=upstream
    )
    output = solution.apply_rope(x, positions, interleaved=interleaved)
    close(expected.exact, right)
    close(torch.autograd.grad(output, x, upstream)[0], right)


def test_the_gradient_of_a_grid_keeps_the_product_with_upstream():
    """A turn is linear, so <upstream, turned x> is <gradient, x> for every x."""
    x, upstream = draw(12, 14).requires_grad_(), draw(12, 14)
    [expected] = reference.rope_3d_gradients(x, (2, 3, 2), upstream=upstream)
    [got] = torch.autograd.grad(solution.rope_3d(x, (2, 3, 2)), x, upstream)
    close(got, expected.exact)
    product = (upstream * torch.tensor(reference.rope_3d(x, (2, 3, 2)).exact)).sum()
    close((got * x.detach()).sum(), product, 1e-11)


def test_inputs_are_left_alone_and_may_be_strided_or_expanded():
    for x in (draw(2, 3, 8, 6).mT, draw(1, 6, 8).expand(3, 6, 8), draw(2, 6, 16)[..., ::2]):
        positions = draw(6, 2)[:, 0] * 50
        before = x.clone(), positions.clone()
        agree(solution.apply_rope(x, positions), reference.apply_rope(x, positions))
        agree(solution.rope_3d(x, (1, 2, 3)), reference.rope_3d(x, (1, 2, 3)))
        assert torch.equal(x, before[0]) and torch.equal(positions, before[1])


@pytest.mark.parametrize("name", ["solution", "plain"])
def test_what_does_not_pair_or_fit_is_refused_with_its_numbers(name):
    embedding, rope, grid = (
        getattr(solution, task) if name == "solution" else getattr(reference, f"plain_{task}")
        for task in ("sinusoidal_embedding", "apply_rope", "rope_3d")
    )
    with pytest.raises(ValueError, match="7"):
        embedding(torch.arange(3), 7)
    with pytest.raises(ValueError, match="7"):
        rope(draw(3, 7), torch.arange(3))
    with pytest.raises(ValueError, match="7"):
        grid(draw(24, 7), (2, 3, 4))
    with pytest.raises(ValueError, match=r"23\D+24"):
        grid(draw(23, 8), (2, 3, 4))
