"""Compares the shapes of a module's parameters with those that a suite expects."""

from collections.abc import Mapping

from grader.judging.agree import expect
from grader.judging.student_calls import StudentObject


def expect_shapes(module: StudentObject, shapes: Mapping[str, tuple[int, ...] | None]) -> None:
    """Pass if every parameter has its shape; None for a parameter that should be None."""
    for (name, right), value in zip(shapes.items(), module.read_each(shapes), strict=True):
        shape = getattr(value, "shape", None)
        got = shape if shape is None else tuple(shape)
        expect(got == right, f"the shape of {name} is {got}, but should be {right}")
