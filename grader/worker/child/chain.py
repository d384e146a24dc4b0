"""A chain of attentions on one device, each fed by the one before it.

On a GPU a call takes less time than the transfer of its inputs. So the worker draws the inputs from
a seed on the device, calls many times, and sends back a digest of the last output: the sum of all
heads, each with a random sign. The digest is right only if every head of every link was right.
Between links each row is normalised; otherwise the queries would soon not tell the keys apart. Then
the output becomes the next link's queries, the queries its keys, and the keys its values.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_FLUSHED_BYTES = 256 << 20  # bytes; more than any cache holds
_PERSISTING_L2_CACHE_SIZE = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE of the driver


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain: q, k and v have `shape` (B, H, L, D) and are normal numbers of `dtype`."""

    seed: int
    shape: tuple[int, int, int, int]
    dtype: str
    links: int
    device: str

    def run(self, attention: Callable[..., Tensor], dtype: str = "", **named: Any) -> Tensor:
        """Return the digest (L, D), float32, of `attention(q, k, v, **named)` after the last link.

        With `dtype` the same inputs are converted to that dtype first.
        """
        generator = torch.Generator(self.device).manual_seed(self.seed)
        narrow, wide = getattr(torch, self.dtype), getattr(torch, dtype or self.dtype)
        q, k, v = (
            torch.randn(self.shape, generator=generator, device=self.device, dtype=narrow).to(wide)
            for _ in range(3)
        )
        signs = torch.randint(2, self.shape[:2], generator=generator, device=self.device) * 2 - 1
        _flush_worker_gpu_cache(self.device)
        for _ in range(self.links):
            q, k, v = F.rms_norm(attention(q, k, v, **named), self.shape[-1:]), q, k
        digest = torch.einsum("bhld,bh->ld", q.float(), signs.float())
        if q.is_cuda:
            torch.cuda.synchronize()
        return digest


def _flush_worker_gpu_cache(device: str) -> None:
    """Flush the cache of the GPU, with the lines that a call has made persist there."""
    if not device.startswith("cuda"):
        return
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuCtxSetLimit(_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(0))
    driver.cuCtxResetPersistingL2Cache()
    torch.empty(_FLUSHED_BYTES, dtype=torch.int8, device=device).zero_()
