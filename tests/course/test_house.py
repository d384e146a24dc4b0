"""The house is in order, and imports go one way."""

from pathlib import Path

import pytest

from grader.catalog import ROOT
from grader.course import directions, house


def test_the_house_is_in_order_and_nothing_is_told_in_english_only():
    found = house.state()
    assert found.breaches == ()
    assert found.notes == ()


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
    [complaint] = directions.against(tmp_path)
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
    assert list(directions.against(tmp_path)) == []


def test_no_file_outgrows_its_room():
    long = {
        str(path.relative_to(ROOT)): lines
        for folder in ("grader", "reference")
        for path in Path(ROOT / folder).rglob("*.py")
        if "suites" not in path.parts
        if (lines := len(path.read_text().splitlines())) > 300
    }
    assert long == {}
