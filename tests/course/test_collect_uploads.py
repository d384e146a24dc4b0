"""Uploads as Canvas and Moodle name them, and as folders; a zip is not unpacked to the disk."""

import stat

import pytest

from tests.classes.handing import laid, of_kind, zipped
from tests.course.collected import (
    ANSWER,
    AT,
    LATER,
    OTHER,
    ROSTER,
    SLUG,
    collect,
    files,
    times,
)

NAME = f"{SLUG}.py"
NAMED = "student,login,id,name\nada,ada-l,11,Ada Lovelace\nben,ben,12,王伟\neve,eve,13,王_伟\n"
MOODLE = "Ada Lovelace_57_assignsubmission_file"

FOUND = [
    ("Canvas", [(f"adalovelace_11_731_{NAME}", ANSWER)]),
    ("Canvas, late, handed in again", [(f"adalovelace_LATE_11_731_{SLUG}-2.py", ANSWER)]),
    ("Canvas, a zip", [("adalovelace_11_731_all.zip", zipped((f"homework/{NAME}", ANSWER)))]),
    ("Moodle, a folder", [(f"{MOODLE}/{NAME}", ANSWER)]),
    ("Moodle, a folder below", [(f"{MOODLE}/homework/{NAME}", ANSWER)]),
    ("Moodle, a folder of another version", [(f"{MOODLE}_/{NAME}", ANSWER)]),
    ("Moodle, one file", [(f"{MOODLE}_{NAME}", ANSWER)]),
    ("Moodle, with a text", [(f"{MOODLE}/{NAME}", ANSWER), ("Ada Lovelace_57_assignsubmission_onlinetext/onlinetext.html", b"x")]),
    ("a student's folder", [(f"ada/{NAME}", ANSWER)]),
    ("a login's", [(f"Ada-L/{NAME}", ANSWER), ("__MACOSX/ada/x", b"x")]),
    ("a zip named by the id", [("11.zip", zipped((NAME, ANSWER)))]),
]  # fmt: skip


CASES = [
    pytest.param(uploads, packed, id=f"{name}, {'zip' if packed else 'folder'}")
    for name, uploads in FOUND
    for packed in (True, False)
    if packed or "work/" not in uploads[0][0]  # only in zips folders below are looked into
]


@pytest.mark.parametrize("uploads, packed", CASES)
def test_an_upload_is_its_students(tmp_path, uploads, packed):
    source = tmp_path / ("all.zip" if packed else "all")
    if packed:
        source.write_bytes(zipped(*uploads))
    else:
        laid(source, dict(uploads))
    done = collect(tmp_path, source, roster=NAMED)
    assert done.exit_code == 0, done.output
    assert "is read as uploads to a platform." in done.output
    assert files(tmp_path) == {f"ada/{NAME}": ANSWER}


LEFT = [
    ("nobody's", [(f"x_99_1_{NAME}", ANSWER)], ROSTER, "x_99 belongs to nobody in the roster"),
    ("two students with one id", [(f"x_12_1_{NAME}", ANSWER)], ROSTER + "zoe,zoe,12\n",
     "ben and zoe have the same id in the roster, 12"),
    ("two names with one id", [(f"a_12_1_{NAME}", ANSWER), (f"b_12_2_{OTHER}.py", b"2")], ROSTER,
     "a_12 and b_12 are of one student, ben"),
    ("two files of one name", [(f"b_12_1_{NAME}", ANSWER), (f"b_12_2_{SLUG}-1.py", b"2")], ROSTER,
     f"{NAME} is there more than once"),
    ("no name", [(NAME, ANSWER)], ROSTER, f"{NAME} does not say who uploaded it"),
    ("a number that is another's id", [(f"Ada Lovelace_12_assignsubmission_file/{NAME}", ANSWER)],
     ROSTER, "Ada Lovelace_12 belongs to nobody in the roster"),
    ("two of one name", [(f"Wang Wei_1_assignsubmission_file/{NAME}", ANSWER)],
     "student,name\nben,Wang Wei\nzoe,wang wei\n", "may be of ben, zoe"),
    ("a name that plays another's", [(f"王伟_1_assignsubmission_file_2_assignsubmission_file/{NAME}", ANSWER)],
     NAMED, "may be of several students"),
    ("a student's name that is another's login", [(f"ben/{NAME}", ANSWER)],
     "student,login\nben,b\nzoe,ben\n",
     "ben may be of ben, zoe: it was left alone. Let only one of them have ben in the roster."),
    ("a link", [(of_kind(f"b_12_1_{NAME}", stat.S_IFLNK), b"/etc/passwd")], ROSTER, "is a link"),
    ("a way out", [(f"../../b_12_1_{NAME}", ANSWER)], ROSTER, ".. belongs to nobody"),
    ("a zip in a zip", [("b_12_1_a.zip", zipped(("b.zip", zipped((NAME, ANSWER)))))], ROSTER,
     "ben: b_12/b_12_1_a.zip holds no answer that can be read."),
    ("no zip", [("b_12_1_a.zip", b"no zip")], ROSTER, "cannot be opened as a zip"),
    ("misnamed", [("b_12_1_softmax.py", ANSWER)], ROSTER, f"Did you mean {OTHER}.py?"),
]  # fmt: skip


