"""Builds the student's module beside the oracle's, and compares them."""

import math
from itertools import product

import torch
from torch import float16, float32

from grader.judging import agree, backward, expect, expect_shapes, same
from reference import ex08_cuda_sdpa as reference
from reference import raised


def layers(student, draw, device, dtype=float32, heads=4, width=6, **options):
    """Return the student's module, and the oracle's with the same weights."""
    E = heads * width
    shapes = {"qkv.weight": (3 * E, E), "proj.weight": (E, E), "proj.bias": (E,)}
    shapes["qkv.bias"] = (3 * E,) if options.get("qkv_bias") else None
    if options.get("qk_norm"):
        parts = "weight", "bias"
        shapes |= {f"{x}_norm.{part}": (width,) for x in "qk" for part in parts}
    module = student.FusedAttention(E, heads, **options)
    expect_shapes(module, shapes)
    state = {
        name: draw.normal(*shape, dtype=dtype, scale=E**-0.5 if len(shape) > 1 else 1.0)
        for name, shape in shapes.items()
        if shape is not None
    }
    module.to(device, dtype)
    oracle = reference.FusedAttention(E, heads, **options)
    return load(module, oracle, state)


def load(module, oracle, state):
    """Load these weights into both modules; return both."""
    module.load_state_dict(state, strict=False)  # a module may have buffers of its own
    oracle.load_state_dict({name: x.clone() for name, x in state.items()})
    return module, oracle


def masks(draw, lead, heads, length):
    """Return no mask, a mask with an empty row, padding, and one row for all, by name."""
    keep = draw.keep(heads, length, length)
    keep[..., 0, :] = False
    return {
        "": None, ", query 0 sees nothing": keep, ", padding": draw.keep(*lead, 1, 1, length),
        ", one row for all": draw.keep(1, length),
    }  # fmt: skip


def agree_on_both_paths(draw, module, oracle, x, heads=4):
    """Compare the output of both paths, with a mask and without."""
    for what, keep in masks(draw, x.shape[:-2], heads, x.shape[-2]).items():
        right = oracle(x, keep)
        for fused in (True, False):
            module.fused = fused
            agree(module(x, keep), right, says=f"output (fused={fused}{what})")
            same(module.read("fused"), fused, says="the attribute fused")


def agree_gradients(module, oracle, x, keep):
    """Compare gradients of x and of all weights and biases on both paths, in both modes.

    With a mask each path has one mode.
    """
    [right] = oracle.forward_gradients(x, keep, upstream=x)
    learned = oracle.weight_gradients(x, keep, upstream=x)
    both = [(True, True), (False, False)]
    for fused, training in both if keep is not None else product((True, False), repeat=2):
        module.fused = fused
        module.train(training)
        module.zero_grad()
        leaf = x.detach().clone().requires_grad_()
        [got] = backward(module(leaf, keep), leaf, upstream=x)
        agree(got, right, says=f"gradient of x (fused={fused})")
        found = module.read_each(f"{name}.grad" for name in learned)
        for got, one in zip(found, learned.values(), strict=True):
            # That of a bias of k_norm is a sum over all tokens that cancels to 0.
            agree(got, one._replace(magnitude=4 * one.magnitude))


def agree_after_changes(module, oracle, x):
    """Compare outputs once a weight, and then one column of it, has other numbers.

    They change behind the back of the version number that counts changes.
    """
    weight, column = oracle.plain.qkv.weight.data, torch.tensor([1], device=x.device)
    getattr(module, "qkv.weight.data.neg_")()
    weight.neg_()
    agree(module(x), oracle(x), says="output once a weight has other numbers")
    getattr(module, "qkv.weight.data.index_fill_")(1, column, 0.5)
    weight.index_fill_(1, column, 0.5)
    agree(module(x), oracle(x), says="output once a column of a weight has other numbers")


def agree_when_converted(module, oracle, x):
    """Compare the output of a module that was called in float32, and is float64 from now on."""
    module.double()
    state = oracle.plain.state_dict()
    oracle.load_state_dict({name: w.detach().double() for name, w in state.items()})
    x = x.double()
    agree(module(x), oracle(x), says="output after .double()")


def two_paths(module, x):
    """Fail if the two paths agree to the last bit, with gradients in .train(), without in .eval():
    two paths would round differently; where both compute in float64, they do so in float64."""
    for mode, learns in (("train", True), ("eval", False)):
        getattr(module, mode)()
        problem = f"in .{mode}() the outputs with fused=True and fused=False are equal to the last "
        problem += "bit: to set fused changes nothing, for two paths would round differently"
        if is_rounded_alike(module, x, learns):
            module.double()
            expect(not is_rounded_alike(module, x.double(), learns), problem)
            module.float()


def is_rounded_alike(module, x, learns):
    """Return whether the outputs of the two paths are equal to the last bit."""
    outputs = []
    for fused in (True, False):
        module.fused = fused
        with torch.set_grad_enabled(learns):
            outputs.append(module(x))
    return torch.equal(*outputs)


def agree_in_dtype(student, draw, device, dtype, options):
    """Compare outputs of a module in a dtype."""
    module, oracle = layers(student, draw, device, dtype, **options)
    x = draw.normal(2, 33, 24, dtype=dtype)
    agree_on_both_paths(draw, module, oracle, x)
    if dtype is float16 and options.get("qk_norm"):
        agree_when_loud(student, draw, device, options)


def agree_when_loud(student, draw, device, options):
    """Compare outputs for queries and keys of 256: 6 products of these exceed float16."""
    module, oracle = layers(student, draw, device, float16, **options)
    state = {name: x.clone() for name, x in oracle.plain.state_dict().items()}
    for q_or_k in "qk":
        state[f"{q_or_k}_norm.weight"].zero_()
        state[f"{q_or_k}_norm.bias"].fill_(256.0)
    load(module, oracle, state)
    x = draw.normal(2, 9, 24, dtype=float16)
    for what, keep in masks(draw, (2,), 4, 9).items():
        right = raised(oracle, x, keep)  # whose projections are in float32, unlike theirs
        right = right._replace(magnitude=2 * right.magnitude)
        for fused in (True, False):
            module.fused = fused
            says = f"output (fused={fused}{what}, queries and keys of 256)"
            agree(module(x, keep), right, says=says)


def agree_on_hard_scores(student, draw, device):
    """Compare one head with given scores: token i is the i-th unit vector, and so is its key."""
    n = 32
    module, oracle = layers(student, draw, device, heads=1, width=n)
    eye = torch.eye(n, device=device)
    x, values = eye[None], oracle.plain.qkv.weight.detach()[2 * n :].clone()
    for name, scores in draw.scores(n, n).items():
        for low in (0, 200):
            queries = (scores - low).mT * math.sqrt(n)
            state = {key: w.detach() for key, w in oracle.plain.state_dict().items()}
            state["qkv.weight"] = torch.cat([queries, eye, values])
            load(module, oracle, state)
            right = oracle(x)
            for fused in (True, False):
                module.fused = fused
                agree(module(x), right, says=f"output (fused={fused}, {name} scores)")


def agree_in_all_sizes(student, draw, device, kind, options):
    """Compare both paths of modules and inputs with the sizes of a hard kind."""
    few = {"B": 0, "L": 256, "heads": 64, "width": 64}
    for s in draw.hard(kind, few, B=2, L=5, heads=3, width=4):
        heads, width = s["heads"], s["width"]
        module, oracle = layers(student, draw, device, heads=heads, width=width, **options)
        agree_on_both_paths(draw, module, oracle, draw.normal(s["B"], s["L"], heads * width), heads)
