"""Any file in a student's folder is found, and becomes a notebook that nbgrader can show."""

import csv
import json

import nbformat
import pytest

from grader.core.translation import Words
from grader.release import course_release
from grader.release.nbgrader_bridge.judged_autograde import read_nbgrader_timestamp
from grader.release.nbgrader_bridge.read_cells import read_nbgrader_cells
from grader.release.nbgrader_bridge.submitted_answer import find_submitted_answer
from grader.worker.parent import walls
from tests.notebooks.course import SLUG, answered, api, asked, hand_in, released, run

DATA = {"image/png": "iVBORw0KGgo="}


@pytest.mark.parametrize(
    "names, expected",
    [
        ([f"{SLUG}.ipynb"], f"{SLUG}.ipynb"),
        ([f"{SLUG}.ipynb", f"{SLUG}.py", f"{SLUG} (1).ipynb"], f"{SLUG}.ipynb"),
        ([f"{SLUG}.py", f"{SLUG} (1).ipynb"], f"{SLUG}.py"),
        ([f"{SLUG} (1).ipynb", "notes.txt", "timestamp.txt"], f"{SLUG} (1).ipynb"),
        ([f"{SLUG}-Copy1.ipynb"], f"{SLUG}-Copy1.ipynb"),
        ([f"{SLUG} - Copy.py"], f"{SLUG} - Copy.py"),
        ([f"{SLUG.upper()}.IPYNB"], f"{SLUG.upper()}.IPYNB"),
        ([f"{SLUG} (1).ipynb", f"{SLUG}_2.py"], None),
        ([f"{SLUG}_helpers.py"], None),
        (["homework.ipynb"], None),
        ([], None),
    ],
)  # fmt: skip
def test_the_only_file_with_a_copys_name_is_the_answer(tmp_path, names, expected):
    for name in names:
        (tmp_path / name).write_text("{}")
    found = find_submitted_answer(tmp_path, SLUG)
    assert (found.path.name if found.path else None) == expected
    assert bool(found.why) == (expected is None)


def test_no_link_and_no_folder_is_an_answer(tmp_path):
    (tmp_path / f"{SLUG}.ipynb").symlink_to(__file__)
    assert (
        find_submitted_answer(tmp_path, SLUG).why
        == f"{SLUG}.ipynb is a link: hand in the file itself."
    )
    (tmp_path / f"{SLUG}.ipynb").unlink()
    (tmp_path / f"{SLUG}.ipynb").mkdir()
    assert find_submitted_answer(tmp_path, SLUG).why == f"{SLUG}.ipynb is not a file."


@pytest.mark.parametrize(
    "source, attachments, shown",
    [
        ("![x](attachment:a.png)", {"a.png": DATA}, "![x](attachment:a.png)"),
        ("![x](attachment:b.png)", {"a.png": DATA}, "![x](b.png)"),
        ("![x](attachment:a.png)", {"a.png": {}}, "![x](a.png)"),
        ("![x](attachment:a.png)", {"a.png": {"image/png": 3}}, "![x](a.png)"),
        ("![x](attachment:a.png)", 3, "![x](a.png)"),
        ("![x](attachment:a%20b.png)", {"a b.png": DATA}, "![x](a%20b.png)"),
    ],
)
def test_a_pasted_picture_stays_and_one_that_is_lost_is_not_asked_for(
    tmp_path, source, attachments, shown
):
    cell = {"cell_type": "markdown", "source": source, "attachments": attachments}
    (tmp_path / f"{SLUG}.ipynb").write_text(json.dumps({"cells": [cell]}))
    made = read_nbgrader_cells(tmp_path / f"{SLUG}.ipynb", Words("en"))
    nbformat.validate(made)
    assert made.cells[0].source == shown
    assert ("attachments" in made.cells[0]) == (
        "a.png" in str(attachments) and "iVBO" in str(attachments)
    )


