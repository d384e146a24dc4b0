"""Weights and latents that show what a layer of latent attention computes."""

from grader.judging import expect


def parameters(sizes):
    """The shape of every parameter of a layer, by its name."""
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


def load(layer, right, draw, sizes, dtype, unasked=None, loud=0.0):
    """Give the student's layer and the reference's the same weights.

    With `unasked` the first places of each head's key and value are so many times the last place of
    a latent, and nobody asks for them: the reference's layer has zeros instead. The layer's own
    tokens have 0 in that place, or with `loud` so many times what they had; values of such tokens
    would be asked for, mixed as they are, so then it is the keys alone.
    """
    state = {}
    for name, shape in parameters(sizes).items():
        got = getattr(layer.read(name), "shape", None)
        got = got if got is None else tuple(got)
        expect(got == shape, f"the shape of {name} is {got}, but should be {shape}")
        state[name] = draw.normal(*shape, dtype=dtype, scale=shape[-1] ** -0.5)
        if len(shape) == 1:
            state[name] = draw.normal(*shape, dtype=dtype, scale=0.3) + 1
    theirs = state if unasked is None else _unasked(state, sizes, unasked, loud)
    layer.load_state_dict(theirs, strict=False)  # buffers of the student's own are welcome
    right.load_state_dict(state)


def _unasked(state, sizes, number, loud):
    """The weights of `load` with `unasked`, and zeros in `state` where they differ from it."""
    heads, nope = sizes[1:3]
    queries = "q_proj.weight" if "q_proj.weight" in state else "q_b_proj.weight"
    state[queries].unflatten(0, (heads, -1))[:, 0] = 0.0
    state["o_proj.weight"].unflatten(1, (heads, -1))[..., 0] = 0.0
    state["kv_a_layernorm.weight"][-1] = loud
    expansion = state["kv_b_proj.weight"].unflatten(0, (heads, -1))  # (H, nope + value, R)
    expansion[..., -1] = 0.0
    theirs = expansion.clone()
    theirs[:, [0] if loud else [0, nope], -1] = number
    return state | {"kv_b_proj.weight": theirs.flatten(0, 1)}


def cancelling(draw, batch, tokens, rank, dtype):
    """Latents in pairs, alike but for a large last place that cancels in whatever mixes them."""
    latents = draw.normal(batch, tokens // 2, rank, dtype=dtype).repeat_interleave(2, dim=1)
    latents[:, 0::2, -1], latents[:, 1::2, -1] = 100.0, -100.0
    return latents
