"""Checks that heads, sizes, masks, layouts, modes and precisions do not disturb each other."""

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import agree, backward
from reference import ex07_mqa_gqa as reference

from .inputs import laid_out, layer_gradients_agree, layers, leading, mask_of

DTYPES = float32, float16, float64, bfloat16
HEADS = (2, 2), (1, 3), (3, 1)  # Hk, query heads of each
LENGTHS = (3, 6), (6, 3), (4, 4), (1, 5), (4, 1), (70, 6), (3, 70)  # Lq, Lk
FAR = 300.0  # times as large as ordinary scores: hundreds apart, so that exp alone overflows
STEP = "x", "the keys", "the values"  # the inputs of a step
WIDTHS = (3, 5), (5, 2), (4, 4)  # D, Dv


def copies_agree(student, draw, device, dtype):
    """Compare copies and their gradients in the calls in a dtype."""
    for call in draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        layout=("plain", "turned", "expanded", "flat", "deep"),
        heads=(2, 1, 3),
        n=(2, 1, 3),
        length=(4, 1),
    ):
        layout, n = call["layout"], call["n"]
        shape = *leading(layout, 3), call["heads"], call["length"], 2
        x = laid_out(draw.normal(*shape, dtype=dtype), layout).requires_grad_()
        copies = student.repeat_kv(x, n)
        agree(copies, reference.repeat_kv(x, n))
        upstream = draw.normal(*copies.shape, dtype=x.dtype)
        [got] = backward(copies, x, upstream=upstream)
        [right] = reference.gradients(
            lambda x, n=n: x.repeat_interleave(n, -3), x, upstream=upstream, magnitude=4.0
        )
        agree(got, right, says="gradient of x")


def attention_agrees(student, draw, device, dtype):
    """Compare outputs and gradients of the calls in a dtype."""
    calls = draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        keep=(None, "loud", "nan", "heads", "rows", "row", "open"),
        lengths=LENGTHS,
        layout=("plain", "turned", "expanded", "flat", "deep"),
        heads=HEADS,
        widths=WIDTHS,
        scores=(1.0, FAR),
        learns=("all", "one", "none"),
    )
    for i, call in enumerate(calls):
        call["learns"] = {"all": "qkv", "one": "qkv"[i % 3], "none": ""}[call["learns"]]
        one_call_agrees(student, draw, **call)


def one_call_agrees(
    student, draw, keep, dtype, lengths, layout, heads, widths, scores, learns
):  # fmt: skip
    """Compare the output and all gradients of a call with as many sequences as query heads."""
    (Lq, Lk), (D, Dv), Hk, H = lengths, widths, heads[0], heads[0] * heads[1]
    lead = leading(layout, H)
    sizes = (H, Lq, D), (Hk, Lk, D), (Hk, Lk, Dv)
    drawn = [draw.normal(*lead, *size, dtype=dtype) for size in sizes]
    drawn[0] *= scores
    q, k, v = (laid_out(x, layout) for x in drawn)
    mask = mask_of(draw, "loud" if keep == "nan" else keep, lead, H, Lq, Lk)
    given = q, k, v
    if keep == "loud":
        large = 6e4 if dtype is float16 else 1e30
        given = q, *(x.masked_fill(~mask.mT, large) for x in (k, v))
    if keep == "nan":
        given = q, k.masked_fill(~mask.mT, torch.nan), v
    if keep == "nan" or not learns:  # of NaN no gradient is promised
        with torch.no_grad():
            output = student.grouped_query_attention(*given, mask)
        agree(output, reference.grouped_query_attention(q, k, v, mask))
        return
    given = [x.requires_grad_(name in learns) for name, x in zip("qkv", given, strict=True)]
    output = student.grouped_query_attention(*given, mask)
    agree(output, reference.grouped_query_attention(q, k, v, mask))
    upstream = draw.normal(*q.shape[:-1], Dv, dtype=dtype)
    found = backward(output, *(x for x in given if x.requires_grad), upstream=upstream)
    rights = reference.grouped_query_attention_gradients(q, k, v, mask, upstream=upstream)
    rights = [right for name, right in zip("qkv", rights, strict=True) if name in learns]
    alone = " (which alone learns)" if len(learns) == 1 else ""
    for name, got, right in zip(learns, found, rights, strict=True):
        agree(got, right, says=f"gradient of {name}{alone}")


