"""An answer in a file and the same answer in a notebook get the same report, check by check.

What a notebook's answer is, is decided by the text that is taken from it. So for every catalogued
mistake and every solution the text is compared, and the reports for an exercise of each kind.
"""

import ast
import json
from functools import cache
from pathlib import Path

import pytest

from grader.core import catalog
from grader.grading.exercise import Run, grade_answer
from grader.judging import suite_runner
from grader.reporting import as_json
from grader.submission import notebook_cells
from grader.submission.solution_text import locate_solution_file
from grader.worker.parent import walls
from grader.worker.parent.nursery import Nursery

EXERCISES = [e for e in catalog.list_catalog_exercises() if e.language == "python"]
# Behind the text nothing asks which exercise it is: numbers alone, NumPy and tensors, a class with
# a prelude, kernels with what they need preloaded.
KINDS = [
    pytest.param(catalog.find_catalog_exercise("ex00"), id="ex00_plain_python"),
    pytest.param(catalog.find_catalog_exercise("ex01"), id="ex01_softmax"),
    # These take ten times as long.
    pytest.param(
        catalog.find_catalog_exercise("ex12"), id="ex12_attention_block", marks=pytest.mark.weekly
    ),
    pytest.param(catalog.find_catalog_exercise("ex14"), id="ex14_triton", marks=pytest.mark.weekly),
]
SCRATCH = ["%matplotlib inline", "print(", "import json\nprint(json.dumps(1))", "input()", "1 / 0"]


@cache
def alone(text: str) -> str:
    """A statement without its comments."""
    return ast.unparse(ast.parse(text))


def notebook_of(statements: list[str]) -> bytes:
    """A cell for each statement, the imports last, and between them what one tries out."""
    imports = [s for s in statements if is_import(s)]
    texts = [s for s in statements if not is_import(s)]
    made = [cell for text in texts for cell in (text, SCRATCH[len(text) % len(SCRATCH)])]
    made += imports
    return json.dumps({"cells": [{"cell_type": "code", "source": s} for s in made]}).encode()


def is_import(statement: str) -> bool:
    return statement.startswith(("import ", "from "))


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


def modules_behind(path: Path, seen: tuple[Path, ...] = ()) -> tuple[Path, ...]:
    """The modules of ours that a file needs, each after those that it needs itself; then the file."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            home = path.parents[max(node.level - 1, 0)]
            own = home / f"{(node.module or '').split('.')[-1]}.py"
            for name in [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]:
                found = catalog.ROOT / f"{name.replace('.', '/')}.py"
                found = own if node.level else found
                ours = found.is_file() and not found.stem.startswith("test_")
                if ours and "grader/judging" not in str(found) and found not in (path, *seen):
                    seen = modules_behind(found, seen)
    return (*seen, path)


def units_of(exercise) -> list:
    """The statements of the solution and of the mistakes, with what these use of the reference."""
    behind: tuple[Path, ...] = ()
    for path in sorted(exercise.folder.glob("mistakes*/*.py")) or [exercise.folder / "mistakes.py"]:
        behind = modules_behind(path, behind)
    texts = [without_marks(path) for path in dict.fromkeys(behind)]
    texts.append(locate_solution_file(exercise.slug).read_text(encoding="utf-8"))
    units, _ = notebook_cells._parse_submitted_cells(list(enumerate(texts, 1)))
    names = set(exercise.names)  # the reference has them as well
    units = [u for u in units if u.cell == len(texts) or not u.binds & names]
    return notebook_cells._select_submitted_units(
        units, [*names, *(mistake.id for mistake in suite_runner.list_suite_mistakes(exercise))]
    )


def with_mistake(mistake, units) -> list:
    """All statements, and a mistake in the place of one of the names of its exercise."""
    [wrong], _ = notebook_cells._parse_submitted_cells([(99, f"{mistake.of} = {mistake.id}")])
    return [*units, wrong]


def answer_of(units, names) -> list[str]:
    """The statements of a file with these names alone."""
    taken = notebook_cells._select_submitted_units(units, names)
    return [alone(unit.text) for unit in sorted(taken, key=lambda u: not u.is_import)]


@pytest.fixture
def split_once(monkeypatch) -> None:
    """Split each cell once: nearly all are the same in the notebooks of all mistakes."""
    split = notebook_cells._split_submitted_cell
    monkeypatch.setattr(
        notebook_cells, "_split_submitted_cell", cache(lambda number, text: [*split(number, text)])
    )


@pytest.mark.usefixtures("split_once")
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)
def test_the_text_of_every_mistake_is_taken_as_it_stands(exercise):
    """Each with what it uses, and the solution as a whole: what is taken of two is that of both."""
    units = units_of(exercise)
    answers = [(exercise.names, units)]
    answers += [
        ([m.of], with_mistake(m, units)) for m in suite_runner.list_suite_mistakes(exercise)
    ]
    for names, written in answers:
        statements = answer_of(written, names)
        taken = notebook_cells.read_submitted_notebook(notebook_of(statements), names).source
        assert taken == "\n\n\n".join(statements) + "\n"


@pytest.fixture(scope="module")
def run():
    with Nursery(walls.choose_wall("auto")) as nursery:
        yield Run(nursery=nursery, student="me", secret="same", speed=False)


def verdicts(exercise, path, run):
    """The report without the times, and without what tells the two files and their lines apart."""
    found = as_json.convert_exercise_report(grade_answer(exercise, path, run))
    for check in found["checks"]:
        del check["seconds"]
        told = check["why"].splitlines()
        check["why"] = [line for line in told if not line.startswith("line ")]
        if check["diagnosis"] and check["diagnosis"]["pinned"]:
            del check["diagnosis"]["pinned"]["line"], check["diagnosis"]["pinned"]["cell"]
    return {key: found[key] for key in ("state", "sentence", "score", "checks", "output")}


def write(statements, file) -> None:
    """An answer as a file, and beside it as a notebook."""
    file.write_text("\n\n".join(statements), encoding="utf-8")
    file.with_suffix(".ipynb").write_bytes(notebook_of(statements))


@pytest.mark.usefixtures("explained")
@pytest.mark.parametrize("exercise", KINDS)
def test_the_reports_are_the_same(exercise, run, tmp_path):
    units, file = units_of(exercise), tmp_path / f"{exercise.slug}.py"
    solved = ast.parse(locate_solution_file(exercise.slug).read_text(encoding="utf-8")).body
    write([ast.unparse(node) for node in solved], file)
    right = verdicts(exercise, file, run)
    assert verdicts(exercise, file.with_suffix(".ipynb"), run) == right
    for mistake in suite_runner.list_suite_mistakes(exercise):
        write(answer_of(with_mistake(mistake, units), exercise.names), file)
        wrong = verdicts(exercise, file, run)
        if wrong["state"] == "graded":  # it uses nothing that a submission may not use
            break
    assert verdicts(exercise, file.with_suffix(".ipynb"), run) == wrong
    assert wrong["score"]["earned"] < right["score"]["earned"] == suite_points(exercise)


def suite_points(exercise) -> int:
    return sum(check.points for check in suite_runner.list_suite_checks(exercise) if not check.cuda)
