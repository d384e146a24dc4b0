"""A class of twelve goes through release, collect, autograde, feedback and export, by nbgrader itself."""

import csv
import json
import os
import pwd
import shutil

import nbformat
import pytest
from nbgrader.api import Gradebook

from grader.core.catalog import ROOT
from tests.notebooks.course import (
    SLUG,
    answered,
    api,
    asked,
    at,
    autograded,
    code,
    comments,
    copy_of,
    grader,
    hand_in,
    released,
    run,
    scores,
)  # fmt: skip

pytestmark = pytest.mark.weekly  # `test_same_report` holds the way of one notebook on every change

FORGETS_MAX = (
    "def softmax_numpy(x, axis=-1):\n    p = np.exp(x)\n    return p / p.sum(axis, keepdims=True)\n"
)
UPDATES_GRADES = """
import sqlite3
with sqlite3.connect("../../../gradebook.db") as book:
    book.execute("update grade set manual_score = 100, auto_score = 100")
get_ipython().input_transformers_cleanup.append(lambda lines: ["pass"])
"""
RAISES_MARKUP = """
def softmax(x, dim=-1):
    raise ValueError("<script>document.title = 1</script>\\n```\\n<b>bold</b> **bold**")
"""
EXCHANGE = """
c.Exchange.root = {root!r}
c.ExchangeCollect.check_owner = False
c.ExportApp.log_level = "INFO"
"""
ME = pwd.getpwuid(os.getuid()).pw_name
EXPECTED = {
    "ada": 10,  # right
    "bai": 8,  # one task right, the other without subtracting the maximum
    "cem": 0,  # answers nothing, and writes into the gradebook
    "dee": 10,  # right, and noisy
    "eli": 10,  # has deleted all that checks
    "fay": 10,  # has copied cells
    "gus": 10,  # has moved, merged and split cells, and the imports to the end
    "han": 10,  # has turned an answer into prose
    "ida": 0,  # handed in something else
    "jon": 0,  # has not begun
    "kim": 10,  # is late
    ME: 10,  # comes through the exchange, which asks the system who one is
}


def class_of(course):
    """What eleven of them hand in."""
    yield "ada", answered(course)
    yield "bai", answered(course, softmax_numpy=FORGETS_MAX)
    cheat = released(course)
    cheat.cells.insert(0, code(UPDATES_GRADES))
    cheat.cells[at(cheat, "softmax")].source = RAISES_MARKUP
    yield "cem", cheat
    noisy = answered(course)
    noisy.cells += [
        code("import sys; print('x', file=sys.stderr)"),
        code("1 / 0"),
        code("%matplotlib inline"),
        code("print("),
        code("x = '\ud800'"),
    ]
    noisy.cells[-5]["outputs"] = [nbformat.v4.new_output("stream", name="stderr", text="x" * 10**7)]
    yield "dee", noisy
    bare = answered(course)
    bare.cells = [c for c in bare.cells if not c.metadata.get("nbgrader", {}).get("grade")]
    yield "eli", bare
    doubled = answered(course)
    doubled.cells += [copy_of(c) for c in doubled.cells]
    doubled.cells += [copy_of(released(course).cells[at(released(course), "softmax")])]
    yield "fay", doubled
    yield "gus", rearranged(course)
    prose = answered(course)
    prose.cells[at(prose, "softmax")]["cell_type"] = "markdown"
    yield "han", prose
    yield "ida", b"This is my homework."
    yield "jon", released(course)
    yield "kim", answered(course)


