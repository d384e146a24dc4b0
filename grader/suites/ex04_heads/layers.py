"""Builds the student's layers beside the reference's, and compares their answers."""

from functools import partial

import numpy as np
import torch
from torch import float32

from grader.judging import Hard, agree, backward, expect, expect_shapes
from reference import ex04_heads as reference

from .inputs import NAMES, matrices

NUMPY, LAYER = "multi_head_attention_numpy", "MultiHeadAttention"


def layers(student, draw, device, width=12, heads=4, bias=False, dtype=float32, weights=None):
    """Return the student's layer and the oracle's, with the same weights."""
    weights = matrices(draw, width, dtype) if weights is None else weights
    state = {f"{name}.weight": weight for name, weight in weights.items()}
    if bias:
        state |= {f"{name}.bias": draw.normal(width, dtype=dtype) for name in NAMES}
    module = student.MultiHeadAttention(width, heads, **({"bias": True} if bias else {}))
    kinds = {"weight": (width, width), "bias": (width,) if bias else None}
    expect_shapes(module, {f"{name}.{kind}": kinds[kind] for name in NAMES for kind in kinds})
    module.to(device, dtype)
    module.load_state_dict(state, strict=False)  # a layer may have buffers of its own
    oracle = reference.MultiHeadAttention(width, heads, bias=bias)
    oracle.load_state_dict(state)
    return module, oracle


def calls_of(student, draw, device, name, x, context, weights, heads, right=None):
    """Return two functions of a mask: the student's call of this name, and the oracle's.

    right  how to call the oracle, if not directly: `raised`
    """
    if name == LAYER:
        width, dtype = x.shape[-1], x.dtype
        attend, oracle = layers(student, draw, device, width, heads, False, dtype, weights)
        given = [x, context]
    else:
        attend, oracle = student.multi_head_attention_numpy, reference.multi_head_attention_numpy
        given = [*(t.cpu().numpy() for t in (x, context, context, *weights.values())), heads]

    def asked(function):
        def of_mask(keep=None):
            mask = keep.cpu().numpy() if name == NUMPY and keep is not None else keep
            return function(*given, keep=mask)

        return of_mask

    return asked(attend), asked(oracle if right is None else partial(right, oracle))


def values_agree(answer, expected, says=None):
    """Compare output and weights with the expected ones, after a cast to the expected dtype."""
    for what, got, right in zip(("output", "weights"), answer, expected, strict=True):
        if got.dtype == right.plain.dtype:
            agree(got, right, says=says and f"{what} {says}")
        else:
            cast = got.to if isinstance(got, torch.Tensor) else got.astype
            agree(cast(right.plain.dtype), right, says=f"{what} {says or ''}".rstrip())


def hidden_weights_are_zero(weights, keep):
    """Fail unless the weight of hidden keys is exactly 0."""
    hidden = torch.where(keep, 0.0, torch.as_tensor(weights))
    agree(hidden, torch.zeros_like(hidden), says="weight of hidden keys", within=0.0)


def empty_rows_are_zero(weights, keep):
    """Fail unless the weights of rows without a kept key are exactly 0, in any dtype."""
    weights = torch.as_tensor(weights)
    idle = torch.where(keep.to(weights.device).any(-1, keepdim=True), 0.0, weights)
    agree(idle, torch.zeros_like(idle), says="weights of empty rows", within=0.0)


def gradients_agree(
    draw, module, oracle, keep, *, through_weights=False, bias=True, clean=None, only=None, **inputs
):
    """Compare gradients of inputs and of a layer's own weights, through output and weights.

    clean  the inputs for the oracle, if it is to have others
    only   the inputs that learn, if nothing else does
    """
    learning = inputs if only is None else only
    given = {k: x.detach().clone().requires_grad_(k in learning) for k, x in inputs.items()}
    leaves = [given[name] for name in learning]
    module.requires_grad_(only is None)
    module.zero_grad()
    output, weights = module(**given, keep=keep)
    upstream, other = draw.normal(*output.shape, dtype=output.dtype), None
    if through_weights:
        expect(weights.requires_grad, "no gradient flows through weights: their graph was cut")
        other = draw.normal(*weights.shape, dtype=weights.dtype)
        answer = torch.cat([output.flatten(), weights.flatten()])
        got = backward(answer, *leaves, upstream=torch.cat([upstream.flatten(), other.flatten()]))
    else:
        got = backward(output, *leaves, upstream=upstream)
    both = {"upstream": upstream, "upstream_weights": other}
    right = oracle.forward_gradients(*(clean or given.values()), keep=keep, **both)
    rights = dict(zip(inputs, right, strict=False))
    for name, one in zip(learning, got, strict=True):
        alone = " (which alone learns)" if only else ""
        agree(one.to(rights[name].plain.dtype), rights[name], says=f"gradient of {name}{alone}")
    if only:
        return
    own = [f"{name}.{kind}.grad" for name in NAMES for kind in ("weight", "bias")[: 1 + bias]]
    for one, expected in zip(module.read_each(own), right[len(inputs) :], strict=True):
        agree(one, expected)


def gradients_outlast_a_call(draw, module, oracle, keep, x, context):
    """Compare the gradient of x of a call that was followed by another call."""
    x, upstream = x.detach().clone().requires_grad_(), draw.normal(*x.shape)
    output, _ = module(x, context, keep)
    module(draw.normal(*x.shape).requires_grad_(), context, keep)
    [got] = backward(output, x, upstream=upstream)
    right = oracle.forward_gradients(x, context, keep, upstream=upstream)[0]
    agree(got, right, says="gradient of x (after a call for another x)")


def each_learns_alone(draw, module, oracle, keep, bias, x, context):
    """x, the context and every parameter has its gradient where the others need none."""
    draw.hard(Hard.LEARN)
    upstream = draw.normal(*x.shape)
    of_x, of_context, *others = oracle.forward_gradients(x, context, keep, upstream=upstream)
    module.zero_grad()
    module.requires_grad_(False)
    for name, leaf, right in (("x", x, of_x), ("context", context, of_context)):
        leaf.requires_grad_()
        [got] = backward(module(x, context, keep)[0], leaf, upstream=upstream)
        leaf.requires_grad_(False)
        agree(got, right, says=f"gradient of {name} (which alone learns)")
    names = [f"{name}.{kind}" for name in NAMES for kind in ("weight", "bias")[: 1 + bias]]
    for name, right in zip(names, others, strict=True):
        getattr(module, f"{name}.requires_grad_")(True)
        output, _ = module.forward.held(x, context, keep)
        output.backward(upstream)
        agree(module.read(f"{name}.grad"), right, says=f"gradient of {name} (which alone learns)")
        getattr(module, f"{name}.requires_grad_")(False)


def sum_of_gradients(parts):
    """Return the expected gradient of one tensor that was passed twice."""
    one, other = parts
    plain = one.plain + other.plain
    return one._replace(exact=np.add(one.exact, other.exact), plain=plain)