def layers_agree(student, draw, device, dtype):
    """Compare outputs and gradients of layers in a dtype."""
    for call in draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        keep=(None, "loud", "heads", "rows", "open"),
        heads=HEADS,
        layout=("plain", "turned", "expanded"),
        length=(5, 1),
        bias=(False, True),
        training=(True, False),
        learns=(True, False),
    ):
        heads, L = call["heads"], call["length"]
        module, oracle = layers(student, draw, device, heads, 4, call["bias"], dtype)
        module.train(call["training"])
        H = heads[0] * heads[1]  # and as many sequences
        x = draw.normal(H, L, 4 * H, dtype=dtype)
        x = laid_out(x[:, :, None], call["layout"]).flatten(2)
        mask = mask_of(draw, call["keep"], (H,), H, L, L)
        with torch.set_grad_enabled(call["learns"]):
            agree(module(x, mask), oracle(x, mask))
        if not call["learns"]:
            continue
        upstream = draw.normal(*x.shape, dtype=dtype)
        every = dtype.itemsize > 2
        layer_gradients_agree(module, oracle, x, mask, upstream, every_weight=every)


def steps_agree(student, draw, device, dtype):
    """Compare outputs, pasts and gradients of steps in a dtype."""
    calls = draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        heads=HEADS,
        past=(4, None, 70),
        layout=("turned", "expanded"),
        tokens=(3, 1),
        bias=(False, True),
        training=(True, False),
        learns=("all", "one", "none"),
    )
    for i, call in enumerate(calls):
        inputs = STEP if call["past"] else STEP[:1]
        alone = (inputs[i % len(inputs)],)
        call["learns"] = {"all": inputs, "one": alone, "none": ()}[call["learns"]]
        heads = call["heads"]
        module, oracle = layers(student, draw, device, heads, 4, call["bias"], dtype)
        module.train(call["training"])
        one_step_agrees(draw, module, oracle, heads, call)


def one_step_agrees(draw, module, oracle, heads, call):
    """Compare the answer of a step, and the gradients of its tokens and of its past.

    Where only one input learns, the parameters do not.
    """
    dtype, n, learns = call["dtype"], call["past"], call["learns"]
    leaves = [draw.normal(2, call["tokens"], 4 * heads[0] * heads[1], dtype=dtype)]
    for _ in "kv" if n is not None else "":
        leaves.append(laid_out(draw.normal(2, heads[0], n, 4, dtype=dtype), call["layout"]))
    x, *past = (x.requires_grad_(name in learns) for name, x in zip(STEP, leaves, strict=False))
    module.requires_grad_(len(learns) == len(leaves))
    with torch.set_grad_enabled(bool(learns)):
        answer = module.step(x, tuple(past) or None)
    agree(answer, oracle.step(x, tuple(past) or None))
    if not learns:
        return
    upstream = draw.normal(*side_by_side(answer).shape, dtype=dtype)

    def right(x, *past):
        return side_by_side(reference.rounded_module(oracle.plain, x).step(x, past or None))

    learning = [leaf for leaf in leaves if leaf.requires_grad]
    found = backward(side_by_side(answer), *learning, upstream=upstream)
    given = [leaf.detach() for leaf in leaves]
    rights = reference.gradients(right, *given, upstream=upstream, magnitude=4.0)
    rights = [one for leaf, one in zip(leaves, rights, strict=True) if leaf.requires_grad]
    for name, got, one in zip(learns, found, rights, strict=True):
        agree(got, one, says=f"gradient of {name}")


def side_by_side(answer):
    """The numbers of the output and of the past of a step, in one row."""
    output, (keys, values) = answer
    return torch.cat([x.flatten() for x in (output, keys, values)])


ATTENTION = {"attention": attention_agrees, "layers": layers_agree, "steps": steps_agree}