@pytest.mark.parametrize("uploads, roster, says", [c[1:] for c in LEFT], ids=[c[0] for c in LEFT])
def test_what_is_not_clear_is_left_alone_with_a_sentence(tmp_path, uploads, roster, says):
    (tmp_path / "all.zip").write_bytes(zipped(*uploads))
    done = collect(tmp_path, tmp_path / "all.zip", roster=roster)
    assert (done.exit_code, says in done.output) == (1, True), done.output
    assert files(tmp_path) == {}
    assert {p.name for p in tmp_path.iterdir()} == {"all.zip", "roster.csv", "submissions"}


@pytest.mark.parametrize("suffix", [".py", ".ipynb"])
def test_a_copy_that_is_taken_is_said_to_be_taken(tmp_path, suffix):
    laid(tmp_path / "all", {f"ben/{SLUG} (1){suffix}": ANSWER})
    done = collect(tmp_path, tmp_path / "all")
    assert files(tmp_path) == {f"ben/{SLUG}{suffix}": ANSWER}
    said = done.output.partition("To be settled:")[2].strip()
    told = f"{SLUG} (1){suffix} was taken as {SLUG}{suffix}: look whether that is right."
    assert (done.exit_code, said) == (1, f"ben: ben/{told}")


def test_a_copy_beside_the_answer_is_not_said_to_be_taken(tmp_path):
    laid(tmp_path / "all", {f"ben/{NAME}": ANSWER, f"ben/{SLUG} (1).py": b"2"})
    done = collect(tmp_path, tmp_path / "all")
    assert files(tmp_path) == {f"ben/{NAME}": ANSWER}
    assert "was taken as" not in done.output
    assert f"ben: ben/{SLUG} (1).py is no answer to an exercise." in done.output


def test_the_cure_for_namesakes_helps(tmp_path):
    roster = "student,name\nada,Ada Lovelace\nada2,Ada Lovelace\n"
    ours = [f"Ada Lovelace_{number}_assignsubmission_file" for number in (57, 58)]
    laid(tmp_path / "all", {f"{folder}/{NAME}": ANSWER for folder in ours})
    done = collect(tmp_path, tmp_path / "all", roster=roster)
    assert (
        "Ada Lovelace_57 may be of ada, ada2: it was left alone. Look who it is, unpack the zip, "
        "and write the roster's `student` in the place of Ada Lovelace in this name."
    ) in done.output
    for folder, student in zip(ours, ("ada2", "ada"), strict=True):
        renamed = folder.replace("Ada Lovelace", student)
        (tmp_path / "all" / folder).rename(tmp_path / "all" / renamed)
    done = collect(tmp_path, tmp_path / "all", roster=roster)
    assert done.exit_code == 0, done.output
    assert files(tmp_path) == {f"ada/{NAME}": ANSWER, f"ada2/{NAME}": ANSWER}


def test_each_file_of_canvas_has_a_number_of_its_own(tmp_path):
    uploads = [(f"adal_11_731_{NAME}", ANSWER), (f"adal_LATE_11_732_{OTHER}.py", b"2")]
    (tmp_path / "all.zip").write_bytes(zipped(*uploads))
    done = collect(tmp_path, tmp_path / "all.zip")
    assert done.exit_code == 0, done.output
    assert files(tmp_path) == {f"ada/{NAME}": ANSWER, f"ada/{OTHER}.py": b"2"}


