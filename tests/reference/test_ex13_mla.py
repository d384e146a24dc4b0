"""The oracle, the yardstick and the solution of latent attention agree, and PyTorch with them."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from reference import ex13_mla as reference
from reference.mla import PlainLatentCache, PlainMultiHeadLatentAttention, plain_rope

SOURCE = Path(__file__).parents[2] / "solutions" / "ex13_mla.py"
spec = importlib.util.spec_from_file_location("solution_ex13_mla", SOURCE)
assert spec is not None and spec.loader is not None
solution = importlib.util.module_from_spec(spec)
spec.loader.exec_module(solution)

PLAIN, NARROW = (12, 3, 4, 6, 2, 5), (10, 2, 3, 4, 5, 6, 7, 100.0)  # narrow: with a q_rank
CHUNKINGS = [[7], [1] * 7, [3, 4], [1, 5, 1], [6, 1]]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-6, torch.float16: 8e-3, torch.bfloat16: 6e-2}
both_ways = pytest.mark.parametrize("absorbed", [False, True], ids=["naive", "absorbed"])
each_size = pytest.mark.parametrize("sizes", [PLAIN, NARROW], ids=["plain", "narrow"])


@pytest.fixture(autouse=True)
def one_seed_for_all():
    torch.manual_seed(13)


def draw(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def close(got, expected, tolerance=1e-12):
    got, expected = torch.as_tensor(got), torch.as_tensor(expected)
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance)


def agree(got, expected):
    """The answer is the yardstick's and the oracle's, up to the rounding of its dtype."""
    torch.testing.assert_close(got, expected.plain, rtol=0, atol=TOLERANCE[got.dtype])
    close(got.double(), expected.exact, TOLERANCE[got.dtype])


def layers(sizes, dtype=torch.float64):
    """The student's layer and the oracle with the same weights."""
    student = solution.MultiHeadLatentAttention(*sizes).to(dtype)
    for parameter in student.parameters():
        nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    oracle = reference.MultiHeadLatentAttention(*sizes)
    oracle.load_state_dict(student.state_dict())
    return student, oracle


def caches(sizes, batch=2, max_len=9, dtype=torch.float64):
    """The student's cache and the oracle's for a layer of these sizes."""
    wanted = (batch, max_len, sizes[5], sizes[3], dtype)
    return solution.LatentCache(*wanted), reference.LatentCache(*wanted)


def rotations(length, width, base):
    """One rotation matrix per position, as the exponential of its generator."""
    generator = np.zeros((width, width))
    for i in range(0, width, 2):
        generator[i + 1, i] = base ** (-i / width)
    generator -= generator.T
    return torch.tensor(np.stack([scipy.linalg.expm(p * generator) for p in range(length)]))


@pytest.mark.parametrize(("width", "base"), [(2, 10000.0), (6, 10000.0), (8, 7.0)])
def test_rope_multiplies_by_the_exponential_of_a_generator(width, base):
    x = draw(2, 9, width)
    expected = torch.einsum("ldk,blk->bld", rotations(9, width, base), x)
    close(reference.exact_rope(x.numpy(), 0, base), expected)
    close(plain_rope(x, torch.arange(9), base), expected)
    close(solution._rotated(x, 0, base), expected)
    close(solution._rotated(x[:, 4:], 4, base), expected[:, 4:])


def test_the_norms_are_pytorchs_rms_norm():
    x, weight = draw(3, 5, 8), draw(8)
    expected = F.rms_norm(x, (8,), weight, eps=1e-6)
    close(reference.exact_rms_norm(x.numpy(), weight.numpy()), expected)
    norm = solution._RMSNorm(8).double()
    norm.weight.data.copy_(weight)
    close(norm(x), expected)


