"""A bug hunt: the answer is mended, and the mistake is named."""

from grader.judging import NoDrill, check, drill, expect, passes


@check(points=4)
def test_mended(student, draw, device):
    """The mended answer passes every check of the exercise that it was drawn from."""
    passes(student, _drawn(student).exercise, draw, device)


@check(points=2, needs=[test_mended])
def test_named(student):
    """The mistake that was hidden in it is named."""
    hidden = _drawn(student).mistake
    expect(student.mistake() == hidden, "This is not the mistake that was hidden in it.")


def _drawn(student):
    """The drill that the file says it is."""
    try:
        return drill(student.drill())
    except NoDrill as problem:
        expect(False, str(problem))
