"""What a right answer is: the exact values, the yardstick beside them, and their size."""

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

Array = NDArray[Any]
M = TypeVar("M", bound=nn.Module)


# The largest relative error of one rounding: half a unit in the last place.
UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
NUDGES = (5, 16)  # yardsticks with nudged inputs, beside the one without; more where it is near
# The share of the numbers that is nudged. If it were all in half precision, a scale 10 % off would
# be hidden by it; tests/judging/test_tolerances.py has the trial.
SHARE = {"float32": 1.0, "float16": 1 / 4, "bfloat16": 1 / 4}


class Errors(NamedTuple):
    """The size of the errors of an answer; 0 where there are none."""

    largest: float = 0.0
    rms: float = 0.0
    worst_row: float = 0.0  # the largest RMS error of a row


def no_errors(count: int) -> Errors:
    """The errors of yardsticks of which none is nudged."""
    return Errors()


class Expected(NamedTuple):
    """One right answer, as `agree` needs it.

    exact      what the oracle says: NumPy, float64 (or bool or int), on the inputs as the
               student's code receives them, after rounding to their dtype
    plain      what the textbook formula gives in the student's dtype, on the student's device;
               its type, dtype, shape and device are those an answer must have, and its error
               against `exact` is the yardstick for theirs
    magnitude  the size of the numbers that went into the answer (1 for weights, max|v| for outputs)
    gradient   half precision gets a little more room in a backward pass
    nudged     returns the errors of so many yardsticks whose inputs are nudged by one unit in the
               last place: the worst of them, so that a lucky yardstick rejects nobody
    """

    exact: Array
    plain: Tensor | Array
    magnitude: float
    gradient: bool = False
    nudged: Callable[[int], Errors] = no_errors


def add_up(parts: Sequence[Expected]) -> Expected:
    """The gradient of one tensor that is several inputs: the sum of its gradients as each of them.

    What is allowed stays that of the first part.
    """
    total: Any = parts[0].exact, parts[0].plain
    for part in parts[1:]:
        total = total[0] + part.exact, total[1] + part.plain
    return parts[0]._replace(exact=total[0], plain=total[1])


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


def _rounded(wide: Expected, half: Any) -> Expected:
    return wide._replace(plain=_cast(wide.plain, half), magnitude=2 * wide.magnitude)


def summed(magnitude: float, roundings: int) -> float:
    """The magnitude of a sum that is rounded so often on its way, as a loop over keys rounds it.

    The errors of n roundings add up like sqrt(n), and a tolerance has room for those of some 64.
    The yardstick adds up in another order, in which there are fewer.
    """
    return magnitude * max(1.0, math.sqrt(roundings / 64))


def attended(q: Tensor | Array, v: Tensor | Array) -> float:
    """The magnitude of an output of attention: max|v|, times what the width of a query adds.

    A weight is off by what its score is, a sum of as many products as a query is wide.
    """
    return summed(largest(v), q.shape[-1])


