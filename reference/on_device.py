"""The fast path against the oracle on one device: `python -m reference.on_device cuda`.

Prints one JSON object: what the device is, and for every case the kernel that ran, the error of
the fast path and that of the plain formula, both against float64, and whether the first is within
four times the second or the floor of its dtype.
"""

import itertools
import json
import platform
import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reference.ex08_cuda_sdpa import fast_attention
from reference.expected import f64
from reference.fused import best_backend, fused_attention

# (B, H, Hk, Lq, Lk, D): square, decode, prefill after a past, more queries than keys, groups.
SHAPES = [
    (2, 4, 4, 128, 128, 64),
    (2, 4, 4, 1, 333, 64),
    (1, 4, 4, 65, 200, 128),
    (1, 4, 4, 200, 65, 64),
    (2, 8, 2, 96, 96, 64),
    (1, 2, 2, 17, 33, 20),
]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
MASKS = ["none", "causal", "keep", "bias"]
FLOOR = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-20, "float64": 1e-10}


def report(device: str) -> dict[str, Any]:
    """Everything that the page says, as plain values."""
    cases = itertools.product(SHAPES, DTYPES, MASKS)
    return {"device": _about(device), "cases": [_case(*case, device) for case in cases]}


def _case(shape: tuple[int, ...], dtype: torch.dtype, mask: str, device: str) -> dict[str, Any]:
    q, k, v, options = _inputs(shape, dtype, mask, device)
    named = {"keep": options.get("keep"), "causal": options.get("causal", False)}
    backend = best_backend(q, k, v, **named)
    got = fused_attention(q, k, v, **options)
    expected = fast_attention(q, k, v, **options)
    error = float(np.abs(f64(got) - expected.exact).max())
    yardstick = float(np.abs(f64(expected.plain) - expected.exact).max())
    name = str(dtype).removeprefix("torch.")
    allowed = max(4 * yardstick, FLOOR[name] * expected.magnitude)
    return {
        "shape": list(shape),
        "dtype": name,
        "mask": mask,
        "backend": backend,
        "error": error,
        "yardstick": yardstick,
        "agrees": error <= allowed and got.dtype == dtype and got.device == q.device,
    }


def _inputs(
    shape: tuple[int, ...], dtype: torch.dtype, mask: str, device: str
) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
    batch, heads, kv_heads, q_len, k_len, width = shape
    generator = torch.Generator().manual_seed(q_len * 1000 + k_len)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator).to(device, dtype)

    q = normal(batch, heads, q_len, width)
    k, v = normal(batch, kv_heads, k_len, width), normal(batch, kv_heads, k_len, width)
    options: dict[str, Any] = {}
    match mask:
        case "causal":
            options["causal"] = True
        case "keep":
            keep = torch.rand(batch, 1, q_len, k_len, generator=generator) < 0.6
            keep[0, 0, 0] = False  # a row with nothing to attend to
            options["keep"] = keep.to(device)
        case "bias":
            options["bias"] = normal(1, heads, q_len, k_len)
    return q, k, v, options


def _about(device: str) -> dict[str, str]:
    about = {"torch": torch.__version__, "numpy": np.__version__}
    about |= {"python": platform.python_version()}
    if torch.device(device).type == "cuda":
        major, minor = torch.cuda.get_device_capability()
        about |= {
            "name": torch.cuda.get_device_name(),
            "capability": f"{major}.{minor}",
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
            "tf32": "on" if torch.backends.cuda.matmul.allow_tf32 else "off",
        }
    return about | {"device": device}


if __name__ == "__main__":
    print(json.dumps(report(sys.argv[1] if len(sys.argv) > 1 else "cpu"), indent=1))
