"""Compares the layer without a cache, and in several dtypes."""

import pytest
from torch import float32

from grader.judging import Hard, agree, backward, gradcheck
from reference import raised

from .caches import multiply, new_caches
from .cases import FAR, LAYERS, NARROW, PLAIN, TRAINED
from .expanded import not_expanded_in
from .extremes import close_scores, low_scores
from .layers import new_layers, new_weights, parameters
from .texts import read_far, read_text
from .together import chunks_together, texts_together


def agree_output(student, draw, device, batch, t, sizes, dtype, absorbed):
    """Compare the output of a layer, without a cache."""
    layer, right = new_layers(student, draw, device, sizes, dtype)
    x = draw.normal(batch, t, sizes[0], dtype=dtype)
    agree(layer(x, absorbed=absorbed), right(x, absorbed=absorbed))


def agree_gradients(student, draw, device, sizes, t, dtype, absorbed):
    """Compare gradients of x and of every parameter, without a cache, in .eval() and .train()."""
    layer, right = new_layers(student, draw, device, sizes, dtype)
    x, upstream = (draw.normal(2, t, sizes[0], dtype=dtype) for _ in range(2))
    expected = right.gradients(x, absorbed, upstream=upstream)
    draw.hard(Hard.MODES)
    for mode in (layer.eval, layer.train):
        mode()
        layer.zero_grad()
        [got] = backward(layer(x.requires_grad_(), absorbed=absorbed), x, upstream=upstream)
        agree(got, expected[0], says="gradient of x")
        names = list(parameters(sizes))
        found = layer.read_each(f"{name}.grad" for name in names)
        for name, got, one in zip(names, found, expected[1:], strict=True):
            agree(got, one, says=f"gradient of {name}")


def agree_differences(student, draw, device, dtype, absorbed):
    """Compare the gradient of x with finite differences."""
    layer, _ = new_layers(student, draw, device, (3, 2, 2, 2, 1, 2), dtype)
    x = draw.normal(1, 2, 3, dtype=dtype).requires_grad_()
    gradcheck(lambda x: layer(x, absorbed=absorbed), x)


def agree_large(student, draw, device, q_rank, dtype, absorbed):
    """Compare the output for tokens whose squares and scores overflow in float16."""
    layer, right = new_layers(student, draw, device, (16, 4, 8, 8, 8, 16, q_rank, 3.0), dtype)
    large = draw.normal(4, 1, 16, dtype=dtype, scale=600).expand(4, 5, 16).contiguous()
    expected = raised(right, large, absorbed=absorbed)
    agree(layer(large, absorbed=absorbed), expected, says="output for large tokens")
    if q_rank is not None:
        agree_large_queries(student, draw, device, q_rank, dtype, absorbed)


def agree_large_queries(student, draw, device, q_rank, dtype, absorbed):
    """Compare the output for latents of queries whose squares overflow in float16."""

    def change(state):
        state["q_a_proj.weight"] *= 600.0
        return {}

    sizes = (16, 4, 8, 8, 8, 16, q_rank, 3.0)
    layer, right = new_layers(student, draw, device, sizes, dtype, change)
    x = draw.normal(2, 5, 16, dtype=dtype)
    agree(layer(x, absorbed=absorbed), raised(right, x, absorbed=absorbed))


def agree_converted(student, draw, device, sizes, dtype, absorbed):
    """Compare the output of a layer that was called in float32 and then converted."""
    layer, right = new_layers(student, draw, device, sizes, float32)
    x = draw.normal(2, 5, sizes[0])
    layer(x, absorbed=absorbed)
    layer.to(device, dtype)
    new_weights(draw, layer, right, sizes, dtype)
    says = f"output after .to({dtype})"
    x = x.to(dtype)
    agree(layer(x, absorbed=absorbed), right(x, absorbed=absorbed), says=says)


def agree_changed_cache(student, draw, device, sizes, dtype, absorbed):
    """Compare the output after other numbers were written into the cache."""
    layer, right = new_layers(student, draw, device, sizes, dtype)
    layer.requires_grad_(False)
    cache, seen = new_caches(student, device, 2, 8, sizes[5], sizes[3], dtype)
    for t in (3, 1, 1):
        x = draw.normal(2, t, sizes[0], dtype=dtype)
        agree(layer(x, cache, absorbed), right(x, seen, absorbed))
        multiply(cache, seen, -0.5)


def _named(ask, *cases):
    name = ask.__name__.removeprefix("agree_").removeprefix("read_")
    return [pytest.param(ask, case, id=f"{name}{i}") for i, case in enumerate(cases)]


DIGITS = [  # of a layer in float64
    *_named(agree_output, *LAYERS),
    *_named(read_text, (NARROW, [4, 1])),
    *_named(read_far, ()),
    *_named(agree_gradients, *TRAINED),
    *_named(agree_differences, ()),
    *_named(agree_converted, (NARROW,)),
    *_named(low_scores, ()),
    *_named(not_expanded_in, ()),
    *_named(texts_together, ()),
    *_named(chunks_together, ()),
]
ROUNDED = [  # of a layer in half precision
    *_named(agree_output, *((2, 33, (16, 4, 8, 8, 8, 16, rank, 3.0)) for rank in (None, 24))),
    *_named(agree_output, (1, 600, FAR)),  # more positions than half precision counts
    *_named(agree_large, (None,), (24,)),
    *_named(close_scores, ()),
    *_named(agree_changed_cache, (PLAIN,), (NARROW,)),
    *_named(read_text, (NARROW, [4, 1])),
    *_named(read_far, ()),
    *_named(agree_gradients, *TRAINED),
    *_named(not_expanded_in, ()),
    *_named(texts_together, ()),
    *_named(chunks_together, ()),
]
