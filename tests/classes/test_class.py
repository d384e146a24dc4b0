"""`grader class`, from a folder of submissions to a folder of results."""

import csv
import fcntl
import json
import shutil

import pytest

from tests.classes.classroom import (
    RIGHT,
    copied,
    fill,
    grade,
    graded_here,
    here,
    verdicts,
    written,
)

pytestmark = pytest.mark.usefixtures("class_unexplained")


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A class that the command graded once, in two processes: its submissions, its results, what
    was printed."""
    folder = tmp_path_factory.mktemp("class")
    submissions = fill(folder / "submissions")
    done = grade(submissions, folder / "results")
    assert done.returncode == 0, done.stderr
    return submissions, folder / "results", done


@pytest.fixture
def again(graded, tmp_path):
    """The same class and its results, to be changed."""
    return copied(*graded[:2], tmp_path)


def rows(path):
    with path.open(newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def test_everybody_gets_a_report_and_a_row(graded):
    _, results, done = graded
    found = rows(results / "grades.csv")
    totals = {name: int(row["total"]) for name, row in found.items()}
    assert totals["ada"] == totals["eve"] == 10
    assert 0 < totals["ben"] < 10
    assert totals["cy"] == totals["dee"] == 0
    for name in found:
        assert (results / "students" / name / "report.html").is_file()
    assert "Students: 5. Graded by this run: 5." in done.stdout
    assert "roster.csv is neither a student's folder nor a zip" in done.stdout


def test_a_report_is_official(graded):
    _, results, _ = graded
    report = json.loads((results / "students/eve/report.json").read_text())
    assert "seed" not in report
    assert report["isolation"] in ("locked", "contained")
    assert report["exercises"][0]["path"] == "submissions/eve.zip/homework/ex01_softmax.py"


def test_the_secret_is_nobody_elses_to_read(graded):
    _, results, _ = graded
    assert (results / ".secret").stat().st_mode & 0o077 == 0
    secret = (results / ".secret").read_text().strip()
    assert not [name for name, text in written(results).items()
                if secret in text and name != ".secret"]  # fmt: skip


def test_an_unchanged_class_is_no_work(again):
    submissions, results = again
    before = {p: p.stat().st_mtime_ns for p in results.rglob("*") if p.is_file()}
    done = graded_here(submissions, results)
    assert "Graded by this run: 0." in done.stdout
    after = {p: p.stat().st_mtime_ns for p in results.rglob("*") if p.is_file()}
    assert {p.name for p in after if after[p] != before.get(p)} <= {".run.json", ".lock"}


def test_a_new_file_is_graded_and_nobody_elses(again):
    submissions, results = again
    (submissions / "ben/ex01_softmax.py").write_text(RIGHT)
    assert "Graded by this run: 1." in graded_here(submissions, results).stdout
    assert set(verdicts(results, "ben").values()) == {"passed"}


def test_a_run_that_was_not_finished_is_gone_on_with_only_when_asked(again):
    submissions, results = again
    last = json.loads((results / ".run.json").read_text())
    assert last["language"] == "en"
    (results / ".run.json").write_text(json.dumps({**last, "finished": False}))
    refused = graded_here(submissions, results)
    assert refused.returncode == 2
    assert refused.stderr == (
        f"The last run into {results} was not finished: `--resume` goes on with it.\n"
    )
    assert graded_here(submissions, results, "--resume").returncode == 0


def test_two_runs_do_not_write_to_one_folder(again):
    submissions, results = again
    with (results / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = graded_here(submissions, results)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"Another run writes to {results}: wait until it is done.\n"


def test_a_class_is_not_graded_behind_the_weakest_wall(again):
    refused = graded_here(*again, "--isolation", "process")
    assert refused.returncode == 2
    assert "a class is graded behind locked or contained" in refused.stderr


@pytest.mark.parametrize(
    "name, says",
    [
        ("nothing", "There is no student in {}: it should hold {}/<student>/<exercise>.py."),
        ("missing", "{} is not there: name the folder of the submissions."),
    ],
)
def test_what_is_no_class_gets_a_sentence(tmp_path, name, says):
    folder = tmp_path / name
    if name == "nothing":
        folder.mkdir()
    refused = graded_here(folder, tmp_path / "results")
    assert refused.returncode == 2
    assert refused.stderr.strip() == says.format(folder, folder)


def test_points_by_hand_are_kept_and_shown(again):
    submissions, results = again
    table = "student,exercise,points,why\nben,ex01,2,appeal granted\ncy,ex01,-1,late\n"
    (results / "adjustments.csv").write_text(table)
    assert graded_here(submissions, results).returncode == 0
    found = rows(results / "grades.csv")
    assert int(found["ben"]["total"]) == int(found["ben"]["ex01_softmax"]) + 2
    assert "appeal granted" in found["ben"]["why"]
    assert (results / "adjustments.csv").read_text() == table


def test_a_spreadsheet_may_have_saved_the_points(again):
    submissions, results = again
    table = "\ufeffwhy;points;exercise;student;mine\r\nappeal;+2;ex01;ben;x\r\n;;;;\r\n"
    (results / "adjustments.csv").write_text(table, encoding="utf-8")
    assert graded_here(submissions, results).returncode == 0
    found = rows(results / "grades.csv")["ben"]
    assert (found["adjustment"], found["why"]) == ("2", "ex01_softmax +2: appeal")


@pytest.mark.parametrize(
    "line, says",
    [
        ("ben,,2,why", "line 2: the cell `exercise` is empty: write an exercise, such as ex01."),
        ("ben,ex77,2,why", "line 2: There is no exercise called 'ex77'"),
        ("ben,ex01,two,why", "line 2: 'two' is no whole number of points: write one, such as"),
        (
            "ben,ex01,1.5,why",
            "line 2: '1.5' is no whole number of points: write one, such as 2 or -2.",
        ),
        ("ben,ex01", "line 2: '' is no whole number of points: write one, such as 2 or -2."),
    ],
)
def test_points_that_cannot_be_given_get_a_sentence(again, line, says):
    submissions, results = again
    (results / "adjustments.csv").write_text(f"student,exercise,points,why\n{line}\n")
    refused = graded_here(submissions, results)
    assert refused.returncode == 2
    assert says in refused.stderr


@pytest.mark.parametrize(
    "line, says",
    [
        ("bne,ex01,2,left the course", "line 2: there is no student 'bne'. Did you mean ben?"),
        ("ben,ex02,2,why", "line 2: ex02_masking is no part of this run."),
    ],
)
def test_points_for_nobody_here_are_told_and_end_nothing(again, line, says):
    submissions, results = again
    (results / "adjustments.csv").write_text(f"student,exercise,points,why\n{line}\n")
    done = graded_here(submissions, results)
    assert done.returncode == 0
    assert says in done.stdout


@pytest.mark.parametrize("file", ["report.html", "report.json"])
def test_a_page_is_of_its_report_even_if_the_run_was_killed_between_the_two(again, file):
    submissions, results = again
    (submissions / "ben/ex01_softmax.py").write_text(RIGHT)
    assert here("diff", results).returncode == 0  # ben's answer is graded, nothing is written
    killed = grade(submissions, results, kill_before=file)
    assert killed.returncode == -9
    assert graded_here(submissions, results, "--resume").returncode == 0
    assert "10/10" in (results / "students/ben/report.html").read_text()
    assert not list(results.rglob(".writing-*"))


def test_a_page_has_the_language_that_was_asked_for_even_if_a_run_was_killed(again):
    submissions, results = again
    killed = grade(submissions, results, "--lang", "zh", kill_before="class.html")
    assert killed.returncode == -9
    assert graded_here(submissions, results, "--resume").returncode == 0
    pages = [page.read_text() for page in results.rglob("*.html")]
    assert len(pages) == 6
    assert all('<html lang="en">' in page for page in pages)


def test_results_are_not_written_among_the_submissions(again):
    submissions, _ = again
    refused = graded_here(submissions, submissions / "results")
    assert refused.returncode == 2
    assert "name another folder of results" in refused.stderr
    assert not (submissions / "results").exists()


def test_a_secret_that_is_gone_is_not_replaced(again):
    submissions, results = again
    (results / ".secret").unlink()
    refused = graded_here(submissions, results)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"{results}/.secret is gone")
    assert not (results / ".secret").exists()


def test_names_that_read_alike_are_remarked_on(again):
    submissions, results = again
    shutil.copytree(submissions / "ben", submissions / "Ben ")
    assert graded_here(submissions, results).returncode == 0
    found = rows(results / "grades.csv")
    assert "2 names in the class read like 'ben'." in found["ben"]["remarks"]


def test_a_name_is_no_command_to_a_runner(again):
    submissions, results = again
    for name in ("x\n::error::owned", "##[add-mask]ada"):
        shutil.copytree(submissions / "ben", submissions / name)
    said = graded_here(submissions, results).stdout
    for name in ("x\n::error::owned", "##[add-mask]ada"):
        shutil.rmtree(submissions / name)
    said += graded_here(submissions, results).stdout
    assert "is of an earlier run" in said
    assert not [line for line in said.splitlines() if line.lstrip().startswith("::")]
    assert "##[" not in said


def test_points_for_a_name_that_two_folders_have_are_not_guessed(again):
    submissions, results = again
    shutil.copytree(submissions / "ben", submissions / "b\x01n")
    shutil.copytree(submissions / "ben", submissions / "b\x02n")
    (results / "adjustments.csv").write_text("student,exercise,points,why\nb�n,ex01,2,why\n")
    refused = graded_here(submissions, results)
    assert refused.returncode == 2
    assert "line 2: more than one folder's name reads 'b�n': rename them." in refused.stderr


def test_reports_of_those_who_left_are_named(again):
    submissions, results = again
    shutil.rmtree(submissions / "ada")
    assert "students/ada is of an earlier run" in graded_here(submissions, results).stdout
