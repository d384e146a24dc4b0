"""`make diagnose-trial`: which wrong answers are tried, and how what a report says is classed."""

import io

import pytest
from rich.console import Console
from typer.testing import CliRunner

from grader.authoring import feedback_command, feedback_run
from grader.authoring.feedback_answers import (
    WrongAnswer,
    find_changed_block,
    list_changed_answers,
    list_paired_answers,
)
from grader.authoring.feedback_class import FeedbackClass, classify_feedback
from grader.authoring.feedback_run import FeedbackSample, FeedbackTrial
from grader.authoring.feedback_truth import NameTruth
from grader.authoring.feedback_written import list_written_answers
from grader.authoring.side_by_side import TrialValues
from grader.cli.app import app
from grader.core import catalog
from grader.core.diagnosis_records import Diagnosis, NamedMistake, PinnedLine, Stage
from grader.core.records import CheckResult, Verdict
from grader.diagnosis.coarse_values import is_single_precision
from grader.judging import suite_runner
from grader.judging.contract import RETURNS_NOTHING

EXERCISE = catalog.find_catalog_exercise("ex01_softmax")
INPUTS = 24
WRITTEN = '''
from __future__ import annotations

import numpy as np
import torch

from tests.diagnosis.written import wrong


@wrong(of="softmax", mistakes=1)
def whole_sum(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """The powers are divided by the sum of all of them."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    powers = torch.exp(wide - wide.amax(dim, keepdim=True))
    return (powers / powers.sum()).to(x.dtype)


@wrong(of="softmax_numpy", mistakes=2)
def two(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """The maximum is not subtracted.

    float16 is not raised.
    """
    powers = np.exp(x)
    return powers / powers.sum(axis=axis, keepdims=True)


def helper():
    """No answer."""
'''


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    (folder / EXERCISE.file).write_text(WRITTEN, encoding="utf-8")
    return list_written_answers(EXERCISE, folder)


@pytest.fixture(scope="module")
def truth():
    trials = suite_runner.list_suite_trials(EXERCISE)
    return NameTruth(EXERCISE, [t for t in trials if not t.id.startswith("long_")], INPUTS)


def failed(*names, **more):
    """A failed check in a report that names these mistakes."""
    mistakes = tuple(NamedMistake(id=name, says="", mend="") for name in names)
    found = {"why": "out[0] is 1, but should be 2\n1 of 2 entries differ.", **more}
    parts = {part: found.pop(part) for part in ("stage", "pinned") if part in found}
    diagnosis = Diagnosis(mistakes=mistakes, together=found.pop("together", False), **parts)
    return CheckResult(
        id="test_values", says="", verdict=Verdict.FAILED, points=1, diagnosis=diagnosis, **found
    )


def changed(old, new):
    """The solution with an edit of its text."""
    text = EXERCISE.solution.read_text(encoding="utf-8")
    assert text.count(old) == 1
    return text.replace(old, new)


def no_maximum():
    return changed("torch.exp(wide - wide.amax(dim=dim, keepdim=True))", "torch.exp(wide)")


def whole_sum():
    return changed("powers.sum(dim=dim, keepdim=True)", "powers.sum()")


def single(source, **more):
    return WrongAnswer(id="one", says="", mistakes=1, source=source, **more)


def test_written_answers_take_the_place_of_the_solutions_definition(written):
    assert [(a.id, a.mistakes) for a in written] == [("whole_sum", 1), ("two", 2)]
    assert "softmax: The powers are divided" in written[0].says
    assert "def softmax(x: torch.Tensor" in written[0].source.rpartition("import torch")[2]
    assert "wrong" not in written[0].source.rpartition("import torch")[2]


def test_a_sample_is_the_same_at_every_call():
    ids = [[a.id for a in list_changed_answers(EXERCISE, 5, seed)] for seed in ("1", "1", "2")]
    assert ids[0] == ids[1] != ids[2]
    assert len(list_changed_answers(EXERCISE, None, "1")) > 50


def test_a_pair_has_both_changes_and_knows_their_lines():
    for answer in list_paired_answers(EXERCISE, 10, "1"):
        lines = [answer.source.splitlines()[n - 1].strip() for n in answer.lines]
        for text in answer.says.split("; "):
            wanted = "pass" if text.endswith("(removed)") else text
            assert any(wanted.endswith(line) for line in lines), answer
        assert len(answer.parts) == 2


@pytest.mark.parametrize(
    "wrong, numbers", [("a\nx\nc\n", (2,)), ("a\nx\ny\nc\n", (2, 3)), ("a\nc\n", (2,))]
)
def test_changed_lines_are_found(wrong, numbers):
    assert find_changed_block("a\nb\nc\n", wrong).numbers() == numbers


def test_a_name_that_equals_the_answer_is_true(truth):
    checks = [failed("summed_over_everything")]
    assert classify_feedback(single(whole_sum()), checks, truth) == (FeedbackClass.NAMED, ())


