"""What is found out about a class once it is graded: `grader replay` and `grader diff`."""

import hashlib
import json

import pytest

from tests.classes.classroom import RIGHT, copied, fill, graded_here, here, written


@pytest.fixture(scope="module")
def graded(tmp_path_factory, class_unexplained):
    """A class that was graded once: its submissions and its results."""
    folder = tmp_path_factory.mktemp("class")
    submissions = fill(folder / "submissions")
    assert graded_here(submissions, folder / "results").returncode == 0
    return submissions, folder / "results"


@pytest.fixture
def again(graded, tmp_path):
    """The same class and its results, to be changed."""
    return copied(*graded, tmp_path)


def test_a_report_is_replayed_from_the_zip_that_was_handed_in(graded):
    _, results = graded
    done = here("replay", results / "students/eve/report.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "ex01_softmax: the same" in done.stdout


@pytest.mark.parametrize(
    "doctored, says",
    [
        (('"earned": 1,', '"earned": 7,'), "did not earn 7"),
        (('"score": {\n        "earned": ', '"score": {\n        "earned": 1'), "add up"),
    ],
)
def test_a_doctored_report_is_not_alike(again, doctored, says):
    _, results = again
    path = results / "students/ben/report.json"
    text = path.read_text()
    assert doctored[0] in text
    path.write_text(text.replace(*doctored))
    done = here("replay", path)
    assert done.returncode != 0
    assert says in done.stdout + done.stderr


def test_a_replay_takes_the_answers_from_where_it_is_told(again):
    submissions, results = again
    last = json.loads((results / ".run.json").read_text())
    (results / ".run.json").write_text(json.dumps({**last, "submissions": "/nowhere"}))
    report = results / "students/ben/report.json"
    done = here("replay", report, "--submission", submissions / "ben")
    assert (done.returncode, done.stderr) == (0, "")
    assert here("replay", report).returncode == 2


@pytest.mark.parametrize("where, code", [("another case", 0), (None, 1)])
def test_sentences_about_two_cases_of_a_check_are_not_compared(again, where, code):
    """The plainest case that was found is shown: on a busy machine perhaps another one."""
    _, results = again
    path = results / "students/ben/report.json"
    report = json.loads(path.read_text())
    [check, *_] = [c for c in report["exercises"][0]["checks"] if c["why"]]
    check |= {"why": "it is wrong", "where": check["where"] if where is None else where}
    path.write_text(json.dumps(report))
    done = here("replay", path)
    assert done.returncode == code
    assert ("says something else" in done.stdout) == (code == 1)


def test_a_replay_sees_that_something_was_handed_in_since(again):
    submissions, results = again
    assert here("replay", results / "students/dee/report.json").returncode == 0
    (submissions / "dee/ex01_softmax.py").write_text(RIGHT)
    done = here("replay", results / "students/dee/report.json")
    assert done.returncode == 1
    said = "dee/ex01_softmax.py is not the file that was graded (missing): grade again, so that"
    assert said in done.stdout


def test_a_replay_of_a_changed_answer_says_so(again):
    submissions, results = again
    before = (submissions / "ben/ex01_softmax.py").read_bytes()
    (submissions / "ben/ex01_softmax.py").write_text(RIGHT)
    done = here("replay", results / "students/ben/report.json")
    assert done.returncode == 1
    digest = hashlib.sha256(before).hexdigest()[:16]
    assert (
        f"ex01_softmax: {submissions.name}/ben/ex01_softmax.py is not the file that was graded "
        f"(sha256 {digest}): name the folder of that one as `--submission`, or grade again"
    ) in done.stdout
    kept = submissions.parent / "kept"
    kept.mkdir()
    (kept / "ex01_softmax.py").write_bytes(before)
    assert (
        here("replay", results / "students/ben/report.json", "--submission", kept).returncode == 0
    )


def test_whose_score_changes_is_told_and_nothing_is_written(again):
    submissions, results = again
    (results / "adjustments.csv").write_text("student,exercise,points,why\nben,ex01,2,appeal\n")
    (submissions / "ben/ex01_softmax.py").write_text(RIGHT)
    before = written(results)
    done = here("diff", results)
    assert done.returncode == 0, done.stderr
    assert "ben  ex01_softmax" in done.stdout and "-> 10" in done.stdout
    assert "another file was handed in" in done.stdout
    assert "+2 points by hand stay" in done.stdout
    assert "ada" not in done.stdout
    assert written(results) == before
    assert "Graded by this run: 0." in graded_here(submissions, results).stdout


def test_nobody_of_an_unchanged_class_changes(graded):
    _, results = graded
    assert here("diff", results).stdout == "Nobody's score changes.\n"
