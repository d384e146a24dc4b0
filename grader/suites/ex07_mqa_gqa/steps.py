"""Right answers in steps that mistakes replace one at a time: copies, attention, layer, bytes."""

import torch

from reference.ex07_mqa_gqa import PlainGroupedQueryAttention


def unchanged(numbers, *_):
    """In the place of a step that is left out."""
    return numbers


# The copies.


def next_to_each_other(x, n):
    """Copies of one head next to each other, k0 k0 k1 k1."""
    return x.repeat_interleave(n, -3)


def copied(x, n, see=unchanged, repeat=next_to_each_other, close=unchanged):
    """Right, but for the step that a mistake replaces."""
    return close(repeat(see(x), n), x)


# The steps of attention.


def evenly_divided(num_heads, num_kv_heads):
    if num_heads % num_kv_heads:
        raise ValueError(f"{num_heads} heads, {num_kv_heads} key/value heads")


def raised(x):
    """Half precision as float32, the rest as it is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def inverse_root(q, k, v):
    return q.shape[-1] ** -0.5


def everything_if_none(scores, keep):
    """The mask, or one that keeps everything."""
    return torch.ones_like(scores, dtype=torch.bool) if keep is None else keep


def filled(number):
    """A step that puts a number in the place of hidden scores."""
    return lambda scores, keep: torch.where(keep, scores, number)


def zero_in_empty_rows(numbers, keep):
    return torch.where(keep.any(-1, keepdim=True), numbers, 0.0)


def softmax(hidden, keep):
    return torch.softmax(hidden, -1)


def converted_back(output, q):
    return output.to(q.dtype)


def attended(
    q, k, v, keep=None, check=evenly_divided, keys=next_to_each_other, values=next_to_each_other,
    widen=raised, scale=inverse_root, hide=filled(-torch.inf), mend=zero_in_empty_rows,  # noqa: B008
    weigh=softmax, close=zero_in_empty_rows, narrow=converted_back,
):  # fmt: skip
    """Right, but for the step that a mistake replaces."""
    check(q.shape[-3], k.shape[-3])
    n = q.shape[-3] // k.shape[-3]
    scores = widen(q) @ widen(keys(k, n)).mT * scale(q, k, v)  # (..., H, Lq, Lk)
    keep = everything_if_none(scores, keep)
    weights = close(weigh(mend(hide(scores, keep), keep), keep), keep)
    return narrow(weights @ widen(values(v, n)), q)


class Layer(PlainGroupedQueryAttention):
    """The right layer; a mistake overrides the method of one step."""

    def __init__(self, d_model, num_heads, num_kv_heads, bias=False):
        self.check(d_model, num_heads, num_kv_heads)
        super().__init__(d_model, num_heads, num_kv_heads, bias)

    def check(self, d_model, num_heads, num_kv_heads):
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model}, num_heads {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_heads {num_heads}, num_kv_heads {num_kv_heads}")

    def attend(self, q, k, v, keep):
        return attended(q, k, v, keep)

    def step(self, x, past=None):
        q, *new = self.project(x)
        joined = self.extend(past, *new)
        keys, values = self.look(joined, new)
        keep = self.causal(q.shape[-2], keys.shape[-2]).to(x.device)
        return self.combine(self.attend(q, keys, values, keep)), self.store(joined, new)

    def look(self, joined, new):
        """The keys and values that the new tokens attend to."""
        return joined

    def store(self, joined, new):
        """The past that is returned."""
        return joined


def counted(
    batch, num_kv_heads, length, head_dim, dtype, layers, kinds=2, size=lambda dtype: dtype.itemsize
):
    """The right number of bytes, but for what is given.

    kinds  2: keys and values
    size   of one number
    """
    return kinds * batch * num_kv_heads * length * head_dim * size(dtype) * layers
