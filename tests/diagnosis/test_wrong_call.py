"""The call that showed an answer wrong is made again: a quick test of a changed answer."""

import numpy as np
import pytest
import torch

from grader.diagnosis.wrong_call import find_wrong_call
from grader.judging.case import LastCall, StudentFault, ValueDifference
from grader.judging.judge import Judge
from reference.ex02_masking import plain_masked_softmax
from tests.diagnosis.test_diagnosis import judged

SLUG = "ex02_masking"


def failing(answer):
    """The first failure of an answer, and its last call."""
    judge = judged(SLUG, masked_softmax=answer)
    failure = judge.failures[0]
    return find_wrong_call(failure.fault, failure.asked, student(right))


def student(answer):
    judge: Judge = judged(SLUG, masked_softmax=answer)
    return judge.student


def doubled(scores, keep):
    return plain_masked_softmax(scores, keep) * 2


def nearly_right(scores, keep):
    return plain_masked_softmax(scores, keep) * 1.9


def right(scores, keep):
    return plain_masked_softmax(scores, keep)


def nothing_there(scores, keep):
    return plain_masked_softmax(scores, keep)[..., :0]


def not_a_number(scores, keep):
    return plain_masked_softmax(scores, keep) * torch.nan


def raising(scores, keep):
    raise KeyError("whatever the input is")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (doubled, doubled, "wrong"),
        (doubled, nearly_right, "wrong"),
        (doubled, right, ""),
        (doubled, nothing_there, "wrong"),
        (doubled, not_a_number, "wrong"),
        (doubled, raising, "KeyError"),
        (not_a_number, not_a_number, "wrong"),
        (not_a_number, right, ""),
        (raising, raising, "KeyError"),
        (raising, doubled, ""),  # which another test refuses
    ],
)
def test_a_change_may_mend_if_it_leaves_less_than_half_of_the_error(before, after, told):
    wrong = failing(before)
    assert wrong is not None
    assert wrong.compare(student(after)) == told


def fault_of(got, exact):
    fault = StudentFault("wrong")
    fault.differs = ValueDifference(
        got=got, exact=exact, wrong=got != exact, subject="weights", call="masked_softmax()"
    )
    return fault


def test_only_a_call_is_made_again_whose_values_were_wrong_and_that_the_solution_makes_rightly():
    exact, twice = np.array([0.2, 0.8]), np.array([0.4, 1.6])
    scores = torch.tensor([0.0, 3.0]).log1p().double()
    asked = LastCall(
        name="masked_softmax", args=(scores, None), kwargs={}, value=(torch.tensor(twice),)
    )
    solution = student(right)
    found = find_wrong_call(fault_of(twice, exact), asked, solution)
    assert found is not None and found.part == 0
    assert find_wrong_call(fault_of(exact, twice), asked, solution) is None  # such as a gradient
    assert find_wrong_call(fault_of(twice, exact), None, solution) is None
    assert find_wrong_call(StudentFault("told otherwise"), asked, solution) is None
    scores += torch.tensor([5.0, 0.0])  # by the check, after the call
    assert find_wrong_call(fault_of(twice, exact), asked, solution) is None
    own = LastCall(name="masked_softmax", args=(object(),), kwargs={}, value=torch.tensor(twice))
    assert find_wrong_call(fault_of(twice, exact), own, solution) is None
