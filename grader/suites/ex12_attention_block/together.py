"""Checks that options, sizes, masks, layouts and precisions do not disturb each other."""

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import agree, backward, rejects, untouched
from reference import raised
from reference.expected import add_up

from .manners import mask_without_keys
from .modules import gradients_agree, pair
from .precision import even_inputs, through_norms

DTYPES = float32, float16, float64, bfloat16
HEADS, E = 3, 12
BATCH = HEADS  # so that a mask for each head has the shape of one for each text
LAYOUTS = "plain", "strided", "expanded"
MASKS = None, "heads", "rows", "queries", "open"
FAR = 300.0  # times as large as ordinary scores: hundreds apart, so that exp alone overflows
MODES = "train", "eval", "no gradients"
ALONE = [f"gradient of {name} (which alone learns)" for name in ("x", "the context")]


def norms_agree_together(student, draw, device, dtype):
    """Compare RMSNorms, gradients and refusals in a dtype, of all calls where any three meet."""
    for call in draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES, lead=((4,), (), (2, 1, 3), (2, 0)), layout=LAYOUTS, mode=MODES,
        numbers=("usual", "large", "small"), options=({}, {"eps": 0.1}, {"eps": 0.0}),
    ):  # fmt: skip
        numbers = call["numbers"]
        module, right = pair(student, draw, device, "RMSNorm", 6, dtype=dtype, **call["options"])
        sizes = {"usual": 1.0, "large": 1e4, "small": 1e-3}
        if dtype.itemsize == 2:
            sizes |= {"large": 500.0, "small": 2e-4}
        [x] = laid_out(
            call["layout"], draw.normal(*call["lead"], 6, dtype=dtype, scale=sizes[numbers])
        )
        if dtype.itemsize == 2 and numbers != "usual":  # the yardstick overflows
            agree(module(x), raised(right, x))
        else:
            agree_in_full(draw, module, right, call["mode"], x)
        wrong = draw.integer(20, 99)
        other = draw.normal(*call["lead"], wrong, dtype=dtype)
        rejects(lambda module=module, other=other: module(other), 6, wrong)


def feed_forwards_agree_together(student, draw, device):
    """Compare feed-forwards and their gradients in calls where any two choices meet."""
    for call in draw.combined(
        strength=2, dtype=DTYPES, lead=((2, 3), (), (2, 1, 3), (2, 0)), layout=LAYOUTS,
        mode=MODES, hidden=(9, 5, 2), size=(1.0, 200.0),
    ):  # fmt: skip
        dtype, hidden = call["dtype"], call["hidden"]
        module, right = pair(student, draw, device, "FeedForward", 5, hidden, dtype=dtype)
        # Gradients jump where a hidden number is almost 0: none shall be.
        state = right.state_dict()
        state["w1.bias"] = 8.0 * call["size"] * state["w1.bias"].sign()
        module.load_state_dict(state, strict=False)
        right.load_state_dict(state)
        x = draw.normal(*call["lead"], 5, dtype=dtype, scale=call["size"])
        agree_in_full(draw, module, right, call["mode"], *laid_out(call["layout"], x))


def self_agrees_together(student, draw, device, dtype):
    """Compare self-attention and its gradients in a dtype, of all calls where any three meet."""
    calls = draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES, keep=MASKS, layout=LAYOUTS, length=(70, 1, BATCH), mode=MODES,
        qk_norm=(False, True), rope_base=(None, 100.0), fused=(True, False),
        # Half precision rounds queries, which moves far scores by 1: any weights are right.
        scores=(1.0, FAR) if dtype.itemsize > 2 else (1.0,), learns=("all", "one"),
    )  # fmt: skip
    for number, call in enumerate(calls):
        length, mode = call["length"], call["mode"]
        options = {name: call[name] for name in ("dtype", "qk_norm", "rope_base")}
        options["dropout"] = 0.0 if mode == "train" else 0.4
        module, right = pair(student, draw, device, "SelfAttention", E, HEADS, **options)
        module.fused = call["fused"]
        given, but = [draw.normal(BATCH, length, E, dtype=call["dtype"])], ()
        if call["qk_norm"]:
            given = even_inputs(module, right, draw, call["dtype"], given[0].shape)
            but = through_norms(call["dtype"])
        elif call["scores"] == FAR:
            queries_grow(module, right)
            but = tuple(right.state_dict())  # whose size is that of the queries
        [x] = laid_out(call["layout"], *given)
        keep = mask(draw, call["keep"], length, length)
        only = number if call["learns"] == "one" else None
        agree_in_full(draw, module, right, mode, x, keep=keep, but=but, only=only)


