"""`grader return --to canvas` and `--to moodle`: each report reaches its student by an upload.

`canvas_takes` and `moodle_takes` follow the rules of the platforms' own importers.
"""

import csv
import io
import json
import posixpath
import zipfile

import pytest
from typer.testing import CliRunner

from grader.cli.app import app
from grader.core.records import Score
from grader.reporting.as_json import write_report_json
from tests.classes.handing import laid, zipped
from tests.course.collected import ANSWER, SLUG
from tests.course.test_return import graded
from tests.reporting.samples import exercise, report

NAME = f"{SLUG}.py"
ROSTER = (
    "student,login,id,name\nada,ada-l,11,Ada Lovelace\nben,ben,12,王伟\neve,eve,13,Eve O'Neil\n"
)
CANVAS = {
    f"adalovelace_11_731_{SLUG}-2.py": (11, 731),
    f"wangwei_LATE_12_732_{SLUG}.ipynb": (12, 732),
    "oneileve_13_733_all.zip": (13, 733),
}
PARTICIPANTS = {57: "ada", 58: "ben", 59: "eve"}
WORKSHEET = (
    "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,"
    "Last modified (submission),Last modified (grade),Feedback comments\n"
    'Participant 57,Ada Lovelace,a@b,"Submitted, late",,10.00,Yes,"Monday, 2 March 2026",-,"-1 for\nstyle"\n'
    "Participant 58,王伟,w@b,No submission,,10.00,Yes,-,-,\n"
    "Participant 59,Eve O'Neil,e@b,,3.00,10.00,Yes,-,-,\n"
)


@pytest.fixture
def returned(tmp_path):
    """returned("canvas", source) -> what `grader return` came to; each student has a report."""
    (tmp_path / "roster.csv").write_text(ROSTER)

    def run(way, source, *students, roster="roster.csv"):
        for student in students or ("ada", "ben", "eve"):
            graded(tmp_path / "results", student)
            record(tmp_path, exercise(), student)
        named = ["--roster", str(tmp_path / roster), "--source", str(source)]
        given = [str(tmp_path / "results"), "--to", way, "-o", str(tmp_path / "returned"), *named]
        return CliRunner().invoke(app, ["return", *given, "--lang", "en"])

    return run


def record(tmp_path, graded_exercise, student):
    path = tmp_path / f"results/students/{student}/report.json"
    path.write_text(write_report_json(report(graded_exercise, student=student)))