def test_a_plain_file_is_a_cell_for_each_task(tmp_path):
    folder = tmp_path / SLUG
    folder.mkdir()
    text = (
        "import torch\n\n\ndef softmax(x):\n    return x\n\n\ndef softmax_numpy(x):\n    return x\n"
    )
    (folder / f"{SLUG}.py").write_text(text)
    made = read_nbgrader_cells(folder / f"{SLUG}.py", Words("zh"))
    assert made.cells[0].source.startswith(f"*评分的是 {SLUG}.py")
    assert [cell.source.split("(")[0] for cell in made.cells[1:]] == [
        "import torch", "def softmax", "def softmax_numpy"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "content, known",
    [(b"2026-03-01 12:00:00 UTC", True), (b"yesterday", False), (b"\xff", False), (b"", False), (None, False)],
)  # fmt: skip
def test_a_time_that_is_none_is_not_known(tmp_path, content, known):
    if content is not None:
        (tmp_path / "timestamp.txt").write_bytes(content)
    assert (read_nbgrader_timestamp(str(tmp_path)) is not None) == known


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A course in which one answer has another name, one is not clear, and one cell is odd."""
    out = tmp_path_factory.mktemp("any")
    asked("release", SLUG, "-o", out, "--no-speed")
    course = out / "course"
    odd = released(course)  # nothing is written, so that nothing is judged
    odd.cells.append(nbformat.v4.new_markdown_cell("![x](&#97;ttachment:gone.png)"))
    hand_in(course, "odd", odd, "yesterday")
    hand_in(course, "nil", b"")
    hand_in(course, "bin", b"\x00\xff\x89PNG")
    path = hand_in(course, "ren", answered(course))
    path.rename(path.with_name(f"{SLUG} (1).ipynb"))
    for name in ("a", "b"):
        path = hand_in(course, "two", odd)
        path.rename(path.with_name(f"{SLUG} ({'ab'.index(name)}).ipynb"))
    return course, api(course).autograde(SLUG, "*", force=True, create=True)


def test_one_that_is_not_clear_is_named_and_stops_nobody(graded):
    course, done = graded
    assert not done["success"]
    assert f"two: {SLUG} was not graded. {SLUG} (0).ipynb, {SLUG} (1).ipynb: any" in done["log"]
    run("nbgrader", "export", "--to", course / "grades.csv", cwd=course)
    rows = {r["student_id"]: r for r in csv.DictReader((course / "grades.csv").open(newline=""))}
    points = {s: float(r["score"]) for s, r in rows.items()}
    assert points == {"odd": 0, "nil": 0, "bin": 0, "ren": 10, "two": 0}
    assert rows["ren"]["remark"] == f"{SLUG} (1).ipynb was graded"
    assert "any of them may be meant" in rows["two"]["remark"]
    assert rows["odd"]["remark"] == ""
    for student in ("nil", "bin"):
        says = f"{SLUG}.ipynb could not be graded: "
        assert rows[student]["remark"].startswith(says)
        assert f"{student}: {says}" in done["log"]


def test_formgrader_lists_everybody_whatever_a_time_stamp_says(graded):
    listed = {s["student"]: s["timestamp"] for s in api(graded[0]).get_submissions(SLUG)}
    assert listed == dict.fromkeys(("odd", "nil", "bin", "ren", "two"))


def test_marks_that_count_are_not_given_behind_the_weakest_wall(graded):
    judge = course_release.load_nbgrader_config(graded[0]).Judge
    assert judge.weakest == "locked"
    with pytest.raises(walls.NoSuchWall, match="demands the wall 'locked'"):
        walls.choose_wall("process", weakest=judge.weakest)


def test_feedback_is_made_of_everybody_and_released_to_those_who_can_fetch_it(graded):
    course, _ = graded
    for student in ("odd", "ren"):
        assert api(course).generate_feedback(SLUG, student)["success"]
    page = (course / f"feedback/ren/{SLUG}/{SLUG}.html").read_text()
    assert "Out[" not in page and "No response" not in page
    (course / f"feedback/ren/{SLUG}/timestamp.txt").write_text("2026-03-01 12:00:00 UTC")
    (course / f"feedback/ren/{SLUG}/submission_secret.txt").write_text("secret")
    assert api(course).release_assignment(SLUG)["success"]
    done = api(course).release_feedback(SLUG)
    assert done["success"], done
    assert f"feedback/odd/{SLUG}" in done["log"]
    assert len(list((course.parent / "exchange").rglob("feedback/*.html"))) == 1
