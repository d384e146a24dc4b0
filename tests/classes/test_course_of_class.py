"""A class that is graded by its course's file."""

import csv
import json
import re
import zipfile
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from grader.classroom.collecting import submitted_times
from grader.classroom.run import submission_times
from grader.cli.app import app
from grader.core.catalog import ROOT
from grader.core.translation import Words
from grader.reporting.from_json import parse_report_json
from grader.reporting.github import render_github_summary
from tests.conftest import limit_explanations

SLUG = "ex02_masking"
RIGHT = (ROOT / f"solutions/{SLUG}.py").read_text(encoding="utf-8")
WRONG = RIGHT.replace("positions < lengths", "positions <= lengths")
COURSE = """\
language = "en"
speed = false
[late]
penalty_per_day = 25
[[exercises]]
ex = "ex02"
weight = 1.5
deadline = 2027-03-01T23:59:00+01:00
"""
TIMES = """\
student,exercise,submitted
ada,ex02,2027-03-01T22:00:00+00:00
ben,ex02_masking,2027-03-02T23:59:01+01:00
"""
MORE = '[[extensions]]\nstudent = "ben"\ndays = 1\n'


@pytest.fixture(scope="module")
def patient():
    """What is wrong is named, however long it takes."""
    with pytest.MonkeyPatch.context() as patch:
        limit_explanations(patch, 60.0, -1.0)
        yield


@pytest.fixture(scope="module")
def graded(tmp_path_factory, in_this_process, patient):
    """Ada in time, Ben two begun days late and wrong, Cy at no known time; graded once."""
    folder = tmp_path_factory.mktemp("course")
    for student, text in (("ada", RIGHT), ("ben", WRONG), ("cy", RIGHT)):
        (folder / "submissions" / student).mkdir(parents=True)
        (folder / "submissions" / student / f"{SLUG}.py").write_text(text)
    (folder / "submissions/submitted.csv").write_text(TIMES)
    (folder / "course.toml").write_text(COURSE)
    assert "Graded by this run: 3." in run(folder)
    return folder


@pytest.fixture
def again(graded):
    """The same class with the course as it was graded first."""
    (graded / "course.toml").write_text(COURSE)
    (graded / "submissions/submitted.csv").write_text(TIMES)
    assert "Graded by this run: 0." in run(graded)
    return graded


def invoked(*arguments: object):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def run(folder, code: int = 0, course: bool = True) -> str:
    option = ["--course", folder / "course.toml"] if course else ["--no-speed"]
    done = invoked("class", folder / "submissions", "-o", folder / "results", "--jobs", 1, *option)
    assert done.exit_code == code, done.output
    return done.output


