"""Plays with groups: which key/value head each query head uses, and the bytes of the cache."""

from types import SimpleNamespace

import torch

from grader.judging.playing import Bars, Grid, Note, Slider, number_tokens, table

HEADS, DEPTH, LAYERS = 8, 128, 32
GIB = 2**30
CONTROLS = (
    Slider(name="power", says="Key/value heads, as a power of two", low=0, high=3, step=1, begin=1),
    Slider(name="thousands", says="Tokens in the cache, in 1024", low=1, high=128, step=1, begin=8),
)


def draw(functions, *, power, thousands):
    """Return the heads that share, and the size of the cache in float16."""
    shared = 2 ** int(power)
    numbers = torch.arange(shared, dtype=torch.float32).view(1, shared, 1, 1)
    used = functions.repeat_kv(numbers, HEADS // shared).flatten().tolist()
    length = 1024 * int(thousands)
    shown = [[1.0 if kv == own else None for own in used] for kv in range(shared)]
    sizes = {
        heads: functions.kv_cache_bytes(1, heads, length, DEPTH, torch.float16, LAYERS) / GIB
        for heads in (HEADS, shared)
    }
    return [
        Grid(
            title="Which key/value head a query head uses",
            rows=number_tokens("kv", shared),
            columns=number_tokens("q", HEADS),
            values=table(shown),
            digits=0,
        ),
        Bars(
            title="GiB of keys and values: 32 layers, heads of width 128, float16",
            labels=("a head of its own for each", "shared"),
            values=(sizes[HEADS], sizes[shared]),
            top=sizes[HEADS],
        ),
        Note(
            says="{group} query heads share one key/value head; the cache takes 1/{group} of the "
            "memory.",
            values={"group": str(HEADS // shared)},
        ),
    ]


def _repeat(x, n):
    return x.repeat_interleave(n, dim=-3)


def _bytes(batch, heads, length, depth, dtype, layers):
    return torch.empty(2, layers, batch, heads, length, depth, dtype=dtype, device="meta").nbytes


RIGHT = SimpleNamespace(repeat_kv=_repeat, kv_cache_bytes=_bytes)
