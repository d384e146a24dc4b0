"""Walks docs/classes.md, section by section: folders, clones, appeals, a course, what students get."""

import csv
import shutil
import zipfile

import pytest

from tests.classes.handing import zipped
from tests.course.collected import git
from tests.walks.pages import read_page_commands, walk
from tests.walks.tree import (
    SLUG,
    answer,
    copy_tree,
    make_clones,
    notebook_of,
    put,
    wrong_answer,
)

pytestmark = pytest.mark.weekly  # minutes

SHORT = {"EX": SLUG, "ARGS": "--no-speed"}
FOLDERS = read_page_commands("classes.md", under="Grading a class")
RETURNED = read_page_commands("classes.md", under="Collecting and returning")
AGAIN = read_page_commands("classes.md", under="Grading again")
COURSE = read_page_commands("classes.md", under="A course in one file")
STUDENTS = read_page_commands("classes.md", under="What students get")
SHEET = (
    "Identifier,Full name,Status,Grade,Maximum Grade,Last modified (grade)\n"
    "Participant 57,Ada Lovelace,,,10.00,-\nParticipant 58,Ben Bitdiddle,,,10.00,-\n"
)


def run(tree, *commands):
    """Run commands; those of a class and of a release with one exercise, without speed."""
    said = []
    for command in commands:
        short = "class" in command.split()[:2] or "release" in command.split()[:2]
        said.append(walk(command, tree, **(SHORT if short and "ARGS=" not in command else {})))
    return said


def totals(tree, folder="results"):
    rows = csv.DictReader((tree / folder / "grades.csv").open(newline=""))
    return {row["student"]: row["total"] for row in rows}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return copy_tree(tmp_path_factory.mktemp("class"))


@pytest.fixture(scope="module")
def graded(tree):
    """After the first section: a file, a notebook and a zip, and another week."""
    put(tree / "submissions/ada", answer())
    put(tree / "submissions/ben", notebook_of(wrong_answer()), f"{SLUG}.ipynb")
    (tree / "submissions/eve.zip").write_bytes(zipped((f"hw/{SLUG}.py", answer().encode())))
    put(tree / "week3/ada", answer("ex03_sdpa"), "ex03_sdpa.py")
    run(tree, *FOLDERS)
    first, third = totals(tree), totals(tree, "graded")
    for name in ("submissions", "results"):
        shutil.rmtree(tree / name)
    return first, third


def test_a_student_is_a_folder_or_a_zip(graded):
    first, third = graded
    assert len(FOLDERS) == 2
    assert (first["ada"], first["eve"]) == ("10", "10") and 0 < int(first["ben"]) < 10
    assert third == {"ada": "13"}  # without the points for speed


@pytest.fixture(scope="module")
def returned(tree, graded):
    """After the second section, on clones, a zip of Canvas and a worksheet of Moodle."""
    make_clones(tree / "clones")
    uploads = [(f"x_{n}_{n}0_{SLUG}.py", b"") for n in (11, 12)]
    (tree / "submissions.zip").write_bytes(zipped(*uploads))
    (tree / "Grades.csv").write_text(SHEET)
    return run(tree, *RETURNED)


def test_what_was_collected_goes_back_in_every_way(tree, returned):
    assert len(RETURNED) == len(returned) == 6
    back = tree / "returned"
    assert {p.name for p in back.iterdir()} == {
        "ada.zip", "ben.zip", "canvas.zip", "moodle.zip", "moodle.csv"
    }  # fmt: skip
    assert "Attention by Hand" in git(tree / "clones/ben", "show", "grading:README.md")
    with zipfile.ZipFile(back / "canvas.zip") as canvas:
        assert sorted(canvas.namelist()) == [f"x_11_110_{SLUG}.py", f"x_12_120_{SLUG}.py"]
    marks = {row["Full name"]: row["Grade"] for row in csv.DictReader((back / "moodle.csv").open())}
    assert marks["Ada Lovelace"] == "10.00" and 0 < float(marks["Ben Bitdiddle"]) < 10


def test_an_appeal_and_a_mended_suite_change_what_they_should(tree, returned):
    diff, _, replay = run(tree, *AGAIN)
    assert diff == "Nobody's score changes.\n"
    assert SLUG in replay
    assert totals(tree)["ada"] == "10"


def test_a_course_in_one_file_is_written_released_and_graded(tree, returned):
    run(tree, *COURSE)
    assert (tree / "course.toml").is_file()
    assert (tree / "out/attention-by-hand.zip").is_file()
    assert totals(tree)["ada"] == "10"


def test_a_sealed_release_replaces_the_open_one(tree, returned):
    seal, bench = STUDENTS
    run(tree, seal)
    assert not (tree / "out/attention-by-hand.zip").exists()
    with zipfile.ZipFile(tree / "out/attention-by-hand-sealed.zip") as sealed:
        assert "attention-by-hand/SEALED.md" in sealed.namelist()
    assert SLUG in walk(f"{bench} {SLUG}", tree)
