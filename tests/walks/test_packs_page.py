"""Walks docs/packs.md with the sample pack as `my-pack`."""

import csv
import shutil

import pytest

from grader.core.catalog import ROOT
from tests.walks.pages import read_page_commands, walk
from tests.walks.tree import copy_tree, put

pytestmark = pytest.mark.weekly

GRADE, HOUSE, CLASS = read_page_commands("packs.md")
ANSWER = (ROOT / "tests/packs/sample/solutions/ex50_sink_softmax.py").read_text()


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = copy_tree(tmp_path_factory.mktemp("packs"))
    shutil.copytree(ROOT / "tests/packs/sample", folder / "my-pack")
    put(folder / "submissions/ada", ANSWER, "ex50_sink_softmax.py")
    return folder


def test_the_solution_earns_everything(tree):
    said = walk(GRADE, tree)
    assert "ex50_sink_softmax" in said and "All checks passed" in said


def test_the_house_with_the_pack_is_in_order(tree):
    assert walk(HOUSE, tree).splitlines()[-1] in (
        "The house is in order.",
        "What was checked is in order.",
    )


def test_a_class_is_graded_with_the_pack_and_told_why_its_totals_are_0(tree):
    said = walk(CLASS, tree)
    assert "Every total is 0, because no exercise of this run counts" in said
    [row] = csv.DictReader((tree / "results/grades.csv").open(newline=""))
    assert int(row["ex50_sink_softmax"]) > 0 and row["total"] == "0"