def inside(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def canvas_takes(name):
    """The ids of the student and of the uploaded file, as Canvas finds them in a name."""
    parts = [part for part in posixpath.basename(name).split("_") if part != "LATE"]
    student, file = [int(part) for part in parts if part.isdecimal()][:2]
    return student, file


def moodle_takes(path):
    """The student of a file in the zip and the name that it gets, as Moodle finds them."""
    parts = path.split("/")
    while parts:
        found = parts.pop(0).split("_", 4)
        if len(found) < 4 or not found[1].isdecimal() or int(found[1]) not in PARTICIPANTS:
            continue
        assert found[2:4] in (["assignsubmission", "file"], ["assignfeedback", "file"])
        return PARTICIPANTS[int(found[1])], "/".join([*found[4:], *parts]).strip("/")
    return None


@pytest.fixture
def canvas(tmp_path):
    uploaded = [(name, zipped((NAME, ANSWER)) if ".zip" in name else ANSWER) for name in CANVAS]
    (tmp_path / "submissions.zip").write_bytes(zipped(*uploaded))
    return tmp_path / "submissions.zip"


def test_canvas_finds_each_student_by_the_name_of_the_file(tmp_path, canvas, returned):
    done = returned("canvas", canvas)
    assert done.exit_code == 0, done.output
    assert "canvas.zip has 3 reports." in done.output
    found = inside(tmp_path / "returned/canvas.zip")
    assert {name: canvas_takes(name) for name in found} == CANVAS


def test_what_canvas_shows_as_the_answers_file_opens_as_such_a_file(tmp_path, canvas, returned):
    returned("canvas", canvas)
    plain, packed, book = (
        inside(tmp_path / "returned/canvas.zip")[name] for name in sorted(CANVAS)
    )
    text = plain.decode().splitlines()
    assert all(line.startswith("#") for line in text) and "Attention by Hand" in text[0]
    compile(plain, NAME, "exec")
    assert inside(io.BytesIO(packed))["report.html"] == b"<p>of eve</p>"
    [cell] = json.loads(book)["cells"]
    assert cell["cell_type"] == "markdown" and "Attention by Hand" in cell["source"]


def test_a_report_without_an_upload_is_named_and_left_out(tmp_path, returned):
    (tmp_path / "all.zip").write_bytes(zipped((f"a_11_1_{NAME}", ANSWER)))
    done = returned("canvas", tmp_path / "all.zip")
    assert done.exit_code == 0, done.output
    assert "ben has a report, but nothing in" in done.output
    assert "canvas.zip has 1 report. " in done.output
    assert list(inside(tmp_path / "returned/canvas.zip")) == [f"a_11_1_{NAME}"]


@pytest.mark.parametrize("way, upload", [
    ("canvas", f"Ada Lovelace_57_assignsubmission_file/{NAME}"), ("canvas", f"ada/{NAME}"),
    ("moodle", f"a_11_1_{NAME}"), ("moodle", f"ada/{NAME}"),
])  # fmt: skip
def test_a_download_of_another_kind_is_a_sentence(tmp_path, returned, way, upload):
    done = returned(way, laid(tmp_path / "all", {upload: ANSWER}))
    assert done.exit_code == 1
    assert f"is not named as {way.title()} names what it gives" in done.output
    assert inside(tmp_path / f"returned/{way}.zip") == {}


@pytest.mark.parametrize("end", [f"/{NAME}", f"_/{NAME}", f"_{NAME}"])
def test_moodle_finds_each_student_by_the_folders_of_its_zip(tmp_path, returned, end):
    fronts = ("Ada Lovelace_57", "王伟_58", "Eve O'Neil_59")
    uploads = {f"{front}_assignsubmission_file{end}": ANSWER for front in fronts}
    done = returned("moodle", laid(tmp_path / "all", uploads))
    assert done.exit_code == 0, done.output
    found = inside(tmp_path / "returned/moodle.zip")
    pages = {moodle_takes(path): page for path, page in found.items() if "html" in path}
    assert pages == {(s, "report.html"): f"<p>of {s}</p>".encode() for s in PARTICIPANTS.values()}
    assert len(found) == 6


def test_moodle_finds_each_student_by_the_worksheet_which_gets_the_marks(tmp_path, returned):
    (tmp_path / "Grades.csv").write_text(WORKSHEET)
    done = returned("moodle", tmp_path / "Grades.csv")
    assert done.exit_code == 0, done.output
    found = inside(tmp_path / "returned/moodle.zip")
    assert {moodle_takes(path)[0] for path in found} == set(PARTICIPANTS.values())
    before = list(csv.reader(io.StringIO(WORKSHEET)))
    after = list(csv.reader((tmp_path / "returned/moodle.csv").open(newline="")))
    assert [row[4] for row in after[1:]] == ["5.00"] * 3
    for row in (*before, *after):
        del row[4]
    assert after == before


def test_a_mark_above_the_maximum_which_moodle_would_skip_is_a_sentence(tmp_path, returned):
    (tmp_path / "Grades.csv").write_text(WORKSHEET.replace('Submitted, late",,10.00', 'x",,4.50'))
    done = returned("moodle", tmp_path / "Grades.csv")
    assert done.exit_code == 1
    assert "ada has 5 points, more than the assignment's maximum of 4.5" in done.output
    rows = list(csv.reader((tmp_path / "returned/moodle.csv").open(newline="")))
    assert [row[4] for row in rows[1:]] == ["", "5.00", "5.00"]


def test_the_cure_for_namesakes_in_a_worksheet_helps(tmp_path, returned):
    (tmp_path / "alike.csv").write_text("student,name\nada,Ada Lovelace\nben,Ada Lovelace\n")
    alike = WORKSHEET.rpartition("Participant 59")[0].replace("王伟", "Ada Lovelace")
    (tmp_path / "Grades.csv").write_text(alike)
    done = returned("moodle", tmp_path / "Grades.csv", "ada", "ben", roster="alike.csv")
    cure = "Look who it is, and write the roster's `student` in the place of Ada Lovelace here."
    assert done.output.count(f"Ada Lovelace may be of ada, ben: it was left alone. {cure}") == 2
    mended = alike.replace("57,Ada Lovelace", "57,ben").replace("58,Ada Lovelace", "58,ada")
    (tmp_path / "Grades.csv").write_text(mended)
    done = returned("moodle", tmp_path / "Grades.csv", "ada", "ben", roster="alike.csv")
    assert done.exit_code == 0, done.output
    found = inside(tmp_path / "returned/moodle.zip")
    pages = {path.split("_")[1]: page for path, page in found.items() if "html" in path}
    assert pages == {"57": b"<p>of ben</p>", "58": b"<p>of ada</p>"}


@pytest.mark.parametrize("change", [str.lower, str.upper, lambda text: text.capitalize()])
def test_the_names_of_the_columns_are_read_in_any_case(tmp_path, returned, change):
    head, rows = WORKSHEET.split("\n", 1)
    head = ",".join(map(change, head.split(",")))
    low = rows.replace('Submitted, late",,10.00', 'x",,4.50')
    (tmp_path / "Grades.csv").write_text(f"{head}\n{low}")
    done = returned("moodle", tmp_path / "Grades.csv")
    assert "ada has 5 points, more than the assignment's maximum of 4.5" in done.output
    first, *rows = csv.reader((tmp_path / "returned/moodle.csv").open(newline=""))
    assert first == head.split(",") and [row[4] for row in rows] == ["", "5.00", "5.00"]


def test_no_mark_is_written_where_the_grader_failed(tmp_path, returned):
    (tmp_path / "Grades.csv").write_text(WORKSHEET)
    returned("moodle", tmp_path / "Grades.csv")
    record(tmp_path, exercise(state="fault", score=None), "ada")
    record(tmp_path, exercise(score=Score(earned=9, possible=11, not_run=0)), "ben")
    given = [str(tmp_path / "results"), "--to", "moodle", "-o", str(tmp_path / "again")]
    named = ["--roster", str(tmp_path / "roster.csv"), "--source", str(tmp_path / "Grades.csv")]
    done = CliRunner().invoke(app, ["return", *given, *named])
    assert "the grader failed on an answer of ada: no mark yet." in done.output
    rows = list(csv.reader((tmp_path / "again/moodle.csv").open(newline="")))
    assert [row[4] for row in rows[1:]] == ["", "9.00", "5.00"]


@pytest.mark.parametrize("row, says", [
    ("Participant 60,Mallory M,m@b,,,10.00,Yes,-,-,\n", "Mallory M belongs to nobody in the roster"),
    ("Participant 61,Ada Lovelace,z@b,,,10.00,Yes,-,-,\n", "are of one student, ada"),
    ("hidden,Ada Lovelace,z@b,,,10.00,Yes,-,-,\n", "there is no number in the column Identifier"),
])  # fmt: skip
def test_a_row_that_is_not_clear_is_left_alone_with_a_sentence(tmp_path, returned, row, says):
    (tmp_path / "Grades.csv").write_text(WORKSHEET + row)
    done = returned("moodle", tmp_path / "Grades.csv")
    assert (done.exit_code, says in done.output) == (1, True), done.output
    wanted = {57, 58, 59} - ({57} if "61" in row else set())
    found = {int(path.split("_")[1]) for path in inside(tmp_path / "returned/moodle.zip")}
    assert found == wanted


@pytest.mark.parametrize("source, says", [
    ("student,grade\n", "has no column Identifier"), ("", "has no column Identifier"),
    (WORKSHEET.replace("Full name,", "Name,"), "student names shown"),
    (None, "is not there"),
])  # fmt: skip
def test_what_is_no_worksheet_is_a_sentence(tmp_path, returned, source, says):
    if source is not None:
        (tmp_path / "Grades.csv").write_text(source)
    done = returned("moodle", tmp_path / "Grades.csv")
    assert (done.exit_code, says in done.output) == (2, True), done.output


def test_a_name_with_an_underscore_keeps_the_number_where_moodle_looks(tmp_path, returned):
    (tmp_path / "odd.csv").write_text("student,name\nada,Ada_2 Love/lace\n")
    (tmp_path / "Grades.csv").write_text(WORKSHEET.replace("Ada Lovelace", "Ada_2 Love/lace"))
    returned("moodle", tmp_path / "Grades.csv", "ada", roster="odd.csv")
    paths = list(inside(tmp_path / "returned/moodle.zip"))
    assert [moodle_takes(path) for path in paths] == [
        ("ada", "report.html"),
        ("ada", "report.json"),
    ]
