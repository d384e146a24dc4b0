"""Checks what a call of ex03 leaves behind, where it computes, and what it refuses."""

import copy
from itertools import product

from torch import bfloat16, finfo, float16, float32, float64

import reference
from grader.judging import Hard, lasting, on_meta, rejects, same, untouched

from .answers import right_in_value
from .inputs import for_function, inputs


def stays_on_its_device(draw, attend, meta):
    draw.hard(Hard.DEVICE)
    for given in meta, meta[:3]:
        on_meta(attend, *given)


def leaves_inputs_alone(draw, name, attend):
    dtypes = [float16, bfloat16, float32, float64]
    for dtype in dtypes if name != "attention_numpy" else [float16, float32, float64]:
        tensors, keep = inputs(draw, ((2,), 4, 5, 3, 3), dtype), draw.keep(2, 4, 5)
        keep[0, 1] = False
        info = finfo(dtype)
        tensors[0][0, 0, 0] = info.smallest_normal * info.eps  # half of it is 0: no way back
        *given, keep = for_function(name, *tensors, keep)
        for options in {"scale": 0.5}, {"keep": keep}:
            first = untouched(lambda given=given, options=options: attend(*given, **options))
            for again, before in zip(attend(*given, **options), first, strict=True):
                same(again, before)
        for mask, learns in product((keep, None), (False, name != "attention_numpy")):
            answers_last(name, attend, given, mask, learns)


def answers_last(name, attend, given, keep, learns):
    """An answer stays when the inputs change, and may be written into by its caller."""
    right, given = getattr(reference, name), copy.deepcopy(given)
    for x in given if learns else []:
        x.requires_grad_()
    with lasting(attend, *given, keep):
        for x in given:  # the same tensors with other numbers
            (x if name == "attention_numpy" else x.data)[:] *= -2
        right_in_value(attend(*given, keep), right(*given, keep))
    if learns:
        return
    for answer in attend.held(*given, keep):
        answer.change("fill" if name == "attention_numpy" else "fill_", 2.0)
    after = ", after the caller wrote into those of an earlier call,"
    right_in_value(attend(*given, keep), right(*given, keep), after)


def remembers_nothing(draw, name, attend):
    """The same tensor as query, key and value; then changed in place, for another answer."""
    draw.hard(Hard.SAME)
    draw.hard(Hard.CHANGED)
    expected = getattr(reference, name)
    [x] = for_function(name, draw.normal(2, 5, 4))
    [q, k, v, keep] = for_function(name, *inputs(draw, ((2,), 4, 5, 3, 3)), draw.keep(2, 4, 5))
    for scale in None, 0.5:
        answer = untouched(lambda scale=scale: attend(x, x, x, scale=scale))
        right_in_value(answer, expected(x, x, x, scale=scale))
    with lasting(attend, q, k, v, keep):
        for part in q, k, v, keep, x:
            part[:] = ~part if part is keep else -2 * part
            keep[..., 0] = True
            right_in_value(attend(q, k, v, keep), expected(q, k, v, keep))
            right_in_value(attend(q, k, v), expected(q, k, v))
            right_in_value(attend(x, x, x), expected(x, x, x))


def refuses_misfits(draw, name, attend):
    """A ValueError, each time; and after it, the right answer to what fits."""
    draw.hard(Hard.FAILED)
    q, k, v, keep = for_function(name, *inputs(draw, ((2,), 4, 5, 3, 3)), draw.keep(2, 4, 5))
    for mask in None, keep:
        for width in 2, 1, 4, 2, draw.integer(20, 99):
            [wide] = for_function(name, draw.normal(2, 5, width))
            rejects(lambda mask=mask, x=wide: attend(q, x, v, mask, 2.0), 3, width)
        for length in 4, 1, 7, 4, draw.integer(20, 99):
            [other] = for_function(name, draw.normal(2, length, 3))
            rejects(lambda mask=mask, x=other: attend(q, k, x, mask, 2.0), 5, length)
        right_in_value(attend(q, k, v, mask), getattr(reference, name)(q, k, v, mask))
    none = q[:, :0], k[:, :0], v[:, :0]  # no queries, no keys
    for misfits in (q[:0], wide[:0], v[:0]), (none[0], wide, v), (q, wide[:, :0], none[2]):
        rejects(lambda misfits=misfits: attend(*misfits), 3, width)
    for misfits in (q[:0], k[:0], other[:0]), (none[0], k, other):
        rejects(lambda misfits=misfits: attend(*misfits), 5, length)
    rejects(lambda: attend(q, none[1], other), 0, length)
    rejects(lambda: attend(q, k, none[2]), 5, 0)
