"""Draws inputs of attend_with_past, and compares its answers."""

import math

import torch
from torch import float64

from grader.judging import Hard, agree, backward, gradcheck, lasting
from reference import causal_attention, raised
from reference import ex06_kv_cache as reference
from reference.expected import add_up

INPUTS = "q", "k", "v", "past[0]", "past[1]"


def new_tokens(draw, leading, t, old, width, value_width, dtype=torch.float32):
    """Draw q, k, v of t new tokens, and keys and values of old tokens (None if there are none)."""
    shapes = [(t, width), (t, width), (t, value_width), (old, width), (old, value_width)]
    q, k, v, *past = (draw.normal(*leading, *shape, dtype=dtype) for shape in shapes)
    return q, k, v, tuple(past) if old else None


def agree_attention(student, q, k, v, past=None, says=None):
    """Compare attend_with_past on these inputs with the reference; return its answer."""
    answer = student.attend_with_past(q, k, v, *([] if past is None else [past]))
    agree(answer, reference.attend_with_past(q, k, v, past), says=says)
    return answer


def shapes(draw, shape):
    """Return a shape of `SHAPES` in a list, or the shapes of a hard kind."""
    if not isinstance(shape, Hard):
        return [shape]
    some = {"B": 1, "H": 2} if shape is Hard.LONG else {"B": 2, "H": 3}
    found = draw.hard(shape, **some, Lt=5, Lo=7, D=8, Dv=6)
    return [((s["B"], s["H"]), s["Lt"], s["Lo"], s["D"], s["Dv"]) for s in found]


def agree_gradients(student, draw, lead, t, old, width, value_width, dtype):
    """Compare gradients of attend_with_past, through its output and through the returned past."""
    q, k, v, past = new_tokens(draw, lead, t, old, width, value_width, dtype)
    upstream = draw.normal(*lead, t, value_width, dtype=dtype)
    expected = reference.attend_with_past_gradients(q, k, v, past, upstream=upstream)
    leaves = [x.requires_grad_() for x in (q, k, v, *(past or ()))]
    output, joined = student.attend_with_past(q, k, v, past)
    got = backward(output, *leaves, upstream=upstream)
    for name, one, right in zip(INPUTS, got, expected, strict=False):
        agree(one, right, says=f"gradient of {name}")
    for i, new in enumerate((k, v)):
        for part in (new, past[i]) if past else (new,):
            [got] = backward(joined[i], part, upstream=torch.ones_like(joined[i]))
            agree(got, torch.ones_like(part), says=f"gradient through the past[{i}] returned")
    if dtype == float64 and t > 1:
        q, k, v, past = new_tokens(draw, (), 2, old and 1, 2, 1, dtype)
        leaves = [x.requires_grad_() for x in (q, k, v, *(past or ()))]
        gradcheck(
            lambda q, k, v, *past: student.attend_with_past(q, k, v, past or None)[0], *leaves
        )


def each_input_learns_alone(student, draw, t, old):
    """Each input of attend_with_past has its gradient where the others need none."""
    draw.hard(Hard.LEARN)
    q, k, v, past = new_tokens(draw, (2,), t, old, 4, 3)
    upstream = draw.normal(2, t, 3)
    expected = reference.attend_with_past_gradients(q, k, v, past, upstream=upstream)
    inputs = (q, k, v, *(past or ()))
    for name, x, right in zip(INPUTS, inputs, expected, strict=False):
        x.requires_grad_()
        output, _ = student.attend_with_past(q, k, v, past)
        [got] = backward(output, x, upstream=upstream)
        x.requires_grad_(False)
        agree(got, right, says=f"gradient of {name} (which alone learns)")


def same_tensor_learns(student, draw, dtype):
    """Compare the gradient of a tensor that is new keys and values, or all five inputs, at once."""
    draw.hard(Hard.SAME)
    x, q, upstream = (draw.normal(2, 5, 4, dtype=dtype) for _ in range(3))
    x.requires_grad_()
    for given, past, names in (
        ([x, x, x], (x, x), "all five inputs"), ([q, x, x], None, "k and v"),
    ):  # fmt: skip
        output, _ = student.attend_with_past(*given, past)
        [got] = backward(output, x, upstream=upstream)
        parts = reference.attend_with_past_gradients(*given, past, upstream=upstream)
        parts = [part for y, part in zip((*given, *(past or ())), parts, strict=True) if y is x]
        agree(got, add_up(parts), says=f"gradient of a tensor that is {names}")


def gradients_outlast_a_call(student, draw, t, old):
    """Compare the gradients of a call that was followed by another call."""
    given, others = (new_tokens(draw, (2,), t, old, 4, 3) for _ in range(2))
    leaves = [x.requires_grad_() for x in (*given[:3], *given[3])]
    output, _ = student.attend_with_past(*given)
    student.attend_with_past(others[0].requires_grad_(), *others[1:])
    upstream = draw.normal(2, t, 3)
    expected = reference.attend_with_past_gradients(*given, upstream=upstream)
    found = backward(output, *leaves, upstream=upstream)
    for name, got, right in zip(INPUTS, found, expected, strict=True):
        agree(got, right, says=f"gradient of {name} (after a call for other inputs)")


def answers_last(student, draw, dtype, old, learns):
    """An answer stays when the inputs change, and may be written into by its caller."""
    draw.hard(Hard.CHANGED)
    q, k, v, past = new_tokens(draw, (2,), 2, old, 4, 3, dtype)
    q.requires_grad_(learns)
    attend, right = student.attend_with_past, reference.attend_with_past
    with lasting(attend, q, k, v, past):
        for x in (q, v) if old else (q,):  # without a past, v may be what is returned
            x.data.neg_()
        says = "after an input was changed, the answer"
        agree(attend(q, k, v, past), right(q, k, v, past), says=says)
    if not learns:
        attend.held(q, k, v, past)[0].change("fill_", 2.0)
        says = "after the caller wrote into an earlier output, the answer"
        agree(attend(q, k, v, past), right(q, k, v, past), says=says)


def small_weight_counts(student, draw, dtype):
    """A weight of exp(-60), or of exp(-300) in float64, counts where its value is large."""
    low, value = (300, 1e130) if dtype is float64 else (60, 1e26)
    score = float(draw.integer(low, low + 9))
    k, v = torch.tensor([[-score], [0.0]], dtype=dtype), torch.tensor([[value], [0.0]], dtype=dtype)
    right = torch.tensor([[math.exp(-score) * value]], dtype=dtype)
    q = torch.ones_like(right)
    output, _ = student.attend_with_past(q, k[1:], v[1:], (k[:1], v[:1]))
    says = "output for a small weight and a large value"
    agree(output, right, says=says, within=1e-3 * right.item())


def agree_ties_and_low_scores(student, draw, t, old, dtype):
    """Compare outputs in half precision for scores that tie in it, and for very low ones; where
    gradients are switched off, too."""
    n = t + old
    for q, k in (draw.ties(t, n, dtype), draw.low(t, n, 4, dtype)):
        v = draw.normal(n, 3, dtype=dtype)
        new, past = (q, k[old:], v[old:]), (k[:old], v[:old]) if old else None
        # All keys at once, of which q are the last queries: what the past is for.
        expected = raised(causal_attention, q, k, v)
        output, _ = student.attend_with_past(*new, past)
        agree(output, expected)
        with torch.no_grad():
            output, _ = student.attend_with_past(*new, past)
            agree(output, expected, says="output under torch.no_grad()")
