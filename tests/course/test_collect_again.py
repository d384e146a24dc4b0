"""The roster, what a second collection does to the first, and what a class run makes of it."""

import pytest

from grader.classroom.run.gather_answers import gather_student_answers, list_class_students
from grader.core import catalog
from tests.classes.handing import laid
from tests.course.collected import ANSWER, AT, LATER, OTHER, ROSTER, SLUG, collect, files, times

NAME = f"{SLUG}.py"

ROSTERS = [
    ("a spreadsheet's", b"\xef\xbb\xbfName;ID ;Student;LOGIN\r\nx; 11;ada;ada-l\r\n;;;\r\nBen W;12;ben;\r\n"),
    ("tabs", b"student\tid\nada\t11\nben\t12\n"),
    ("quoted", b'"student","login"\n"ada","a,b"\n"ben",""\n'),
    ("short lines", b"student,login,id\nada\nben\n"),
]  # fmt: skip


@pytest.mark.parametrize("roster", [r[1] for r in ROSTERS], ids=[r[0] for r in ROSTERS])
def test_a_roster_is_read_as_people_write_it(tmp_path, roster):
    done = collect(tmp_path, laid(tmp_path / "all", {f"ben/{NAME}": ANSWER}), roster=roster)
    assert done.exit_code == 0, done.output
    assert "Nothing was collected from: ada.\n" in done.output
    assert files(tmp_path) == {f"ben/{NAME}": ANSWER}


WRONG = [
    (b"", "roster.csv: the first line needs a column `student`."),
    (b"login,id\nada,1\n", "roster.csv: the first line needs a column `student`."),
    (
        b"student,Student\nada,1\n",
        "the first line has the column `student` more than once: rename one.",
    ),
    (b"student,login\n", "names no student: write a line for each"),
    (b"student\n../evil\n", "roster.csv, line 2: ../evil cannot be a folder's name: write"),
    (b"student\n.git\n", "roster.csv, line 2: a folder called .git is not read: write another"),
    (b"student\n" + b"x" * 300, "is too long for a folder's name: shorten it."),
    ("student\n王\n".encode("utf-16"), "is not UTF-8 text"),
    (b'student\n"ada\n', "is no CSV"),
    (b"student\n" + b"a" * 200_000, "is no CSV"),
]


@pytest.mark.parametrize("roster, says", WRONG)
def test_a_wrong_roster_is_a_sentence(tmp_path, roster, says):
    done = collect(tmp_path, laid(tmp_path / "all", {}), roster=roster)
    assert (done.exit_code, says in done.output) == (2, True), done.output


LINES = [
    ("../eve,x,1", "../eve cannot be a folder's name"),
    ("a/b,x,1", "a/b cannot be a folder's name"),
    (".git,x,1", "a folder called .git is not read"),
    ("submitted.csv,x,1", "a folder called submitted.csv is not read"),
    (",x,1", "line 5: there is no student in it"),
    ("x" * 201 + ",x,1", "is too long for a folder's name"),
    ("ADA,x,1", "roster.csv, line 5: ada is in "),
    ("zoe,EVE,1", "eve and zoe have the same login in the roster, eve"),
]


@pytest.mark.parametrize("line, says", LINES)
def test_a_line_that_cannot_count_is_said_and_the_others_count(tmp_path, line, says):
    source = laid(tmp_path / "all", {f"ben/{NAME}": ANSWER, f"ada/{NAME}": ANSWER})
    done = collect(tmp_path, source, roster=f"{ROSTER}{line}\n")
    assert (done.exit_code, says in done.output) == (1, True), done.output
    expected = {f"ben/{NAME}"} | ({f"ada/{NAME}"} if "ADA" not in line else set())
    assert files(tmp_path).keys() == expected


PLACES = [
    ("nowhere", [], "is not there: name a folder, or a zip of uploads."),
    ("roster.csv", [], "is neither a folder nor a zip of uploads"),
    ("all", ["--kind", "upload"], "There is no kind called 'upload'"),
    (".", [], "name another folder of submissions."),
    ("all", ["--until", "tomorrow"], "--until: tomorrow is no time"),
    ("all", ["--times", "nowhere.csv"], "nowhere.csv is not there"),
    ("all", ["--times", "."], "cannot be read: Is a directory"),
    ("all", ["--kind", "nbgrader", "--times", "x.csv"], "leave out --times"),
]


