"""Right answers in steps that mistakes replace one at a time: attention, the cache, the layer."""

import torch

from reference.ex06_kv_cache import PlainCachedAttention, PlainKVCache


def unchanged(numbers, *_):
    """In the place of a step that is left out."""
    return numbers


# The steps of attention.


def triangle(q, k, corner=None):
    """Query i sees the keys up to i + corner; the right corner is n - t."""
    t, n = q.shape[-2], k.shape[-2]
    return torch.ones(t, n, dtype=torch.bool, device=q.device).tril(
        n - t if corner is None else corner
    )


def raised(x):
    """Half precision as float32, the rest as it is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def inverse_root(q, k):
    return q.shape[-1] ** -0.5


def filled(number):
    """A step that puts a number in the place of hidden scores."""
    return lambda scores, keep: scores.masked_fill(~keep, number)


def softmax(hidden, keep):
    return torch.softmax(hidden, -1)


def converted_back(output, q):
    return output.to(q.dtype)


def mixed(
    q, k, v, visible=triangle, widen=raised, scale=inverse_root, hide=filled(-torch.inf),  # noqa: B008
    weigh=softmax, close=unchanged, narrow=converted_back,
):  # fmt: skip
    """The output of the last t of n tokens, right but for the step that a mistake replaces."""
    scores = widen(q) @ widen(k).mT * scale(q, k)  # (..., t, n)
    keep = visible(q, k)
    weights = close(weigh(hide(scores, keep), keep), keep)
    return narrow(weights @ widen(v), q)


def behind(old, new):
    return torch.cat([old, new], -2)


def joined(k, v, past, keys=behind, values=behind):
    """All keys and all values, oldest first."""
    return (k, v) if past is None else (keys(past[0], k), values(past[1], v))


def attended(q, k, v, past=None, join=joined, look=unchanged, store=unchanged, **steps):
    """Right, but for the step that a mistake replaces.

    look   which keys and values are attended to: a function of all and of the new ones
    store  which are returned
    steps  those of `mixed`
    """
    known = join(k, v, past)
    return mixed(q, *look(known, (k, v)), **steps), store(known, (k, v))


class Cache(PlainKVCache):
    """A right cache; a mistake overrides the method of one step."""

    def check(self, k, v):
        self.check_shapes(k, v)
        self.check_room(self.length + k.shape[2], self.keys.shape[2])

    def check_shapes(self, k, v):
        batch, num_heads, _, head_dim = self.keys.shape
        right = (batch, num_heads, k.shape[2], head_dim)
        if k.shape != right or v.shape != right:
            raise ValueError(f"{tuple(k.shape)} and {tuple(v.shape)} should both be {right}")

    def check_room(self, needed, room):
        if needed > room:
            raise ValueError(f"{needed} tokens are more than {room}")


class Layer(PlainCachedAttention):
    """A right layer; a mistake overrides the method of one step."""

    cached = False  # whether the call that runs has a cache

    def forward(self, x, cache=None):
        self.cached = cache is not None
        q, k, v = self.project(x)
        return self.project_out(self.merge(self.attend(q, *self.remember(k, v, cache))))

    def attend(self, q, k, v):
        return mixed(
            q, k, v, visible=self.visible, widen=self.widen, scale=self.scale, hide=self.hide,
            weigh=self.weigh,
        )  # fmt: skip

    def visible(self, q, k):
        return triangle(q, k)

    def widen(self, x):
        return raised(x)

    def scale(self, q, k):
        return inverse_root(q, k)

    def hide(self, scores, keep):
        return scores.masked_fill(~keep, -torch.inf)

    def weigh(self, hidden, keep):
        return softmax(hidden, keep)

    def project_out(self, x):
        return self.w_o(x)
