"""Headroom: every allowance that is applied is seen, and one that is too tight is told."""

import math
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from grader.authoring import headroom, headroom_table
from grader.authoring.headroom import SOLUTION, Headroom, HeadroomPlace, MeasuredHeadroom, Rejection
from grader.core import catalog
from grader.core.records import Verdict
from grader.judging import agree, suite_runner, tolerance
from grader.judging.case import CURRENT_CASE, Case, Rule
from grader.judging.student import Student
from grader.worker.parent.in_process import call_without_wall
from reference import Expected

EXERCISE = catalog.find_catalog_exercise("ex01_softmax")
PLACE = HeadroomPlace(slug="ex03_sdpa", answer=SOLUTION, check="test_a", case="test_a[1]", seed=3)


@pytest.fixture
def rules():
    """The rules that one `agree` applies, as subjects and measures."""

    def applied(*args, **options):
        token = CURRENT_CASE.set(Case(rules=[]))
        try:
            agree(*args, **options)
            return [(subject, rule.measure) for subject, rule in CURRENT_CASE.get().rules or []]
        finally:
            CURRENT_CASE.reset(token)

    return applied


def right(dtype, *shape):
    x = torch.ones(shape, dtype=dtype)
    return x, Expected(x.double().numpy(), x, 1.0)


def test_every_rule_of_float32_is_observed(rules):
    measures = ["largest error", "RMS error", "RMS error of the worst row"]
    assert rules(*right(torch.float32, 2, 3)) == [("out", measure) for measure in measures]


def test_the_mean_of_a_large_answer_in_half_precision_is_observed(rules):
    measures = ["largest error", "mean error", "RMS error of the worst row"]
    assert rules(*right(torch.float16, 64, 16)) == [("out", measure) for measure in measures]


def test_an_allowance_that_the_suite_gives_is_observed(rules):
    x = torch.ones(2)
    assert rules(x, x, "sums", within=0.1) == [("sums", "largest error")]
    assert rules(x[:0], x[:0], "sums", within=0.1) == [("sums", "largest error")]


def test_a_comparison_of_bits_is_none(rules):
    keep = torch.ones(3, dtype=torch.bool)
    assert rules(keep, Expected(keep.numpy(), keep, 0.0)) == []


def test_every_part_of_a_tuple_is_observed(rules):
    x, expected = right(torch.float64, 3)
    assert len(rules((x, x), (expected, expected))) == 2 * len(rules(x, expected))


def measured(check, module=None):
    """One seed of a check on the solution, or on another module."""
    module = module or headroom._load_headroom_answer(EXERCISE, SOLUTION)
    student = Student(EXERCISE, call_without_wall(module, EXERCISE.prelude))
    cases = [case for case in suite_runner.list_suite_cases(EXERCISE) if case.check.id == check]
    assert cases
    return headroom.join_measured_headroom(
        [
            headroom.measure_headroom_of_case(student, EXERCISE.slug, SOLUTION, case, 0)
            for case in cases
        ]
    )


def test_right_answers_have_room():
    found = measured("test_values")
    assert found.right
    assert [one.place.check for one in found.least] == ["test_values"]
    assert 0 < found.least[0].ratio <= 0.5


def test_an_allowance_that_is_too_tight_is_seen(monkeypatch):
    rules = tolerance._build_tolerance_rules
    monkeypatch.setattr(
        tolerance,
        "_build_tolerance_rules",
        lambda *a: [replace(r, allowed=r.allowed / 8) for r in rules(*a)],
    )
    found = measured("test_values")
    assert not found.right
    assert found.least[0].ratio > 0.5


def test_an_answer_that_is_rejected_is_named_with_its_seed_and_case():
    module = headroom._load_headroom_answer(EXERCISE, SOLUTION)
    module.softmax = lambda x, dim=-1: torch.softmax(x * 1.5, dim)
    found = measured("test_values", module)
    assert not found.right
    assert {one.place.check for one in found.rejections} == {"test_values"}
    assert found.rejections[0].place.seed == 0
    assert "but should be" in found.rejections[0].why


