"""Properties of an attention, each with a small experiment, as in `weight_probes`."""

import itertools

import numpy as np
import torch
from torch import Tensor

from grader.core.diagnosis_records import Fact
from grader.diagnosis.probed_function import CLOSE, Array, ProbedFunction, distance, fact, is_right
from grader.judging.draw import Draw

TINY = 1e-5  # numbers of about one that differ by less are taken for the same


def draw_attention_inputs(
    draw: Draw, *leading: int, lq: int = 3, lk: int = 3, d: int = 2, dv: int = 2
) -> list[Tensor]:
    """Draw queries (*leading, lq, d), keys (*leading, lk, d) and values (*leading, lk, dv)."""
    lead = leading or (1, 1)
    shapes = (*lead, lq, d), (*lead, lk, d), (*lead, lk, dv)
    return [draw.normal(*shape) for shape in shapes]


def probe_mixture(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """The output is the weights times the values."""
    q, k, v = draw_attention_inputs(draw)
    found = f.output_and_weights(q, k, v)
    if found is None:
        return None
    output, weights = found
    change = distance(output, weights @ v.numpy().astype(np.float64))
    return fact("mixture", change=change) if change > CLOSE else None


def probe_ignored_inputs(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """The output depends on queries, keys and values."""
    given = draw_attention_inputs(draw)
    output = f(*given)
    for i, name in enumerate("qkv"):
        other = [*given[:i], draw.normal(*given[i].shape), *given[i + 1 :]]
        if distance(output, f(*other)) == 0:
            return fact(f"ignores_{name}")
    return None


def probe_roles(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """Queries, keys and values are not exchanged for each other."""
    q, k, v = draw_attention_inputs(draw)
    output, wanted = f(q, k, v), right(q, k, v)
    if distance(output, wanted) <= CLOSE:
        return None
    for names, given in {"kqv": (k, q, v), "qvk": (q, v, k), "vkq": (v, k, q)}.items():
        if distance(output, right(*given)) <= TINY:
            return fact(f"taken_as_{names}")
    return None


def probe_places(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """The outputs of heads, batch entries and queries stand at their own places."""
    given = draw_attention_inputs(draw, 2, 3, lq=3, lk=3)
    output, wanted = f(*given), right(*given)
    if not distance(output, wanted) > CLOSE:
        return None
    for axis, name in enumerate(("batch", "head", "row")):
        size = output.shape[axis]
        for order in itertools.permutations(range(size)):
            if distance(output, wanted.take(order, axis)) <= TINY:
                place = next(i for i in range(size) if order[i] != i)
                return fact(f"other_{name}_is_returned", place=place, other=order[place])
    return None


def probe_transposed(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """The output is right, not transposed."""
    given = draw_attention_inputs(draw, lq=2, lk=2)
    output, wanted = f(*given), right(*given)
    wrong = distance(output, wanted) > CLOSE
    if wrong and distance(output, np.swapaxes(wanted, -1, -2)) <= TINY:
        return fact("output_transposed")
    return None


def probe_independence(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """An output depends neither on other sequences of the batch nor on other heads."""
    for key, leading in {"other_batch": (2, 1), "other_heads": (1, 2)}.items():
        given = draw_attention_inputs(draw, *leading)
        other = [x.clone() for x in given]
        place = (1, 0) if leading == (2, 1) else (0, 1)
        for x, new in zip(other, draw_attention_inputs(draw), strict=True):
            x[place] = new[0, 0]
        change = distance(f(*given)[0, 0], f(*other)[0, 0])
        if change > CLOSE:
            return fact(key, change=change)
    return None


def probe_sizes(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """What is right for one head, one batch entry and equal sizes is right for others."""
    if not is_right(f, right, *draw_attention_inputs(draw)):
        return None
    if not is_right(f, right, *draw_attention_inputs(draw, 1, 2)):
        return fact("one_head_only", heads=2)
    if not is_right(f, right, *draw_attention_inputs(draw, 2, 1)):
        return fact("one_batch_only", batch=2)
    return None


def probe_lengths(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """What is right for as many queries as keys is right for fewer and for more."""
    if not is_right(f, right, *draw_attention_inputs(draw)):
        return None
    for lq, lk in ((2, 3), (3, 2)):
        if not is_right(f, right, *draw_attention_inputs(draw, lq=lq, lk=lk)):
            return fact("equal_lengths_only", queries=lq, keys=lk)
    return None


def probe_widths(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """What is right for values as wide as keys is right for wider ones."""
    if not is_right(f, right, *draw_attention_inputs(draw, d=2, dv=2)):
        return None
    if not is_right(f, right, *draw_attention_inputs(draw, d=2, dv=3)):
        return fact("equal_widths_only", keys=2, values=3)
    return None


def probe_key_order(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """Keys exchanged together with their values change nothing."""
    q, k, v = draw_attention_inputs(draw)
    change = distance(f(q, k, v), f(q, k.flip(-2), v.flip(-2)))
    return fact("key_order", change=change) if change > CLOSE else None


def probe_attended_keys(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """A query sees the keys that it should, and no other."""
    q, k, v = draw_attention_inputs(draw)
    new_k, new_v = draw.normal(*k.shape), draw.normal(*v.shape)

    def seen(one: ProbedFunction) -> Array:
        """Return for each query (rows) and key (columns) how far the key moves the output."""
        before, moved = one(q, k, v)[0, 0], []
        for token in range(k.shape[-2]):
            other_k, other_v = k.clone(), v.clone()
            other_k[..., token, :], other_v[..., token, :] = (
                new_k[..., token, :],
                new_v[..., token, :],
            )
            moved.append(np.abs(one(q, other_k, other_v)[0, 0] - before).max(-1))
        return np.stack(moved, -1)

    ours, theirs = seen(f), seen(right)
    if not np.isfinite(ours).all():
        return None
    for row, key in np.argwhere((ours > CLOSE) & (theirs == 0)):
        name = "later_key_seen" if key > row else "forbidden_key_seen"
        return fact(name, query=row, key=key, change=ours[row, key])
    for row, key in np.argwhere((ours == 0) & (theirs > CLOSE)):
        return fact("own_key_missed" if row == key else "key_missed", query=row, key=key)
    return None


def probe_scale(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """The scale that is given is heeded."""
    if "scale" not in f.parameters:
        return None
    given = draw_attention_inputs(draw)
    same = distance(f(*given), f(*given, scale=0.125)) == 0
    return fact("scale_ignored") if same else None


def probe_memory(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """The same inputs give the same answer again, after other inputs too."""
    if f.family == "attention":
        one, other = draw_attention_inputs(draw), draw_attention_inputs(draw)
    elif f.family == "masked":
        keep = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1]]).bool()
        one, other = [draw.normal(3, 3), keep], [draw.normal(3, 3), keep]
    else:
        one, other = [draw.normal(3, 3)], [draw.normal(3, 3)]
    first = f(*one)
    second = f(*one)
    f(*other)
    change = max(distance(first, second), distance(first, f(*one)))
    return fact("second_call", change=change) if change > TINY else None


def probe_float16_products(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """The products of float16 queries and keys do not overflow."""
    q = 256.0 * torch.tensor([[1.0, 1.0], [1.0, -1.0]])[None, None]
    v = draw.normal(1, 1, 2, 2)
    if not is_right(f, right, q, q, v):
        return None
    output = f(q.half(), q.half(), v.half())
    return None if np.isfinite(output).all() else fact("float16_products", number=256)
