"""The fast path: attention on the fused kernels of PyTorch, which never store the scores.

On CUDA that is flash, memory-efficient or cuDNN attention, on the CPU PyTorch's own fused kernel
(2.5 and later). `fused_attention` asks in such a way that one of them can answer, and keeps the
conventions where the kernels do not: bottom-right causal, empty rows zero, nothing from NaN that is
hidden from every query. To pin a kernel, call it inside `torch.nn.attention.sdpa_kernel`.
"""

import math
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.backends.cuda import (
    SDPAParams,
    can_use_cudnn_attention,
    can_use_efficient_attention,
    can_use_flash_attention,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import CausalBias, causal_lower_right

Call = dict[str, Any]  # the arguments of PyTorch's operator

_NAMES = {
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "efficient",
    SDPBackend.CUDNN_ATTENTION: "cudnn",
}


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keep: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The fast path: `fast_attention` of q (B, H, Lq, D), k (B, Hk, Lk, D), v (B, Hk, Lk, Dv)."""
    before = q.shape[-2] - k.shape[-2]  # queries that stand before the first key
    if causal and keep is None and bias is None and before > 0:
        output = fused_attention(q[:, :, before:], k, v, causal=True, scale=scale)
        return F.pad(output, (0, 0, before, 0))
    calls, empty = _fused_calls(q, k, v, keep, causal, scale, bias)
    parts = [_run(call) for call in calls]  # (B, H or Hk, Lq, D) each
    output = parts[0] if len(parts) == 1 else torch.stack(parts, 2).flatten(1, 2)
    output = output[..., : v.shape[-1]]  # (B, H, Lq, Dv)
    return output if empty is None else output.masked_fill(empty, 0.0)


def best_backend(
    q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None = None, causal: bool = False
) -> str:
    """The kernel that `fused_attention` runs on, ": ", and why the other fused ones will not.

    Not an `Expected`: only the word before the colon can be compared.
    """
    if causal and keep is None:
        q = q[:, :, max(q.shape[-2] - k.shape[-2], 0) :]
    call = _fused_calls(q, k, v, keep, causal, None, None)[0][0]
    reasons: list[str] = []
    for kernel in _candidates(call):
        if _takes(kernel, call):
            return f"{_NAMES[kernel]}: " + ("; ".join(reasons) or "no kernel is preferred to it")
        reasons.append(f"{_NAMES[kernel]} will not run ({_why_not(kernel, call)})")
    return "math: " + "; ".join(reasons)


def _fused_calls(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keep: Tensor | None,
    causal: bool,
    scale: float | None,
    bias: Tensor | None,
) -> tuple[list[Call], Tensor | None]:
    """The calls of the operator (one, or one per head of a group), and the rows that are 0."""
    q_len, k_len, width = q.shape[-2], k.shape[-2], max(q.shape[-1], v.shape[-1])
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    q, k, v = (_padded(x, -(-width // 8) * 8) for x in (q, k, v))
    mask = None if bias is None else _four_dims(bias, k_len)
    causal = causal and q_len > 1  # a single query is the newest: it sees everything
    if causal and (keep is not None or mask is not None):
        behind = torch.ones(q_len, k_len, dtype=torch.bool, device=q.device).tril(k_len - q_len)
        keep, causal = behind if keep is None else keep & behind, False
    elif causal and q_len < k_len:
        mask, causal = causal_lower_right(q_len, k_len), False

    empty = None
    if keep is not None:
        keep = _four_dims(keep, k_len)
        k, v = _cleared(k, keep), _cleared(v, keep)
        empty = ~keep.any(-1, keepdim=True)  # (B, H, Lq, 1), or 1 for any of B, H, Lq
        # What a kernel makes of an empty row differs: let it see everything, and zero it after.
        keep = keep | empty
        mask = _last_dense(keep if mask is None else torch.where(keep, mask, -torch.inf))

    gqa = q.shape[1] != k.shape[1]
    call: Call = {"query": q, "key": k, "value": v, "attn_mask": mask}
    call |= {"is_causal": causal, "scale": scale, "enable_gqa": gqa}
    if gqa and _kernel(call) == SDPBackend.MATH:  # which would copy K and V
        return _call_per_member(call), empty
    return [call], empty


def _call_per_member(call: Call) -> list[Call]:
    """One call for the first query head of every group, one for the second, and so on."""
    q, mask = call["query"], call["attn_mask"]
    group = q.shape[1] // call["key"].shape[1]
    per_head = mask is not None and mask.ndim == 4 and mask.shape[1] > 1
    return [
        call
        | {
            "query": q[:, member::group],  # (B, Hk, Lq, D)
            "attn_mask": mask[:, member::group] if per_head else mask,
            "enable_gqa": False,
        }
        for member in range(group)
    ]


def _candidates(call: Call) -> list[SDPBackend]:
    """The fused kernels that there are for this call, the one that PyTorch prefers first."""
    q = call["query"]
    if not q.is_cuda:
        return [SDPBackend.FLASH_ATTENTION]
    kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    if isinstance(call["attn_mask"], CausalBias):
        return kernels
    hopper_or_blackwell = torch.cuda.get_device_capability(q.device)[0] in (9, 10)
    cudnn = [SDPBackend.CUDNN_ATTENTION]
    return cudnn + kernels if hopper_or_blackwell else kernels + cudnn


def _takes(kernel: SDPBackend, call: Call) -> bool:
    """Whether a fused kernel can run this call."""
    q, k, v, mask = (call[name] for name in ("query", "key", "value", "attn_mask"))
    if not q.is_cuda:  # PyTorch answers for CUDA only
        return k.shape[-2] > 0 and q.shape[-2] > 0 and not (mask is not None and mask.requires_grad)
    can_use = {
        SDPBackend.FLASH_ATTENTION: can_use_flash_attention,
        SDPBackend.EFFICIENT_ATTENTION: can_use_efficient_attention,
        SDPBackend.CUDNN_ATTENTION: can_use_cudnn_attention,
    }[kernel]
    mask = None if isinstance(mask, CausalBias) else mask  # a rule does not count as a mask
    return can_use(SDPAParams(q, k, v, mask, 0.0, call["is_causal"], call["enable_gqa"]))


def _kernel(call: Call) -> SDPBackend:
    return next((kernel for kernel in _candidates(call) if _takes(kernel, call)), SDPBackend.MATH)


def _run(call: Call) -> Tensor:
    kernel = _kernel(call)
    if kernel == SDPBackend.MATH or not call["query"].is_cuda:
        return F.scaled_dot_product_attention(**call)
    with sdpa_kernel(kernel):  # left alone, PyTorch might prefer math to cuDNN
        return F.scaled_dot_product_attention(**call)


def _why_not(kernel: SDPBackend, call: Call) -> str:
    """PyTorch's reasons for not running this call, which `kernel` does not take."""
    if isinstance(call["attn_mask"], CausalBias):
        call = call | {"attn_mask": None}  # a rule does not count as a mask
    with warnings.catch_warnings(record=True) as caught, sdpa_kernel(kernel):
        warnings.simplefilter("always")
        try:
            F.scaled_dot_product_attention(**call)
        except RuntimeError as error:
            said = [str(warning.message).split(" (Triggered")[0] for warning in caught]
            # The kernels that were not asked appear too, as "disabled", each under a headline.
            reasons = [s for s in said if "disabled" not in s and not s.endswith("because:")]
            return " ".join(reasons) or str(error)
    return "there is nothing to compute"


def _padded(x: Tensor, width: int) -> Tensor:
    return _last_dense(x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1])))


def _last_dense(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _four_dims(mask: Tensor, k_len: int) -> Tensor:
    mask = mask[(None,) * (4 - mask.ndim)]
    return _last_dense(mask.expand(*mask.shape[:-1], k_len))


def _cleared(x: Tensor, keep: Tensor) -> Tensor:
    """Keys or values (B, Hk, Lk, D), with zeros where no query may look: 0 * nan is nan."""
    seen = keep.any(-2).unsqueeze(-1)  # (B, H, Lk, 1), or 1 for B or H
    if seen.shape[1] not in (1, x.shape[1]):
        seen = torch.unflatten(seen, 1, (x.shape[1], -1)).any(2)  # (B, Hk, Lk, 1)
    return x.masked_fill(~seen, 0.0)