def test_a_variant_is_another_answer():
    variant = headroom.list_headroom_answers(EXERCISE, solutions=False)[0]
    found = headroom.measure_headroom_of_answer(EXERCISE.slug, variant, [0])
    assert {one.place.answer for one in found.least} == {variant}
    assert {one.limit for one in found.least} <= {0.7, 0.75}


def ratio(number, **more):
    more = {"measure": "largest error", "place": PLACE} | more
    return Headroom(subject="out", ratio=number, **more)


def one(*least, rejections=()):
    return headroom.join_measured_headroom([MeasuredHeadroom(least=(x,), rejections=(), cases=1) for x in least] + [
        MeasuredHeadroom(least=(), rejections=rejections, cases=1)
    ])  # fmt: skip


def test_of_a_check_the_worst_ratio_stays():
    assert one(ratio(0.2), ratio(0.4), ratio(0.3)).least == (ratio(0.4),)


def test_an_error_that_is_no_number_is_beyond_every_limit():
    assert headroom._compute_headroom_share(Rule("largest error", math.nan, 1.0)) == math.inf
    assert not one(ratio(0.2), ratio(math.inf)).right


def test_mean_errors_have_a_limit_of_their_own():
    assert one(ratio(0.67, measure="mean error")).right
    assert not one(ratio(0.67)).right


def test_the_table_says_which_checks_are_beyond_and_what_was_rejected():
    rejection = Rejection(place=PLACE, why="out[0] is 1, but should be 2")
    text = "\n".join(headroom_table.build_headroom_table(one(ratio(0.6), rejections=(rejection,))))
    assert "BEYOND  0.60 of 0.50  test_a[1]  out: largest error  (solution, seed 3)" in text
    assert "REJECTED ex03_sdpa test_a[1] (solution, seed 3): out[0] is 1, but should be 2" in text
    assert "2 cases of right answers run, 1 rejected; 1 checks" in text


def test_the_page_has_a_row_for_the_solution_and_one_for_all_variants(monkeypatch):
    written = []
    monkeypatch.setattr(
        headroom_table.evidence, "write_evidence_rows", lambda *given: written.append(given)
    )
    variant = replace(PLACE, answer="einsum", seed=5)
    rejection = Rejection(place=variant, why="out[0] is 1, but should be 2")
    found = one(ratio(0.3), ratio(0.6, place=variant), rejections=(rejection,))
    monkeypatch.setattr(headroom_table, "measure_headroom", lambda *_, **__: found)
    exercise = catalog.find_catalog_exercise("ex03_sdpa")
    assert not headroom_table.print_headroom([exercise], 7, Console(quiet=True), write=True)
    [(command, columns, rows)] = written
    assert command == "headroom" and len(columns) == len(rows[0])
    measure = "`test_a[1]`", "out: largest error"
    assert sorted(rows) == [
        ["ex03_sdpa", "7", "0", "0.30", "0.50", *measure, "solution", "3"],
        ["ex03_sdpa variants", "7", "1", "0.60", "0.70", *measure, "einsum", "5"],
    ]


def test_a_check_that_the_solution_fails_is_run_on_every_variant(monkeypatch):
    variant = next(v for v in suite_runner.list_suite_variants(EXERCISE) if "numpy" in v.of)
    before = headroom.run_suite_on_mutant

    def failed(*args):
        return [
            replace(c, verdict=Verdict.FAILED) if c.id == "test_gradient" else c
            for c in before(*args)
        ]

    headroom._list_calls_of_checks.cache_clear()
    sound = {case.check.id for case in headroom._list_headroom_cases(EXERCISE, variant.id)}
    headroom._list_calls_of_checks.cache_clear()
    monkeypatch.setattr(headroom, "run_suite_on_mutant", failed)
    broken = {case.check.id for case in headroom._list_headroom_cases(EXERCISE, variant.id)}
    headroom._list_calls_of_checks.cache_clear()
    assert "test_gradient" not in sound
    assert broken == sound | {"test_gradient"}
