"""Skeletons and lessons: in step with the solutions, without the answers, never over an answer."""

import ast
import itertools
from dataclasses import replace

import pytest

from grader.authoring import skeletons
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.submission import answer_file, solution_text
from tests.conftest import solution

EXERCISES = catalog.list_catalog_exercises()
each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)


@each
def test_the_skeleton_in_the_repository_is_in_step(exercise):
    text = (ROOT / "exercises" / exercise.file).read_text(encoding="utf-8")
    if answer_file.is_submission_text_untouched(
        text
    ):  # else it is a student's, and theirs to change
        assert text == skeletons.make_skeleton(exercise, solution(exercise.slug))


@each
def test_the_lesson_in_the_repository_is_in_step(exercise):
    text = (ROOT / answer_file.locate_lesson_of_submission(exercise.slug)).read_text(
        encoding="utf-8"
    )
    assert text == skeletons.make_lesson(exercise, solution(exercise.slug))


@each
def test_line_one_names_exercise_digest_and_lesson(exercise):
    text = skeletons.make_skeleton(exercise, solution(exercise.slug))
    assert answer_file.is_submission_text_untouched(text)
    assert not answer_file.is_submission_text_untouched(text + " ")
    assert answer_file.locate_lesson_of_submission(exercise.slug) in text.splitlines()[0]


@pytest.mark.parametrize(
    "exercise", [e for e in EXERCISES if e.language == "python"], ids=lambda e: e.slug
)
def test_no_body_of_a_region_is_left(exercise):
    source = solution(exercise.slug)
    for text in (
        skeletons.make_skeleton(exercise, source),
        "\n".join(_code_of(skeletons.make_lesson(exercise, source))),
    ):
        left = _runs_of_two(ast.parse(text))
        assert not left & _hidden(source)


def _code_of(lesson: str) -> list[str]:
    return [part.split("```")[0] for part in lesson.split("```python\n")[1:]]


def _hidden(source: str) -> set[str]:
    """Every run of two statements inside a region, as a normalised syntax tree."""
    tree = ast.parse(source)
    lines = source.splitlines()
    inside, begun = set(), False
    for number, line in enumerate(lines, 1):
        begun = (begun or line.strip() == solution_text.BEGIN) and line.strip() != solution_text.END
        if begun:
            inside.add(number)
    return _runs_of_two(tree, lambda statement: statement.lineno in inside)


def _runs_of_two(tree: ast.AST, wanted=lambda _: True) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(body, list):
                for one, two in itertools.pairwise(body):
                    if wanted(one) and wanted(two):
                        found.add(ast.dump(one) + ast.dump(two))
    return found


def test_the_search_for_bodies_finds_one_that_is_left():
    source = solution("ex01_softmax")
    assert _hidden(source) & _runs_of_two(ast.parse(source))


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree of its own with one exercise."""
    exercise = replace(catalog.find_catalog_exercise("ex01"), home=tmp_path)
    exercise.solution.parent.mkdir()
    exercise.solution.write_text(solution("ex01_softmax"))
    (tmp_path / "exercises").mkdir()
    monkeypatch.setattr(skeletons, "ROOT", tmp_path)
    monkeypatch.setattr(catalog, "list_catalog_exercises", lambda: (exercise,))


@pytest.mark.usefixtures("tree")
def test_a_changed_answer_is_left_alone(tmp_path):
    mine = tmp_path / "exercises" / "ex01_softmax.py"
    mine.write_text("# my work\n")
    what = dict(skeletons.write_all_skeletons())
    assert mine.read_text() == "# my work\n"
    assert what["exercises/ex01_softmax.py"] == "yours"
    assert what["docs/lessons/ex01_softmax.en.md"] == "written"
    assert set(dict(skeletons.write_all_skeletons()).values()) == {"yours", "in step"}


@pytest.mark.usefixtures("tree")
def test_an_old_skeleton_that_nobody_touched_is_renewed(tmp_path):
    old = tmp_path / "exercises" / "ex01_softmax.py"
    old.write_text(f"# Skeleton ex01_softmax {answer_file.digest_submitted_skeleton('old')}.\nold")
    assert dict(skeletons.write_all_skeletons())["exercises/ex01_softmax.py"] == "written"


REGION = '''
def f(x):
    """Do it."""
    ### BEGIN SOLUTION
    return x
    ### END SOLUTION
'''


def test_a_region_in_a_function_becomes_its_task():
    assert (
        solution_text.remove_solutions(REGION).splitlines()[-1]
        == '    raise NotImplementedError("Do it.")'
    )


def test_a_region_at_the_top_level_becomes_nothing():
    code = (
        f"x = 1\n{solution_text.BEGIN}\ndef help(): ...\n{solution_text.END}\ndef f():\n    'Doc.'"
    )
    assert "help" not in solution_text.remove_solutions(code)


@pytest.mark.parametrize(
    "code, says",
    [
        (REGION.replace("### END SOLUTION", ""), "line 4: the region that begins here never ends"),
        (REGION.replace("### BEGIN SOLUTION", ""), "line 6: a region ends that never began"),
        (REGION.replace('"""Do it."""', "pass"), "line 4: f has no docstring"),
        (
            REGION.replace("return x", "### BEGIN SOLUTION"),
            "line 5: a region begins inside another",
        ),
    ],
)
def test_a_broken_source_says_where(code, says):
    with pytest.raises(solution_text.BadSource, match=says):
        solution_text.remove_solutions(code)