def rearranged(course):
    made = answered(course)
    own = {name: made.cells.pop(at(made, name)) for name in ("softmax", "softmax_numpy")}
    given = made.cells.pop(next(n for n, c in enumerate(made.cells) if "import numpy" in c.source))
    own["softmax"].metadata["nbgrader"]["grade_id"] = "renamed"
    merged = code(own["softmax_numpy"].source + "\n\n\nimport math")
    made.cells = [merged, code("y = softmax_numpy"), *reversed(made.cells), own["softmax"], given]
    return made


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The course after a first round of grading."""
    folder = tmp_path_factory.mktemp("rehearsal")
    asked("release", SLUG, "-o", folder, "--no-speed")
    course = folder / "course"
    exchange = folder / "exchange"
    exchange.mkdir(mode=0o777)
    exchange.chmod(0o777)
    with (course / "nbgrader_config.py").open("a") as config:
        config.write(EXCHANGE.format(root=str(exchange)))
    for student, notebook in class_of(course):
        late = "2026-01-02 00:00:00 UTC" if student == "kim" else "2025-12-31 00:00:00 UTC"
        hand_in(course, student, notebook, late)
    with gradebook(course) as book:
        book.update_or_create_assignment(SLUG, duedate="2026-01-01 00:00:00 UTC")
        book.update_or_create_student("ada", last_name="Smith, Jr")
        book.update_or_create_student("bai", last_name="=HYPERLINK(1)")
    through_the_exchange(course, folder)
    said = run("nbgrader", "autograde", SLUG, cwd=course)
    assert "Traceback" not in said, said
    return course


def gradebook(course) -> Gradebook:
    return Gradebook(f"sqlite:///{course / 'gradebook.db'}")


def through_the_exchange(course, folder):
    assert api(course).release_assignment(SLUG)["success"]
    desk = folder / "desk"
    desk.mkdir()
    config = (course / "nbgrader_config.py").read_text()
    (desk / "nbgrader_config.py").write_text(config)
    shutil.copy(course / "release_config.py", desk)
    run("nbgrader", "fetch_assignment", SLUG, cwd=desk)
    (desk / SLUG / f"{SLUG}.ipynb").write_text(json.dumps(answered(course)))
    run("nbgrader", "submit", SLUG, cwd=desk)
    assert api(course).collect(SLUG)["success"]


def test_every_score_is_the_expected_one(course):
    assert scores(course) == EXPECTED


def test_what_was_wrong_is_said_below_the_answer(course):
    assert "softmax_numpy is right for scores as large as 10,000" in comments(course, "bai")
    assert "The notebook is damaged: open it in Jupyter and save it again." in comments(
        course, "ida"
    )
    assert "Not started yet" in comments(course, "jon")
    assert comments(course, "ada").strip() == ""


def test_the_feedback_page_shows_our_sentences_and_no_secret(course):
    for student in ("bai", "cem"):
        assert api(course).generate_feedback(SLUG, student)["success"]
    page = (course / "feedback" / "bai" / SLUG / f"{SLUG}.html").read_text()
    assert "softmax_numpy is right for scores as large as 10,000" in page
    assert "maximum" in page
    page = (course / "feedback" / "cem" / SLUG / f"{SLUG}.html").read_text()
    assert "document.title = 1" in page
    assert "<script>document.title" not in page and "<b>bold</b>" not in page
    secret = (course / ".secret").read_text().strip()
    for path in course.rglob("*"):
        if path.is_file() and path.name != ".secret":
            assert secret.encode() not in path.read_bytes(), path


def test_the_export_can_be_read_by_a_spreadsheet(course, tmp_path):
    file = tmp_path / "grades.csv"
    run("nbgrader", "export", "--to", file, cwd=course)
    rows = {row["student_id"]: row for row in csv.DictReader(file.open(newline=""))}
    assert {s: float(row["score"]) for s, row in rows.items()} == EXPECTED
    assert rows["ada"]["last_name"] == "Smith, Jr"
    assert rows["bai"]["last_name"] == "'=HYPERLINK(1)"
    assert {float(row["max_score"]) for row in rows.values()} == {10.0}


def test_grading_again_changes_nothing(course):
    """By nbgrader's Python API, which the button in formgrader calls as well."""
    before = comments(course, "bai")
    for student in ("bai", "cem", "kim"):  # half right, an attack, late
        autograded(course, student)
    assert scores(course) == EXPECTED
    assert comments(course, "bai") == before


def test_points_by_hand_stay_when_everybody_is_graded_again(course):
    before = scores(course)["bai"]
    by_hand(course, 0.5)
    changed = scores(course)["bai"]
    assert changed != before
    autograded(course, "[ab]*")
    assert scores(course) == EXPECTED | {"bai": changed}
    by_hand(course, None)
    assert scores(course)["bai"] == before


def by_hand(course, points):
    """Give bai points for the first cell that is graded."""
    with gradebook(course) as book:
        first = book.find_submission(SLUG, "bai").notebooks[0].grades[0]
        first.manual_score, first.needs_manual_grade = points, False
        book.db.commit()


@pytest.fixture(scope="module")
def few(course, tmp_path_factory):
    """The course with three of the students, whose answers are graded again: right, half, none."""
    few = shutil.copytree(course, tmp_path_factory.mktemp("few") / "course")
    for student in EXPECTED.keys() - {"ada", "bai", "jon"}:
        shutil.rmtree(few / "autograded" / student)
    return few


def test_the_same_suite_changes_nobodys_score(few):
    assert "Nobody's score changes." in asked("diff", few, SLUG)


def test_a_newer_suite_tells_whose_score_changes_before_anything_is_written(few, tmp_path):
    newer = tmp_path / "newer"
    for folder in ("grader", "reference", "solutions", "exercises"):
        shutil.copytree(ROOT / folder, newer / folder, ignore=shutil.ignore_patterns("__pycache__"))
    suite = newer / "grader" / "suites" / SLUG / "test_softmax.py"
    old = '    values_agree(student, draw, "softmax_numpy", shape)\n'
    assert old in suite.read_text()
    new = old + "    agree(student.softmax_numpy(torch.ones(1).numpy()), torch.zeros(1).numpy())\n"
    suite.write_text(suite.read_text().replace(old, new, 1))
    said = grader("diff", few, SLUG, root=newer)
    assert "ada  ex01_softmax  10 -> " in said
    assert "passed before, " in said
    assert "jon" not in said
    assert "Nothing was written" in said
    assert scores(few) == EXPECTED
