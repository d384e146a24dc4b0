"""Any few choices meet in some row, in far fewer rows than all products."""

from itertools import combinations, product

import pytest

from grader.judging import Draw
from grader.judging.case import CURRENT_CASE, Case
from grader.judging.covering import build_covering_array


@pytest.mark.parametrize("strength", [1, 2, 3])
@pytest.mark.parametrize("levels", [(2, 3, 4, 2, 3), (5, 4, 2, 2, 2, 2), (3, 3), (1, 2, 1, 3)])
def test_any_choices_of_few_factors_meet(levels, strength):
    rows = build_covering_array(levels, strength)
    for factors in combinations(range(len(levels)), min(strength, len(levels))):
        met = {tuple(row[f] for f in factors) for row in rows}
        assert met == set(product(*(range(levels[f]) for f in factors)))


def test_there_are_few_rows_and_always_the_same():
    levels = (4, 4, 4, 3, 3, 2, 2, 2)
    rows = build_covering_array(levels, 3)
    assert 64 <= len(rows) <= 100  # 4 * 4 * 4, and of 4,608 products
    build_covering_array.cache_clear()
    assert build_covering_array(levels, 3) == rows


def test_calls_are_told_by_the_names_of_their_factors():
    CURRENT_CASE.set(Case())
    calls = Draw("any").combined(strength=2, causal=(False, True), scale=(None, 0.5))
    assert sorted(calls, key=str) == sorted(
        ({"causal": c, "scale": s} for c in (False, True) for s in (None, 0.5)), key=str
    )
    assert CURRENT_CASE.get().hard == {"combined"}


def test_only_the_calls_with_these_choices_are_returned_of_those_that_there_are():
    CURRENT_CASE.set(Case())
    factors = {"dtype": ("a", "b"), "options": ({}, {"base": 3}), "size": (1, 2, 3)}
    calls = Draw("any").combined(**factors)
    found = Draw("any").combined(only={"dtype": "b", "options": {}}, **factors)
    assert found == [c for c in calls if c["dtype"] == "b" and c["options"] == {}]
    assert 0 < len(found) < len(calls)
