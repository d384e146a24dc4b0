"""Which checks a change of the solution can alter."""

import pytest

from grader.authoring import mutants
from grader.authoring.touched_checks import list_checks_calling, list_touched_checks
from grader.core import catalog
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.judging import suite_runner
from grader.judging.judge import Judge

SOLUTION = """
import math

LIMIT = 3


def helper(x):
    return x + LIMIT


def first(x):
    return helper(x)


def second(x):
    return math.sqrt(x)
"""
CALLS = {"test_first": ["first"], "test_second": ["second"], "test_both": ["first", "second"],
         "test_text": []}  # fmt: skip


@pytest.mark.parametrize(
    "old, new, touched",
    [
        ("math.sqrt(x)", "x**0.5", {"test_second", "test_both"}),
        ("return helper(x)", "return 2 * helper(x)", {"test_first", "test_both"}),
        ("x + LIMIT", "LIMIT + x", {"test_first", "test_both"}),
        ("LIMIT = 3", "LIMIT = 4", {"test_first", "test_both"}),
        ("def helper(x):\n    return x + LIMIT\n", "", {"test_first", "test_both"}),
        ("import math\n", "import math\nimport torch\n", set()),
        ("LIMIT = 3", "LIMIT = 3\nmath.sqrt = abs", set(CALLS)),
        ("LIMIT = 3", "LIMIT = 3\nif True:\n    second = abs", set(CALLS)),
        ("import math\n", "import math\n\n\ndef second(x):\n    return 1\n", {"test_second", "test_both"}),
    ],
)  # fmt: skip
def test_a_change_touches_the_checks_that_call_it_or_what_uses_it(old, new, touched):
    assert SOLUTION.count(old) == 1
    found = list_touched_checks(SOLUTION, SOLUTION.replace(old, new), CALLS)
    assert found == touched | {"test_text"}


def test_without_a_change_only_a_check_that_calls_nothing_is_touched():
    assert list_touched_checks(SOLUTION, SOLUTION, CALLS) == {"test_text"}
    assert list_checks_calling(["second"], CALLS) == {"test_second", "test_both", "test_text"}


def test_a_null_answer_gets_the_same_from_the_checks_that_call_it_as_from_all():
    exercise = catalog.find_catalog_exercise("ex01_softmax")
    known = MistakeCatalogue(exercise)
    right = mutants.load_solution_to_prove(exercise)
    calls = {c.id: c.calls for c in mutants.run_suite_on_mutant(exercise, right)}
    nulls = [m for m in known.mistakes if m.null]
    assert len(nulls) > 1
    for mistake in nulls:
        of_all, of_some = (
            mutants.run_suite_on_mistake(mistake, exercise, known, c, naming=False)
            for c in ({}, calls)
        )
        assert of_some == of_all


def test_a_mistake_gets_the_same_without_the_checks_that_it_cannot_alter(monkeypatch):
    exercise = catalog.find_catalog_exercise("ex03_sdpa")
    known = MistakeCatalogue(exercise)
    right = mutants.load_solution_to_prove(exercise)
    calls = {c.id: c.calls for c in mutants.run_suite_on_mutant(exercise, right)}
    run: list[str] = []
    before = Judge._run_case
    monkeypatch.setattr(
        Judge, "_run_case", lambda self, s, case: run.append(case.check.id) or before(self, s, case)
    )
    mistake = next(m for m in known.mistakes if m.caught_by == "test_manners" and not m.null)
    asked = []
    for c in ({}, calls):
        run.clear()
        assert mutants.run_suite_on_mistake(mistake, exercise, known, c, naming=False).right
        asked.append(set(run))
    assert asked == [{"test_numpy_values", "test_values", "test_manners"},
                     {"test_values" if "numpy" not in mistake.of else "test_numpy_values",
                      "test_manners"}]  # fmt: skip


def test_a_variant_is_asked_by_the_checks_of_what_it_replaces():
    exercise = catalog.find_catalog_exercise("ex01_softmax")
    right = mutants.load_solution_to_prove(exercise)
    calls = {c.id: c.calls for c in mutants.run_suite_on_mutant(exercise, right)}
    for variant in suite_runner.list_suite_variants(exercise):
        source = mutants.write_variant_to_prove(exercise, variant)
        touched = list_touched_checks(exercise.solution.read_text("utf-8"), source, calls)
        assert touched == {check for check, called in calls.items() if variant.of in called}
