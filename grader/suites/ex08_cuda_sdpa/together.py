"""Checks that options, sizes, layouts and precisions do not disturb each other."""

from torch import bfloat16, float16, float32, float64

from grader.judging import agree, backward, same
from grader.suites.ex08_cuda_sdpa import layers
from reference import ex08_cuda_sdpa as reference

LENGTHS = (5, 9), (9, 5), (4, 4), (1, 9)  # Lq, Lk
WIDTHS = (6, 5), (4, 7)  # D, Dv
DTYPES = float32, float16, float64, bfloat16
HEADS = 2  # of keys and values


def agree_together(student, draw, dtype):
    """Compare outputs and gradients of those calls in a dtype, of all in which any three meet."""
    for call in draw.combined(
        only={"dtype": dtype},
        lengths=LENGTHS,
        dtype=DTYPES,
        keep=(None, "row", "heads", "rows"),
        widths=WIDTHS,
        bias=(None, "heads", "rows"),
        scale=(None, 0.0, -0.7),
        layout=("plain", "flat", "deep and turned"),
        group=(1, 2),
        causal=(False, True),
    ):
        inputs, options = call_of(draw, **call)
        agree_in_full(student, draw, inputs, options)


def call_of(draw, lengths, widths, dtype, group, keep, bias, scale, layout, causal):
    """Draw the inputs and options of a call; there are as many sequences as query heads."""
    (Lq, Lk), (D, Dv), heads = lengths, widths, HEADS * group
    lead = {"plain": (heads,), "flat": (), "deep and turned": (heads, 1)}[layout]
    few = (*lead, HEADS)
    q = draw.normal(*lead, heads, Lq, D, dtype=dtype)
    k, v = draw.normal(*few, Lk, D, dtype=dtype), draw.normal(*few, Lk, Dv, dtype=dtype)
    shapes = {"row": (Lk,), "heads": (heads, Lq, Lk), "rows": (*lead, heads, Lq, Lk)}
    options = {"causal": causal, "scale": scale}
    if keep is not None:
        options["keep"] = draw.keep(*shapes[keep])
    if keep == "rows":
        options["keep"][..., -1, Lq // 2, :] = False
    if bias is not None:
        options["bias"] = draw.normal(*shapes[bias], dtype=dtype, scale=2.0)
    if layout == "deep and turned":
        q, k, v = (x.mT.contiguous().mT for x in (q, k, v))
    return (q, k, v), options


def agree_in_full(student, draw, inputs, options):
    """Compare the output and all gradients of a call."""
    leaves = [x.requires_grad_() for x in inputs]
    learned = dict(zip("qkv", leaves, strict=True))
    if "bias" in options:
        learned["bias"] = options["bias"].requires_grad_()
    q, _, v = leaves
    output = student.fast_attention(*leaves, **options)
    agree(output, reference.fast_attention(*leaves, **options))
    if q.ndim != 4 and q.dtype.itemsize < 4:
        return  # how often gradients are rounded on the way is left open
    upstream = draw.normal(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    rights = reference.fast_attention_gradients(*leaves, **options, upstream=upstream)
    found = backward(output, *learned.values(), upstream=upstream)
    for name, got, right in zip(learned, found, rights, strict=True):
        agree(got, right, says=f"gradient of {name}")


def modules_agree_together(student, draw, device, dtype):
    """Compare outputs and gradients of modules in a dtype, of all in which any three meet."""
    for call in draw.combined(
        only={"dtype": dtype},
        dtype=DTYPES,
        keep=(None, "padding", "heads", "rows"),
        lead=((3,), (), (2, 3)),  # as many sequences as heads
        qkv_bias=(False, True),
        qk_norm=(False, True),
        fused=(True, False),
        training=(True, False),
    ):
        one_module_agrees(student, draw, device, **call)


def one_module_agrees(student, draw, device, dtype, keep, lead, fused, training, **options):
    """Compare the output of a module, and the gradients of x and of its weights."""
    module, oracle = layers.layers(student, draw, device, dtype, heads=3, width=4, **options)
    module.fused = fused
    module.train(training)
    shapes = {"padding": (*lead, 1, 1, 5), "heads": (3, 5, 5), "rows": (*lead, 3, 5, 5)}
    mask = None if keep is None else draw.keep(*shapes[keep])
    x = draw.normal(*lead, 5, 12, dtype=dtype).requires_grad_()
    output = module(x, mask)
    agree(output, oracle(x, mask))
    same(module.read("fused"), fused, says="the attribute fused")
    upstream = draw.normal(*x.shape, dtype=dtype)
    [right] = oracle.forward_gradients(x, mask, upstream=upstream)
    learned = {}
    if dtype.itemsize > 2:
        learned = oracle.weight_gradients(x, mask, upstream=upstream)
    [got] = backward(output, x, upstream=upstream)
    agree(got, right, says="gradient of x")
    found = module.read_each(f"{name}.grad" for name in learned)
    for got, one in zip(found, learned.values(), strict=True):
        # That of a bias of k_norm is a sum over all tokens that cancels to 0.
        agree(got, one._replace(magnitude=4 * one.magnitude))
