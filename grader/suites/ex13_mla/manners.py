"""Checks layouts, changed numbers, hard scores and refused calls of the layer."""

import pytest
from torch import float32

from grader.judging import Hard, agree, backward, lasting, rejects

from .caches import new_caches
from .cases import NARROW, ONES, PLAIN, layer_case
from .extremes import low_scores
from .layers import new_layers, new_weights, parameters
from .texts import read_scores


def each_of(*asked):
    """Return a parametrization with one case for each of these functions, by name."""
    return pytest.mark.parametrize("ask", asked, ids=[ask.__name__ for ask in asked])


def each_way_of(*asked, once):
    """Return a parametrization with two cases for each of these functions, and one for the last.

    once  functions that go both ways by themselves
    """
    ways = [("naive", (False,)), ("absorbed", (True,))]
    cases = [
        pytest.param(ask, way, id=f"{ask.__name__}-{name}") for ask in asked for name, way in ways
    ]
    cases += [pytest.param(ask, (), id=ask.__name__) for ask in once]
    return pytest.mark.parametrize("ask, way", cases)


def small_sizes(student, draw, device, absorbed):
    """Compare layers with one size at 1, and the others odd."""
    for which in range(ONES):
        batch, t, sizes = layer_case(draw, Hard.ONE, which)
        layer, right = new_layers(student, draw, device, sizes, float32)
        x = draw.normal(batch, t, sizes[0])
        agree(layer(x, absorbed=absorbed), right(x, absorbed=absorbed))


def modes(student, draw, device, absorbed):
    """Change tokens and weights from call to call, in .train() and in .eval()."""
    draw.hard(Hard.MODES)
    draw.hard(Hard.CHANGED)
    layer, right = new_layers(student, draw, device, NARROW, float32)
    x = draw.normal(2, 5, 10)
    for mode in ("train", "eval", "eval"):
        getattr(layer, mode)()
        for says in (f"output in .{mode}()", "output of the same call again"):
            agree(layer(x, absorbed=absorbed), right(x, absorbed=absorbed), says=says)
        with lasting(layer.forward, x, absorbed=absorbed):
            x.mul_(-0.7)
            says = "output once x has other numbers"
            agree(layer(x, absorbed=absorbed), right(x, absorbed=absorbed), says=says)
            new_weights(draw, layer, right, NARROW)
            says = "output once the weights have other numbers"
            agree(layer(x, absorbed=absorbed), right(x, absorbed=absorbed), says=says)
            getattr(layer, "kv_b_proj.weight.data.neg_")()  # which no version number shows
            right.multiply("kv_b_proj.weight", -1)
            says = "output once a weight has other numbers"
            agree(layer(x, absorbed=absorbed), right(x, absorbed=absorbed), says=says)


def later_tokens(student, draw, device, absorbed):
    """Check that huge numbers in the last token change no output before it."""
    layer, right = new_layers(student, draw, device, NARROW, float32)
    x = draw.normal(2, 9, 10)
    expected = right(x[:, :8], absorbed=absorbed)
    x[:, 8:] = 1e10
    output = layer(x.requires_grad_(), absorbed=absorbed)
    agree(output[:, :8], expected, says="with 1e10 in the last token, the output before it")
    upstream = draw.normal(2, 9, 10)
    upstream[:, 8:] = 0.0
    few = x.detach()[:, :8]
    rights = right.gradients(few, absorbed, upstream=upstream[:, :8])
    [got] = backward(output, x, upstream=upstream)
    says = "with 1e10 in the last token, the gradient of x before it"
    agree(got[:, :8], rights[0], says=says)
    names = list(parameters(NARROW))
    found = layer.read_each(f"{name}.grad" for name in names)
    for name, got, one in zip(names, found, rights[1:], strict=True):
        agree(got, one, says=f"with 1e10 in the last token, gradient of {name}")


def large_scores(student, draw, device, absorbed):
    """Compare scores of about plus and minus 1e5, which keep that much less of their fraction, and
    very low ones."""
    layer, right = new_layers(student, draw, device, PLAIN, float32)
    x = draw.normal(8, 4, 12, scale=300.0)
    expected = right(x, absorbed=absorbed)
    expected = expected._replace(magnitude=1e5 * expected.magnitude)
    agree(layer(x, absorbed=absorbed), expected, says="output for large scores")
    low_scores(student, draw, device, float32, absorbed)


def hard_scores(student, draw, device, absorbed):
    """Compare outputs for scores that fall, rise, are all negative, or jump by hundreds."""
    read_scores(student, draw, device, PLAIN, absorbed)


def refused_calls(student, draw, device, absorbed):
    """Compare calls that fit after calls that did not, in .eval(), until the cache is full."""
    draw.hard(Hard.FAILED)
    layer, right = new_layers(student, draw, device, NARROW, float32)
    layer.requires_grad_(False)
    layer.eval()
    cache, seen = new_caches(student, device, 2, 7, 8, 4)
    for t in (4, 3):
        too_many = draw.normal(2, 8, 10)
        rejects(lambda x=too_many: layer(x, cache, absorbed), 7)
        rejects(lambda x=too_many: layer(x[:1, :1], cache, absorbed), 1, 2)
        x = draw.normal(2, t, 10)
        says = "output after a call that did not fit"
        agree(layer(x, cache, absorbed), right(x, seen, absorbed), says=says)