@each_size
@both_ways
def test_the_layer_is_pytorchs_attention_on_keys_and_values_built_by_hand(sizes, absorbed):
    student, oracle = layers(sizes)
    _, heads, nope, rope, _, rank, *more = sizes
    w = {name.removesuffix(".weight"): p.detach() for name, p in student.state_dict().items()}
    x = draw(2, 9, sizes[0])
    turns = rotations(9, rope, more[1] if more else 10000.0)
    if more:
        q = F.rms_norm(x @ w["q_a_proj"].T, (more[0],), w["q_a_layernorm"], 1e-6)
        q = q @ w["q_b_proj"].T
    else:
        q = x @ w["q_proj"].T
    q = torch.stack(q.chunk(heads, -1), 1)
    latent, key = (x @ w["kv_a_proj_with_mqa"].T).split([rank, rope], -1)
    latent = F.rms_norm(latent, (rank,), w["kv_a_layernorm"], 1e-6)
    q_rope = torch.einsum("ldk,bhlk->bhld", turns, q[..., nope:])
    k_rope = torch.einsum("ldk,blk->bld", turns, key)
    outputs = []
    for h, matrix in enumerate(w["kv_b_proj"].chunk(heads)):
        k = torch.cat([latent @ matrix[:nope].T, k_rope], -1)
        v = latent @ matrix[nope:].T
        one = torch.cat([q[:, h, :, :nope], q_rope[:, h]], -1)
        outputs.append(F.scaled_dot_product_attention(one, k, v, is_causal=True))
    expected = torch.cat(outputs, -1) @ w["o_proj"].T
    close(student(x, absorbed=absorbed), expected)
    close(oracle(x, absorbed=absorbed).exact, expected)
    close(oracle(x, absorbed=absorbed).plain, expected)


@both_ways
def test_without_rotary_weights_it_is_ordinary_multi_head_attention(absorbed):
    heads, rope, head = 3, 2, 4
    width = heads * head
    student, oracle = layers((width, heads, head, rope, head, width))
    theirs = nn.MultiheadAttention(width, heads, bias=False, batch_first=True, dtype=torch.float64)
    w_q, w_k, w_v = theirs.in_proj_weight.detach().chunk(3)
    q_proj = torch.zeros(heads, head + rope, width, dtype=torch.float64)
    q_proj[:, :head] = w_q.reshape(heads, head, width) * ((head + rope) / head) ** 0.5
    kv_b = torch.cat([w.reshape(heads, head, width) for w in (w_k, w_v)], 1)
    latent = torch.eye(width + rope, width, dtype=torch.float64)
    state = {
        "q_proj": q_proj.flatten(0, 1),
        "kv_a_proj_with_mqa": latent,
        "kv_a_layernorm": torch.ones(width, dtype=torch.float64),
        "kv_b_proj": kv_b.flatten(0, 1),
        "o_proj": theirs.out_proj.weight.detach(),
    }
    for layer in (student, oracle):
        layer.load_state_dict({f"{name}.weight": x for name, x in state.items()})
    x = draw(2, 5, width)
    x = x / x.square().mean(-1, keepdim=True).sqrt() * (1 - 1e-6) ** 0.5  # the norm changes nothing
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected, _ = theirs(x, x, x, attn_mask=later, need_weights=False)
    close(student(x, absorbed=absorbed), expected)
    close(oracle(x, absorbed=absorbed).exact, expected)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("batch", [2, 0])
@each_size
@both_ways
def test_solution_and_oracle_agree_in_every_dtype(sizes, absorbed, batch, dtype):
    student, oracle = layers(sizes, dtype)
    student.requires_grad_(False)
    ours, theirs = caches(sizes, batch, 20, dtype)
    for t in (17, 1):
        x = draw(batch, t, sizes[0], dtype=dtype)
        agree(student(x, ours, absorbed), oracle(x, theirs, absorbed))


