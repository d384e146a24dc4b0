"""An answer in a file and the same answer in a notebook get the same report, check by check.

What a notebook's answer is, is decided by the text that is taken from it. So for every catalogued
mistake the text is compared, and for every solution and one mistake of each exercise the reports.
"""

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

from grader import catalog, cells
from grader.course.solutions import path_of
from grader.judging import suite
from grader.judging.grade import Run, grade
from grader.worker import walls
from grader.worker.nursery import Nursery

EXERCISES = list(catalog.exercises())
SCRATCH = ["%matplotlib inline", "print(", "import json\nprint(json.dumps(1))", "input()", "1 / 0"]


def notebook_of(source: str) -> bytes:
    """A cell for each statement, the imports last, and between them what one tries out."""
    body = ast.parse(source).body
    imports = [n for n in body if isinstance(n, ast.Import | ast.ImportFrom)]
    texts = [ast.get_source_segment(source, n) for n in body if n not in imports]
    decorated = [("@" in source.splitlines()[n.lineno - 2][:1]) for n in body if n not in imports]
    assert not any(decorated)
    made = [cell for text in texts for cell in (text, SCRATCH[len(text) % len(SCRATCH)])]
    made += [ast.unparse(n) for n in imports]
    return json.dumps({"cells": [{"cell_type": "code", "source": s} for s in made]}).encode()


def without_marks(path: Path) -> str:
    """A module's text without its decorators and without imports of ours."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    ours = ("grader", "reference", "test_")
    tree.body = [
        n for n in tree.body
        if not (isinstance(n, ast.ImportFrom) and (n.level or n.module.startswith(ours)))
    ]  # fmt: skip
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.decorator_list = [
                d for d in node.decorator_list if "mistake" not in ast.unparse(d)
            ]
    return ast.unparse(tree)


def answer_with(mistake, exercise, references) -> str:
    """The solution as a file of its own, with a mistake in the place of one of its names."""
    wrong = f"{mistake.of} = {mistake.id}"
    texts = [*references, without_marks(exercise.folder / "mistakes.py")]
    texts += [path_of(exercise.slug).read_text(encoding="utf-8"), wrong]
    made = json.dumps({"cells": [{"cell_type": "code", "source": s} for s in texts]}).encode()
    return ast.unparse(ast.parse(cells.answer(made, exercise.names).source))


@pytest.fixture(scope="module")
def references():
    return [without_marks(path) for path in sorted((catalog.ROOT / "reference").glob("*.py"))]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)
def test_the_text_of_every_mistake_is_taken_as_it_stands(exercise, references):
    for mistake in suite.mistakes(exercise):
        source = answer_with(mistake, exercise, references)
        taken = cells.answer(notebook_of(source), exercise.names).source
        assert ast.dump(ast.parse(taken)) == ast.dump(ast.parse(source)), mistake.id


@pytest.fixture(scope="module")
def run():
    with Nursery(walls.choose("auto")) as nursery:
        yield Run(nursery=nursery, student="me", secret="same", speed=False)


def verdicts(exercise, path, run):
    """The report without what tells the two files apart."""
    report = grade(exercise, path, run)
    checks = [replace(c, seconds=0.0) for c in report.checks]
    return report.state, report.sentence, report.score, checks, report.output


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)
def test_the_reports_are_the_same(exercise, references, run, tmp_path):
    wrong = answer_with(suite.mistakes(exercise)[0], exercise, references)
    right = ast.unparse(ast.parse(path_of(exercise.slug).read_text(encoding="utf-8")))
    seen = []
    for number, source in enumerate((right, wrong)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / f"{exercise.slug}.py").write_text(source, encoding="utf-8")
        (folder / f"{exercise.slug}.ipynb").write_bytes(notebook_of(source))
        both = [verdicts(exercise, folder / f"{exercise.slug}{e}", run) for e in (".py", ".ipynb")]
        assert both[0][0] == "graded"
        seen.append(both[0][2].earned)
        for of_file, of_notebook in zip(*both, strict=True):
            assert no_lines(of_file) == no_lines(of_notebook)
    assert seen[1] < seen[0]


def no_lines(value):
    """Without the places in the file, which are cells in a notebook."""
    if not isinstance(value, list):
        return value
    kept = "\n".join
    return [
        replace(c, why=kept(w for w in c.why.splitlines() if not w.startswith("line ")))
        for c in value
    ]
