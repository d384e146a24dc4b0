"""Plays with the online softmax: tiles stepped by hand, with the running maximum and sum."""

import math
from types import SimpleNamespace

import torch

from grader.judging.playing import Bars, Grid, Note, Slider, number_tokens
from reference.ex10_online_softmax import plain_online_softmax

SCORES = torch.tensor([1.0, 3.0, 0.0, 2.0, 5.0, 1.0, 4.0, 0.0, 3.0, 2.0, 6.0, 1.0])
CONTROLS = (
    Slider(name="size", says="Keys in a tile", low=1, high=6, step=1, begin=3),
    Slider(name="tiles", says="Tiles read", low=1, high=12, step=1, begin=1),
)
RIGHT = SimpleNamespace(online_softmax=plain_online_softmax)


def draw(functions, *, size, tiles):
    """Return the scores read so far, and maximum and sum after each tile."""
    size = int(size)
    tiles = min(int(tiles), math.ceil(len(SCORES) / size))
    read = min(tiles * size, len(SCORES))
    steps = [
        tuple(map(float, functions.online_softmax(SCORES[: min(n * size, read)], size)))
        for n in range(1, tiles + 1)
    ]
    top, total = steps[-1]
    before = steps[-2] if tiles > 1 else (-math.inf, 0.0)
    shrink = math.exp(before[0] - top)
    return [
        Grid(
            title="Scores; the tile being read has a frame",
            rows=("score",),
            columns=number_tokens("", len(SCORES)),
            values=(tuple(x if n < read else None for n, x in enumerate(SCORES.tolist())),),
            top=6.0,
            marked=frozenset((0, n) for n in range((tiles - 1) * size, read)),
            digits=0,
        ),
        Grid(
            title="After each tile",
            rows=number_tokens("tile", tiles),
            columns=("maximum", "sum"),
            values=tuple(steps),
            top=6.0,
            marked=frozenset({(tiles - 1, 0), (tiles - 1, 1)}),
            digits=3,
        ),
        Note(
            says="The maximum goes from {before} to {top}, so the old sum is multiplied by "
            "exp({before} - {top}) = {shrink} before the new tile is added.",
            values={"before": f"{before[0]:g}", "top": f"{top:g}", "shrink": f"{shrink:.3g}"},
        ),
        Bars(
            title="Weight of the largest score read: 1 / sum",
            labels=("weight",),
            values=(1 / total,),
        ),
    ]