def test_a_name_that_explains_what_fails_and_fails_elsewhere_is_near(truth):
    right = "powers.sum(dim=dim, keepdim=True)"
    answer = single(changed(right, f"(powers.sum() if x.dtype is not torch.float64 else {right})"))
    checks = [failed("summed_over_everything")]
    assert classify_feedback(answer, checks, truth) == (FeedbackClass.NEAR, ())


def test_a_name_that_differs_is_false_with_an_input(truth):
    kind, [false] = classify_feedback(single(whole_sum()), [failed("wrong_axis")], truth)
    assert kind is FeedbackClass.FALSE
    assert "softmax(" in false.told.calls


def test_one_false_name_among_true_ones_makes_a_report_false(truth):
    checks = [failed("summed_over_everything"), failed("wrong_axis")]
    assert classify_feedback(single(whole_sum()), checks, truth)[0] is FeedbackClass.FALSE


def test_of_two_that_are_not_told_apart_one_is_enough(truth):
    checks = [failed("wrong_axis", "summed_over_everything")]
    assert classify_feedback(single(whole_sum()), checks, truth)[0] is FeedbackClass.NAMED


def test_a_name_of_a_function_that_is_right_is_false(truth):
    checks = [failed("global_maximum_numpy")]
    assert classify_feedback(single(whole_sum()), checks, truth)[0] is FeedbackClass.FALSE


def test_nan_beside_a_named_mistake_may_be_another_one_but_not_all_of_it(truth):
    for nan, kind in [
        ("x.numel() % 2", FeedbackClass.NAMED), ("True", FeedbackClass.FALSE),
    ]:  # fmt: skip
        factor = f"(float('nan') if {nan} else 1.0)"
        source = whole_sum().replace("powers.sum()", f"powers.sum() * {factor}")
        checks = [failed("summed_over_everything")]
        assert classify_feedback(single(source), checks, truth)[0] is kind


def test_where_the_answer_is_right_float32_may_round_otherwise(truth, monkeypatch):
    run = truth._run(EXERCISE.solution.read_text(encoding="utf-8"), {"softmax"})
    right = [one for one in run.inputs if one not in run.failing]
    told = TrialValues(trial="", number=0, calls="", elements=1, why="")
    single_precision = [is_single_precision(run.side.right_values(*one)[0]) for one in right]
    assert {True, False} == set(single_precision)
    same, other = (
        truth._load(run.source),
        truth._load(no_maximum().replace("/ powers", "/ 3 / powers")),
    )
    seen = set()
    for one, rounds in zip(right, single_precision, strict=True):
        monkeypatch.setattr(truth._right, "list_differences", lambda *_, one=one: {one: told})
        assert truth._find_wrong_beside(run, same) is (None if rounds else told)
        seen.add((rounds, truth._find_wrong_beside(run, other)))
    assert (True, told) in seen  # other numbers are wrong in float32 too


def test_a_name_is_true_of_a_pair_if_it_is_of_one_change_alone(truth):
    parts = no_maximum(), whole_sum()
    both = whole_sum().replace(
        "torch.exp(wide - wide.amax(dim=dim, keepdim=True))", "torch.exp(wide)"
    )
    answer = WrongAnswer(id="two", says="", mistakes=2, source=both, parts=parts)
    assert (
        classify_feedback(answer, [failed("summed_over_everything")], truth)[0]
        is FeedbackClass.NAMED
    )
    assert classify_feedback(answer, [failed("wrong_axis")], truth)[0] is FeedbackClass.FALSE


def test_two_names_at_once_must_both_be_true(truth):
    sums = changed("powers.sum(dim=dim, keepdim=True)", "powers.sum()")
    both = sums.replace(
        "powers.sum(axis=axis, keepdims=True)", "powers.sum(axis=-1, keepdims=True)"
    )
    both = both.replace("wide.max(axis=axis, keepdims=True)", "wide.max(axis=-1, keepdims=True)")
    names = ("summed_over_everything", "axis_ignored_numpy")
    found = classify_feedback(single(both), [failed(*names, together=True)], truth)
    assert found == (FeedbackClass.NAMED, ())
    alone = classify_feedback(single(sums), [failed(*names, together=True)], truth)
    assert alone[0] is FeedbackClass.FALSE


def test_a_name_for_one_of_two_written_mistakes_is_near_if_no_other_makes_the_answer(
    truth, written
):
    [kind, _] = classify_feedback(written[1], [failed("axis_ignored_numpy")], truth)
    assert kind is FeedbackClass.NEAR


def test_a_name_for_one_of_two_written_mistakes_is_true_if_another_makes_the_answer(truth):
    source = changed("np.exp(", "np.exp2(").replace(
        "powers.sum(axis=axis, keepdims=True)", "powers.sum()"
    )
    answer = WrongAnswer(id="two", says="", mistakes=2, source=source)
    for name, kind in [
        ("powers_of_two", FeedbackClass.NAMED),
        ("axis_ignored_numpy", FeedbackClass.NEAR),
    ]:
        assert classify_feedback(answer, [failed(name)], truth)[0] is kind


