"""What the suites promise together: null answers, points, parties that stand alone."""

import ast

import pytest

from grader.core import catalog
from grader.judging import suite_runner

EXERCISES = [e for e in catalog.list_catalog_exercises() if not e.draft]
CORE = [e for e in EXERCISES if e.track == "core"]

each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)


@each
def test_there_are_null_answers_for_every_function(exercise):
    covered = {m.of for m in suite_runner.list_suite_mistakes(exercise) if m.null}
    assert covered == set(exercise.names)


def test_the_core_track_is_worth_a_hundred_points():
    speed = [suite_runner.find_suite_speed_case(e) for e in CORE]
    checks = sum(c.points for e in CORE for c in suite_runner.list_suite_checks(e))
    assert checks + sum(s.points for s in speed if s) == 100


def test_there_are_a_hundred_mistakes_in_the_core_track():
    assert sum(len(suite_runner.list_suite_mistakes(e)) for e in CORE) >= 100


@pytest.mark.parametrize("party", ["zero", "reference"])
@pytest.mark.parametrize(
    "exercise", [e for e in CORE if suite_runner.find_suite_speed_case(e)], ids=lambda e: e.slug
)
def test_a_party_of_a_speed_case_is_a_file_that_stands_alone(exercise, party):
    path = exercise.folder / "parties" / f"{party}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree).startswith(f"The {party}: ")
    written = {node.name for node in tree.body if hasattr(node, "name")}
    assert written & set(exercise.names)
    imported = {
        a.name.split(".")[0] for n in tree.body if isinstance(n, ast.Import) for a in n.names
    }
    imported |= {n.module.split(".")[0] for n in tree.body if isinstance(n, ast.ImportFrom)}
    assert imported <= {"math", "time", "torch"}
