"""Plays with the scale: 1 / sqrt(D) on and off over the width D, and the entropy of the weights."""

import math
from types import SimpleNamespace

import torch

from grader.judging.playing import Bars, Note, Slider, Switch, number_tokens
from reference.ex03_sdpa import plain_attention

KEYS, WIDEST = 8, 10  # as a power of two
CONTROLS = (
    Slider(name="power", says="Width D, as a power of two", low=0, high=WIDEST, step=1, begin=6),
    Switch(name="scaled", says="Divide the scores by sqrt(D)", begin=False),
)
RIGHT = SimpleNamespace(scaled_dot_product_attention=plain_attention)


def draw(functions, *, power, scaled):
    """Return the weights of one query with entries of variance one, and their entropy."""
    width = 2 ** int(power)
    q, k = _vectors(width)
    scale = None if scaled else 1.0
    _, weights = functions.scaled_dot_product_attention(q, k, torch.eye(KEYS), None, scale)
    shown = [float(w) for w in weights[0]]
    entropy = -sum(w * math.log2(w) for w in shown if w > 0)
    scores = (q @ k.mT)[0] / (math.sqrt(width) if scaled else 1.0)
    return [
        Bars(title="Weights", labels=number_tokens("key", KEYS), values=tuple(shown)),
        Note(
            says="D = {width}: the scores have the standard deviation {spread}.",
            values={"width": str(width), "spread": f"{float(scores.std()):.2f}"},
        ),
        Bars(
            title="Entropy of the weights, in bits",
            labels=("entropy",),
            values=(entropy,),
            top=math.log2(KEYS),
        ),
        Note(
            says="Eight equal weights have 3 bits; one key that takes all has 0, and its gradient "
            "vanishes."
        ),
    ]


def _vectors(width):
    """Return one query (1, D) and keys (8, D), the same for each width."""
    drawn = torch.Generator().manual_seed(3)
    q = torch.randn(1, width, generator=drawn)
    return q, torch.randn(KEYS, width, generator=drawn)
