"""Plays with a cache that fills token by token, beside what is computed anew without it."""

from types import SimpleNamespace

import torch

from grader.judging.playing import SENTENCE, Bars, Grid, Note, Slider, number_tokens, table
from reference.ex05_causal_mask import plain_causal_attention
from reference.ex06_kv_cache import plain_attend_with_past

TOKENS, WIDTH = SENTENCE, 4
CONTROLS = (Slider(name="count", says="Tokens so far", low=1, high=len(TOKENS), step=1, begin=2),)
RIGHT = SimpleNamespace(attend_with_past=plain_attend_with_past)


def draw(functions, *, count):
    """Return the cached keys, the weights of the newest token, and what was computed."""
    count = int(count)
    drawn = torch.Generator().manual_seed(6)
    q, k = (torch.randn(1, 1, len(TOKENS), WIDTH, generator=drawn) for _ in range(2))
    v = torch.eye(len(TOKENS))[None, None]  # so that an output is its weights
    past, output = None, q
    for at in range(count):
        now = slice(at, at + 1)
        output, past = functions.attend_with_past(
            q[..., now, :], k[..., now, :], v[..., now, :], past
        )
    anew = plain_causal_attention(q[..., :count, :], k[..., :count, :], v[..., :count, :])
    apart = float((output - anew[..., -1:, :]).abs().max())
    without = count * (count + 1) // 2
    return [
        Grid(
            title="Keys in the cache; the newest has a frame",
            rows=TOKENS[:count],
            columns=number_tokens("", WIDTH),
            values=table(past[0][0, 0]),
            top=2.5,
            marked=frozenset((count - 1, column) for column in range(WIDTH)),
        ),
        Bars(
            title="Weights of the newest token",
            labels=TOKENS[:count],
            values=tuple(output[0, 0, 0, :count].tolist()),
        ),
        Bars(
            title="Keys computed until now",
            labels=("with the cache", "anew for every token"),
            values=(float(count), float(without)),
            top=len(TOKENS) * (len(TOKENS) + 1) / 2,
            digits=0,
        ),
        Note(
            says="The output of the newest token is that of attention over all tokens at once; "
            "they differ by {apart}.",
            values={"apart": f"{apart:.1g}"},
        ),
    ]
