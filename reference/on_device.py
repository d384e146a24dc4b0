"""The fast path against the oracle on one device: `python -m reference.on_device cuda`.

Prints a JSON object a line: what the device is, which fused kernels it runs, and for every case the
kernel that ran, the error of the fast path and that of the plain formula, both against float64, and
whether the first is within four times the second or the floor of its dtype. A case that fails says
so on its line, and the next case runs. `--after N` leaves out the first N lines.
"""

import argparse
import itertools
import json
import platform
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

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
KERNELS = [
    SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.CUDNN_ATTENTION,
]  # fmt: skip
MASKS = ["none", "causal", "keep", "bias"]
FLOOR = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-20, "float64": 1e-10}

Line = dict[str, Any]


def lines(device: str) -> Iterator[tuple[Line, Callable[[], Line]]]:
    """What each line is about, and what computes the rest of it: device, kernels, cases."""
    yield {"about": "device"}, partial(_about, device)
    for backend in KERNELS:
        yield {"about": "kernel", "name": backend.name.lower()}, partial(_kernel, backend, device)
    for shape, dtype, mask in itertools.product(SHAPES, DTYPES, MASKS):
        about = {"about": "case", "shape": shape, "dtype": _name(dtype), "mask": mask}
        yield about, partial(_case, shape, dtype, mask, device)


def line(about: Line, compute: Callable[[], Line]) -> Line:
    """The whole line; where the computation fails, with its error."""
    try:
        return about | compute()
    except (RuntimeError, ValueError, TypeError) as error:  # a refusal, or an error of the device
        return about | {"agrees": False, "error": f"{type(error).__name__}: {error}"}


def _kernel(backend: SDPBackend, device: str) -> Line:
    """Whether a small case runs on one of PyTorch's kernels."""
    q, k, v = (torch.ones(1, 2, 64, 64, dtype=torch.float16, device=device) for _ in range(3))
    with sdpa_kernel(backend), warnings.catch_warnings(record=True) as reasons:
        warnings.simplefilter("always")
        try:
            float(F.scaled_dot_product_attention(q, k, v, is_causal=True).sum())
        except RuntimeError as error:
            said = [str(warning.message).split(" (Triggered")[0] for warning in reasons]
            return {"runs": False, "why": " ".join([*said, str(error)])}
    return {"runs": True}


def _case(shape: tuple[int, ...], dtype: torch.dtype, mask: str, device: str) -> Line:
    q, k, v, options = _inputs(shape, dtype, mask, device)
    named = {"keep": options.get("keep"), "causal": options.get("causal", False)}
    backend = best_backend(q, k, v, **named)
    got = fused_attention(q, k, v, **options)
    expected = fast_attention(q, k, v, **options)
    error = float(np.abs(f64(got) - expected.exact).max())
    yardstick = float(np.abs(f64(expected.plain) - expected.exact).max())
    allowed = max(4 * yardstick, FLOOR[_name(dtype)] * expected.magnitude)
    return {
        "backend": backend,
        "largest_error": error,
        "yardstick": yardstick,
        "agrees": error <= allowed and got.dtype == dtype and got.device == q.device,
    }


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


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


def _usable(device: str) -> bool:
    """Whether the device still answers: after an illegal access it does not, in this process."""
    try:
        torch.ones(1, device=device).item()
    except RuntimeError:
        return False
    return True


def main() -> None:
    """Print the lines, each when it is known; stop with status 1 once the device is lost."""
    parser = argparse.ArgumentParser(description="Compare the fast path with the oracle.")
    parser.add_argument("device", nargs="?", default="cpu")
    parser.add_argument("--after", type=int, default=0, help="Leave out so many lines.")
    given = parser.parse_args()
    for about, compute in itertools.islice(lines(given.device), given.after, None):
        found = line(about, compute)
        print(json.dumps(found), flush=True)
        if "error" in found and not _usable(given.device):
            raise SystemExit(1)


if __name__ == "__main__":
    main()
