"""The lessons' numbers are what the solutions give."""

import doctest
import re

import numpy as np
import pytest
import torch

from grader.authoring import mutants
from grader.core import catalog
from grader.submission import solution_text
from tests.conftest import solution

EXERCISES = [e for e in catalog.list_catalog_exercises() if not e.draft]
each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)


@each
def test_the_worked_examples_come_out_as_written(exercise):
    names = {"np": np, "torch": torch} | vars(mutants.load_solution_to_prove(exercise))
    prose = [
        c.text for c in solution_text.split_cells(solution(exercise.slug)) if c.kind == "markdown"
    ]
    blocks = re.findall(r"```pycon\n(.*?)```", "\n".join(prose), re.DOTALL)
    assert blocks
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), names, exercise.slug, None, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


@each
def test_the_opening_says_what_a_lesson_must_say(exercise):
    opening = " ".join(solution_text.split_cells(solution(exercise.slug))[0].text.split())
    for heading in ("The question", "The formula", "The shapes", "By hand", "The traps",
                    "What is graded", "Out of scope", "Not allowed"):  # fmt: skip
        assert f"**{heading}" in opening, heading
    assert f"{exercise.minutes} minutes" in opening
