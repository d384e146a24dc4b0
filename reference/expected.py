"""What a right answer is: the exact values, the yardstick beside them, and their size."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]


class Expected(NamedTuple):
    """One right answer, as `agree` needs it.

    exact      what the oracle says: NumPy, float64 (or bool or int), on the inputs as the
               student's code receives them, after rounding to their dtype
    plain      what the textbook formula gives in the student's dtype, on the student's device;
               its type, dtype, shape and device are those an answer must have, and its error
               against `exact` is the yardstick for theirs
    magnitude  the size of the numbers that went into the answer (1 for weights, max|v| for outputs)
    gradient   half precision gets a little more room in a backward pass
    """

    exact: Array
    plain: Tensor | Array
    magnitude: float
    gradient: bool = False


def f64(x: Tensor | Array) -> Array:
    """The values of a tensor or an array as a NumPy array of float64."""
    if isinstance(x, Tensor):
        return x.detach().to("cpu", torch.float64).numpy()
    return x.astype(np.float64)


def boolean(keep: Tensor | Array | None) -> Array | None:
    """A mask as a NumPy array of bool, or None."""
    if keep is None:
        return None
    return keep.detach().cpu().numpy() if isinstance(keep, Tensor) else keep


def largest(*xs: Tensor | Array) -> float:
    """The largest absolute value in any of `xs`; 0 if they are all empty."""
    return max((float(np.abs(f64(x)).max()) for x in xs if np.prod(x.shape)), default=0.0)


def projected(
    values: Tensor | Array, weight: Tensor | Array, bias: Tensor | Array | None = None
) -> float:
    """For the answer of an output projection what max|v| is for attention.

    A sum of numbers up to max|v|, with weights of either sign, is about as large as max|v| times
    the 2-norm of the weights before anything cancels. In tiny cases the largest answer is far less,
    and would reject right answers for a rounding error.
    """
    norm = float(np.linalg.norm(f64(weight), axis=-1).max())
    return largest(values) * norm + (0.0 if bias is None else largest(bias))


def raised(answer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`answer(*args, **kwargs)` with its yardstick computed in float32 and rounded back.

    For the few inputs that are built to overflow in half precision, where the plain formula in
    the student's dtype is not finite and can measure nothing.
    """
    half = next(x.dtype for x in args if _is_half(x))
    wide = answer(*(_widened(x) for x in args), **kwargs)
    if isinstance(wide, Expected):
        return wide._replace(plain=_cast(wide.plain, half))
    return tuple(one._replace(plain=_cast(one.plain, half)) for one in wide)


def gradients(
    formula: Callable[..., Tensor], *inputs: Tensor, upstream: Tensor, magnitude: float
) -> tuple[Expected, ...]:
    """The gradients of `formula(*inputs)` with respect to each input, for the gradient `upstream`.

    Exact is autograd through the plain formula in float64 (the project's tests hold it to finite
    differences of the oracle); plain is autograd through the same formula in the inputs' dtype.
    """
    exact = _autograd(formula, [x.detach().double() for x in inputs], upstream.double())
    plain = _autograd(formula, [x.detach() for x in inputs], upstream)
    return tuple(
        Expected(f64(e), p, magnitude, gradient=True) for e, p in zip(exact, plain, strict=True)
    )


def _autograd(
    formula: Callable[..., Tensor], inputs: list[Tensor], upstream: Tensor
) -> tuple[Tensor, ...]:
    leaves = [x.clone().requires_grad_() for x in inputs]
    total = (formula(*leaves) * upstream).sum()  # its gradient for the answer is upstream
    return torch.autograd.grad(total, leaves)


def _is_half(x: object) -> bool:
    return getattr(x, "dtype", None) in (torch.float16, torch.bfloat16, np.dtype(np.float16))


def _widened(x: Any) -> Any:
    return _cast(x, torch.float32 if isinstance(x, Tensor) else np.float32) if _is_half(x) else x


def _cast(x: Any, dtype: Any) -> Any:
    return x.to(dtype) if isinstance(x, Tensor) else x.astype(dtype)
