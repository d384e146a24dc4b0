"""The speed case of the production path: on CUDA for points, on the CPU for information."""

import torch
import torch.nn.functional as F

import reference
from grader.judging import Chain, agree, speed
from reference.expected import Expected, f64, largest

ON_CUDA = {"shape": (4, 16, 4096, 128), "dtype": "bfloat16", "links": 16}
ON_CPU = (1, 2, 2048, 64)


@speed(points=4, cuda=True)
def bench_fast_attention(race):
    """As fast as PyTorch's fastest fused kernel; its math backend earns 0."""
    (_on_cpu if race.device == "cpu" else _on_cuda)(race)


def _on_cuda(race):
    one = (1, *ON_CUDA["shape"][1:])
    q, k, v = (race.draw.normal(*one, dtype=torch.bfloat16) for _ in range(3))
    asked = race.each(lambda party: party.best_backend(q, k, v, causal=True))
    _, race.notes["backend of the reference"], race.notes["your backend"] = asked.values()
    for draw in race:
        chain = Chain(seed=draw.integer(0, 2**62), device=race.device, **ON_CUDA)
        expected = end_of(chain)
        for found in race.chain(
            "fast_attention", chain, work=chain.links * work(chain.shape), causal=True
        ):
            agree(found, expected, "the end of the chain")


def _on_cpu(race):
    keep = torch.ones(ON_CPU[2], ON_CPU[2], dtype=torch.bool).tril()
    for draw in race:
        q, k, v = (draw.normal(*ON_CPU) for _ in range(3))
        rows = draw.rows(ON_CPU[2])
        expected, _ = reference.scaled_dot_product_attention(q[..., rows, :], k, v, keep[rows])
        for found in race.time("fast_attention", q, k, v, causal=True, work=work(ON_CPU)):
            agree(found[..., rows, :], expected)


def work(shape):
    """Return the floating point operations of causal attention: half of two matrix products."""
    batch, heads, length, width = shape
    return 2 * batch * heads * length**2 * width


def end_of(chain):
    """Return the digest computed in float32, and the digest from PyTorch's own operator."""
    exact, plain = (
        chain.run(F.scaled_dot_product_attention, dtype, is_causal=True)
        for dtype in ("float32", chain.dtype)
    )
    return Expected(f64(exact), plain, largest(exact))
