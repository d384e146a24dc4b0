"""Checks that sizes, masks, contexts, layouts, modes and precisions do not disturb each other."""

import numpy as np
import torch
from torch import bfloat16, float16, float32, float64

from reference import ex04_heads as reference

from .inputs import arrays, matrices, tokens
from .layers import gradients_agree, layers, values_agree

DTYPES = float32, float16, float64, bfloat16
KEEP = None, "loud", "heads", "rows"
HEADS = (3, 4), (1, 5), (4, 1)  # H, D; there are as many sequences as heads
FAR = 100.0  # times as large as ordinary scores: hundreds apart, so that exp alone overflows


def answers_agree(student, draw, device, layer, dtype):
    """Compare the answers of the layer, or of NumPy's function, in a dtype."""
    if layer:
        layers_agree(student, draw, device, dtype)
    elif dtype is not bfloat16:  # NumPy has none
        arrays_agree(student, draw, dtype)


def arrays_agree(student, draw, dtype):
    """Compare the answers of NumPy's calls in a dtype, of all calls in which any three meet."""
    for call in draw.combined(
        only={"dtype": dtype},
        dtype=(float32, float16, float64),
        keep=(*KEEP, "row", "open"),
        lengths=((3, 5), (5, 3), (4, 4), (1, 5), (4, 1), (70, 3), (3, 70)),
        heads=HEADS,
        layout=("plain", "turned", "expanded", "flipped"),
        scores=(1.0, FAR),
    ):
        one_call_of_arrays_agrees(student, draw, **call)


def one_call_of_arrays_agrees(student, draw, dtype, keep, lengths, heads, layout, scores):
    """Compare output and weights of a call, with what is large where the mask hides it."""
    (H, D), (Lq, Lk) = heads, lengths
    query, key, value, *weights = arrays(draw, H, Lq, Lk, H * D, dtype)
    query = query * query.dtype.type(scores)
    query, key, value = (laid_out_array(x, layout) for x in (query, key, value))
    mask = mask_of(draw, keep, H, Lq, Lk)
    mask = None if mask is None else mask.cpu().numpy()
    given = [key, value]
    if keep == "loud":
        given = [np.where(mask[:, 0, 0, :, None], x, large(dtype)).astype(x.dtype) for x in given]
    answer = student.multi_head_attention_numpy(query, *given, *weights, H, keep=mask)
    right = reference.multi_head_attention_numpy(query, key, value, *weights, H, mask)
    values_agree(answer, right)


def laid_out_array(x, layout):
    """The array with two dimensions exchanged in memory, one sequence for all, or backwards."""
    if layout == "turned":
        return x.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    if layout == "expanded":
        return np.broadcast_to(x[:1], x.shape)
    return x[:, ::-1, ::-1] if layout == "flipped" else x


def large(dtype):
    """What hidden tokens hold; its projections are no infinity in the dtype."""
    return 1e3 if dtype is float16 else 1e30


def layers_agree(student, draw, device, dtype):
    """Compare answers and gradients of layers in a dtype, of all in whose calls any three meet."""
    calls = draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        keep=(*KEEP, "open"),
        lengths=(
            (5, 3),
            (4, 4),
            (1, 5),
            (4, None),
            (4, 1),
            (3, 70),
            (20, None),
        ),  # None: no context
        heads=HEADS,
        layout=("plain", "turned", "expanded"),
        bias=(False, True),
        training=(True, False),
        learns=("all", "one", "none"),
        # Half precision rounds queries, which moves far scores by 1: any weights are right.
        scores=(1.0, FAR) if dtype.itemsize > 2 else (1.0,),
    )
    for i, call in enumerate(calls):
        alone = ("x", "context")[i % 2 if call["lengths"][1] else 0]
        call["learns"] = {"all": None, "one": [alone], "none": []}[call["learns"]]
        one_layer_agrees(student, draw, device, **call)


def one_layer_agrees(
    student, draw, device, dtype, keep, lengths, heads, layout, bias, training, learns, scores
):  # fmt: skip
    """Compare the answer of a layer, and all gradients through output and weights at once.

    learns  the inputs that learn; None for all inputs and parameters
    """
    (H, D), (Lq, Lk) = heads, lengths
    weights = matrices(draw, H * D, dtype)
    weights["w_q"] *= scores
    module, oracle = layers(student, draw, device, H * D, H, bias, dtype, weights)
    module.train(training)
    clean = tokens(draw, H, Lq, Lk or Lq, H * D, dtype)[: 1 if Lk is None else 2]
    clean = [laid_out(x, layout) for x in clean]
    mask = mask_of(draw, keep, H, Lq, Lk or Lq)
    given = dict(zip(("x", "context"), clean, strict=False))
    if keep == "loud" and Lk is not None:
        given["context"] = clean[1].masked_fill(~mask[:, 0, 0, :, None], large(dtype))
    with torch.set_grad_enabled(learns != []):
        values_agree(module(**given, keep=mask), oracle(*clean, keep=mask))
    if learns == []:
        return
    options = {"through_weights": True, "bias": bias, "clean": clean, "only": learns}
    gradients_agree(draw, module, oracle, mask, **options, **given)


def laid_out(x, layout):
    """The tensor with sequences and tokens exchanged in memory, or one sequence for all."""
    if layout == "turned":
        return x.transpose(0, 1).contiguous().transpose(0, 1)
    return x[:1].expand(x.shape) if layout == "expanded" else x


def mask_of(draw, kind, H, Lq, Lk):
    """Draw a mask of a kind for H heads; in one of all rows one query sees nothing."""
    if kind is None:
        return None
    shapes = {"loud": (H, 1, 1, Lk), "heads": (H, Lq, Lk), "rows": (H, H, Lq, Lk), "row": (Lk,)}
    if kind == "open":
        return draw.keep(Lq, Lk) | True
    keep = draw.keep(*shapes[kind])
    if kind == "rows":
        keep[:, -1, Lq // 2] = False
    return keep