@pytest.mark.parametrize("ways", [[False], [True], [False, True]], ids=str)
@pytest.mark.parametrize("chunks", CHUNKINGS, ids=str)
def test_chunks_of_any_size_equal_the_whole_text(chunks, ways):
    student, oracle = layers(NARROW)
    student.requires_grad_(False)
    x, other = draw(2, 7, 10), draw(2, 7, 10)
    (ours, theirs), (second, _) = caches(NARROW), caches(NARROW)
    got, expected = [], []
    for i, part in enumerate(x.split(chunks, 1)):
        student(other[:, : part.shape[1]], second)  # a second text must not be noticed
        got.append(student(part, ours, ways[i % len(ways)]))
        expected.append(torch.tensor(oracle(part, theirs, ways[i % len(ways)]).exact))
    close(torch.cat(got, 1), student(x))
    close(torch.cat(expected, 1), student(x))
    assert ours.length == theirs.length == 7


@pytest.mark.parametrize("chunks", CHUNKINGS, ids=str)
@pytest.mark.parametrize("cache", [solution.LatentCache, PlainLatentCache])
def test_the_cache_returns_all_that_was_appended_in_order(cache, chunks):
    latent, key = draw(2, 7, 5), draw(2, 7, 4)
    ours = cache(2, 7, 5, 4, torch.float64)
    theirs = reference.LatentCache(2, 7, 5, 4, torch.float64)
    end = 0
    for one, other in zip(latent.split(chunks, 1), key.split(chunks, 1), strict=True):
        end += one.shape[1]
        got, expected = ours.append(one, other), theirs.append(one, other)
        assert torch.equal(got[0], latent[:, :end]) and torch.equal(got[1], key[:, :end])
        agree(got[0], expected[0])
        agree(got[1], expected[1])
        assert ours.length == theirs.length == end and type(ours.length) is int
    ours.reset()
    assert ours.length == 0


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_the_buffers_of_a_cache_are_what_it_answers_from(dtype):
    ours, theirs = caches(PLAIN, dtype=dtype)
    for one in (ours, theirs):
        one.append(torch.ones(2, 3, 5, dtype=dtype), torch.ones(2, 3, 6, dtype=dtype))
    ours.latents.mul_(-2)
    ours.k_ropes.mul_(-2)
    theirs.multiply(-2)
    new = draw(2, 1, 5, dtype=dtype), draw(2, 1, 6, dtype=dtype)
    for got, expected in zip(ours.append(*new), theirs.append(*new), strict=True):
        assert (got[:, :3] == -2).all()
        agree(got, expected)
    for got, expected in zip((ours.latents, ours.k_ropes), theirs.so_far(), strict=True):
        agree(got[:, :4], expected)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_the_bytes_are_fewer_by_the_stated_factor(dtype):
    heads, nope, rope, value, rank = 16, 8, 4, 8, 12
    cache = solution.LatentCache(3, 10, rank, rope, dtype)
    expanded = 3 * 10 * heads * (nope + rope + value) * dtype.itemsize
    assert expanded / cache.nbytes == heads * (nope + rope + value) / (rank + rope)
    for other in (reference.LatentCache, PlainLatentCache):
        assert other(3, 10, rank, rope, dtype).nbytes == cache.nbytes


