"""An array, a tensor, a gradient and an error cross once each."""

from grader.judging import backward, check, rejects, same, untouched


@check(points=1)
def test_array(student, draw):
    """twice_numpy doubles an array."""
    x = draw.normal(3, 5).cpu().numpy()
    same(untouched(lambda: student.twice_numpy(x)), 2 * x)


@check(points=1)
def test_tensor(student, draw):
    """twice multiplies a tensor as often as it is told."""
    x = draw.normal(3, 5)
    same(untouched(lambda: student.twice(x, times=4)), 4 * x)


@check(points=1)
def test_gradient(student, draw):
    """Gradients flow through twice."""
    x, upstream = draw.normal(3, 5).requires_grad_(), draw.normal(3, 5)
    (gradient,) = backward(student.twice(x), x, upstream=upstream)
    same(gradient, 2 * upstream)


@check(points=1)
def test_error(student, draw):
    """twice refuses 0 times, and says so."""
    x = draw.normal(3, 5)
    rejects(lambda: student.twice(x, times=0), 0)
