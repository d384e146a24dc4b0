"""Checks, cases and verdicts: what is passed, failed, blocked, not run, and a grader fault."""

import re
from dataclasses import replace

import pytest
import torch

from grader.authoring.mutants import load_solution_to_prove, run_suite_on_mutant
from grader.core import catalog
from grader.core.errors import GraderFault
from grader.core.records import Verdict
from grader.judging import suite_runner
from grader.judging.judge import Judge
from grader.judging.student import Student
from grader.worker.parent.in_process import call_without_wall
from tests.conftest import solution as text
from tests.worker.asking import worker

SUITE = '''
import pytest
from grader.judging import agree, check, expect

@check(points=1)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_first(student, draw, n):
    """First."""
    expect({first}, f"case {{n}} is wrong")

@check(points=2, needs=[test_first])
def test_second(student, draw):
    """Second."""
    {second}

@check(points=3, needs=[test_second])
def test_third(student, draw):
    """Third."""

@check(points=4, needs=[test_first], cuda=True)
def test_on_cuda(student, draw):
    """On CUDA."""

@check(points=5)
def test_other(student, draw):
    """Other."""
    {other}
'''


@pytest.fixture
def verdicts(tmp_path):
    def run(first: str = "True", second: str = "pass", other: str = "pass", text: str = SUITE):
        (tmp_path / "test_made_up.py").write_text(
            text.format(first=first, second=second, other=other)
        )
        exercise = replace(catalog.find_catalog_exercise("ex01_softmax"), folder=tmp_path)
        student = Student(exercise, call_without_wall(load_solution_to_prove(exercise)))
        return {c.id: c for c in suite_runner.run_suite_checks(exercise, Judge(student, ("seed",)))}

    return run


def test_what_holds_is_passed_and_what_needs_cuda_is_not_run(verdicts):
    found = verdicts()
    assert [c.verdict for c in found.values()] == [
        *[Verdict.PASSED] * 3, Verdict.NOT_RUN, Verdict.PASSED,
    ]  # fmt: skip
    assert found["test_on_cuda"].why == "needs CUDA"
    assert [c.earned for c in found.values()] == [1, 2, 3, 0, 5]


def test_one_wrong_case_fails_the_check_and_blocks_what_needs_it(verdicts):
    found = verdicts(first="n != 2")
    assert found["test_first"].verdict is Verdict.FAILED
    assert found["test_first"].why == "case 2 is wrong"
    assert found["test_first"].where == "2"
    assert found["test_second"].verdict is Verdict.BLOCKED
    assert found["test_second"].why == "First."
    assert found["test_third"].verdict is Verdict.BLOCKED
    assert found["test_other"].verdict is Verdict.PASSED
    assert found["test_on_cuda"].verdict is Verdict.NOT_RUN


def test_a_blocked_check_is_not_asked(verdicts):
    found = verdicts(first="n != 2", second='expect(False, "asked all the same")')
    assert found["test_second"].verdict is Verdict.BLOCKED


def test_an_error_of_ours_is_a_grader_fault(verdicts):
    found = verdicts(other="{}['missing']")
    assert found["test_other"].verdict is Verdict.GRADER_FAULT
    assert "KeyError" in found["test_other"].why
    assert "test_made_up.py" in found["test_other"].why


def test_a_bare_assertion_is_a_grader_fault(verdicts):
    assert verdicts(other="assert False")["test_other"].verdict is Verdict.GRADER_FAULT


@pytest.mark.parametrize(
    "text, says",
    [
        ("import nothing_such", "No module named 'nothing_such'"),
        ("", "pytest ended with"),
        ("def test_bare(student): pass", "has no @check"),
    ],
)
def test_a_broken_suite_is_a_grader_fault(verdicts, text, says):
    with pytest.raises(GraderFault, match=says):
        verdicts(text=text)


@pytest.mark.parametrize(
    "error, says",
    [
        (GraderFault("the suite cannot be run"), r"the suite cannot be run"),
        (ZeroDivisionError("a hole"), r"ZeroDivisionError: a hole \(test_judge.py:\d+\)"),
    ],
)
def test_a_grader_fault_leaves_no_score(graded, monkeypatch, error, says):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(suite_runner, "run_suite_checks", broken)
    report = graded("ex01_softmax", text("ex01_softmax"))
    assert report.state == "fault"
    assert report.score is None
    assert re.fullmatch(says, report.sentence)


def test_the_names_that_a_check_called_are_known():
    exercise = catalog.find_catalog_exercise("ex01_softmax")
    calls = {c.id: c.calls for c in run_suite_on_mutant(exercise, load_solution_to_prove(exercise))}
    assert calls["test_numpy_values"] == {"softmax_numpy"}
    assert calls["test_gradient"] == {"softmax"}


def test_a_student_that_declares_no_such_name_is_our_mistake():
    exercise = catalog.find_catalog_exercise("ex01_softmax")
    with pytest.raises(AttributeError, match="declares no 'sofmax'"):
        Student(exercise, call_without_wall(load_solution_to_prove(exercise))).sofmax  # noqa: B018


def test_pytorchs_own_gradcheck_passes_through_the_door(nursery):
    exercise = catalog.find_catalog_exercise("ex01_softmax")
    with worker(nursery, text("ex01_softmax")) as (client, _):
        softmax = Student(exercise, client).softmax
        # It moves one entry after the other, and last the largest one, which the graph of the
        # first call knows as the maximum.
        x = torch.tensor([[2.0, 1, 0], [0, 1, 2]], dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(softmax, x)


def test_a_kept_fault_holds_no_values_of_its_case(tmp_path):
    text = SUITE.format(first="True", second="pass", other="expect(False, 'wrong')")
    (tmp_path / "test_made_up.py").write_text(text)
    exercise = replace(catalog.find_catalog_exercise("ex01_softmax"), folder=tmp_path)
    student = Student(exercise, call_without_wall(load_solution_to_prove(exercise)))
    judge = Judge(student, ("seed",))
    suite_runner.run_suite_checks(exercise, judge)
    asked = judge.ask(student, judge.failures[0].case)
    for fault in (judge.failures[0].fault, asked):
        assert str(fault) == "wrong"
        assert fault.__traceback__ is None