def cross_agrees_together(student, draw, device, dtype):
    """Compare cross-attention and its gradients in a dtype, of all calls where any three meet."""
    calls = draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES, keep=MASKS, layout=("strided", "expanded", "same"), mode=MODES,
        lengths=((7, 70), (BATCH, BATCH), (1, 0)), image=(0, 4), learns=("all", "one"),
    )  # fmt: skip
    for number, call in enumerate(calls):
        (L, text), image = call["lengths"], call["image"]
        module, right = pair(student, draw, device, "CrossAttention", E, HEADS, image, dtype=dtype)
        shapes = (BATCH, L, E), (BATCH, image + text, E)
        x, context = even_inputs(module, right, draw, dtype, *shapes)
        if call["layout"] == "same" and image + text:
            inputs, L = (context, context), image + text
        else:
            inputs = laid_out(call["layout"], x, context)
        keep, but = mask(draw, call["keep"], L, text), through_norms(dtype)
        if not text:  # of which nothing flows back
            but += ("k.weight", "k.bias", "v.weight", "v.bias", "norm_k.weight")
        mode = call["mode"] if image + text else "no gradients"
        only = number if call["learns"] == "one" else None
        agree_in_full(draw, module, right, mode, *inputs, keep=keep, but=but, only=only)


def queries_grow(module, right):
    """Make the scores of both modules hundreds apart."""
    state = right.state_dict()
    state |= {name: FAR * state[name] for name in ("q.weight", "q.bias")}
    module.load_state_dict(state, strict=False)
    right.load_state_dict(state)


def laid_out(layout, *inputs):
    """Return inputs (..., E) with the same numbers in another memory layout, or expanded."""
    if layout == "strided":
        return [x.mT.contiguous().mT if x.ndim > 1 else x.repeat_interleave(2)[::2] for x in inputs]
    if layout == "expanded":
        return [x[:1].expand(x.shape) if x.ndim > 1 else x for x in inputs]
    return list(inputs)


def mask(draw, kind, queries, keys):
    """Draw a mask of one of `MASKS`, with rows that see nothing."""
    if kind is None:
        return None
    if kind == "queries":  # which of them see anything
        return draw.keep(1, queries).mT
    if kind == "open":
        return draw.keep(queries, 1).expand(queries, keys) | True
    shape = (HEADS, queries, keys) if kind == "heads" else (BATCH, HEADS, queries, keys)
    return mask_without_keys(draw, *shape) if keys else draw.keep(*shape[:-1], 1)[..., :0]


def agree_in_full(draw, module, right, mode, *inputs, keep=None, but=(), only=None):
    """Compare the output of a call, and all gradients except those of the names in `but`.

    only    where it is a number, one of the inputs in turn learns alone
    """
    module.train(mode == "train")
    given = inputs if keep is None else (*inputs, keep)
    if mode == "no gradients":
        with torch.no_grad():
            agree(untouched(lambda: module(*given)), right(*given))
        return
    leaves = list(dict.fromkeys(inputs))
    alone = leaves if only is None else [leaves[only % len(leaves)]]
    for x in alone:
        x.requires_grad_()
    module.requires_grad_(only is None)
    output = untouched(lambda: module(*given))
    agree(output, right(*given))
    upstream = draw.normal(*output.shape, dtype=output.dtype)
    expected = list(right.gradients(*inputs, keep=keep, upstream=upstream))
    if len(leaves) < len(inputs):  # the context is x
        x, context = expected[:2]
        expected[:2] = [add_up([x, context])._replace(magnitude=2 * x.magnitude)]
    if only is not None:
        [got] = backward(output, *alone, upstream=upstream)
        agree(got, expected[only % len(leaves)], says=ALONE[only % len(leaves)])
        return
    if output.dtype.itemsize == 2:
        but = tuple(right.state_dict())  # how often these are rounded on the way is left open
    gradients_agree(module, right, output, leaves, expected, upstream=upstream, but=but)
