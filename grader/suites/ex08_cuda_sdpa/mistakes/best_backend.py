"""Wrong answers to `best_backend`."""

from grader.judging import mistake
from reference.fused import best_backend

from ..test_cuda_sdpa import (
    test_backend,
)


@mistake(of="best_backend", caught_by=test_backend, null=True)
def always_math(q, k, v, keep=None, causal=False):
    """The answer is always math, because can_use_flash_attention and its sisters say no on the CPU.

    They know about CUDA only. The CPU has a fused kernel too, and it counts as flash.
    """
    return "math: flash, efficient and cudnn will not run"


@mistake(of="best_backend", caught_by=test_backend, null=True)
def always_flash(q, k, v, keep=None, causal=False):
    """Without a GPU the answer is always flash, also where there is no query or no key.

    Ask for the call at hand: where there is no key, nothing but math runs.
    """
    return "flash: it is the fastest"


@mistake(of="best_backend", caught_by=test_backend, null=True)
def no_kernel_named(q, k, v, keep=None, causal=False):
    """The answer names no kernel.

    Begin with flash, efficient, cudnn or math, a colon and a space.
    """
    return "the fastest kernel that there is"


@mistake(of="best_backend", caught_by=test_backend)
def no_reason(q, k, v, keep=None, causal=False):
    """math is named without a reason.

    Write after ": " why the fused kernels will not run.
    """
    return best_backend(q, k, v, keep, causal).partition(":")[0] + ": "


@mistake(of="best_backend", caught_by=test_backend)
def name_of_the_enum(q, k, v, keep=None, causal=False):
    """The answer begins with PyTorch's name of the kernel, SDPBackend.FLASH_ATTENTION.

    Begin with the short name in lower case: flash, efficient, cudnn or math.
    """
    name, _, reason = best_backend(q, k, v, keep, causal).partition(":")
    return f"SDPBackend.{name.upper()}_ATTENTION:{reason}"


@mistake(of="best_backend", caught_by=test_backend)
def cuda_rules_on_the_cpu(q, k, v, keep=None, causal=False):
    """The rules for CUDA are applied on the CPU: masks and float32 are said to need efficient.

    On the CPU there is one fused kernel, which takes both. Ask where the tensors are: q.is_cuda.
    """
    right = best_backend(q, k, v, keep, causal)
    if right.startswith("math") or (keep is None and q.dtype.itemsize == 2):
        return right
    return "efficient: flash takes half precision without a mask only"
