"""Plays with the causal triangle: as many queries and keys as wanted, and a window."""

from types import SimpleNamespace

from grader.judging.playing import Grid, Note, Slider, number_tokens, table
from reference.ex05_causal_mask import plain_causal_mask, plain_sliding_window_mask

MOST = 8
CONTROLS = (
    Slider(name="queries", says="Queries (Lq)", low=1, high=MOST, step=1, begin=3),
    Slider(name="keys", says="Keys (Lk)", low=1, high=MOST, step=1, begin=6),
    Slider(name="window", says="Window, in keys; 0 is none", low=0, high=MOST, step=1, begin=0),
)
RIGHT = SimpleNamespace(
    causal_mask=plain_causal_mask, sliding_window_mask=plain_sliding_window_mask
)


def draw(functions, *, queries, keys, window):
    """Return the mask; the own key of each query has a frame."""
    queries, keys, window = int(queries), int(keys), int(window)
    keep = (
        functions.sliding_window_mask(queries, keys, window)
        if window
        else functions.causal_mask(queries, keys)
    )
    shift = keys - queries
    shown = [[1.0 if kept else None for kept in row] for row in keep.tolist()]
    notes = [
        Note(
            says="The queries are the last {queries} of {keys} tokens: query i has the position "
            "i + {shift}, and its own key has a frame.",
            values={"queries": str(queries), "keys": str(keys), "shift": str(shift)},
        )
    ]
    if shift < 0:
        notes = [
            Note(
                says="There are more queries than keys: the first {empty} see nothing, and their "
                "output is 0.",
                values={"empty": str(-shift)},
            )
        ]
    return [
        Grid(
            title="The mask: a filled cell may be attended to",
            rows=number_tokens("query", queries),
            columns=number_tokens("key", keys),
            values=table(shown),
            marked=frozenset((i, i + shift) for i in range(queries) if i + shift >= 0),
            digits=0,
        ),
        *notes,
    ]