def rows(folder, name: str = "grades.csv"):
    with (folder / "results" / name).open(newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def report(folder, student: str, place: str = "students"):
    return json.loads((folder / "results" / place / student / "report.json").read_text())


def test_lateness_and_weights_make_the_total(again):
    found = rows(again)
    earned = {name: int(row[SLUG]) for name, row in found.items()}
    assert (earned["ada"], earned["cy"]) == (12, 12) and 6 < earned["ben"] < 12
    assert [row["late"] for row in found.values()] == ["0", "-9", "0"]  # 50 % of 12, times 1.5
    assert {row["possible"] for row in found.values()} == {"18"}
    for name, row in found.items():
        assert float(row["total"]) == 1.5 * earned[name] + float(row["late"])
    assert (
        "Days late, begun ones counted: 2. That costs 50 % of 12 points: 6." in found["ben"]["why"]
    )


def test_canvas_gets_what_counts(again):
    canvas = list(csv.reader((again / "results/canvas.csv").open(newline="")))
    assert canvas[1][5] == "18"
    assert canvas[2][5] == "18"
    assert float(canvas[3][5]) == float(rows(again)["ben"]["total"])


def test_who_has_no_time_of_submission_needs_a_look_and_loses_nothing(again):
    told = f"{SLUG}: no time of submission is known, so lateness was not judged."
    assert told in rows(again)["cy"]["remarks"]
    page = (again / "results/class.html").read_text()
    assert told in page and "† late" in page and "× 1.5" in page


def test_the_student_reads_what_coming_late_costs(again):
    [exercise] = report(again, "ben")["exercises"]
    assert exercise["sentence"].startswith("Handed in at 2027-03-02 23:59:01+01:00, due at")
    assert (
        exercise["sentence"].split(".")[0]
        in (again / "results/students/ben/report.html").read_text()
    )


def test_an_extension_that_is_granted_later_counts_without_grading_again(again):
    with (again / "course.toml").open("a") as file:
        file.write(MORE + '[[extensions]]\nstudent = "bne"\ndays = 1\n')
    told = invoked("diff", again / "results", "--lang", "en")
    assert told.exit_code == 0, told.output
    assert (
        f"ben  {SLUG}  -6 -> -3" in told.stdout
        and "late: 6 points lost before, 3 now" in told.stdout
    )
    assert rows(again)["ben"]["late"] == "-9"  # diff writes nothing
    done = run(again)
    assert "Graded by this run: 0." in done
    assert "there is no student 'bne'. Did you mean ben?" in done
    assert rows(again)["ben"]["late"] == "-4.5"
    assert rows(again, "late.csv")["ben"]["points"] == "3"
    course = (again / "course.toml").read_text().partition("[[extensions]]")[0]
    (again / "course.toml").write_text(re.sub("deadline.*", "", course))
    run(again)  # without deadlines nothing is late any more
    assert not (again / "results/late.csv").exists()
    assert invoked("diff", again / "results", "--lang", "en").stdout == "Nobody's score changes.\n"


@pytest.mark.parametrize(
    "help, kept, gone",
    [
        ('help = "hints"\n', '"why"', '"mend"'),
        ('help = "exam"\n', '"verdict": "failed"', "should be"),
        ('help = "exam"\nexam_shows = "nothing"\n', '"state": "received"', '"verdict"'),
    ],
)
def test_students_are_shown_what_the_course_allows_and_the_instructor_everything(
    again, help, kept, gone
):
    full = report(again, "ben")
    assert gone in json.dumps(full)
    (again / "course.toml").write_text(help + COURSE)
    assert "Graded by this run: 0." in run(again)
    shown = json.dumps(report(again, "ben"))
    assert kept in shown and gone not in shown
    html = (again / "results/students/ben/report.html").read_text()
    assert gone.strip('"') not in html or help.startswith('help = "exam"\nexam')
    assert report(again, "ben", "reports") == full
    assert 'href="./reports/ben/report.html"' in (again / "results/class.html").read_text()
    assert invoked("diff", again / "results", "--lang", "en").stdout == "Nobody's score changes.\n"


def test_nothing_in_an_exam_that_shows_nothing_tells_the_score(again):
    (again / "course.toml").write_text('help = "exam"\nexam_shows = "nothing"\n' + COURSE)
    run(again)
    ada, ben = (report(again, name)["exercises"][0] for name in ("ada", "ben"))
    different = {key for key in ada if ada[key] != ben[key]}
    assert different <= {"path", "sha256", "seconds", "sentence"}  # the sentence: that Ben is late
    assert rows(again)["ada"]["total"] == "18"


def test_results_of_a_course_are_not_graded_without_it(again):
    assert "name that again (`--course`)" in run(again, code=2, course=False)


@pytest.mark.parametrize(
    "text, says",
    [
        ("name,when\n", "the first line needs the columns `student`, `exercise`, `submitted`."),
        ("student,submitted\n", "the first line needs a column `exercise`."),
        (TIMES + "cy,ex02,yesterday\n", "line 4: yesterday is no time with its distance from UTC"),
        (
            TIMES + "cy,ex02,2027-03-01T10:00:00\n",
            "line 4: 2027-03-01T10:00:00 is no time with its distance from UTC",
        ),
        (
            TIMES + "cy,,2027-03-01T10:00:00Z\n",
            "line 4: the cell `exercise` is empty: write an exercise",
        ),
        (TIMES + "cy,ex77,2027-03-01T10:00:00Z\n", "line 4: There is no exercise called 'ex77'"),
        (
            TIMES + "ada,ex02,2027-03-01T10:00:00Z\n",
            "line 4: ada has a time for ex02_masking already",
        ),
        (b"\xff\xfe", "is not UTF-8 text: save it as CSV in UTF-8."),
        ("", "the first line needs the columns"),
        (
            TIMES + "cy,ex02,1970-01-01T00:00:00Z\n",
            "line 4: 1970-01-01T00:00:00Z is in the year 1970",
        ),
    ],
)
def test_times_that_cannot_be_read_get_a_sentence(again, text, says):
    path = again / "submissions/submitted.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert says in run(again, code=2)


def test_the_table_of_a_platform_may_have_semicolons_and_utc(tmp_path):
    path = tmp_path / "submitted.csv"
    path.write_text("submitted;Student;exercise\n2027-03-01 10:00:00 UTC;cy;ex02\n")
    found, unused = submission_times.read_class_submission_times(tmp_path, ["cy"])
    assert unused == []
    assert found == {("cy", "ex02_masking"): datetime(2027, 3, 1, 10, tzinfo=UTC)}
    assert submitted_times.read_collected_times(tmp_path) == found  # as `collect` reads it


def test_a_folder_in_the_place_of_the_times_gets_a_sentence(again):
    path = again / "submissions/submitted.csv"
    path.unlink(missing_ok=True)
    path.mkdir()
    assert "cannot be read: Is a directory. Put a CSV file there." in run(again, code=2)
    path.rmdir()


def test_times_of_nobody_here_are_told_and_end_nothing(again):
    (again / "submissions/submitted.csv").write_text(TIMES + "bne,ex02,2027-03-01T10:00:00Z\n")
    assert "line 4: there is no student 'bne'. Did you mean ben?" in run(again)


@pytest.fixture
def adjusted(again):
    """The same class in which Ben has won an appeal, and Ada and Cy have odd adjustments."""
    lines = f"ben,{SLUG},2,appeal granted\nada,{SLUG},-30,copied\ncy,{SLUG},3,a talk\n"
    (again / "results/adjustments.csv").write_text(f"student,exercise,points,why\n{lines}")
    (again / "course.toml").write_text(f'name = "Autumn"\n{COURSE}')
    run(again)
    yield again
    (again / "results/adjustments.csv").unlink()


def test_what_comes_back_is_the_mark_that_counts(adjusted, tmp_path):
    done = invoked("return", adjusted / "results", "-o", tmp_path)
    assert done.exit_code == 0, done.output
    table = rows(adjusted)
    for student, row in table.items():
        with zipfile.ZipFile(tmp_path / f"{student}.zip") as back:
            mark = json.loads(back.read("report.json"))["mark"]
            page = back.read("report.html").decode()
        total, possible = f"{mark['total']:g}", f"{mark['possible']:g}"
        assert (total, possible) == (row["total"], row["possible"]) and mark["course"] == "Autumn"
        assert f"<strong>{total}</strong>/{possible} points" in page and "Autumn" in page
    [ben] = report(adjusted, "ben")["mark"]["exercises"]
    assert (ben["weight"], ben["late"], ben["adjustment"]) == (1.5, -6, 2)
    assert ben["adjustment_why"] == "appeal granted" and "That costs 50 %" in ben["late_why"]
    page = (adjusted / "results/students/ben/report.html").read_text()
    assert "× 1.5" in page and "+2 appeal granted" in page and "<td>-6</td>" in page


def test_an_adjustment_that_leaves_the_range_is_a_sentence(adjusted):
    remarks = {student: row["remarks"] for student, row in rows(adjusted).items()}
    assert (
        f"{SLUG}: the adjustment takes 30 points, but only 12 were left: the mark is 0; "
        in remarks["ada"]
    )
    assert (
        f"{SLUG}: with the adjustment it has 15 points, more than the 12 that could be reached; "
        in remarks["cy"]
    )
    assert "adjustment" not in remarks["ben"]
    assert rows(adjusted)["ada"]["total"] == "0"


def test_the_branch_s_page_has_the_mark_as_well(adjusted):
    text = (adjusted / "results/students/ben/report.json").read_text()
    for language, counts in (("en", " of 18 |"), ("zh", "18 分中的 ")):
        said = render_github_summary(parse_report_json(text), Words(language))
        assert said.startswith("## Autumn: ") and "/18\n" in said
        assert "+2 appeal granted" in said and counts in said


def test_a_loss_that_did_not_happen_is_in_no_table(again):
    (again / "submissions/ben" / f"{SLUG}.py").write_text("import os\n")
    try:
        run(again)
        [late] = csv.DictReader((again / "results/late.csv").open(newline=""))
        assert (
            late["points"] == "0" and "50 % of 12 points: 6, of which there were 0." in late["why"]
        )
    finally:
        (again / "submissions/ben" / f"{SLUG}.py").write_text(WRONG)
