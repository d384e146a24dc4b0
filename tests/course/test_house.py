"""The house is in order, and imports go one way."""

import pytest

from grader.authoring import import_rules, project_rules
from grader.core.catalog import ROOT


def test_the_house_is_in_order_and_nothing_is_told_in_english_only():
    found = project_rules.check_project_laws()
    assert found.breaches == ()
    assert found.notes == ()


@pytest.mark.parametrize(
    "place, line",
    [
        ("grader/core/records.py", "import grader.core.catalog"),
        ("grader/core/catalog.py", "from grader.cli.app import app"),
        ("grader/core/catalog.py", "def late():\n    from grader.cli.app import app"),
        ("grader/core/catalog.py", "if True:\n    pass\nelse:\n    import grader.cli.app"),
        ("grader/core/catalog.py", "try:\n    1\nexcept OSError:\n    import grader.cli.app"),
        ("grader/worker/parent/client.py", "from grader.submission import reader_client"),
        ("grader/judging/agree.py", "from grader.reporting import html"),
        ("grader/practice/hints.py", "from grader.classroom import settings"),
        ("grader/authoring/proof.py", "import grader.release.bundle"),
        ("grader/practice/hints.py", "import grader.learn.learn_page"),
        ("grader/practice/hints.py", "from nicegui import ui"),
        ("grader/cli/app.py", "import markdown2"),
        ("grader/core/catalog.py", "import solutions.ex01_softmax"),
        ("grader/core/catalog.py", "from reference import softmax"),
        ("grader/grading/session.py", "from exercises import ex01_softmax"),
        ("grader/judging/agree.py", "from reference import ex01_softmax"),
        ("grader/judging/agree.py", "from grader.suites.ex01_softmax import mistakes"),
        ("grader/worker/child/executor.py", "from grader import records"),
        ("grader/worker/child/executor.py", "from .. import supervisor"),
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
    [complaint] = import_rules.list_broken_import_laws(tmp_path)
    assert complaint.startswith(f"{place} imports ")


@pytest.mark.parametrize(
    "place, line",
    [
        ("grader/judging/agree.py", "from reference.expected import Expected"),
        ("grader/suites/ex01_softmax/mistakes.py", "from .test_softmax import test_values"),
        ("grader/suites/ex01_softmax/mistakes.py", "from reference.ex01_softmax import softmax"),
        ("grader/worker/child/executor.py", "from . import wire"),
        ("grader/worker/parent/client.py", "from grader.worker.child import wire"),
        ("reference/ex03_sdpa.py", "import math"),
        ("grader/__main__.py", "from grader.cli.app import run_command_line"),
    ],
)
def test_an_import_with_the_law_is_not(tmp_path, place, line):
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    assert list(import_rules.list_broken_import_laws(tmp_path)) == []


def test_modules_that_import_each_other_are_found(tmp_path):
    for name, line in (("a", "from grader.core import b"), ("b", "import grader.core.c"),
                       ("c", "from grader.core.a import x"), ("d", "from grader.core import a")):  # fmt: skip
        (tmp_path / "grader/core").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"grader/core/{name}.py").write_text(f"{line}\n")
    [complaint] = import_rules.list_broken_import_laws(tmp_path)
    assert complaint.startswith("grader.core.a, grader.core.b, grader.core.c import each other.")


def test_modules_of_the_same_name_are_found(tmp_path):
    for place in ("grader/core/times.py", "grader/timing/times.py", "grader/suites/ex01/times.py",
                  "grader/core/__init__.py", "grader/timing/__init__.py"):  # fmt: skip
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("")
    [complaint] = import_rules.list_broken_import_laws(tmp_path)
    assert complaint.startswith("grader/core/times.py and grader/timing/times.py have the same")


def test_every_folder_of_the_grader_stands_on_a_floor():
    folders = {p.name for p in (ROOT / "grader").iterdir() if (p / "__init__.py").is_file()}
    assert folders | {"__main__", "notebook"} == set(import_rules._FLOOR_NUMBERS)
    files = {p.name for p in (ROOT / "grader").glob("*.py")}
    assert files == {"__init__.py", "__main__.py", "notebook.py"}
