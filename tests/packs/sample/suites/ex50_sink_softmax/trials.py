"""How the softmax with a sink is called on random inputs."""

from torch import float32, float64

from grader.judging import called, trial


@trial(of="sink_softmax")
def with_a_sink(student, draw):
    """Scores of any size, and a sink among them, above or below."""
    dtype = draw.choice(float32, float64)
    sizes = draw.sizes(B=3, L=7)
    scores = draw.normal(sizes["B"], sizes["L"], dtype=dtype, scale=draw.choice(1.0, 100.0))
    sink = draw.choice(0.0, -300.0, 300.0, 1.5)
    yield from called(student.sink_softmax, scores, sink)
