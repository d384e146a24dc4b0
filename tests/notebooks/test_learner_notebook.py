"""The notebooks for one learner: the cells of the course's notebooks, without answers or nbgrader."""

import json
import os
import re
import sys
from functools import cache

import nbformat
import pytest

from grader.authoring.exercise_cells import count_task_points
from grader.authoring.learner_notebook import (
    UnknownRepository,
    parse_repository_address,
    split_lesson_cells,
    write_learner_notebook,
)
from grader.authoring.skeletons import make_lesson
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.translation import Words
from grader.submission.solution_text import remove_solutions, split_cells
from tests.conftest import solution

EXERCISES = [e for e in catalog.list_catalog_exercises() if not e.draft]
each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)
in_both = pytest.mark.parametrize("language", ["en", "zh"])


@cache
def write_text(slug, language, repository):
    exercise = catalog.find_catalog_exercise(slug)
    lesson = make_lesson(exercise, exercise.solution.read_text(encoding="utf-8"), language)
    return write_learner_notebook(exercise, lesson, Words(language), repository)


def write(exercise, language="en", repository=None):
    return nbformat.reads(write_text(exercise.slug, language, repository), as_version=4)


@each
@in_both
def test_a_lesson_has_every_cell_that_a_course_releases(exercise, language):
    """Otherwise notebooks would differ from those of `make release`."""
    source = exercise.solution.read_text(encoding="utf-8")
    cells = split_lesson_cells(make_lesson(exercise, source, language), language)
    prose = "\n\n".join(cell.text for cell in cells if cell.kind == "markdown")
    code = ["".join(cell.text.split()) for cell in cells if cell.kind == "code"]
    for cell in split_cells(source):
        if cell.language == language:
            assert [p for p in cell.text.split("\n\n") if p.strip() not in prose] == []
        elif cell.kind == "code" and (bare := "".join(remove_solutions(cell.text).split())):
            assert code.pop(0) == bare
    assert code == []


@each
@in_both
def test_a_notebook_is_valid_and_checks_every_task(exercise, language):
    notebook = write(exercise, language)
    nbformat.validate(notebook)
    checks = [c.source for c in notebook.cells if c.source.startswith("check(")]
    asked = [re.findall(r'"(\w+)"', text)[1] for text in checks]
    assert sorted(asked) == sorted(count_task_points(exercise, cuda=False, speed=True))
    assert all(('lang="zh"' in text) is (language == "zh") for text in checks)
    assert not any(cell.metadata for cell in notebook.cells)


@each
def test_no_line_of_an_answer_is_in_a_notebook(exercise):
    handed = [cell.source for cell in write(exercise).cells if cell.cell_type == "code"]
    assert "BEGIN SOLUTION" not in "".join(handed)
    if exercise.language == "python":
        skeleton = (ROOT / "exercises" / exercise.file).read_text(encoding="utf-8")
        lines = {line.strip() for line in skeleton.splitlines()}
        cells = [text for text in handed if "raise NotImplementedError" in text]
        assert cells
        assert {line.strip() for text in cells for line in text.splitlines()} <= lines | {""}


def test_the_first_code_cell_installs_and_the_last_one_draws():
    notebook = write(catalog.find_catalog_exercise("ex03"))
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert '%pip install --quiet "attention-by-hand[report]==' in code[0]
    assert code[0].endswith("from grader.notebook import check, show")
    assert code[-1].endswith("show.attention(attention_numpy, scaled_dot_product_attention)")
    chinese = write(catalog.find_catalog_exercise("ex01"), "zh").cells[-1].source
    assert chinese.endswith('show.attention(softmax_numpy, softmax, lang="zh")')


@pytest.mark.parametrize(
    "address, name, branch",
    [
        ("you/attention", "you/attention", "main"),
        ("https://github.com/you/attention.by_hand", "you/attention.by_hand", "main"),
        ("https://github.com/you/attention.git", "you/attention", "main"),
        ("https://github.com/you/attention/tree/a/branch/", "you/attention", "a/branch"),
    ],
)
def test_a_notebook_links_to_colab(address, name, branch):
    repository = parse_repository_address(address)
    notebook = write(catalog.find_catalog_exercise("ex01"), "zh", repository)
    assert notebook.cells[0].source == (
        "[在 Colab 中打开](https://colab.research.google.com/github/"
        f"{name}/blob/{branch}/notebooks/ex01_softmax.ipynb)"
    )


@pytest.mark.parametrize(
    "address", ["", "attention", "https://example.org/you/attention", "you/a b", "a/b)c", "../x/y"]
)
def test_what_is_no_repository_gets_a_sentence(address):
    with pytest.raises(UnknownRepository, match="is no address of a repository on GitHub"):
        parse_repository_address(address)


def execute(notebook, folder, slug):
    """Execute a notebook as Jupyter does, saved in `folder`; return the text of each check."""
    import nbclient

    path = folder / f"{slug}.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.weekly
@pytest.mark.parametrize("slug", ["ex01_softmax", "ex03_sdpa", "ex15_cuda_kernel"])
def test_a_notebook_is_executed_from_a_wrong_answer_to_full_marks(tmp_path, monkeypatch, slug):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}")
    exercise = catalog.find_catalog_exercise(slug)
    notebook = write(exercise)
    if exercise.language == "python":
        unwritten = execute(notebook, tmp_path, slug)
        said = [
            c.outputs[0]["data"]["text/plain"] for c in unwritten if c.source.startswith("check(")
        ]
        assert all(text.startswith("0/") for text in said)
    code = [cell.text for cell in split_cells(solution(slug)) if cell.kind == "code"]
    answers = {"".join(remove_solutions(text).split()): text for text in code}
    mark = "%%cuda\n" if exercise.language == "cuda" else ""
    for cell in notebook.cells:
        bare = "".join(cell.source.removeprefix(mark).split())
        cell.source = f"{mark}{answers[bare]}" if bare in answers else cell.source
    done = execute(notebook, tmp_path, slug)
    said = [
        c.outputs[0]["data"]["text/plain"]
        for c in done
        if c.source.startswith("check(") and '"speed"' not in c.source
    ]
    assert said
    for text in said:
        earned, _, worth = text.split()[0].partition("/")
        assert earned == worth, text
    if exercise.language == "python":
        [shown] = done[-1].outputs
        assert "data:image/png;base64" in shown["data"]["text/html"]
        assert "weights" in shown["data"]["text/plain"]
