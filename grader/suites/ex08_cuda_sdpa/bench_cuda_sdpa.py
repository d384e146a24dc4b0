"""The speed case of the production path, on CUDA."""

import torch
import torch.nn.functional as F

from grader.judging import Chain, agree, speed
from reference.expected import Expected, f64, largest

ON_CUDA = {"shape": (4, 16, 4096, 128), "dtype": "bfloat16", "links": 16}


@speed(points=4, cuda=True)
def bench_fast_attention(race):
    """As fast as PyTorch's fastest fused kernel; its math backend earns 0."""
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
