"""Who is in a class: its folders and zips, and a sentence on all else."""

import os
from pathlib import Path

import pytest

from grader.classroom.run.gather_answers import (
    NoClassFound,
    gather_student_answers,
    list_class_students,
)
from tests.classes.handing import (
    ANSWER,
    EXERCISES,
    PY,
    a_link,
    as_an_ordinary_user,
    folder_for_everybody,
    in_chinese,
    laid,
    zipped,
)


def test_a_zip_is_a_student_as_a_folder_is(tmp_path):
    laid(tmp_path, {"zoe/a": b"", "bob.zip": zipped((PY, ANSWER)), "Al.ZIP": zipped()})
    found, notes = list_class_students(tmp_path)
    assert [entry.name for entry in found] == ["Al.ZIP", "bob.zip", "zoe"]
    assert notes == []
    bob = gather_student_answers(found[1], EXERCISES)
    assert (bob.student, bob.folder, bob.answers[0].content) == ("bob", "bob", ANSWER)
    assert bob.answers[0].path == f"{tmp_path.name}/bob.zip/{PY}"


def test_a_folder_with_the_name_of_a_zip_is_a_folder(tmp_path):
    laid(tmp_path, {f"bob.zip/{PY}": ANSWER, f"bob/{PY}": ANSWER})
    found, notes = list_class_students(tmp_path)
    students = [gather_student_answers(entry, EXERCISES) for entry in found]
    assert [student.folder for student in students] == ["bob", "bob.zip"]
    assert [student.answers[0].content for student in students] == [ANSWER, ANSWER]
    assert notes == []


NEITHER = (
    "is neither a student's folder nor a zip: it was passed over. If a student handed it in, put it "
    "into a folder with the student's name."
)
NO_STUDENT = [
    ({"bob.rar": b"", "bob.zip": b""}, None, "bob.rar was left out: bob.zip counts."),
    ({"bob/a": b"", "bob.zip": b""}, None, "bob.zip was left out: bob counts."),
    ({"a/a": b"", "bob.ZIP": b"", "bob.zip": b""}, None, "bob.zip was left out: bob.ZIP counts."),
    ({"bob/a": b"", "grades.csv": b""}, None,
     f"grades.csv {NEITHER}"),
    ({"bob/a": b""}, ("x.zip", os.mkfifo),
     f"x.zip {NEITHER}"),
    ({"bob/a": b""}, ("eve", lambda path: path.symlink_to("bob")),
     "eve is a link and was not followed: put what it leads to in its place."),
    ({"bob/a": b""}, ("eve.zip", a_link),
     "eve.zip is a link and was not followed: put what it leads to in its place."),
]  # fmt: skip


@pytest.mark.parametrize("contents, made, says", NO_STUDENT)
def test_what_is_no_students_has_a_sentence(tmp_path, contents, made, says):
    laid(tmp_path, contents)
    if made:
        made[1](tmp_path / made[0])
    found, notes = list_class_students(tmp_path)
    assert notes == [says]
    assert not any(entry.name == says.split()[0] for entry in found)
    assert in_chinese(says)


@pytest.mark.parametrize("suffix", [".rar", ".7z", ".tar.gz", ".RAR"])
def test_an_archive_that_is_no_zip_has_a_student_and_a_cure(tmp_path, suffix):
    says = f"x{suffix} is no zip and was not opened: unpack it, or hand in a zip."
    laid(tmp_path, {f"x{suffix}": b"", f"bob/x{suffix}": b""})
    (bob, student), notes = list_class_students(tmp_path)
    found = gather_student_answers(student, EXERCISES)
    assert (found.student, notes) == ("x", [])
    assert [(a.state, a.sentence) for a in found.answers] == [("unreadable", says)] * 2
    assert gather_student_answers(bob, EXERCISES).notes == (says,)
    assert in_chinese(says)


def test_hidden_entries_are_passed_over(tmp_path):
    laid(tmp_path, {"bob/a": b"", ".git/config": b"", "__MACOSX/x": b"", ".DS_Store": b""})
    assert list_class_students(tmp_path) == ([tmp_path / "bob"], [])


LAYOUT = "There is no student in {0}: it should hold {0}/<student>/<exercise>.py."
NO_CLASS = [
    (lambda place: None, "{0} is not there: name the folder of the submissions."),
    (lambda place: place.write_bytes(b""), "{0} is no folder: name the folder of the submissions."),
    (Path.mkdir, LAYOUT),
    (lambda place: laid(place, {"notes.txt": b""}),
     f"{LAYOUT}\nnotes.txt {NEITHER}"),
    (lambda place: laid(place, {PY: ANSWER, "other/a": b""}),
     "{0} holds " + PY + " itself, but should hold a folder or a zip for each student: {0}/<student>/" + f"{PY}."),
    (lambda place: a_link(laid(place, {}) / "eve"),
     f"{LAYOUT}\neve is a link and was not followed: put what it leads to in its place."),
]  # fmt: skip


@pytest.mark.parametrize("make, says", NO_CLASS)
def test_a_folder_without_a_class_is_told_what_a_class_looks_like(tmp_path, make, says):
    place = tmp_path / "submissions"
    make(place)
    with pytest.raises(NoClassFound) as told:
        list_class_students(place)
    assert str(told.value) == says.format(place)
    assert in_chinese(str(told.value))


def test_a_class_that_may_not_be_read_is_no_class():
    with folder_for_everybody() as folder:
        laid(folder, {"bob/a": b""})
        folder.chmod(0)
        with as_an_ordinary_user(), pytest.raises(NoClassFound) as told:
            list_class_students(folder)
    assert str(told.value) == f"{folder} cannot be read: Permission denied."


def test_the_folder_of_a_class_may_be_a_link(tmp_path):
    laid(tmp_path / "real", {"bob/a": b""})
    (tmp_path / "submissions").symlink_to("real")
    assert list_class_students(tmp_path / "submissions") == ([tmp_path / "submissions" / "bob"], [])


def test_a_file_with_a_copys_name_is_graded_if_there_is_no_other(tmp_path):
    stem = PY.removesuffix(".py")
    laid(tmp_path, {f"bob/{stem} (1).py": ANSWER, "bob/notes.txt": b""})
    bob = gather_student_answers(tmp_path / "bob", EXERCISES)
    assert (bob.answers[0].content, bob.answers[0].name) == (ANSWER, PY)
    assert bob.notes[0] == f"{stem} (1).py was graded as {PY}."


@pytest.mark.parametrize(
    "names, content, sentence",
    [
        (["{} (1).py", "{} (2).py"], b"", "{0}.py was not handed in, but {0} (1).py, {0} (2).py: hand in one, as {0}.py."),
        (["{}-1.py", "{} - Copy.ipynb"], b"", "{0}.py was not handed in, but {0} - Copy.ipynb, {0}-1.py: hand in one, as {0}.py."),
        (["{}.py", "{} (1).py"], ANSWER, ""),
        (["{}.ipynb", "{} (1).py"], ANSWER, ""),
        (["{}_helpers.py"], b"", "{}.py was not handed in."),
    ],
)  # fmt: skip
def test_of_several_files_with_a_copys_name_none_is_guessed(tmp_path, names, content, sentence):
    stem = PY.removesuffix(".py")
    laid(tmp_path, {f"bob/{name.format(stem)}": ANSWER for name in names})
    bob = gather_student_answers(tmp_path / "bob", EXERCISES)
    answer = bob.answers[0]
    assert (answer.content, answer.sentence) == (content, sentence.format(stem))
    assert "hand in one" not in sentence or bob.notes == ()
    assert not answer.content or answer.path.endswith(names[0].format(stem))
