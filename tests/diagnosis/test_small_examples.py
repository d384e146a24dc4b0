"""The smallest call that still goes wrong is found, and written so that it can be done by hand."""

import math

import numpy as np
import pytest
import torch

from grader.authoring.mutants import load_solution_to_prove
from grader.core import catalog
from grader.core.diagnosis_records import SmallExample
from grader.core.records import CheckResult, Verdict
from grader.diagnosis import small_examples, small_inputs
from grader.judging import suite_runner
from grader.judging.judge import Judge
from grader.judging.student import Student
from grader.worker.parent.in_process import call_without_wall
from tests.conftest import solution


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def student(exercise, **names):
    module = load_solution_to_prove(exercise)
    for name, answer in names.items():
        setattr(module, name, answer)
    return Student(exercise, call_without_wall(module, exercise.prelude))


def examples(slug, only=(), **names):
    """The examples of an answer with other functions in it, in the order of its failed checks."""
    exercise = catalog.find_catalog_exercise(slug)
    judge = Judge(student(exercise, **names), ("small", slug))
    checks = suite_runner.run_suite_checks(exercise, judge, frozenset(only))
    failures = {f.check: f for f in judge.failures}
    assert failures
    found = small_examples.add_small_examples(
        exercise, checks, failures, judge.student, student(exercise)
    )
    return [c.diagnosis.example for c in found if c.diagnosis and c.diagnosis.example]


def attention(
    soft=lambda s: torch.softmax(s, -1), masked=lambda s, keep: s.masked_fill(~keep, -torch.inf)
):
    def function(q, k, v, keep=None, scale=None):
        s = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
        weights = soft(s if keep is None else masked(s, keep)).nan_to_num()
        return weights @ v, weights

    return function


def numbers(text):
    return np.array(eval(text))  # what this project has written


def test_a_softmax_without_its_division_goes_wrong_for_one_score():
    [found] = examples(
        "ex01_softmax", softmax=lambda x, dim=-1: torch.exp(x - x.amax(dim, True)) / 2
    )
    assert found == SmallExample(
        inputs=(("x", found.inputs[0][1]),), name="weights", got="[0.5]", right="[1]"
    )


def test_what_needs_two_keys_to_go_wrong_is_shown_with_two():
    [found] = examples(
        "ex03_sdpa", ["test_values"],
        scaled_dot_product_attention=attention(soft=lambda s: torch.softmax(-s, -1)),
    )  # fmt: skip
    inputs = {name: numbers(text) for name, text in found.inputs}
    assert {name: x.shape for name, x in inputs.items()} == {"q": (1, 1), "k": (2, 1), "v": (2, 1)}
    assert all((x == x.round()).all() for x in inputs.values())
    scores = inputs["q"] @ inputs["k"].T
    weights = np.exp(scores) / np.exp(scores).sum()
    assert found.name == "output"
    assert numbers(found.right) == pytest.approx(weights @ inputs["v"], abs=1e-3)
    assert numbers(found.got) != pytest.approx(numbers(found.right), abs=1e-3)


def test_scores_of_an_example_are_as_far_from_0_as_is_promised_and_no_farther():
    [found] = examples(
        "ex03_sdpa", ["test_scale"],
        scaled_dot_product_attention=attention(
            soft=lambda s: s.exp() / s.exp().sum(-1, keepdim=True)
        ),
    )  # fmt: skip
    inputs = {name: numbers(text) for name, text in found.inputs}
    scores = inputs["q"] @ inputs["k"].T * inputs.get("scale", inputs["q"].shape[-1] ** -0.5)
    assert 80 < np.abs(scores).max() <= 3e4


def test_a_mask_is_shown_only_where_it_is_needed():
    [found] = examples(
        "ex03_sdpa", ["test_mask"],
        scaled_dot_product_attention=attention(masked=lambda s, keep: s),
    )  # fmt: skip
    assert [name for name, _ in found.inputs] == ["q", "k", "v", "keep"]
    assert "False" in dict(found.inputs)["keep"]
    [plain, *_] = examples(
        "ex03_sdpa", ["test_mask", "test_values"],
        scaled_dot_product_attention=attention(soft=lambda s: torch.softmax(s, -1) * 0.5),
    )  # fmt: skip
    assert [name for name, _ in plain.inputs] == ["q", "k", "v"]


