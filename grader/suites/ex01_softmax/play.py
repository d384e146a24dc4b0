"""Plays with softmax: a temperature, and a slider for one score."""

from types import SimpleNamespace

import numpy as np

from grader.judging.playing import SENTENCE, Bars, Note, Slider
from reference.ex01_softmax import plain_softmax_numpy

SCORES = (1.0, 0.0, -1.0, 2.0)
TOKENS = SENTENCE
CONTROLS = (
    Slider(name="score", says="Score of `cat`", low=-6, high=6, step=0.1, begin=0.0),
    Slider(name="temperature", says="Temperature", low=0.1, high=5, step=0.1, begin=1.0),
)
RIGHT = SimpleNamespace(softmax_numpy=plain_softmax_numpy)


def draw(functions, *, score, temperature):
    """Return scores and weights; a temperature divides every score."""
    scores = np.array([SCORES[0], score, *SCORES[2:]])
    weights = functions.softmax_numpy(scores / temperature)
    gap = scores[3] - scores[1]
    return [
        Bars(title="Weights", labels=TOKENS, values=tuple(map(float, weights))),
        Note(
            says="`down` scores {gap} more than `cat`; at temperature {temperature} its weight is "
            "exp({gap} / {temperature}) = {ratio} times as large.",
            values={
                "gap": f"{gap:.1f}",
                "temperature": f"{temperature:.1f}",
                "ratio": f"{np.exp(gap / temperature):.3g}",
            },
        ),
        Note(says="The weights sum to {sum}.", values={"sum": f"{float(weights.sum()):.6f}"}),
    ]
