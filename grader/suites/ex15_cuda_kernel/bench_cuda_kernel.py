"""The speed case of the tiled kernel: on CUDA only. Threads that run one by one have no speed."""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from grader.judging import Chain, agree, speed
from reference.expected import Expected, f64, largest

SHAPE, LINKS = (1, 8, 4096, 64), 8


@speed(points=4, cuda=True)
def bench_tiled_attention(race):
    """As fast as PyTorch's matrix products in float32; a naive kernel earns 0."""
    named = {"scale": SHAPE[-1] ** -0.5, "causal": False}
    for draw in race:
        chain = Chain(
            seed=draw.integer(0, 2**62), device=race.device, shape=SHAPE, dtype="float32",
            links=LINKS,
        )  # fmt: skip
        expected = end_of(chain)
        for found in race.chain("tiled_attention", chain, work=LINKS * work(SHAPE), **named):
            agree(found, expected, "the end of the chain")


def work(shape):
    """Return the floating point operations of attention: those of two matrix products."""
    batch, heads, length, width = shape
    return 4 * batch * heads * length**2 * width


def end_of(chain):
    """Return the digest computed in float64, and by PyTorch's textbook path in float32."""
    with sdpa_kernel(SDPBackend.MATH):
        exact, plain = (
            chain.run(F.scaled_dot_product_attention, dtype) for dtype in ("float64", "float32")
        )
    return Expected(f64(exact), plain.to(torch.float32), largest(exact))