@pytest.mark.parametrize("source, options, says", PLACES)
def test_what_cannot_be_collected_is_a_sentence(tmp_path, source, options, says):
    laid(tmp_path / "all", {f"ben/{NAME}": ANSWER})
    done = collect(tmp_path, tmp_path / source, *options)
    assert (done.exit_code, says in done.output) == (2, True), done.output
    assert not (tmp_path / "submissions").exists()


def test_a_second_collection_says_what_it_replaces_and_keeps_the_rest(tmp_path):
    first = {f"ada/{NAME}": b"1", f"ben/{NAME}": b"1", f"ben/{OTHER}.py": b"1"}
    collect(tmp_path, laid(tmp_path / "one", first))
    done = collect(tmp_path, laid(tmp_path / "two", {f"ada/{NAME}": b"1", f"ben/{NAME}": b"2"}))
    assert done.exit_code == 0
    assert f"ben: {NAME} was replaced: it was changed." in done.output
    assert "Answers kept from earlier, which this source does not hold: 1." in done.output
    assert "0 new, 1 replaced, 1 as before." in done.output
    assert files(tmp_path) == {**first, f"ben/{NAME}": b"2"}


def test_a_notebook_in_the_place_of_a_file_is_said(tmp_path):
    collect(tmp_path, laid(tmp_path / "one", {f"ben/{NAME}": b"1"}))
    done = collect(tmp_path, laid(tmp_path / "two", {f"ben/{SLUG}.ipynb": b"{}"}))
    assert f"ben: {NAME} was removed: another file answers it now." in done.output
    assert list(files(tmp_path)) == [f"ben/{SLUG}.ipynb"]


def test_the_time_of_a_changed_answer_is_never_that_of_the_one_before(tmp_path):
    table = tmp_path / "times.csv"
    table.write_text(f"student,exercise,submitted\nben,ex02,{AT}\nben,ex01,{AT}\n")
    both = {f"ben/{NAME}": b"1", f"ben/{OTHER}.py": b"1"}
    collect(tmp_path, laid(tmp_path / "one", both), "--times", str(table))
    assert times(tmp_path) == [f"ben,{OTHER},{AT}", f"ben,{SLUG},{AT}"]
    collect(tmp_path, laid(tmp_path / "two", {**both, f"ben/{NAME}": b"2"}))
    assert times(tmp_path) == [f"ben,{OTHER},{AT}"]
    table.write_text(f"student,submitted\nben,{LATER}\n")
    collect(tmp_path, tmp_path / "two", "--times", str(table))
    assert times(tmp_path) == [f"ben,{OTHER},{LATER}", f"ben,{SLUG},{LATER}"]


def test_what_stands_in_the_place_of_a_folder_or_a_file_is_not_written_over(tmp_path):
    (tmp_path / "secret").write_bytes(b"mine")
    laid(tmp_path / "submissions/ada", {})
    (tmp_path / "submissions/ada" / NAME).symlink_to(tmp_path / "secret")
    (tmp_path / "submissions/ben").symlink_to(tmp_path)
    source = laid(tmp_path / "all", {f"ada/{NAME}": ANSWER, f"ben/{NAME}": ANSWER})
    done = collect(tmp_path, source)
    assert done.exit_code == 1
    assert f"ada: {NAME} is no file in the submissions: put it elsewhere." in done.output
    assert "submissions/ben is no folder: put it elsewhere." in done.output
    assert (tmp_path / "secret").read_bytes() == b"mine"
    assert not (tmp_path / NAME).exists()


def test_a_class_run_reads_it_and_has_a_row_for_everybody(tmp_path):
    collect(tmp_path, laid(tmp_path / "all", {f"ben/{NAME}": ANSWER}))
    found, notes = list_class_students(tmp_path / "submissions")
    assert ([path.name for path in found], notes) == (["ada", "ben", "eve"], [])
    students = [
        gather_student_answers(path, [catalog.find_catalog_exercise(SLUG)]) for path in found
    ]
    assert [s.answers[0].state for s in students] == ["missing", "graded", "missing"]
    assert students[0].notes == ("submissions/ada holds no file.",)
