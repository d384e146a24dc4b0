"""Compares scores that half precision cannot tell apart, and gradients where one tensor learns."""

import torch
from torch import float32

from grader.judging import Hard, agree, backward
from reference import ex13_mla as reference
from reference import raised

from .caches import append, new_caches
from .cases import NARROW, PLAIN
from .layers import new_layers, parameters

WIDTH, ROPE = 16, 2  # of the keys without rotation, which lie in the latents as they are
LOW = "output for very low scores"
READS_LATENTS = (WIDTH, 1, WIDTH, ROPE, WIDTH, WIDTH)


def close_scores(student, draw, device, dtype, absorbed):
    """Compare outputs for scores of hundreds that lie closer together than half precision tells.

    All projections are exact: tokens are queries, latents are keys, and the new latents are 0.
    """
    q, k = draw.ties(5, WIDTH, dtype)

    def change(state):
        for name, weight in state.items():
            weight.zero_()
            if name in ("q_proj.weight", "o_proj.weight"):
                weight[:WIDTH] = torch.eye(WIDTH)
        expansion = state["kv_b_proj.weight"]
        expansion[:WIDTH] = torch.eye(WIDTH)
        expansion[WIDTH:] = 2.0 ** draw.integers(-5, -3, WIDTH, WIDTH).to(dtype)
        return {}

    layer, right = new_layers(student, draw, device, READS_LATENTS, dtype, change)
    layer.requires_grad_(False)
    sizes = 1, WIDTH + 5, WIDTH, ROPE
    options = {} if device.type == "cpu" else {"device": device}
    cache = student.LatentCache(*sizes, dtype, **options)
    seen = reference.LatentCache(*sizes, float32, device)  # the yardstick computes in float32
    nothing = torch.zeros(1, WIDTH, ROPE, dtype=dtype, device=device)
    cache.append(k[None], nothing)
    seen.append(k[None].float(), nothing.float())
    expected = raised(lambda x: right(x, seen, absorbed), q[None])
    agree(layer(q[None], cache, absorbed), expected, says="output for close scores of hundreds")


def low_scores(student, draw, device, dtype, absorbed):
    """Compare outputs where all scores are below what people write for a hidden one.

    The first place of every token is 1: it makes the first place of each query, and the last place
    of each latent, which alone makes the first place of a key. Each is another one.
    """

    def change(state):
        queries = state["q_proj.weight"].unflatten(0, (PLAIN[1], -1))
        expansion = state["kv_b_proj.weight"].unflatten(0, (PLAIN[1], -1))
        latent = state["kv_a_proj_with_mqa.weight"][PLAIN[5] - 1]
        queries[:, 0], expansion[:, 0], expansion[..., -1], latent[:] = 0.0, 0.0, 0.0, 0.0
        queries[:, 0, 0], expansion[:, 0, -1], latent[0] = -40.0, 1.0, 2.0
        state["kv_a_layernorm.weight"][-1] = 1e31
        return {}

    draw.hard(Hard.LOW)
    layer, right = new_layers(student, draw, device, PLAIN, dtype, change)
    x = draw.normal(4, 5, PLAIN[0], dtype=dtype)
    x[..., 0] = 1.0
    agree(layer(x, absorbed=absorbed), right(x, absorbed=absorbed), says=LOW)
    if dtype.itemsize > 2:
        small_weight_counts(student, draw, device, dtype, absorbed)


def small_weight_counts(student, draw, device, dtype, absorbed):
    """Compare an output in which a weight of exp(-60), or of exp(-300) in float64, counts for its
    large value.

    The two places of the latent in the cache are its key and its value; that of the token is 0.
    """
    score, value = (300.0, 1e130) if dtype is torch.float64 else (60.0, 1e26)

    def change(state):
        for weight in state.values():
            weight.zero_()
        state["q_proj.weight"][0, 0] = state["o_proj.weight"][0, 0] = 1.0
        state["kv_b_proj.weight"] += torch.eye(2, device=device)
        return {}

    layer, right = new_layers(student, draw, device, (2, 1, 1, 2, 1, 2), dtype, change)
    layer.requires_grad_(False)
    cache, seen = new_caches(student, device, 1, 2, 2, 2, dtype)
    latent = torch.tensor([[[-score * 3**0.5, value]]], dtype=dtype, device=device)
    append(cache, seen, latent, 0 * latent)
    x = torch.tensor([[[1.0, 0.0]]], dtype=dtype, device=device)
    expected, output = torch.from_numpy(right(x, seen, absorbed).exact), layer(x, cache, absorbed)
    within = 1e-3 * float(expected.max())
    says = "output for a small weight and a large value"
    agree(output, expected.to(x), says=says, within=within)


def one_learns_alone(student, draw, device, absorbed):
    """Compare the gradient of x, and of every weight, where no other tensor needs one."""
    draw.hard(Hard.LEARN)
    for sizes in PLAIN, NARROW:
        layer, right = new_layers(student, draw, device, sizes, float32)
        x, upstream = (draw.normal(2, 3, sizes[0]) for _ in range(2))
        of_x, *others = right.gradients(x, absorbed, upstream=upstream)
        layer.requires_grad_(False)
        [got] = backward(layer(x.requires_grad_(), absorbed=absorbed), x, upstream=upstream)
        agree(got, of_x, says="gradient of x (which alone learns)")
        x.requires_grad_(False)
        for name, one in zip(parameters(sizes), others, strict=True):
            getattr(layer, f"{name}.requires_grad_")(True)
            layer.forward.held(x, absorbed=absorbed).backward(upstream)
            agree(layer.read(f"{name}.grad"), one, says=f"gradient of {name} (which alone learns)")
            getattr(layer, f"{name}.requires_grad_")(False)
