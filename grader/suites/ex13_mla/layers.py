"""Builds a student's layer of latent attention, and the reference's with the same weights."""

from torch import Tensor, float32

from grader.judging import expect, expect_shapes
from reference import ex13_mla as reference


def parameters(sizes):
    """Return the shape of every parameter of a layer, by name."""
    width, heads, nope, rope, value, rank, q_rank, _ = (*sizes, None, None)[:8]
    shapes = {"q_proj": (heads * (nope + rope), width)}
    if q_rank is not None:
        shapes = {"q_a_proj": (q_rank, width), "q_a_layernorm": (q_rank,)}
        shapes["q_b_proj"] = (heads * (nope + rope), q_rank)
    shapes |= {
        "kv_a_proj_with_mqa": (rank + rope, width),
        "kv_a_layernorm": (rank,),
        "kv_b_proj": (heads * (nope + value), rank),
        "o_proj": (width, heads * value),
    }
    return {f"{name}.weight": shape for name, shape in shapes.items()}


def new_layers(student, draw, device, sizes, dtype, change=None):
    """Return the student's layer and the reference's, with the same weights.

    `change` may change these weights, and returns replacements for the student's layer alone.
    """
    layer = student.MultiHeadLatentAttention(*sizes)
    right = reference.MultiHeadLatentAttention(*sizes)
    expect_no_drawn_bias(layer)
    layer.to(device, dtype)
    expect_shapes(layer, parameters(sizes))
    state = {name: _drawn(draw, shape, dtype) for name, shape in parameters(sizes).items()}
    theirs = state if change is None else state | change(state)
    layer.load_state_dict(theirs, strict=False)  # buffers of the student's own are welcome
    right.load_state_dict(state)
    return layer, right


def state_of(layer):
    """Return a layer's state dict."""
    state = layer.state_dict()
    expect(isinstance(state, dict), "state_dict() should give a dict of tensors by name")
    return {str(name): value for name, value in state.items()}


def expect_no_more(more):
    """Pass if there are no more names in a state dict than there should be."""
    expect(not more, f"the state dict has {', '.join(sorted(more))}, which should not be in it")


def expect_no_drawn_bias(layer):
    """Pass if no bias makes a layer's answers random; one of zeros is for another check."""
    biases = {name: x for name, x in state_of(layer).items() if name.endswith("bias")}
    expect_no_more([name for name, x in biases.items() if isinstance(x, Tensor) and x.any()])


def new_weights(draw, layer, right, sizes, dtype=float32):
    """Put other parameters into both layers in place of those that were there."""
    state = {name: _drawn(draw, shape, dtype) for name, shape in parameters(sizes).items()}
    layer.load_state_dict(state, strict=False, assign=True)
    right.load_state_dict(state)


def _drawn(draw, shape, dtype):
    if len(shape) == 1:
        return draw.normal(*shape, dtype=dtype, scale=0.3) + 1
    return draw.normal(*shape, dtype=dtype, scale=shape[-1] ** -0.5)