def test_arrays_rows_and_whole_numbers_are_drawn_as_well():
    [found] = examples("ex01_softmax", softmax_numpy=lambda x, axis=-1: np.exp(x) / 8)
    assert numbers(found.right).sum(-1) == pytest.approx(1)
    [rows, *_] = examples(
        "ex00_plain_python", row_softmax=lambda rows: [[math.exp(x) for x in r] for r in rows]
    )
    assert rows.right == "[[1]]"
    [mask, *_] = examples(
        "ex05_causal_mask", causal_mask=lambda q, k, device=None: torch.ones(q, k).tril(1).bool()
    )
    assert mask.inputs == (("q_len", "2"), ("k_len", "1"))
    assert (mask.got, mask.right) == ("[[True], [True]]", "[[False], [True]]")


def test_one_function_has_one_example_however_many_checks_fail():
    answer = attention(soft=lambda s: torch.softmax(s, -1) * 0.5)
    exercise = catalog.find_catalog_exercise("ex03_sdpa")
    judge = Judge(student(exercise, scaled_dot_product_attention=answer), ("small",))
    judge.run(suite_runner.select_suite_cases(exercise, frozenset(["test_values"])))
    [failure] = judge.failures
    checks = [CheckResult(id=n, says="", verdict=Verdict.FAILED, points=1) for n in ("a", "b")]
    found = small_examples.add_small_examples(
        exercise, checks, {"a": failure, "b": failure}, judge.student, student(exercise)
    )
    assert [c.diagnosis is not None for c in found] == [True, False]


@pytest.mark.parametrize(
    "answer",
    [
        lambda *a, **k: 1 / 0,
        lambda *a, **k: None,
        lambda x, dim=-1: torch.softmax(x, dim) * (1 + 1e-5),
    ],
)
def test_where_no_small_call_goes_wrong_in_its_numbers_none_is_shown(answer):
    assert examples("ex01_softmax", softmax=answer) == []


def test_what_may_be_rounding_in_half_precision_is_no_example():
    right = load_solution_to_prove(catalog.find_catalog_exercise("ex03_sdpa"))
    wide = right.scaled_dot_product_attention

    def function(q, *others, **options):
        return (attention() if q.dtype == torch.bfloat16 else wide)(q, *others, **options)

    needed = ("test_numpy_values", "test_values", "test_half_precision")
    assert examples("ex03_sdpa", needed, scaled_dot_product_attention=function) == []


def test_few_calls_are_made(monkeypatch):
    calls = []

    def counted(x, dim=-1):
        calls.append(x.shape)
        return torch.softmax(x, dim) if x.numel() < 100 else torch.zeros_like(x)

    exercise = catalog.find_catalog_exercise("ex01_softmax")
    judge = Judge(student(exercise, softmax=counted), ("small",))
    checks = suite_runner.run_suite_checks(exercise, judge)
    calls.clear()
    failures = {f.check: f for f in judge.failures}
    small_examples.add_small_examples(exercise, checks, failures, judge.student, student(exercise))
    assert len(calls) <= small_examples.MAX_EXAMPLE_CALLS * len(failures)


def test_a_report_has_it(graded):
    right = solution("ex01_softmax")
    line = "powers = torch.exp(wide - wide.amax(dim=dim, keepdim=True))"
    report = graded("ex01_softmax", right.replace(line, "powers = torch.exp(wide) + 0.01"))
    [known] = [c.diagnosis for c in report.checks if c.diagnosis]
    assert known.example and known.example.name == "weights"


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (2, 5), (5, 2)])
def test_an_example_has_as_many_queries_as_keys_or_fewer_or_more_like_the_failed_call(
    queries, keys
):
    function = catalog.find_catalog_exercise("ex03_sdpa").functions["scaled_dot_product_attention"]
    q, k = torch.zeros(2, queries, 4), torch.zeros(2, keys, 4)
    plan = small_inputs.plan_small_inputs(function, (q, k, k), {})
    found = {(s["Lq"], s["Lk"]) for s in plan.list_sizes(("q", "k", "v"))}
    assert found and {np.sign(a - b) for a, b in found} == {np.sign(queries - keys)}


def test_right_values_have_nothing_that_rounding_leaves_of_a_zero():
    right = load_solution_to_prove(catalog.find_catalog_exercise("ex09_gradients"))

    def attention_backward(q, *others, **options):
        dq, dk, dv = right.attention_backward(q, *others, **options)
        return dq / np.sqrt(np.float32(q.shape[-1])), dk, dv  # right for one number: two are shown

    found = examples("ex09_gradients", attention_backward=attention_backward)
    shown = [numbers(example.right) for example in found]
    assert any((x == 0).any() for x in shown)
    assert not any(((x != 0) & (abs(x) < 1e-6)).any() for x in shown)
