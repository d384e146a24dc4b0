"""docs/exercises.md says what the manifests say, and the solutions do what they say."""

import pytest

from grader.authoring import allowed_page, architecture_page, exercise_index
from grader.core import catalog
from tests.conftest import ROOT, solution

EXERCISES = catalog.list_catalog_exercises()
CLASSES = [(e, c) for e in EXERCISES for c in e.classes.values() if c.parameters]


@pytest.mark.parametrize(
    "page", [exercise_index, allowed_page, architecture_page], ids=lambda page: page.PATH
)
def test_the_pages_are_in_step_with_the_manifests(page):
    assert (ROOT / page.PATH).read_text(encoding="utf-8") == page.render_generated_page()


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)
def test_every_function_class_and_method_has_its_place(exercise):
    said = exercise_index.build_exercise_index_section(exercise)
    wanted = [f"### `{f.name}{f.signature}`" for f in exercise.functions.values()]
    wanted += [f"### `{c.name}{c.signature}`" for c in exercise.classes.values()]
    wanted += [
        f"#### `{c.name}.{m.name}{m.signature}`"
        for c in exercise.classes.values()
        for m in c.methods.values()
    ]
    assert [heading for heading in wanted if heading not in said] == []


@pytest.mark.parametrize("exercise, declared", CLASSES, ids=lambda x: getattr(x, "name", None))
def test_the_solution_has_the_parameters_that_the_page_names(exercise, declared):
    names = [name for names in declared.parameters for name in names.split(", ")]
    source = solution(exercise.slug)
    assert [name for name in names if f"self.{name}" not in source] == []


def test_the_page_says_what_an_attribute_is():
    said = exercise_index.build_exercise_index_section(catalog.find_catalog_exercise("ex16"))
    pool = "(tensor (num_blocks, block_size, num_heads, head_dim))"
    assert f"Attributes: `free_blocks` (int), `keys` {pool}, `values` {pool}." in said
    assert "`fused` (True or False)" in exercise_index.build_exercise_index_section(
        catalog.find_catalog_exercise("ex12")
    )
