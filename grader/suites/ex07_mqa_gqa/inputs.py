"""Draws the inputs of ex07, builds the student's layers, and compares answers and gradients."""

import torch
from torch import float32

from grader.judging import Hard, agree, backward, expect, expect_shapes
from reference import ex07_mqa_gqa as reference
from reference.expected import add_up

USUAL = {"B": 2, "Hk": 2, "G": 3, "Lq": 5, "Lk": 7, "D": 4, "Dv": 3}


def qkv(draw, dtype=float32, **sizes):
    """Queries, keys and values of two sequences, unless other sizes are given."""
    B, Hk, G, Lq, Lk, D, Dv = (USUAL | sizes).values()
    q = draw.normal(B, Hk * G, Lq, D, dtype=dtype)
    k = draw.normal(B, Hk, Lk, D, dtype=dtype)
    return q, k, draw.normal(B, Hk, Lk, Dv, dtype=dtype)


def leading(layout, batch):
    """The dimensions before the heads."""
    return {"flat": (), "deep": (2, batch)}.get(layout, (batch,))


def laid_out(x, layout):
    """The tensor, with two dimensions exchanged in memory, or one sequence for all."""
    if layout == "turned":
        return x.transpose(-3, -2).contiguous().transpose(-3, -2)
    return x[:1].expand(x.shape) if layout == "expanded" else x


def mask_of(draw, kind, lead, H, Lq, Lk):
    """A mask of a kind for H heads; in one of all rows one query sees nothing."""
    shapes = {
        "loud": (*lead, 1, 1, Lk), "heads": (H, Lq, Lk), "rows": (*lead, H, Lq, Lk), "row": (Lk,),
    }  # fmt: skip
    if kind is None:
        return None
    if kind == "open":
        return draw.keep(Lq, Lk) | True
    keep = draw.keep(*shapes[kind])
    if kind == "rows":
        keep[..., -1, Lq // 2, :] = False
    return keep


def attends(student, q, k, v, keep=None, says=None, right=reference.grouped_query_attention):
    """The student's output, held to the right one."""
    output = student.grouped_query_attention(q, k, v, keep)
    agree(output, right(q, k, v, keep), says)
    return output


def gradients_agree(draw, student, q, k, v, keep=None, says="", only="qkv"):
    """The gradients of q, k and v, or of one that learns alone, held to the right ones."""
    leaves = {name: x.detach().clone() for name, x in zip("qkv", (q, k, v), strict=True)}
    learning = [leaves[name].requires_grad_() for name in only]
    upstream = draw.normal(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    output = student.grouped_query_attention(*leaves.values(), keep)
    grads = dict(zip(only, backward(output, *learning, upstream=upstream), strict=True))
    rights = reference.grouped_query_attention_gradients(*leaves.values(), keep, upstream=upstream)
    for name, right in zip("qkv", rights, strict=True):
        if name in only:
            alone = " (which alone learns)" if len(only) == 1 else ""
            agree(grads[name].to(q.dtype), right, says=f"gradient of {name}{alone}{says}")


def same_tensor_learns(student, draw, dtype, masked):
    """The gradient of a tensor that is key and value, and perhaps the query, is the sum of all."""
    draw.hard(Hard.SAME)
    x, q, upstream = (draw.normal(2, 2, 5, 4, dtype=dtype) for _ in range(3))
    keep = draw.keep(5, 5) if masked else None
    x.requires_grad_()
    for given, names in ([x, x, x], "q, k and v"), ([q, x, x], "k and v"):
        [got] = backward(student.grouped_query_attention(*given, keep), x, upstream=upstream)
        parts = reference.grouped_query_attention_gradients(*given, keep, upstream=upstream)
        parts = [part for y, part in zip(given, parts, strict=True) if y is x]
        agree(got, add_up(parts), says=f"gradient of a tensor that is {names}")


def gradients_outlast_a_call(student, draw, keep):
    """The gradients of a call that was followed by another call are its own."""
    given, others = ([x.requires_grad_() for x in qkv(draw)] for _ in range(2))
    output = student.grouped_query_attention(*given, keep)
    student.grouped_query_attention(*others, keep)
    upstream = draw.normal(*output.shape)
    found = backward(output, *given, upstream=upstream)
    rights = reference.grouped_query_attention_gradients(*given, keep, upstream=upstream)
    for name, got, right in zip("qkv", found, rights, strict=True):
        agree(got, right, says=f"gradient of {name} (after a call for other inputs)")


def changed_weights_agree(draw, module, oracle, x):
    """A layer that was called already, after rows of its weights have changed, of which no version
    number tells."""
    says, state = "output for changed weights", dict(oracle.plain.state_dict())
    for name in "w_k.weight", "w_v.weight":
        last = torch.tensor([len(state[name]) - 1], device=x.device)
        getattr(module, f"{name}.data.index_fill_")(0, last, 0.5)
        state[name] = state[name].index_fill(0, last.to(state[name].device), 0.5)
    oracle.load_state_dict(state)
    agree(module(x), oracle(x), says=says)


def agrees_after_double(student, draw, device):
    """A layer in float64 that was called in float32 before."""
    module, oracle = layers(student, draw, device)
    x = draw.normal(2, 5, 24)
    with torch.no_grad():
        module(x)
        module.double()
        agree(module(x.double()), oracle(x.double()), says="output after .double()")


def layers(student, draw, device, heads=(2, 3), D=4, bias=False, dtype=float32):
    """The student's layer and the oracle's, with the same weights."""
    num_heads, num_kv_heads, d_model = heads[0] * heads[1], heads[0], heads[0] * heads[1] * D
    widths = {"w_q": d_model, "w_k": num_kv_heads * D, "w_v": num_kv_heads * D, "w_o": d_model}
    options = {"bias": True} if bias else {}
    module = student.GroupedQueryAttention(d_model, num_heads, num_kv_heads, **options)
    state = weights(draw, widths, d_model, bias, dtype)
    expect_shapes(module, {name: tuple(weight.shape) for name, weight in state.items()})
    unasked = [] if bias else list(widths)
    biases = module.read_each(f"{name}.bias" for name in unasked)
    for name, value in zip(unasked, biases, strict=True):
        expect(value is None, f"{name} has a bias, but should have none")
    module.to(device, dtype)
    module.load_state_dict(state, strict=False)  # a module may have buffers of its own
    oracle = reference.GroupedQueryAttention(d_model, num_heads, num_kv_heads, bias)
    oracle.load_state_dict(state)
    return module, oracle


def weights(draw, widths, d_model, bias, dtype):
    """Parameters of the four projections, by name."""
    state = {
        f"{name}.weight": draw.normal(width, d_model, dtype=dtype, scale=d_model**-0.5)
        for name, width in widths.items()
    }
    if bias:
        state |= {f"{name}.bias": draw.normal(n, dtype=dtype) for name, n in widths.items()}
    return state


def layer_gradients_agree(module, oracle, x, mask, upstream, *, every_weight):
    """The gradients of x and of the layer's weights and biases, held to the right ones."""
    x = x.detach().clone().requires_grad_()
    module.zero_grad()
    [got] = backward(module(x, mask), x, upstream=upstream)
    [right] = oracle.forward_gradients(x, mask, upstream=upstream)
    agree(got, right, says="gradient of x")
    if every_weight:
        learned = oracle.weight_gradients(x, mask, upstream=upstream)
        found = module.read_each(f"{name}.grad" for name in learned)
        for got, right in zip(found, learned.values(), strict=True):
            agree(got, right)