def test_times_come_from_a_table_and_never_from_the_zip(tmp_path):
    (tmp_path / "all.zip").write_bytes(
        zipped((f"a_11_1_{NAME}", ANSWER), (f"b_12_2_{NAME}", ANSWER), (f"e_13_3_{NAME}", ANSWER))
    )
    table = tmp_path / "times.csv"
    table.write_text(
        f"login;exercise;submitted\nada-l;ex02;{AT}\nben;;{LATER}\nben;ex01;{AT}\nx;;{AT}\n"
    )
    done = collect(tmp_path, tmp_path / "all.zip", "--times", str(table))
    assert "times.csv, line 5 belongs to nobody in the roster" in done.output
    assert times(tmp_path) == [f"ada,{SLUG},{AT}", f"ben,{SLUG},{LATER}"]


@pytest.mark.parametrize("second, named", [("ben,ex02", SLUG), ("ben,", "all exercises")])
def test_two_times_of_one_answer_are_refused(tmp_path, second, named):
    laid(tmp_path / "all", {f"ben/{NAME}": ANSWER})
    table = tmp_path / "times.csv"
    rows = f"student,exercise,submitted\nben,ex02,{AT}\nben,,{AT}\n{second},{AT}\n"
    table.write_text(rows)  # the same time twice is no question
    assert collect(tmp_path, tmp_path / "all", "--times", str(table)).exit_code == 0
    table.write_text(f"{rows}{second},{LATER}\n")
    done = collect(tmp_path, tmp_path / "all", "--times", str(table))
    says = f"times.csv, line 5: ben has a time for {named} already: keep one of the two."
    assert (done.exit_code, says in done.output) == (2, True), done.output


def test_without_any_time_it_says_what_names_them(tmp_path):
    laid(tmp_path / "all", {f"ben/{NAME}": ANSWER})
    (tmp_path / "times.csv").write_text(f"student,submitted\nben,{AT}\n")
    done = collect(tmp_path, tmp_path / "all")
    none = "No times of submission are known: ARGS='--times TABLE' names them."
    assert (done.exit_code, done.output.splitlines()[-1].partition("before. ")[2]) == (0, none)
    done = collect(tmp_path, tmp_path / "all", "--times", str(tmp_path / "times.csv"))
    assert "No times" not in done.output
    assert "Times of submission: " in done.output


def test_what_nobody_says_was_in_time_is_left_alone(tmp_path):
    (tmp_path / "all.zip").write_bytes(zipped((f"a_11_1_{NAME}", ANSWER), (f"b_12_2_{NAME}", b"2")))
    table = tmp_path / "times.csv"
    table.write_text(f"student,submitted\nada,{AT}\nben,{LATER}\n")
    until = ["--times", str(table), "--until", "2026-03-02T00:00:00+00:00"]
    done = collect(tmp_path, tmp_path / "all.zip", *until)
    assert f"Nothing says that b_12_2_{NAME} was uploaded until" in done.output
    assert files(tmp_path) == {f"ada/{NAME}": ANSWER}


@pytest.mark.parametrize("content", [b"", b"no zip"])
def test_a_source_that_is_no_zip_is_a_sentence(tmp_path, content):
    (tmp_path / "all.zip").write_bytes(content)
    done = collect(tmp_path, tmp_path / "all.zip")
    assert (done.exit_code, "cannot be opened as a zip" in done.output) == (2, True)
    assert not (tmp_path / "submissions").exists()


def test_an_answer_that_is_there_twice_has_one_sentence(tmp_path):
    uploads = [(f"b_12_1_{NAME}", ANSWER), (f"b_12_2_{SLUG}-1.py", b"2")]
    (tmp_path / "all.zip").write_bytes(zipped(*uploads))
    done = collect(tmp_path, tmp_path / "all.zip")
    assert "is there more than once" in done.output
    assert "holds no answer" not in done.output


def test_two_copies_of_an_answer_have_one_sentence(tmp_path):
    names = [f"ben/{SLUG} ({n}).py" for n in (1, 2)]
    laid(tmp_path / "all", dict.fromkeys(names, ANSWER))
    done = collect(tmp_path, tmp_path / "all")
    told = [line for line in done.output.splitlines() if "(1)" in line]
    assert len(told) == 1, done.output
    assert f"{NAME} was not handed in, but {names[0]}, {names[1]}: hand in one" in told[0]
    assert "Did you mean" not in done.output


@pytest.mark.parametrize("name", ["ben.rar", "b_12_1_hw.7z", "ben/hw.rar"])
def test_an_archive_that_is_no_zip_has_a_cure(tmp_path, name):
    laid(tmp_path / "all", {name: b""})
    done = collect(tmp_path, tmp_path / "all")
    assert done.exit_code == 1
    assert f"ben: {name} is no zip and was not opened: unpack it, or hand in a zip." in done.output
