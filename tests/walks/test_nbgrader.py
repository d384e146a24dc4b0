"""Walks docs/nbgrader.md: files put there by hand, one through the exchange, each odd in its way."""

import csv
import re
from html import unescape

import nbformat
import pytest

from grader.core.catalog import ROOT
from tests.notebooks.course import SLUG, answered, at, hand_in, released
from tests.walks.pages import read_page_commands, walk

pytestmark = pytest.mark.weekly  # two minutes; `tests/notebooks/test_any_file.py` holds the parts

MAKE, ENTER, RELEASE, COLLECT, AUTOGRADE, FEEDBACK, RETURN, EXPORT, *_ = read_page_commands(
    "nbgrader.md"
)  # those of a database follow
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FORGETS_MAX = (
    "def softmax_numpy(x, axis=-1):\n    p = np.exp(x)\n    return p / p.sum(axis, keepdims=True)\n"
)
SCORES = {
    "pasted": 10,  # a picture
    "lost_picture": 10,  # a reference to a picture that is not there, as an entity too
    "plain": 10,  # ex01_softmax.py
    "renamed": 10,  # ex01_softmax (1).ipynb
    "bare": 8,  # all metadata lost, and one task wrong
    "old": 8,  # format 3, and one task wrong
    "bad_time": 10,  # a time stamp that is no time
    "broken": 0,  # no notebook
    "idle": 0,  # has not begun
    "two": 0,  # two files with a copy's name
    "empty": 0,  # a folder without a file
    "far": 10,  # handed in through the exchange
}


def put(course, student, name, text):
    folder = course / "submitted" / student / SLUG
    folder.mkdir(parents=True)
    if name:
        (folder / name).write_text(text)


def put_class(course):
    """Put what a class handed in where the page says."""
    pasted = answered(course)
    picture = nbformat.v4.new_markdown_cell("![x](attachment:a.png)")
    picture["attachments"] = {"a.png": {"image/png": PICTURE}}
    pasted.cells.insert(3, picture)
    hand_in(course, "pasted", pasted)
    lost = answered(course)
    lost.cells.insert(3, nbformat.v4.new_markdown_cell("![x](attachment:b.png)"))
    lost.cells.insert(3, nbformat.v4.new_markdown_cell("![x](&#97;ttachment:c.png)"))
    hand_in(course, "lost_picture", lost)
    old = nbformat.convert(answered(course, softmax_numpy=FORGETS_MAX), 3)
    hand_in(course, "old", nbformat.writes(old, version=3))
    wrong = answered(course, softmax_numpy=FORGETS_MAX)
    for cell in wrong.cells:
        cell.metadata = {}
    hand_in(course, "bare", wrong)
    right = nbformat.writes(answered(course))
    put(course, "plain", f"{SLUG}.py", (ROOT / f"solutions/{SLUG}.py").read_text())
    put(course, "renamed", f"{SLUG} (1).ipynb", right)
    put(course, "two", f"{SLUG} (1).ipynb", right)
    (course / "submitted/two" / SLUG / f"{SLUG} (2).ipynb").write_text(right)
    put(course, "empty", "", "")
    hand_in(course, "bad_time", right, "yesterday")
    hand_in(course, "broken", "This is my homework.")
    hand_in(course, "idle", released(course))
    folder = hand_in(course, "far", right, "2026-03-01 12:00:00 UTC").parent
    (folder / "submission_secret.txt").write_text("as nbgrader submit writes it")


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """The course after the commands of the page, and what each printed."""
    folder = tmp_path_factory.mktemp("walk")
    said = {MAKE: walk(MAKE, ROOT, EX=SLUG, OUT=folder / "out", ARGS="--no-speed")}
    assert ENTER == "cd out/course"
    course = folder / "out/course"
    said[RELEASE] = walk(RELEASE, course)
    put_class(course)
    for command in (COLLECT, AUTOGRADE, FEEDBACK, RETURN, EXPORT):
        said[command] = walk(command, course, status=1 if command == AUTOGRADE else 0)
    return course, said


def test_every_answer_is_graded_whatever_its_file_is_called(walked):
    rows = csv.DictReader((walked[0] / "grades.csv").open(newline=""))
    assert {row["student_id"]: float(row["score"]) for row in rows} == SCORES


def test_the_export_and_the_last_lines_name_what_a_person_should_look_at(walked):
    course, said = walked
    rows = csv.DictReader((course / "grades.csv").open(newline=""))
    remarks = {row["student_id"]: row["remark"] for row in rows if row["remark"]}
    assert remarks == {
        "plain": f"{SLUG}.py was graded",
        "renamed": f"{SLUG} (1).ipynb was graded",
        "two": f"{SLUG} (1).ipynb, {SLUG} (2).ipynb: any of them may be meant. Leave one of them there.",
        "empty": f"There is no {SLUG}.ipynb, and no file.",
    }
    last = said[AUTOGRADE].splitlines()[-4:]
    assert [line.partition("] ")[2].partition(":")[0] for line in last] == [
        "plain", "renamed", "empty", "two"
    ]  # fmt: skip


def test_warnings_of_libraries_bury_nothing(walked):
    said = "".join(walked[1].values())
    assert "Warning:" not in said and "Warning (" not in said
    assert "ERROR" not in said.replace("AutogradeApp | ERROR] empty", "").replace(
        "AutogradeApp | ERROR] two", ""
    )


def test_feedback_reaches_whoever_can_fetch_it_and_names_the_others(walked):
    course, said = walked
    assert len(list((course.parent / "exchange/attention-by-hand/feedback").glob("*.html"))) == 1
    graded = sorted(SCORES.keys() - {"two", "empty", "far"})
    assert all(f"feedback/{student}/{SLUG}" in said[RETURN] for student in graded)


def page(course, student):
    text = (course / f"feedback/{student}/{SLUG}/{SLUG}.html").read_text()
    text = re.sub(r"(?s)<style.*?</style>|<script.*?</script>", "", text)
    return unescape(re.sub(r"<[^>]+>", "", text))


def test_a_pasted_picture_is_in_the_feedback(walked):
    text = (walked[0] / f"feedback/pasted/{SLUG}/{SLUG}.html").read_text()
    assert f"data:image/png;base64,{PICTURE}" in text


@pytest.mark.parametrize("student", ["bare", "old", "plain", "renamed"])
def test_the_page_shows_the_code_that_was_graded_once_and_contradicts_nothing(walked, student):
    shown = page(walked[0], student)
    assert shown.count("def softmax(x") == shown.count("def softmax_numpy(x") == 1
    assert "raise NotImplementedError" not in shown
    assert "cannot be read" not in shown and "No response" not in shown
    assert ("p = np.exp(x)" in shown) == (SCORES[student] == 8)


def test_no_page_has_a_bare_number_below_a_report(walked):
    assert not any(
        re.search(r"Out ?\[", page(walked[0], s)) for s in SCORES.keys() - {"two", "empty"}
    )


def test_a_file_that_cannot_be_read_and_one_that_is_not_begun_say_so(walked):
    assert "The submitted file cannot be read" in page(walked[0], "broken")
    assert "Not started yet" in page(walked[0], "idle")


def test_a_cell_without_metadata_is_known_by_what_it_defines(walked):
    graded = nbformat.read(walked[0] / f"autograded/bare/{SLUG}/{SLUG}.ipynb", as_version=4)
    assert graded.cells[at(graded, "softmax_numpy")].source == FORGETS_MAX
