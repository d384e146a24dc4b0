"""Checks that options, sizes, layouts and precisions do not disturb each other."""

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import agree, backward, same
from grader.suites.ex08_cuda_sdpa import layers
from reference import ex08_cuda_sdpa as reference

LENGTHS = (3, 70), (70, 9), (4, 4), (1, 9)  # Lq, Lk
WIDTHS = (6, 5), (4, 7)  # D, Dv
DTYPES = float32, float16, float64, bfloat16
HEADS = 2  # of keys and values
FAR = 100.0  # times as large as ordinary scores: hundreds apart, so that exp alone overflows
LEARNS = "all", "none", "one"  # which tensors need gradients


def agree_together(student, draw, dtype):
    """Compare outputs and gradients of those calls in a dtype, of all in which any three meet."""
    calls = draw.combined(
        only={"dtype": dtype},
        lengths=LENGTHS,
        dtype=DTYPES,
        keep=(None, "loud", "heads", "rows", "open"),
        widths=WIDTHS,
        bias=(None, "heads", "rows"),
        scale=(None, 0.0, -0.7),
        layout=("plain", "flat", "deep and turned", "expanded"),
        group=(1, 2),
        causal=(False, True),
        scores=(1.0, FAR),
        learns=LEARNS,
    )
    for number, call in enumerate(calls):
        inputs, options = call_of(draw, **call)
        agree_in_full(student, draw, inputs, options, call, number)


def call_of(draw, lengths, widths, dtype, group, keep, bias, scale, layout, causal, scores, **_):
    """Draw the inputs and options of a call; there are as many sequences as query heads."""
    (Lq, Lk), (D, Dv), heads = lengths, widths, HEADS * group
    lead = {"flat": (), "deep and turned": (heads, 1)}.get(layout, (heads,))
    few = (*lead, HEADS)
    q = scores * draw.normal(*lead, heads, Lq, D, dtype=dtype)
    k, v = draw.normal(*few, Lk, D, dtype=dtype), draw.normal(*few, Lk, Dv, dtype=dtype)
    shapes = {"loud": (Lk,), "heads": (heads, Lq, Lk), "rows": (*lead, heads, Lq, Lk)}
    options = {"causal": causal, "scale": scale}
    if keep is not None:
        options["keep"] = draw.keep(*shapes.get(keep, (Lq, Lk))) | (keep == "open")
    if keep == "rows":
        options["keep"][..., -1, Lq // 2, :] = False
    if bias is not None:
        options["bias"] = draw.normal(*shapes[bias], dtype=dtype, scale=2.0)
    if layout == "deep and turned":
        q, k, v = (x.mT.contiguous().mT for x in (q, k, v))
    if layout == "expanded":
        q, k, v = (x[:1, :, :1].expand(x.shape) for x in (q, k, v))
    return (q, k, v), options


def agree_in_full(student, draw, clean, options, call, number):
    """Compare the output of a call, and the gradients of what learns: all, or one in turn."""
    given = clean
    if call["keep"] == "loud":
        hidden, large = ~options["keep"][:, None], 1e4 if call["dtype"] is float16 else 1e30
        given = [clean[0], *(x.masked_fill(hidden, large) for x in clean[1:])]
    named = dict(zip("qkv", given, strict=True))
    named |= {"bias": options["bias"]} if "bias" in options else {}
    names = list(named)
    learned = {"all": names, "none": []}.get(call["learns"], [names[number % len(names)]])
    for name in learned:
        named[name].requires_grad_()
    with torch.set_grad_enabled(bool(learned)):
        output = student.fast_attention(*given, **options)
    agree(output, reference.fast_attention(*clean, **options))
    if not learned or (clean[0].ndim != 4 and call["dtype"].itemsize < 4):
        return  # how often gradients are rounded on the way is left open
    upstream = draw.normal(*output.shape, dtype=output.dtype)
    rights = reference.fast_attention_gradients(*clean, **options, upstream=upstream)
    rights = dict(zip(names, rights, strict=True))
    found = backward(output, *(named[name] for name in learned), upstream=upstream)
    for name, got in zip(learned, found, strict=True):
        agree(got, rights[name], says=f"gradient of {name}")


def modules_agree_together(student, draw, device, dtype):
    """Compare outputs and gradients of modules in a dtype, of all in which any three meet."""
    calls = draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        keep=(None, "padding", "heads", "rows", "open"),
        lead=((3,), (), (2, 3)),  # as many sequences as heads
        qkv_bias=(False, True),
        qk_norm=(False, True),
        fused=(True, False),
        training=(True, False),
        length=(5, 70),
        layout=("plain", "turned", "expanded"),
        # Half precision rounds queries, which moves far scores by 1: any weights are right.
        scores=(1.0, FAR) if dtype.itemsize > 2 else (1.0,),
        learns=LEARNS,
    )
    for number, call in enumerate(calls):
        one_module_agrees(student, draw, device, number, **call)


def one_module_agrees(
    student, draw, device, number, dtype, keep, lead, fused, training, length, layout, scores,
    learns, **options
):  # fmt: skip
    """Compare the output of a module, and the gradients of what learns: x, its weights, or both."""
    module, oracle = layers.layers(student, draw, device, dtype, heads=3, width=4, **options)
    state = {name: w.detach() for name, w in oracle.plain.state_dict().items()}
    for name in ("q_norm.weight", "q_norm.bias") if options["qk_norm"] else ("qkv.weight",):
        state[name][:12] *= scores  # of queries alone
    layers.load(module, oracle, state)
    module.fused = fused
    module.train(training)
    shapes = {"padding": (*lead, 1, 1, length), "rows": (*lead, 3, length, length)}
    mask = None
    if keep is not None:
        mask = draw.keep(*shapes.get(keep, (3, length, length))) | (keep == "open")
    x = draw.normal(*lead, length, 12, dtype=dtype)
    if layout != "plain":
        x = x.mT.contiguous().mT if layout == "turned" else x[:1].expand(x.shape)
    parts = {"all": ("x", "weights"), "none": ()}.get(learns, ("x", "weights")[number % 2 :][:1])
    x.requires_grad_("x" in parts)
    module.requires_grad_("weights" in parts)
    right = oracle(x, mask)
    if not parts:
        with torch.no_grad():
            agree(module(x, mask), right)
    else:
        module_learns(draw, module, oracle, x, mask, parts, right, scores)
    same(module.read("fused"), fused, says="the attribute fused")


def module_learns(draw, module, oracle, x, mask, parts, right, larger):
    """Compare the output of a module, and the gradients of these parts.

    larger  how much queries are, with which the rounding errors of weights meet the gradients
    """
    upstream = draw.normal(*x.shape, dtype=x.dtype)
    if "x" in parts:
        output = module(x, mask)
        [of_x] = oracle.forward_gradients(x, mask, upstream=upstream)
        [got] = backward(output, x, upstream=upstream)
        agree(got, of_x._replace(magnitude=larger * of_x.magnitude), says="gradient of x")
    else:
        held = module.forward.held(x, mask)
        held.backward(upstream)
        output = held.now()
    agree(output, right, says="output")
    learned = {}
    if "weights" in parts and x.dtype.itemsize > 2:
        learned = oracle.weight_gradients(x, mask, upstream=upstream)
    found = module.read_each(f"{name}.grad" for name in learned)
    for got, one in zip(found, learned.values(), strict=True):
        # That of a bias of k_norm is a sum over all tokens that cancels to 0.
        agree(got, one._replace(magnitude=4 * larger * one.magnitude))
