"""A chain of attentions on one device, each fed by the one before it.

On a GPU a call takes less time than its inputs take to get there. So the worker draws the inputs
from a seed where they are needed, calls many times, and sends back a digest of the end: the sum of
all heads, each with a random sign, which is right only if every head of every link was. Between
links a row is brought back to its usual size, or soon no query would tell its keys apart, and the
tensors move on by one place: the output asks, the queries become keys, the keys values.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_FLUSHED = 256 << 20  # bytes; more than any cache holds
_PERSISTING_L2_CACHE_SIZE = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE of the driver


@dataclass(frozen=True, slots=True)
class Chain:
    """Which chain: q, k and v have `shape` (B, H, L, D) and are normal numbers of `dtype`."""

    seed: int
    shape: tuple[int, int, int, int]
    dtype: str
    links: int
    device: str

    def run(self, attention: Callable[..., Tensor], dtype: str = "", **named: Any) -> Tensor:
        """The digest (L, D), float32, of `attention(q, k, v, **named)` after the last link.

        With `dtype` the same numbers are computed with in another dtype.
        """
        generator = torch.Generator(self.device).manual_seed(self.seed)
        narrow, wide = getattr(torch, self.dtype), getattr(torch, dtype or self.dtype)
        q, k, v = (
            torch.randn(self.shape, generator=generator, device=self.device, dtype=narrow).to(wide)
            for _ in range(3)
        )
        signs = torch.randint(2, self.shape[:2], generator=generator, device=self.device) * 2 - 1
        _forget_caches(self.device)
        for _ in range(self.links):
            q, k, v = F.rms_norm(attention(q, k, v, **named), self.shape[-1:]), q, k
        digest = torch.einsum("bhld,bh->ld", q.float(), signs.float())
        if q.is_cuda:
            torch.cuda.synchronize()
        return digest


def _forget_caches(device: str) -> None:
    """Empty the cache of the GPU, also of what was asked to stay in it."""
    if not device.startswith("cuda"):
        return
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuCtxSetLimit(_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(0))
    driver.cuCtxResetPersistingL2Cache()
    torch.empty(_FLUSHED, dtype=torch.int8, device=device).zero_()
