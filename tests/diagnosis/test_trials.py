"""Trials tell apart what answers do, and not how they are written."""

import pytest
import torch
from torch import nn

from grader.core import catalog
from grader.diagnosis.copied_values import Items
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.diagnosis.trial_run import find_difference, run_trial
from grader.judging import name_raised_kind, parameter_gradients, parameter_shapes, suite_runner
from grader.judging.case import StudentFault
from grader.judging.draw import Draw
from grader.judging.judge import Judge
from grader.judging.student import Student
from grader.worker.parent.in_process import call_without_wall, load_text_without_wall

EXERCISES = [e for e in catalog.list_catalog_exercises() if suite_runner.list_suite_trials(e)]
INPUTS = 6
SLIPS = "raises TypeError", "raises AttributeError"  # of a trial that asks for what cannot cross


class ShapeError(ValueError):
    """An answer's own class."""


class Small(nn.Module):
    """A module whose parameters and buffers have names like those of a GPT."""

    def __init__(self):
        super().__init__()
        self.v = nn.Linear(2, 1)
        self.k = nn.Linear(3, 2, bias=False)
        self.register_buffer("bias", torch.ones(3, 3))

    def forward(self, x):
        return self.v(self.k(x))


def every(values):
    for value in values:
        yield from every(value.items) if isinstance(value, Items) else [value]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)
def test_a_trial_asks_for_nothing_that_cannot_cross_to_the_grader(exercise):
    known = MistakeCatalogue(exercise)
    judge = Judge(known.right, ("trials", exercise.slug))
    for trial in suite_runner.list_suite_trials(exercise):
        for number in range(INPUTS):
            values = run_trial(judge, known.right, trial, number)
            assert values
            assert not [x for x in every(values) if isinstance(x, str) and x in SLIPS], trial.id


def test_an_answers_own_kind_of_value_error_is_a_value_error():
    raised = [ShapeError("7"), ValueError("7"), StudentFault("", kind="ShapeError, a ValueError")]
    assert {name_raised_kind(error) for error in raised} == {"ValueError"}
    assert name_raised_kind(StudentFault("", kind="KeyError")) == "KeyError"
    assert name_raised_kind(StudentFault("")) == "StudentFault"


def test_buffers_and_the_order_of_parameters_are_the_answers_own():
    module = Small()
    assert parameter_shapes(module) == {"k.weight": (2, 3), "v.bias": (1,), "v.weight": (1, 2)}
    x = torch.ones(1, 3)
    found = parameter_gradients(Draw("gradients"), module, x)
    again = parameter_gradients(Draw("gradients"), module, x, without=["v.bias"])
    assert [g.shape for g in found] == [(2, 3), (1,), (1, 2)]
    assert all(torch.equal(a, b) for a, b in zip(again, (found[0], found[2]), strict=True))
    assert found[1].item() != 0


@pytest.mark.parametrize("slug", ["ex04_heads", "ex06_kv_cache", "ex07_mqa_gqa", "ex08_cuda_sdpa"])
def test_a_layer_with_a_buffer_and_with_other_names_inside_passes_the_trials(slug):
    exercise = catalog.find_catalog_exercise(slug)
    text = exercise.solution.read_text(encoding="utf-8").replace(".num_heads", ".heads_of_mine")
    line = "        super().__init__()\n"
    assert line in text
    text = text.replace(line, f'{line}        self.register_buffer("bias", torch.ones(3, 3))\n')
    module = load_text_without_wall(text, slug, exercise.prelude)
    known, student = MistakeCatalogue(exercise), Student(exercise, call_without_wall(module))
    judge = Judge(student, ("trials", slug))
    for trial in suite_runner.list_suite_trials(exercise):
        for number in range(INPUTS):
            wanted = run_trial(judge, known.right, trial, number)
            came = run_trial(judge, student, trial, number)
            assert find_difference(wanted, came) is None, trial.id
