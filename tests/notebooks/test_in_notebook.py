"""What a cell that checks grades: the file as it was saved, or else what the kernel has run."""

import json
import re

import pytest

from grader import notebook
from grader.core import catalog
from tests.notebooks.course import SLUG, solution

IMPORTS = "import torch"
TASK = solution()["softmax"]
UNSHIFTED = "def softmax(x, dim=-1):\n    return x.exp() / x.exp().sum(dim, keepdim=True)"


def saved(folder, *sources):
    path = folder / f"{SLUG}.ipynb"
    cells = [{"cell_type": "code", "source": source} for source in sources]
    path.write_text(json.dumps({"cells": cells}))
    return path


@pytest.mark.parametrize(
    "file, run, stale",
    [
        ([TASK], [], False),
        ([TASK], [TASK], False),
        ([TASK], [UNSHIFTED, TASK], False),
        ([UNSHIFTED, TASK], [UNSHIFTED], False),
        ([TASK], [TASK, UNSHIFTED], True),
        ([], [TASK], True),
        ([TASK], ["x = 3", "softmax(", "%time softmax(x)"], False),
    ],
    ids=["not run", "the same", "run again", "both saved", "changed since", "deleted", "no task"],
)
def test_a_task_that_was_run_must_be_in_the_file(tmp_path, file, run, stale):
    path = saved(tmp_path, IMPORTS, *file)
    assert notebook._stale(path, [IMPORTS, *run], catalog.find_catalog_exercise(SLUG)) is stale


@pytest.mark.parametrize("content", [b"", b"{", b"[]"])
def test_of_a_damaged_file_grading_says_what_is_wrong(tmp_path, content):
    path = saved(tmp_path)
    path.write_bytes(content)
    assert notebook._stale(path, [TASK], catalog.find_catalog_exercise(SLUG)) is False


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Check a task in a kernel that runs in `tmp_path` and has run these cells."""

    def check(*run, **named):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(notebook, "_executed", lambda: [IMPORTS, *run])
        return notebook.check(SLUG, named.pop("task", "softmax"), lang=named.pop("lang", "en"))

    return check


def test_a_stale_file_is_not_graded(kernel, tmp_path):
    saved(tmp_path, IMPORTS, TASK)
    assert repr(kernel(UNSHIFTED)).startswith("This notebook has changed since it was saved")
    assert repr(kernel(UNSHIFTED, lang="zh")).startswith("notebook 在上次保存之后又改过了")


def test_without_a_file_the_cells_that_were_run_are_graded(kernel):
    shown = kernel(UNSHIFTED)
    assert "The notebook's file was not found" in repr(shown)
    assert re.search("^[1-5]/6 points", repr(shown), re.MULTILINE)  # right but for large scores
    assert "should be" in repr(shown)
    assert "✗" in shown._repr_html_()


def test_what_is_no_task_gets_a_sentence(kernel):
    says = "ex01_softmax has no task 'sofmax'. Did you mean softmax?"
    assert repr(kernel(task="sofmax")) == says
