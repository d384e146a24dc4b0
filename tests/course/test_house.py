"""The house is in order, and each law is seen to be broken."""

from dataclasses import replace
from pathlib import Path

import pytest

from grader import catalog
from grader.catalog import ROOT
from grader.course import house
from grader.judging import suite


def test_the_house_is_in_order():
    assert house.complaints() == []


@pytest.mark.parametrize(
    "place, line",
    [
        ("grader/records.py", "import grader.catalog"),
        ("grader/catalog.py", "from grader.cli import app"),
        ("grader/catalog.py", "import solutions.ex01_softmax"),
        ("grader/catalog.py", "from reference import softmax"),
        ("grader/grading.py", "from exercises import ex01_softmax"),
        ("grader/judging/agree.py", "from reference import ex01_softmax"),
        ("grader/judging/agree.py", "from grader.suites.ex01_softmax import mistakes"),
        ("grader/worker/child/room.py", "from grader import records"),
        ("grader/worker/child/room.py", "from .. import supervisor"),
        ("grader/suites/ex01_softmax/test_softmax.py", "from grader.worker import client"),
        ("grader/suites/ex01_softmax/test_softmax.py", "import solutions"),
        ("grader/suites/ex01_softmax/mistakes.py", "import grader.suites.ex02_masking.mistakes"),
        ("reference/ex01_softmax.py", "import grader"),
        ("reference/ex01_softmax.py", "import pytest"),
        ("solutions/ex01_softmax.py", "import reference"),
        ("solutions/ex01_softmax.py", "from ex02_masking import padding_mask"),
    ],
)
def test_an_import_against_the_law_is_found(tmp_path, place, line):
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    [complaint] = house.imports(tmp_path)
    assert complaint.startswith(f"{place} imports ")


@pytest.mark.parametrize(
    "place, line",
    [
        ("grader/judging/agree.py", "from reference.expected import Expected"),
        ("grader/suites/ex01_softmax/mistakes.py", "from .test_softmax import test_values"),
        ("grader/suites/ex01_softmax/mistakes.py", "from reference.ex01_softmax import softmax"),
        ("grader/worker/child/room.py", "from . import wire"),
        ("grader/worker/client.py", "from grader.worker.child import wire"),
        ("reference/ex03_sdpa.py", "import math"),
        ("grader/__main__.py", "from grader.cli import main"),
    ],
)
def test_an_import_with_the_law_is_not(tmp_path, place, line):
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    assert house.imports(tmp_path) == []


def complaints(exercise) -> str:
    return "\n".join(house.about(exercise))


def test_a_name_without_solution_is_found():
    exercise = catalog.find("ex01_softmax")
    more = replace(exercise.functions["softmax"], name="softmin")
    changed = replace(exercise, functions={**exercise.functions, "softmin": more})
    assert "There is no softmin in the file." in complaints(changed)


def test_a_missing_solution_is_found():
    exercise = replace(catalog.find("ex01_softmax"), slug="ex99_nothing")
    assert complaints(exercise) == (
        "ex99_nothing: solutions/ex99_nothing.py is missing. Write it; it is the one source."
    )


def test_too_few_hints_are_found():
    exercise = catalog.find("ex01_softmax")
    bare = {name: replace(f, hints=()) for name, f in exercise.functions.items()}
    assert "softmax has 0 hints; it needs 2." in complaints(replace(exercise, functions=bare))


@pytest.mark.parametrize("what", ["mistakes", "variants"])
def test_too_few_mistakes_and_variants_are_found(monkeypatch, what):
    monkeypatch.setattr(suite, what, lambda _: [])
    assert f"0 {'named' if what == 'mistakes' else 'right'} {what}; it needs" in complaints(
        catalog.find("ex01_softmax")
    )


def test_points_that_do_not_add_up_are_found(monkeypatch):
    monkeypatch.setitem(house.POINTS, "ex01_softmax", (9, 1))
    assert "its checks and speed give (10, 0) points" in complaints(catalog.find("ex01_softmax"))


def test_a_skeleton_out_of_step_is_found(monkeypatch):
    monkeypatch.setattr(house.skeletons, "lesson_text", lambda *_: "other")
    assert "is out of step. Run `make skeletons`." in complaints(catalog.find("ex01_softmax"))


def test_no_file_outgrows_its_room():
    long = {
        str(path.relative_to(ROOT)): lines
        for folder in ("grader", "reference")
        for path in Path(ROOT / folder).rglob("*.py")
        if "suites" not in path.parts
        if (lines := len(path.read_text().splitlines())) > 300
    }
    assert long == {}
