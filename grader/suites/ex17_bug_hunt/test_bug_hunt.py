"""A bug hunt: the answer is mended, and the mistake is named."""

from grader.judging import NoDrill, check, choices, drill, expect, mended_in_place, passes


@check(points=4)
def test_mended(student, draw, device):
    """The drill is mended where it is wrong, and passes every check of its exercise."""
    drawn = _drawn(student)[1]
    passes(student, drawn.exercise, draw, device)
    mended_in_place(student, drawn)


@check(points=2, needs=[test_mended])
def test_named(student):
    """The mistake that was hidden in it is named."""
    number, drawn = _drawn(student)
    name = student.mistake()
    expect(
        name in {m.id for m in choices(number)},
        f"This is none of the names to choose from in {number}: return one, letter for letter.",
    )
    expect(name == drawn.mistake, "This is not the mistake that was hidden in it.")


def _drawn(student):
    """The name of the drill that the file says it is, and that drill."""
    number = student.drill()
    try:
        return number, drill(number)
    except NoDrill as problem:
        expect(False, str(problem))