@pytest.mark.parametrize(
    ("latent", "key", "numbers"),
    [
        ((2, 1, 5), (2, 1, 4), r"9\D+8"),
        ((1, 1, 5), (2, 1, 4), r"latent .*\(1, 1, 5\).*\(2, 1, 5\)"),
        ((2, 1, 5), (2, 1, 1), r"k_rope .*\(2, 1, 1\).*\(2, 1, 4\)"),
        ((2, 2, 5), (2, 1, 4), r"k_rope .*\(2, 1, 4\).*\(2, 2, 4\)"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(latent, key, numbers):
    cache, kept = solution.LatentCache(2, 8, 5, 4), (draw(2, 8, 5).float(), draw(2, 8, 4).float())
    cache.append(*kept)
    with pytest.raises(ValueError, match=numbers):
        cache.append(torch.ones(latent), torch.ones(key))
    latents, keys = cache.append(kept[0][:, :0], kept[1][:, :0])
    assert cache.length == 8 and torch.equal(latents, kept[0]) and torch.equal(keys, kept[1])


@both_ways
def test_gradients_are_the_finite_differences_of_the_oracle(absorbed):
    sizes = (3, 2, 2, 2, 1, 2, 2)
    student, oracle = layers(sizes)
    x, upstream = draw(1, 3, 3).requires_grad_(), draw(1, 3, 3)
    ours = torch.autograd.grad(student(x, absorbed=absorbed), [x, *student.parameters()], upstream)
    theirs = oracle.gradients(x, absorbed, upstream=upstream)
    for got, expected in zip(ours, theirs, strict=True):
        agree(got, expected)
    state = {name: p.detach().clone() for name, p in student.state_dict().items()}
    oracle.load_state_dict(state)
    for got, leaf in zip(ours, (x.detach(), *state.values()), strict=True):
        close(got, slopes(lambda: (oracle(x.detach()).exact * upstream.numpy()).sum(), leaf), 1e-7)


def slopes(scalar, x, step=1e-6):
    """Central differences of `scalar()` for every element of x, changed where it is."""
    found = torch.zeros_like(x)
    for index in np.ndindex(*x.shape):
        kept = x[index].item()
        x[index] = kept + step
        up = scalar()
        x[index] = kept - step
        found[index] = (up - scalar()) / (2 * step)
        x[index] = kept
    return found


class Largest(TorchDispatchMode):
    """Notes the largest number of elements that any operator returns."""

    elements = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.elements = max(self.elements, result.numel())
        return result


def test_absorbed_never_holds_keys_or_values_of_all_heads():
    sizes, n = (16, 8, 16, 4, 16, 4), 400
    student, _ = layers(sizes, torch.float32)
    cache = solution.LatentCache(1, n, 4, 4)
    cache.append(torch.randn(1, n - 1, 4), torch.randn(1, n - 1, 4))
    with torch.no_grad(), Largest() as seen:
        student(torch.randn(1, 1, 16), cache, absorbed=True)
    assert seen.elements <= max(8 * n, *(p.numel() for p in student.parameters()))  # the scores
    cache.reset()
    cache.append(torch.randn(1, n - 1, 4), torch.randn(1, n - 1, 4))
    with torch.no_grad(), Largest() as seen:
        student(torch.randn(1, 1, 16), cache)
    assert seen.elements >= 8 * n * 32


@pytest.mark.parametrize(
    "layer", [solution.MultiHeadLatentAttention, PlainMultiHeadLatentAttention]
)
def test_the_parameters_of_deepseek_v3_have_its_names_and_shapes(layer):
    with torch.device("meta"):
        state = layer(7168, 128, 128, 64, 128, 512, 1536).state_dict()
    assert {name: tuple(x.shape) for name, x in state.items()} == {
        "q_a_proj.weight": (1536, 7168),
        "q_a_layernorm.weight": (1536,),
        "q_b_proj.weight": (24576, 1536),
        "kv_a_proj_with_mqa.weight": (576, 7168),
        "kv_a_layernorm.weight": (512,),
        "kv_b_proj.weight": (32768, 512),
        "o_proj.weight": (7168, 16384),
    }
    with torch.device("meta"):
        assert "q_proj.weight" in layer(*PLAIN).state_dict()


@both_ways
def test_half_precision_survives_norms_and_scores_beyond_its_range(absorbed):
    student, oracle = layers(PLAIN, torch.float16)
    x = (draw(1, 1, 12) * 300).half().expand(1, 4, 12)
    expected = torch.tensor(oracle(x, absorbed=absorbed).exact)
    close(student(x, absorbed=absorbed).double(), expected, 2e-2)


def test_an_odd_rope_dim_is_refused():
    with pytest.raises(ValueError, match="7"):
        solution.MultiHeadLatentAttention(16, 2, 4, 7, 4, 8)