def raised(answer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`answer(*args, **kwargs)` with its yardstick computed in float32 and rounded back.

    For the few inputs that are built to overflow in half precision, where the plain formula in
    the student's dtype is not finite and can measure nothing. Such a yardstick rounds once, where
    an answer may round its weights and its output: the magnitude makes up for that.
    """
    half = next(x.dtype for x in args if _is_half(x))
    wide = answer(*(_widened(x) for x in args), **kwargs)
    if isinstance(wide, Expected):
        return _rounded(wide, half)
    return tuple(_rounded(one, half) for one in wide)


def gradients(
    formula: Callable[..., Tensor], *inputs: Tensor, upstream: Tensor, magnitude: float
) -> tuple[Expected, ...]:
    """The gradients of `formula(*inputs)` with respect to each input, for the gradient `upstream`.

    Exact is autograd through the plain formula in float64 (the project's tests hold it to finite
    differences of the oracle); plain is autograd through the same formula in the inputs' dtype.
    """
    exact = [f64(e) for e in _autograd(formula, [x.double() for x in inputs], upstream.double())]
    plain = _autograd(formula, inputs, upstream)
    worst = nudged(
        lambda given, *xs: _autograd(formula, xs, given), upstream.detach(), *inputs, exact=exact
    )
    return tuple(
        Expected(e, p, magnitude, gradient=True, nudged=one)
        for e, p, one in zip(exact, plain, worst, strict=True)
    )


def nudged(
    formula: Callable[..., Sequence[Tensor]], *inputs: Any, exact: Sequence[Array]
) -> list[Callable[[int], Errors]]:
    """For each answer of `formula` a function that returns its `Expected.nudged`.

    A share of the numbers in `inputs` goes to one of their neighbours in their dtype. The answers
    then differ as those of two people do who round at different places: by luck, and by as much as
    the case is ill-conditioned. Nothing is nudged in float64, whose tolerance is far above rounding
    errors.

    inputs  are copied, so that the case may change its own before the function is called
    """
    if not any(map(_unit, inputs)):
        return [no_errors for _ in exact]
    kept = [_copied(x) for x in inputs]
    signs = torch.Generator().manual_seed(0)
    found = [[Errors() for _ in exact]]  # by the number of yardsticks

    def worst(count: int, answer: int) -> Errors:
        while len(found) <= count:
            answers = formula(*(_nudged(x, signs) for x in kept))
            new = [errors(f64(a) - e) for a, e in zip(answers, exact, strict=True)]
            found.append([Errors(*map(max, *pair)) for pair in zip(found[-1], new, strict=True)])
        return found[count][answer]

    return [partial(worst, answer=i) for i in range(len(exact))]


def with_nudges(
    expected: Sequence[Expected], formula: Callable[..., Sequence[Tensor]], *inputs: Any
) -> tuple[Expected, ...]:
    """The answers with the errors that `formula` makes on nudged inputs."""
    worst = nudged(formula, *inputs, exact=[each.exact for each in expected])
    return tuple(each._replace(nudged=one) for each, one in zip(expected, worst, strict=True))


def nudged_module(module: nn.Module, *inputs: Any, exact: Array) -> Callable[[int], Errors]:
    """The same for the one answer of a module, whose weights are nudged as well."""
    names, weights = zip(*module.named_parameters(), strict=True)

    def answer(*leaves: Any) -> tuple[Tensor]:
        given = tuple(_copied(x) for x in leaves[: len(inputs)])  # a cache takes in what is new
        named = dict(zip(names, leaves[len(inputs) :], strict=True))
        with torch.no_grad():
            return (functional_call(module, named, given),)

    return nudged(answer, *inputs, *weights, exact=[exact])[0]


def rounded_module(module: M, x: Tensor) -> M:
    """A module in the dtype and on the device of x: itself if it is so already, else a copy."""
    wanted = x.device, x.dtype
    if all((each.device, each.dtype) == wanted for each in module.parameters()):
        return module
    return copy.deepcopy(module).to(*wanted)


def errors(error: Array) -> Errors:
    """The size of errors (..., n); entries that are not finite are no errors."""
    if not error.size:
        return Errors()
    sizes = np.abs(error)
    top = float(sizes.max())
    if not math.isfinite(top):
        sizes = np.where(np.isfinite(sizes), sizes, 0.0)
        top = float(sizes.max())
    squares = np.square(sizes)
    rows = np.add.reduce(squares, -1, keepdims=True) / error.shape[-1] if error.ndim else squares
    mean = np.add.reduce(rows, None) / rows.size
    return Errors(top, math.sqrt(mean), math.sqrt(rows.max()))


def _nudged(x: Any, signs: torch.Generator) -> Any:
    """A share of the numbers moved to a neighbour; zeros, and what is no float, stay.

    Of an object, such as a cache, a copy whose tensors are nudged.
    """
    if hasattr(x, "__dict__") and not isinstance(x, Tensor):
        other = copy.copy(x)
        vars(other).update({name: _nudged(value, signs) for name, value in vars(x).items()})
        return other
    if not _unit(x):
        return x
    sign = torch.randint(2, x.shape, generator=signs) * 2 - 1
    chosen = torch.rand(x.shape, generator=signs) < SHARE[name_of(x.dtype)]
    sign = (sign * chosen).to(x.device)
    # A little more than half a unit in the last place, which rounds to a whole one.
    moved = x.detach().double() * (1 + 1.001 * _unit(x) * sign)
    most = torch.finfo(x.dtype).max
    return torch.where(x.isfinite(), moved.clamp(-most, most), x.double()).to(x.dtype)


def _copied(x: Any) -> Any:
    return x.detach().clone() if isinstance(x, Tensor) else copy.deepcopy(x)


def _unit(x: Any) -> float:
    """The unit of a tensor's dtype; 0 for what is not nudged."""
    return UNIT.get(name_of(x.dtype), 0.0) if isinstance(x, Tensor) else 0.0


def name_of(dtype: Any) -> str:
    """A dtype of PyTorch or NumPy as text: "float32"."""
    return str(dtype).removeprefix("torch.")


def _autograd(
    formula: Callable[..., Tensor], inputs: Sequence[Tensor], upstream: Tensor
) -> tuple[Tensor, ...]:
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    total = (formula(*leaves) * upstream).sum()  # its gradient for the answer is upstream
    return torch.autograd.grad(total, leaves)


def _is_half(x: object) -> bool:
    return getattr(x, "dtype", None) in (torch.float16, torch.bfloat16, np.dtype(np.float16))


def _widened(x: Any) -> Any:
    return _cast(x, torch.float32 if isinstance(x, Tensor) else np.float32) if _is_half(x) else x


def _cast(x: Any, dtype: Any) -> Any:
    return x.to(dtype) if isinstance(x, Tensor) else x.astype(dtype)
