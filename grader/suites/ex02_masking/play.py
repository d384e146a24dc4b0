"""Plays with masks: a painted one, and the softmax that gives hidden keys nothing."""

from types import SimpleNamespace

import torch

from grader.judging.playing import Grid, Note, Painted, number_tokens, table
from reference.ex02_masking import plain_masked_softmax

SIZE = 5
SCORES = torch.tensor(
    [
        [0.5, 1.5, -0.5, 0.0, 1.0],
        [2.0, 0.0, 1.0, -1.0, 0.5],
        [0.0, 0.5, 1.0, 1.5, 2.0],
        [1.0, 1.0, 1.0, 1.0, 1.0],
        [-1.0, 2.0, 0.0, 1.0, 0.5],
    ],
    dtype=torch.float64,
)
CONTROLS = (
    Painted(
        name="keep",
        says="The mask: a filled cell may be attended to",
        begin=tuple(tuple(key <= query for key in range(SIZE)) for query in range(SIZE)),
    ),
)
RIGHT = SimpleNamespace(masked_softmax=plain_masked_softmax)


def draw(functions, *, keep):
    """Return the weights under a mask, and say what an empty row gives."""
    mask = torch.tensor(keep)
    weights = functions.masked_softmax(SCORES, mask)
    shown = [
        [value if kept else None for value, kept in zip(*pair, strict=True)]
        for pair in zip(weights.tolist(), keep, strict=True)
    ]
    empty = [str(row) for row in range(SIZE) if not any(keep[row])]
    notes = [
        Note(
            says="Row {rows}: every key is hidden, so all weights are 0, and none is NaN.",
            values={"rows": ", ".join(empty)},
        )
    ] * bool(empty)
    return [
        Grid(
            title="Weights",
            rows=number_tokens("query", SIZE),
            columns=number_tokens("key", SIZE),
            values=table(shown),
        ),
        Note(says="What is hidden gets exactly 0; the other keys of a row share the 1."),
        *notes,
    ]
