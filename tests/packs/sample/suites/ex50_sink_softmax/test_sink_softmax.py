"""A softmax whose rows need not add up to one."""

import pytest
from torch import float32, float64

from grader.judging import Hard, agree, check, untouched
from reference import ex50_sink_softmax as reference

SHAPES = [(3, 5), (2, 4, 7), (1, 1), (2, 0, 3)]


@check(points=2)
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_values(student, draw, shape, dtype):
    """sink_softmax gives each key its share of the sum that the sink is part of."""
    hard = [*draw.hard(Hard.ONE, B=2, L=5), *draw.hard(Hard.LONG, B=2, L=5)]
    for sizes in (shape, *(s.values() for s in hard)):
        scores, sink = draw.normal(*sizes, dtype=dtype), draw.integer(5, 20) / 10
        weights = untouched(lambda scores=scores, sink=sink: student.sink_softmax(scores, sink))
        agree(weights, reference.sink_softmax(scores, sink))


@check(points=1, needs=[test_values])
def test_far_sink(student, draw):
    """A sink far above the scores, or far below them, and large scores, give no NaN."""
    for sink in (300.0, -300.0):
        scores = draw.normal(3, 5)
        agree(student.sink_softmax(scores, sink), reference.sink_softmax(scores, sink))
    for scores in draw.scores(3, 40).values():
        agree(student.sink_softmax(scores, 1.0), reference.sink_softmax(scores, 1.0))
    scores = 500 * draw.normal(3, 5)
    agree(student.sink_softmax(scores, 1.0), reference.sink_softmax(scores, 1.0))
    draw.hard(Hard.CHANGED)  # the same tensor with other numbers in it
    agree(student.sink_softmax(scores.neg_(), 1.0), reference.sink_softmax(scores, 1.0))
