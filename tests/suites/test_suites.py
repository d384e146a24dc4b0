"""Every suite is held to its solution, its skeleton, its mistakes and its right variants."""

import ast
from functools import cache

import pytest

from grader import catalog
from grader.catalog import ROOT
from grader.course import mutants
from grader.course.skeletons import skeleton_text
from grader.judging import suite
from grader.judging.grade import Run
from grader.records import Verdict
from tests.conftest import solution
from tests.part import ALL

EXERCISES = [e for e in catalog.exercises() if not e.draft]
CORE = [e for e in EXERCISES if e.track == "core"]
NAMED = 32  # of so many mistakes one is asked for its name; `make mutants` asks all of them
PART = 1 if ALL else 8  # one mistake in so many is asked at all
SHARE = 0.95 if ALL else 0.9  # of those whose name is asked; of a few, one more says little

each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)


SECRETS = [
    pytest.param(e, secret, id=f"{secret}-{e.slug}")
    for e in EXERCISES
    for secret in (("one", "two") if ALL and e.track == "core" else ("one",))
]


@pytest.mark.parametrize("exercise, secret", SECRETS)
def test_the_solution_earns_every_point_that_is_asked(exercise, nursery, secret):
    from grader.judging.grade import grade

    report = grade(
        exercise, ROOT / "solutions", Run(nursery=nursery, student="s", secret=secret, speed=False)
    )
    assert [
        (c.id, c.why) for c in report.checks if c.earned < c.points and c.why != "needs CUDA"
    ] == []
    assert report.score.earned == report.score.possible > 0


@each
def test_the_skeleton_earns_nothing_even_when_it_is_asked(exercise, graded):
    sign = {".py": "#", ".cu": "//"}[exercise.suffix]
    started = skeleton_text(exercise, solution(exercise.slug)) + f"\n{sign} a first line of mine\n"
    report = graded(exercise.slug, started)
    assert report.state == "graded"
    assert report.score.earned == 0
    assert not [c for c in report.checks if c.verdict is Verdict.GRADER_FAULT]
    assert any("is not written yet" in c.why for c in report.checks)


@cache
def everything() -> dict[str, list[mutants.Caught]]:
    """What the suites make of their mistakes; asked once, read by several tests."""
    return mutants.on_all_processors(EXERCISES, every=NAMED, of=PART)


def caught(slug: str) -> list[mutants.Caught]:
    return everything()[slug]


@each
def test_every_mistake_is_caught_by_the_check_that_it_names(exercise):
    wrong = {
        c.mistake.id: (c.verdict.value, c.failed, c.earned if c.mistake.null else ())
        for c in caught(exercise.slug)
        if not c.right
    }
    assert wrong == {}


@each
def test_no_mistake_is_a_fault_of_ours(exercise):
    faults = [
        (c.mistake.id, r.id, r.why)
        for c in caught(exercise.slug)
        for r in c.results
        if r.verdict is Verdict.GRADER_FAULT
    ]
    assert faults == []


def test_a_mistake_is_named_to_the_student_as_itself():
    found = [c for e in EXERCISES for c in caught(e.slug) if c.named is not None]
    assert len(found) >= 30
    false = [(c.mistake.id, c.named) for c in found if c.named and c.mistake.id not in c.named]
    assert false == []
    assert sum(c.mistake.id in c.named for c in found) >= SHARE * len(found)
    assert sum(c.named == (c.mistake.id,) for c in found) >= (SHARE - 0.1) * len(found)


@each
def test_there_are_null_answers_for_every_function(exercise):
    covered = {m.of for m in suite.mistakes(exercise) if m.null}
    assert covered == set(exercise.names)


def test_the_core_track_is_worth_a_hundred_points():
    speed = [suite.speed_case(e) for e in CORE]
    checks = sum(c.points for e in CORE for c in suite.checks(e))
    assert checks + sum(s.points for s in speed if s) == 100


def test_there_are_a_hundred_mistakes_in_the_core_track():
    assert sum(len(suite.mistakes(e)) for e in CORE) >= 100


@pytest.mark.parametrize("party", ["zero", "reference"])
@pytest.mark.parametrize("exercise", [e for e in CORE if suite.speed_case(e)], ids=lambda e: e.slug)
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
