"""Checks scores that half precision cannot tell apart, scores below any fill, single gradients."""

import math
from functools import partial

import torch
from torch import float16

from grader.judging import Hard, agree, backward
from grader.suites.ex08_cuda_sdpa.calls import options_of, qkv
from grader.suites.ex08_cuda_sdpa.layers import layers, load
from reference import ex08_cuda_sdpa as reference
from reference import raised

ALONE = "gradient of {} (which alone learns)"


def expected(oracle, dtype):
    """Return the oracle, which computes in float32 what half precision cannot."""
    return partial(raised, oracle) if dtype.itemsize == 2 else oracle


def ties_agree(student, draw, dtype, names):
    """Compare outputs for scores that half precision cannot tell apart."""
    q, k = (x[None] for x in draw.ties(5, 24, dtype))
    v, options = draw.normal(1, 24, 3, dtype=dtype), options_of(draw, names, q, k)
    right = raised(reference.fast_attention, q, k, v, **options)
    agree(student.fast_attention(q, k, v, **options), right, says="output (scores nearly equal)")


def low_scores_agree(student, draw, dtype, names):
    """Compare outputs where seen scores are below what people write for hidden ones."""
    n = 300 if dtype.itemsize > 2 else 9  # in half precision more of them would tie
    q, k = (x[None] for x in draw.low(3, n, 8, dtype))
    v, options = draw.normal(1, n, 3, dtype=dtype), options_of(draw, names, q, k)
    right = expected(reference.fast_attention, dtype)(q, k, v, **options)
    agree(student.fast_attention(q, k, v, **options), right, says="output (scores far below 0)")


def each_learns_alone(student, draw, names):
    """Compare the gradient of each of q, k, v and the bias where the others need none."""
    draw.hard(Hard.LEARN)
    given = dict(zip("qkv", qkv(draw), strict=True))
    given |= options_of(draw, names, given["q"], given["k"])
    upstream = draw.normal(*given["q"].shape[:-1], given["v"].shape[-1])
    rights = reference.fast_attention_gradients(**given, upstream=upstream)
    learned = [*"qkv", *(["bias"] if "bias" in names else [])]
    for name, right in zip(learned, rights, strict=True):
        leaf = given[name].clone().requires_grad_()
        [got] = backward(student.fast_attention(**given | {name: leaf}), leaf, upstream=upstream)
        agree(got, right, says=ALONE.format(name))


def one_head(student, draw, device, q, k):
    """Return modules of one head, and tokens, from which q and k are read as they are.

    A token holds its query and its key side by side; its value is the key, and proj adds nothing.
    """
    n = q.shape[-1]
    module, oracle = layers(student, draw, device, q.dtype, heads=1, width=2 * n)
    state = {name: torch.zeros_like(w) for name, w in oracle.plain.state_dict().items()}
    eye = torch.eye(n, dtype=q.dtype, device=device)
    state["qkv.weight"][:n, :n] = state["qkv.weight"][2 * n : 3 * n, n:] = eye
    state["qkv.weight"][4 * n : 5 * n, n:] = eye
    state["proj.weight"].copy_(torch.eye(2 * n))
    load(module, oracle, state)
    return module, oracle, torch.cat([q, k], -1)[None]


def both_paths_agree(module, oracle, x, keep, what):
    """Compare the output of both paths with that of float32, rounded."""
    right = expected(oracle, x.dtype)(x, keep)
    for fused in (True, False):
        module.fused = fused
        agree(module(x, keep), right, says=f"output (fused={fused}, scores {what})")


def module_agrees(student, draw, device, dtype):
    """Compare a module on scores nearly equal, in half precision, on scores far below 0, and beside
    a hidden key and value of 1e30."""
    if dtype.itemsize == 2:
        module, oracle, x = one_head(student, draw, device, *draw.ties(24, 24, dtype))
        for keep in None, draw.keep(24, 24):
            both_paths_agree(module, oracle, x, keep, "nearly equal")
    module, oracle, x = one_head(student, draw, device, *draw.low(4, 4, 5, dtype))
    for keep in None, draw.keep(4, 4):
        both_paths_agree(module, oracle, x, keep, "far below 0")
    large_keys_hidden(student, draw, device, dtype)


def large_keys_hidden(student, draw, device, dtype):
    """Compare output and gradient of x where a key and value hidden from all are 1e30."""
    q, k = (draw.normal(5, 4, dtype=dtype) for _ in "qk")
    keep = draw.keep(5, 5)
    keep[:, 1] = False
    module, oracle, x = one_head(student, draw, device, q, k)
    module.requires_grad_(False)
    upstream, right = draw.normal(1, 5, 8, dtype=dtype), oracle(x, keep)
    [of_x] = oracle.forward_gradients(x, keep, upstream=upstream)
    x[:, 1, 4:] = 1e4 if dtype is float16 else 1e30
    for fused in (True, False):
        module.fused = fused
        leaf = x.clone().requires_grad_()
        output = module(leaf, keep)
        agree(output, right, says=f"output (fused={fused}, a hidden key and value are huge)")
        [got] = backward(output, leaf, upstream=upstream)
        agree(got, of_x, says=f"gradient of x (fused={fused}, a hidden key and value are huge)")


def small_weight_counts(student, draw, device, dtype):
    """Compare answers in which a weight of exp(-60), or of exp(-300) in float64, counts for its
    large value: with a mask and without, and of both paths of a module."""
    low, value = (300, 1e130) if dtype is torch.float64 else (60, 1e26)
    score = float(draw.integer(low, low + 9))
    right = math.exp(-score) * value
    x = torch.tensor([[-score, value], [0.0, 0.0]], dtype=dtype, device=device)
    k, v, q = x[None, :, :1], x[None, :, 1:], torch.ones_like(x[None, :1, :1])
    for keep in None, torch.ones(1, 2, dtype=torch.bool, device=device):
        output = student.fast_attention(q, k, v, keep)
        says = "output for a small weight and a large value"
        agree(output, torch.full_like(output, right), says=says, within=1e-3 * right)
        ones = torch.tensor([[2.0, 0.0]], dtype=dtype, device=device).expand(2, 2)  # over sqrt(4)
        module, _, tokens = one_head(student, draw, device, ones, x)
        for fused in (True, False):
            module.fused = fused
            output = module(tokens, keep)
            says = f"output (fused={fused}, a small weight and a large value)"
            exact = torch.zeros_like(tokens)
            exact[..., 1] = right
            agree(output, exact, says=says, within=1e-3 * right)


def x_learns_alone(student, draw, device):
    """Compare the gradient of x, and of each weight, on both paths where it learns alone."""
    draw.hard(Hard.LEARN)
    module, oracle = layers(student, draw, device, qkv_bias=True)
    module.requires_grad_(False)
    x, keep = draw.normal(2, 5, 24), draw.keep(5, 5)
    [right] = oracle.forward_gradients(x, keep, upstream=x)
    learned = oracle.weight_gradients(x, keep, upstream=x)
    for fused in (True, False):
        module.fused = fused
        leaf = x.clone().requires_grad_()
        [got] = backward(module(leaf, keep), leaf, upstream=x)
        agree(got, right, says=ALONE.format("x"))
        for name, one in learned.items():
            getattr(module, f"{name}.requires_grad_")(True)
            module.forward.held(x, keep).backward(x)
            got = module.read(f"{name}.grad")
            agree(got, one._replace(magnitude=4 * one.magnitude), says=ALONE.format(name))
            module.zero_grad()
            getattr(module, f"{name}.requires_grad_")(False)
