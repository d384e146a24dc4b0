"""The fast path: attention on the fused kernels of PyTorch, which never store the scores.

On CUDA that is flash, memory-efficient or cuDNN attention, on the CPU PyTorch's own fused kernel
(2.5 and later). `fused_attention` asks in such a way that one of them can answer, and keeps the
conventions where the kernels do not: bottom-right causal, empty rows zero. To pin a kernel, call it
inside `torch.nn.attention.sdpa_kernel`.
"""

import math
import warnings
from contextlib import nullcontext
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

Call = dict[str, Any]  # the arguments of PyTorch's operator

_KERNELS = {
    "flash": (SDPBackend.FLASH_ATTENTION, can_use_flash_attention),
    "efficient": (SDPBackend.EFFICIENT_ATTENTION, can_use_efficient_attention),
    "cudnn": (SDPBackend.CUDNN_ATTENTION, can_use_cudnn_attention),
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
    """The fast path of `fast_attention`: (..., H, Lq, Dv)."""
    call, empty = _call(q, k, v, keep, causal, scale, bias)
    name = _kernel(call)
    # Left alone, PyTorch would prefer math to cuDNN. There is nothing to choose on the CPU.
    pinned = q.is_cuda and name != "math"
    with sdpa_kernel(_KERNELS[name][0]) if pinned else nullcontext():
        output = F.scaled_dot_product_attention(**call)  # (B, H, Lq, D or more)
    output = output[..., : v.shape[-1]].reshape(*q.shape[:-1], v.shape[-1])
    return output if empty is None else output.masked_fill(empty, 0.0)


def best_backend(
    q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None = None, causal: bool = False
) -> str:
    """The kernel that `fused_attention` runs on, ": ", and why the other fused ones will not.

    Not an `Expected`: only the word before the colon can be compared.
    """
    call, _ = _call(q, k, v, keep, causal, None, None)
    reasons: list[str] = []
    for name in _candidates(q.device):
        if _takes(name, call):
            return f"{name}: " + ("; ".join(reasons) or "no other is preferred to it")
        reasons.append(f"{name} will not run ({_why_not(name, call)})")
    return "math: " + "; ".join(reasons)


def _call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keep: Tensor | None,
    causal: bool,
    scale: float | None,
    bias: Tensor | None,
) -> tuple[Call, Tensor | None]:
    """How to call PyTorch's operator, and which rows of the output are 0."""
    q_len, k_len, mask, empty = q.shape[-2], k.shape[-2], bias, None
    causal = causal and q_len > 1  # a single query is the newest: it sees everything
    if causal and (keep is not None or bias is not None or q_len > k_len):
        behind = torch.ones(q_len, k_len, dtype=torch.bool, device=q.device).tril(k_len - q_len)
        keep, causal = behind if keep is None else keep & behind, False
    if keep is not None:
        empty = ~keep.any(-1, keepdim=True)  # (..., H, Lq, 1), or 1 for any of them
        # What a kernel makes of an empty row differs: let it see everything, and zero it after.
        mask = keep | empty if bias is None else torch.where(keep | empty, bias, -torch.inf)
    if mask is not None:
        mask = _mask_four_dims(mask, q, k_len)
    elif causal and q_len < k_len:
        mask, causal = _bottom_right(q_len, k_len), False

    width = -(-max(q.shape[-1], v.shape[-1]) // 8) * 8
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if scale <= 0:  # some kernels hide scores before they scale them: -inf * -1 is no longer hidden
        q, scale = (-q, -scale) if scale else (0 * q, 1.0)
    query, key, value = (_four_dims(_padded(x, width)) for x in (q, k, v))
    call: Call = {"query": query, "key": key, "value": value, "attn_mask": mask}
    call |= {"is_causal": causal, "scale": scale, "enable_gqa": q.shape[-3] != k.shape[-3]}
    if call["enable_gqa"] and _kernel(call) == "math":  # which would copy them, and store scores
        group = q.shape[-3] // k.shape[-3]
        key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
        call |= {"key": key, "value": value, "enable_gqa": False}
    return call, empty


def _kernel(call: Call) -> str:
    """The name of the kernel to run this call on."""
    names = _candidates(call["query"].device)
    return next((name for name in names if _takes(name, call)), "math")


def _candidates(device: torch.device) -> list[str]:
    """The names of the fused kernels for a device, the one that PyTorch prefers first."""
    if device.type != "cuda":
        return ["flash"]
    if torch.cuda.get_device_capability(device)[0] in (9, 10):  # Hopper, Blackwell
        return ["cudnn", "flash", "efficient"]
    return ["flash", "efficient", "cudnn"]


def _takes(name: str, call: Call) -> bool:
    """Whether a fused kernel can run this call."""
    q, k, v, mask = (call[part] for part in ("query", "key", "value", "attn_mask"))
    if not q.is_cuda:  # PyTorch answers for CUDA only
        return bool(q.shape[-2] and k.shape[-2])
    if _is_rule(mask):  # a rule, which counts as no mask
        if name == "cudnn" or (name == "efficient" and call["enable_gqa"]):
            return False  # they do not know it
        mask = None
    params = SDPAParams(q, k, v, mask, 0.0, call["is_causal"], call["enable_gqa"])
    return bool(_KERNELS[name][1](params))


def _why_not(name: str, call: Call) -> str:
    """PyTorch's reasons for not running this call on a kernel that does not take it."""
    rule = _is_rule(call["attn_mask"])
    call = call | {"attn_mask": None} if rule else call
    with warnings.catch_warnings(record=True) as caught, sdpa_kernel(_KERNELS[name][0]):
        warnings.simplefilter("always")
        try:
            F.scaled_dot_product_attention(**call)
        except RuntimeError as error:
            said = [str(warning.message).split(" (Triggered")[0] for warning in caught]
            # The kernels that were not asked appear too, as "disabled", each under a headline.
            reasons = [s for s in said if "disabled" not in s and not s.endswith("because:")]
            return " ".join(reasons) or str(error)
    return "it does not know the bottom-right rule" if rule else "there is nothing to compute"


def _padded(x: Tensor, width: int) -> Tensor:
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def _four_dims(x: Tensor) -> Tensor:
    """(..., H, L, D) as (B, H, L, D), the numbers of the last dimension side by side."""
    x = x.reshape(x.shape[:-3].numel(), *x.shape[-3:])
    return x if x.stride(-1) == 1 else x.contiguous()


def _mask_four_dims(mask: Tensor, q: Tensor, k_len: int) -> Tensor:
    """What broadcasts to (..., H, Lq, Lk), as (B or 1, H or 1, Lq or 1, Lk)."""
    mask = mask[(None,) * (q.ndim - mask.ndim)]
    if q.ndim != 4:
        mask = mask.expand(*q.shape[:-3], *mask.shape[-3:])
    return _four_dims(mask.expand(*mask.shape[:-1], k_len))


def _bottom_right(q_len: int, k_len: int) -> Tensor:
    """The rule of bottom-right causality, of which only the type and the two lengths are read."""
    from torch.nn.attention.bias import causal_lower_right  # brings torch._dynamo: a second

    return causal_lower_right(q_len, k_len)


def _is_rule(mask: Tensor | None) -> bool:
    return type(mask).__name__ == "CausalBias"
