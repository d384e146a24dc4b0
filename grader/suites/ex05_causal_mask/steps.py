"""Right causal masks, and right attention under them, in steps that mistakes replace one by one."""

import torch


def unchanged(numbers, *_):
    """In the place of a step that is left out."""
    return numbers


def last_to_last(queries, keys, device):
    """The positions of the queries, the last of which stands at the last key."""
    return torch.arange(queries, device=device) + (keys - queries)


def triangle(q_len, k_len, device=None, place=last_to_last, seen=torch.le):
    return seen(torch.arange(k_len, device=device), place(q_len, k_len, device)[:, None])


def not_ahead(behind):
    return behind >= 0


def band(
    q_len, k_len, window, device=None, place=last_to_last, past=not_ahead, near=torch.lt,
    join=torch.logical_and,
):  # fmt: skip
    """Right, but for the step that a mistake replaces."""
    behind = place(q_len, k_len, device)[:, None] - torch.arange(k_len, device=device)  # (Lq, Lk)
    return join(past(behind), near(behind, window))


# The steps of attention.


def seeing(**steps):
    """A step that builds the mask of the queries and keys, with other steps of its own."""
    return lambda q, k, scores: triangle(q.shape[-2], k.shape[-2], q.device, **steps)


def raised(x):
    """Half precision as float32, the rest as it is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def inverse_root(q, v):
    return q.shape[-1] ** -0.5


def scored(q, k, widen, scale):
    return widen(q) @ widen(k).mT * scale


def filled(number):
    """A step that puts a number in the place of hidden scores."""
    return lambda scores, keep: scores.masked_fill(~keep, number)


def zero_in_empty_rows(numbers, keep):
    return numbers.masked_fill(~keep.any(-1, keepdim=True), 0.0)


def shifted(hidden, dim):
    """The distances from the largest score, if there are any."""
    return hidden - hidden.detach().amax(dim, keepdim=True) if hidden.shape[dim] else hidden


def exponentials(distances, keep):
    return distances.exp()


def summed(powers, dim):
    return powers.sum(dim, keepdim=True)


def converted_back(output, q):
    return output.to(q.dtype)


def attended(
    q, k, v, visible=seeing(), widen=raised, scale=inverse_root, score=scored,  # noqa: B008
    hide=filled(-torch.inf), mend=zero_in_empty_rows, shift=shifted, power=exponentials,  # noqa: B008
    total=summed, close=zero_in_empty_rows, narrow=converted_back, dim=-1,
):  # fmt: skip
    """Right, but for the step that a mistake replaces."""
    scores = score(q, k, widen, scale(q, v))  # (..., Lq, Lk)
    keep = visible(q, k, scores)
    hidden = mend(hide(scores, keep), keep)
    powers = power(shift(hidden, dim), keep)
    weights = close(powers / total(powers, dim), keep)
    return narrow(weights @ widen(v), q)