def test_a_sentence_that_says_what_is_missing_counts(truth):
    answer = single("", lines=(7,), missing=("Nothing sets top: ",))
    for name, kind in [("top", FeedbackClass.TOLD), ("q", FeedbackClass.HELPED)]:
        check = failed(why=f"NameError: name\nNothing sets {name}: give it a value.")
        assert classify_feedback(answer, [check], truth) == (kind, ())


def test_what_is_missing_is_known_of_removed_statements_and_refusals():
    heads = list_changed_answers(catalog.find_catalog_exercise("ex04_heads"), None, "1")
    never = [a for a in heads if "if width % num_heads: -> if False:" in a.says]
    assert "but should raise ValueError" in never[0].missing
    answers = list_changed_answers(EXERCISE, None, "1")
    missing = {text for a in answers for text in a.missing}
    assert {
        "Nothing sets powers: ",
        RETURNS_NOTHING,
        "No line of softmax returns a value",
    } <= missing
    assert all(a.says.endswith("(removed)") for a in answers if a.missing)


@pytest.mark.parametrize(
    "more, kind",
    [
        ({"line": 7}, FeedbackClass.PINNED),
        ({"line": 8}, FeedbackClass.PINNED),
        ({"line": 9}, FeedbackClass.HELPED),
        ({"pinned": PinnedLine(line=6, name="weights", got=())}, FeedbackClass.PINNED),
        ({"pinned": PinnedLine(line=4, name="weights", got=())}, FeedbackClass.HELPED),
        ({"stage": Stage(name="mask")}, FeedbackClass.HELPED),
        ({"why": "out.dtype is float64, but should be float32"}, FeedbackClass.HELPED),
        ({}, FeedbackClass.NOTHING),
    ],
)
def test_without_a_name_a_line_a_stage_or_a_sentence_counts(truth, more, kind):
    answer = single("", lines=(7,))
    assert classify_feedback(answer, [failed(**more)], truth) == (kind, ())


def test_a_whole_report_is_classed(written, truth, monkeypatch):
    for name in (
        "DIAGNOSIS_SECONDS",
        "NAMING_SECONDS",
        "SINGLE_SECONDS",
        "PAIR_SECONDS",
    ):  # on a busy machine too
        monkeypatch.setattr(f"grader.diagnosis.time_limit.{name}", 60.0)
    trial = FeedbackTrial(EXERCISE, truth)
    one = trial.try_answer(written[0])
    assert (one.kind, one.skipped) == (FeedbackClass.NAMED, "")
    assert "summed_over_everything" in one.named
    assert one.diagnosed > 0
    right = trial.try_answer(single(EXERCISE.solution.read_text(encoding="utf-8")))
    assert (right.kind, right.skipped) == (None, "no check fails")
    broken = trial.try_answer(single("1 / 0"))
    assert broken.skipped == "loading it raises ZeroDivisionError: division by zero"


def test_an_exception_is_pinned_to_its_line(truth, monkeypatch):
    """Its line is told whether there is time for a diagnosis or not."""
    monkeypatch.setattr("grader.diagnosis.time_limit.DIAGNOSIS_SECONDS", -1.0)
    text = changed("powers.sum(dim=dim, keepdim=True)", "powers.total()")
    [number] = [n for n, line in enumerate(text.splitlines(), 1) if "powers.total()" in line]
    one = FeedbackTrial(EXERCISE, truth).try_answer(single(text, lines=(number,)))
    assert (one.kind, one.lines, one.misplaced) == (FeedbackClass.PINNED, (number,), False)
    other = FeedbackTrial(EXERCISE, truth).try_answer(single(text, lines=(number + 2,)))
    assert (other.kind, other.misplaced) == (FeedbackClass.HELPED, True)


def test_code_that_does_not_end_is_skipped(monkeypatch, truth):
    monkeypatch.setattr(feedback_run, "JUDGING_SECONDS", 1.0)
    text = changed("weights = powers / powers.sum(dim=dim, keepdim=True)", "while True: pass")
    assert FeedbackTrial(EXERCISE, truth).try_answer(single(text)).skipped == "does not end"


def test_the_command_prints_a_table_and_the_answers_of_a_class(monkeypatch):
    console = Console(file=io.StringIO(), width=200)
    sample = FeedbackSample(changes=2, pairs=1, written=False, inputs=INPUTS)
    feedback_command.print_feedback_trial(
        [EXERCISE], sample, console, listed=set(FeedbackClass) | {None}, processes=1
    )
    printed = console.file.getvalue()
    assert printed.count(": ex01_softmax change-") == 2
    assert printed.count(": ex01_softmax changes-") == 1
    assert [line.split()[0] for line in printed.splitlines() if "%" in line[:2]] == ["%", "%"]
    assert "Diagnosis took" in printed


@pytest.mark.parametrize("option", [["--changes", "many"], ["--list", "wonderful"]])
def test_a_wrong_option_is_a_sentence(option):
    done = CliRunner().invoke(app, ["diagnose-trial", "ex01", *option])
    assert done.exit_code == 2
    assert option[1] in done.output and "write" in done.output
