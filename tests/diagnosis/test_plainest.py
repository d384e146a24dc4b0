"""Of the failing cases of a check the plainest is shown, and few more cases run for that."""

from dataclasses import replace

import pytest
import torch

from grader.authoring.mutants import load_solution_to_prove
from grader.core import catalog
from grader.core.diagnosis_records import Diagnosis, PinnedLine, WrongPlaces
from grader.diagnosis import pinned_line, plainest
from grader.judging.agree import agree
from grader.judging.case import StudentFault, ValueDifference
from grader.judging.judge import Judge
from grader.judging.marks import Check, CheckCase
from grader.judging.student import Student
from grader.worker.parent.in_process import call_without_wall
from reference.expected import Expected

EXERCISE = catalog.find_catalog_exercise("ex02_masking")
CHECK = Check(id="test_x", says="It is right.", points=1, needs=(), cuda=False)
HALF, SINGLE, DOUBLE = torch.float16, torch.float32, torch.float64


def judged(answer, *inputs):
    """Judge an answer to `masked_softmax` by one case for each (dtype, shape, share kept)."""
    module = load_solution_to_prove(EXERCISE)
    module.masked_softmax = answer
    asked = []

    def check(student, draw, number):
        asked.append(number)
        dtype, shape, share = inputs[number]
        keep = torch.ones(shape).bool() if share == 1 else torch.zeros(shape).bool()
        scores = draw.normal(*shape, dtype=dtype)
        right = torch.softmax(scores.float(), -1).where(keep, 0.0).to(dtype)
        agree(student.masked_softmax(scores, keep), Expected(right.double().numpy(), right, 1.0))

    cases = [CheckCase(name=f"test_x[{n}]", check=CHECK, function=check, params={"number": n})
             for n in range(len(inputs))]  # fmt: skip
    judge = Judge(Student(EXERCISE, call_without_wall(module)), ("plain",))
    judge.run(cases)
    return judge, asked


def halved(scores, keep):
    return torch.softmax(scores.float(), -1).to(scores.dtype) / 2


@pytest.mark.parametrize(
    "inputs, shown",
    [
        ([(HALF, (2, 3), 1), (SINGLE, (2, 3), 1)], 1),
        ([(HALF, (2, 3), 1), (DOUBLE, (2, 3), 1), (SINGLE, (20, 30), 1)], 2),
        ([(SINGLE, (20, 30), 1), (SINGLE, (7, 9), 1), (SINGLE, (9, 9), 1)], 1),
        ([(SINGLE, (2, 3), 1), (HALF, (1, 2), 1)], 0),
    ],
)
def test_the_plainest_failing_case_is_shown(inputs, shown):
    judge, _ = judged(halved, *inputs)
    found = plainest.find_plainest_failures(judge)["test_x"]
    assert found.case.name == f"test_x[{shown}]"
    [check] = plainest.show_plainest_failures(EXERCISE, judge.results(), {"test_x": found})
    assert (check.why, check.where) == (str(found.fault), str(shown))


def test_a_case_that_passes_is_not_shown():
    def wrong_in_half(scores, keep):
        return torch.softmax(scores, -1) / (2 if scores.dtype == HALF else 1)

    judge, _ = judged(wrong_in_half, (HALF, (2, 3), 1), (SINGLE, (2, 3), 1))
    assert plainest.find_plainest_failures(judge)["test_x"] is judge.failures[0]


def test_few_more_cases_run_however_many_there_are():
    judge, asked = judged(halved, *[(HALF, (2, 3), 1)] * 20)
    asked.clear()
    plainest.find_plainest_failures(judge)
    assert asked == list(range(1, 1 + plainest.MAX_MORE_CASES))


@pytest.mark.parametrize("error", [NotImplementedError(), ValueError("no answer within 10 s")])
def test_nothing_more_runs_for_what_is_not_written_or_hangs(error):
    def raising(scores, keep):
        raise error

    judge, asked = judged(raising, *[(HALF, (2, 3), 1)] * 3)
    asked.clear()
    plainest.find_plainest_failures(judge)
    assert asked == []


def test_an_error_of_the_suite_in_a_further_case_changes_no_verdict():
    judge, _ = judged(halved, (HALF, (2, 3), 1), (SINGLE, "no shape", 1))
    assert plainest.find_plainest_failures(judge)["test_x"] is judge.failures[0]


def fault(call, subject="out"):
    one = StudentFault("wrong")
    one.differs = ValueDifference(got=0, exact=1, wrong=True, subject=subject, call=call)
    return one


def test_calls_are_ordered_from_plain_to_fancy():
    calls = [
        fault("f(float32 (3,))"),
        fault("f(float32 (2, 3), scale=0.5)"),
        fault("f(float32 (2, 3, 17, 16))"),
        fault("f(float32 (2, 3), bool (3,))"),
        fault("f(float32 (2, 3))", "gradient of input 1"),
        fault("f(float64 (2, 3))"),
        fault("f(bfloat16 (2, 3))"),
        fault("f(float32 (2, 3), device='meta')"),
    ]
    measured = [plainest.measure_plainness(one, "") for one in calls]
    assert measured == sorted(measured)
    assert len(set(measured)) == len(measured)


def test_a_line_that_is_pinned_in_another_case_tells_no_shape_of_it(monkeypatch):
    judge, _ = judged(halved, (HALF, (2, 3), 1), (SINGLE, (2, 3), 1))
    pinned = PinnedLine(line=3, name="x", got=(3, 5), right=(3, 5))
    monkeypatch.setattr(pinned_line, "_has_traced_call_returned", lambda fault: True)
    monkeypatch.setattr(
        pinned_line, "find_pinned_line", lambda _, f, j: pinned if f is j.failures[0] else None
    )
    shown = plainest.find_plainest_failures(judge)
    [check] = pinned_line.add_pinned_lines(EXERCISE, judge.results(), shown, judge)
    assert check.diagnosis.pinned == PinnedLine(line=3, name="", got=(), right=None)


def test_the_wrong_places_are_those_of_the_case_that_is_shown():
    judge, _ = judged(halved, (HALF, (2, 3), 1), (SINGLE, (2, 3), 1))
    [check] = judge.results()
    old = Diagnosis(places=(WrongPlaces(axis="row", wrong=(1,), size=2),))
    [shown] = plainest.show_plainest_failures(
        EXERCISE, [replace(check, diagnosis=old)], plainest.find_plainest_failures(judge)
    )
    assert shown.diagnosis.places == ()  # everything is wrong there
