"""Walks docs/instructors.md: a rehearsal, then a week of a course of two students."""

import csv
import zipfile

import pytest

from tests.walks.pages import read_page_commands, walk
from tests.walks.tree import SLUG, answer, copy_tree, make_clones, put

pytestmark = pytest.mark.weekly  # minutes

COMMANDS = read_page_commands("instructors.md")
# One exercise stands for all, without speed, which takes quiet minutes.
SHORT = {"EX": SLUG, "ARGS": "--no-speed"}


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """The tree after all commands in their order, and what each printed."""
    tree = copy_tree(tmp_path_factory.mktemp("semester"))
    put(tree / "rehearsal/me", answer())
    make_clones(tree / "clones")
    said = {}
    for command in COMMANDS:
        short = SHORT if command.startswith(("make release", "make class")) else {}
        said[command] = walk(command, tree, **short)
    return tree, said


def test_all_commands_of_the_page_were_run(walked):
    kinds = [command.split()[1] for command in walked[1] if command.startswith("make")]
    assert kinds == ["doctor", "release", "class", "collect", "class", "similar", "return"]


def test_the_rehearsal_and_the_class_have_results_of_their_own(walked):
    tree, _ = walked
    rehearsed, graded = (
        {row["student"]: row["total"] for row in csv.DictReader((tree / name).open(newline=""))}
        for name in ("rehearsed/grades.csv", "results/grades.csv")
    )
    assert rehearsed == {"me": "10"}
    assert graded["ada"] == "10" and int(graded["ben"]) < 10


def test_every_student_gets_the_report_back(walked):
    tree, said = walked
    assert sorted(path.name for path in (tree / "returned").iterdir()) == ["ada.zip", "ben.zip"]
    with zipfile.ZipFile(tree / "returned/ada.zip") as back:
        assert b"10" in back.read("report.html")
    assert "To be settled" not in "".join(said.values())
    similar = next(text for command, text in said.items() if command.startswith("make similar"))
    assert "ada" in similar and "ben" in similar
