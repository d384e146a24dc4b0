"""Plays with heads: the numbers of a table move as they are split into heads and merged again."""

from types import SimpleNamespace

import torch

from grader.judging.playing import Block, Blocks, Note, Slider
from reference.ex04_heads import plain_merge_heads, plain_split_heads

LENGTH, WIDTH, GAP = 3, 6, 0.5  # the gap between two heads, in rows
CONTROLS = (
    Slider(
        name="stage", says="Step: 0 together, 1 split, 2 merged", low=0, high=2, step=1, begin=0
    ),
    Slider(name="heads", says="Number of heads", low=1, high=3, step=1, begin=2),
)
RIGHT = SimpleNamespace(split_heads=plain_split_heads, merge_heads=plain_merge_heads)
_NOTES = (
    "x has the shape (1, {length}, {width}): a row for each token. A colour is what becomes a "
    "head.",
    "split_heads gives (1, {heads}, {length}, {depth}): each head has all tokens, and {depth} of "
    "the {width} columns.",
    "merge_heads puts every number back where it was: (1, {length}, {width}).",
)


def draw(functions, *, stage, heads):
    """Return every number as a block, where the functions put it."""
    heads, stage = int(heads), int(stage)
    numbers = torch.arange(LENGTH * WIDTH, dtype=torch.float32).view(1, LENGTH, WIDTH)
    found = numbers[:, None]  # (1, 1, L, E)
    if stage > 0:
        found = functions.split_heads(numbers, heads)
    if stage > 1:
        found = functions.merge_heads(found)[:, None]
    depth = WIDTH // heads
    places = {}
    for head, row, column in torch.cartesian_prod(*map(torch.arange, found.shape[1:])).tolist():
        places[int(found[0, head, row, column])] = (head * (LENGTH + GAP) + row, column)
    blocks = tuple(
        Block(
            label=str(n),
            row=places.get(n, (0.0, 0))[0],
            column=places.get(n, (0.0, 0))[1],
            colour=n % WIDTH // depth,
        )
        for n in range(LENGTH * WIDTH)
    )
    sizes = {"length": LENGTH, "width": WIDTH, "heads": heads, "depth": depth}
    return [
        Note(says=_NOTES[stage], values={name: str(size) for name, size in sizes.items()}),
        Blocks(title="Numbers", blocks=blocks),
    ]
