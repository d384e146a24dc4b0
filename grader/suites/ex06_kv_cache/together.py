"""Checks that pasts, sizes, layouts, modes and precisions do not disturb each other."""

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import agree, backward
from grader.suites.ex06_kv_cache.attention import INPUTS, new_tokens
from grader.suites.ex06_kv_cache.caches import agree_buffers, append, new_caches
from grader.suites.ex06_kv_cache.layers import new_layers, parameters
from reference import ex06_kv_cache as reference
from reference.expected import gradients, largest

DTYPES = float32, float16, float64, bfloat16
FAR = 300.0  # times as large as ordinary scores: hundreds apart, so that exp alone overflows
OTHER = {float32: bfloat16, float16: float32, float64: float32, bfloat16: float32}  # of a cache


def attention_agrees(student, draw, dtype):
    """Compare answers and gradients of calls in a dtype, of all calls in which any three meet."""
    calls = draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        old=(4, 0, 70),
        t=(4, 1),
        widths=((3, 5), (5, 2), (4, 4)),  # D, Dv
        lead=((2, 3), (), (2,), (1, 2, 2)),
        layout=("plain", "turned", "expanded"),
        scores=(1.0, FAR),
        learns=("all", "one", "none"),
    )
    for i, call in enumerate(calls):
        names = INPUTS if call["old"] else INPUTS[:3]
        alone = names[i % len(names) :][:1]
        call["learns"] = {"all": names, "one": alone, "none": ()}[call["learns"]]
        one_call_agrees(student, draw, **call)


def one_call_agrees(student, draw, dtype, old, t, widths, lead, layout, scores, learns):
    """Compare the answer of a call, and the gradients through output and past at once.

    learns  the names of the inputs that do
    """
    q, k, v, past = new_tokens(draw, lead, t, old, *widths, dtype)
    q *= scores
    inputs = [laid_out(x, layout) for x in (q, k, v, *(past or ()))]
    for name, x in zip(INPUTS, inputs, strict=False):
        x.requires_grad_(name in learns)
    q, k, v, *past = inputs
    with torch.set_grad_enabled(bool(learns)):
        answer = student.attend_with_past(q, k, v, tuple(past) or None)
    agree(answer, reference.attend_with_past(q, k, v, tuple(past) or None))
    if not learns:
        return
    upstream = draw.normal(*side_by_side(answer).shape, dtype=dtype)
    rights = gradients(
        lambda q, k, v, *past: side_by_side(
            reference.plain_attend_with_past(q, k, v, past or None)
        ),
        *(x.detach() for x in inputs),
        upstream=upstream,
        magnitude=largest(upstream) * max(1.0, largest(v)) * max(1.0, largest(q, k)),
    )
    leaves = [x for x in inputs if x.requires_grad]
    found = backward(side_by_side(answer), *leaves, upstream=upstream)
    rights = [right for x, right in zip(inputs, rights, strict=True) if x.requires_grad]
    alone = " (which alone learns)" if len(learns) == 1 else ""
    for name, got, right in zip(learns, found, rights, strict=True):
        agree(got, right, says=f"gradient of {name}{alone}")


def laid_out(x, layout):
    """The tensor with two dimensions exchanged in memory, or one entry for all along the first."""
    if layout == "turned":
        return x.mT.contiguous().mT
    return x[:1].expand(x.shape) if layout == "expanded" else x


def side_by_side(answer):
    """The numbers of the output and of the past, in one row."""
    output, past = answer
    return torch.cat([x.flatten() for x in (output, *past)])


def caches_agree(student, draw, device):
    """Compare what caches return and hold after appends in which any three choices meet."""
    for call in draw.combined(
        dtype=DTYPES,
        given=(float32, float16, float64),
        chunks=((2, 3), (5,), (1, 1, 3), (3, 0, 2)),
        layout=("plain", "turned", "expanded"),
        emptied=(False, True),
    ):
        cache, right = new_caches(student, device, 2, 3, 5, 4, call["dtype"])
        for chunks in [(4,), call["chunks"]] if call["emptied"] else [call["chunks"]]:
            for t in chunks:
                new = (draw.normal(2, 3, t, 4, dtype=call["given"]) for _ in "kv")
                append(cache, right, *(laid_out(x, call["layout"]) for x in new))
            agree_buffers(cache, right)
            if chunks == (4,):
                cache.reset()
                right.reset()


def layers_agree(student, draw, device, dtype):
    """Compare layers in a dtype, of all in whose calls any three choices meet."""
    for call in draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        old=(4, 0, 70, None),  # None is no cache
        t=(3, 1, 70),
        heads=((3, 4), (1, 5), (4, 1)),  # H, D
        layout=("plain", "turned", "expanded"),
        bias=(False, True),
        training=(True, False),
        cache_dtype=("same", "other"),
        learns=(True, False),
        # Half precision rounds queries, which moves far scores by 1: any weights are right.
        scores=(1.0, FAR) if dtype.itemsize > 2 else (1.0,),
    ):
        one_layer_agrees(student, draw, device, **call)


def one_layer_agrees(
    student, draw, device, dtype, old, t, heads, layout, bias, training, cache_dtype, learns, scores
):  # fmt: skip
    """Compare the answers of a layer after old tokens; without a cache, the gradients too.

    learns  whether the layer's parameters do, with a cache too
    """
    (H, D), width = heads, heads[0] * heads[1]
    layer, right = new_layers(student, draw, device, width, H, bias, dtype, scores)
    layer.train(training)
    if old is None:
        x = laid_out(draw.normal(2, t, width, dtype=dtype), layout)
        with torch.set_grad_enabled(learns):
            agree(layer(x), right(x))
        if learns:
            gradients_of_a_layer_agree(draw, layer, right, x, bias)
        return
    layer.requires_grad_(learns)
    kind = dtype if cache_dtype == "same" else OTHER[dtype]
    cache, seen = new_caches(student, device, 2, H, old + t + 1, D, kind)
    for many in (old, t) if old else (t,):
        x = laid_out(draw.normal(2, many, width, dtype=dtype), layout)
        says = f"after {seen.length} earlier token(s), output"
        with torch.set_grad_enabled(learns):
            output = layer(x, cache=cache)
        agree(output, right(x, cache=seen), says=says)


def gradients_of_a_layer_agree(draw, layer, right, x, bias):
    """Compare the gradient of x, and but for half precision those of all parameters."""
    upstream = draw.normal(*x.shape, dtype=x.dtype)
    [of_x, *others] = right.gradients(x, upstream=upstream)
    [got] = backward(layer(x.requires_grad_()), x, upstream=upstream)
    agree(got, of_x, says="gradient of x")
    names = list(parameters(x.shape[-1], bias)) if x.dtype.itemsize > 2 else []
    found = layer.read_each(f"{name}.grad" for name in names)
    for name, got, one in zip(names, found, others, strict=False):
        agree(got, one, says=f"gradient of {name}")
