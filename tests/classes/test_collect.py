"""A class is read whatever lies in its folder: an answer, or a sentence why there is none."""

import os

import pytest

from grader.classroom.run.gather_answers import (
    MAX_STUDENT_NOTES,
    gather_student_answers,
    list_class_students,
)
from grader.submission import answer_file
from tests.classes.handing import (
    A_LINK,
    ANSWER,
    EXERCISES,
    NOTEBOOK,
    PY,
    SKELETON,
    SLUGS,
    a_link,
    in_chinese,
    laid,
    of_alice,
    zipped,
)

MARKUP = "<script>alert(1)<"  # a slash would be a folder
CELLS = b'{"cells": [{"cell_type": "code", "source": "def softmax(x, dim=-1):\\n    return x"}]}'
UNTOUCHED = b'{"cells": []}'


def test_an_answer_comes_with_its_bytes_and_where_it_lies(tmp_path):
    alice = of_alice(tmp_path, {PY: ANSWER})
    answer = alice.answers[0]
    assert (answer.slug, answer.name, answer.content) == (SLUGS[0], PY, ANSWER)
    assert (answer.path, answer.state, answer.sentence) == (f"submissions/alice/{PY}", "graded", "")
    assert (alice.student, alice.folder, alice.notes) == ("alice", "alice", ())


def test_each_exercise_asked_has_an_answer_in_the_order_asked(tmp_path):
    alice = of_alice(tmp_path, {PY: ANSWER}, EXERCISES[::-1])
    assert [a.slug for a in alice.answers] == SLUGS[::-1]
    assert alice.answers[0].state == "missing"
    assert alice.answers[0].sentence == f"{SLUGS[1]}.py was not handed in."
    assert in_chinese(alice.answers[0].sentence)


def test_an_answer_to_an_exercise_that_is_not_asked_is_passed_over(tmp_path):
    assert of_alice(tmp_path, {PY: ANSWER, f"{SLUGS[1]}.py": ANSWER}, EXERCISES[:1]).notes == ()


LEFT_OUT = (f"{NOTEBOOK} was left out: {PY} counts.",)
WHICH_COUNTS = [
    ("a Python file", {PY: ANSWER}, PY, ()),
    ("a notebook", {NOTEBOOK: CELLS}, NOTEBOOK, ()),
    ("both, the Python file begun", {PY: ANSWER, NOTEBOOK: CELLS}, PY, LEFT_OUT),
    ("an untouched notebook beside a begun file", {PY: ANSWER, NOTEBOOK: UNTOUCHED}, PY, ()),
    ("a notebook beside a skeleton", {PY: SKELETON, NOTEBOOK: CELLS}, NOTEBOOK, ()),
    ("a notebook beside a skeleton from Windows",
     {PY: SKELETON.replace(b"\n", b"\r\n"), NOTEBOOK: CELLS}, NOTEBOOK, ()),
    ("a notebook beside an empty file", {PY: b"", NOTEBOOK: CELLS}, PY, LEFT_OUT),
    ("a notebook beside what is not UTF-8", {PY: b"\xff", NOTEBOOK: CELLS}, PY, LEFT_OUT),
    ("a skeleton alone", {PY: SKELETON}, PY, ()),
    ("nothing", {}, PY, ("submissions/alice holds no file.",)),
]  # fmt: skip


@pytest.mark.parametrize("contents, name, notes", [c[1:] for c in WHICH_COUNTS], ids=[c[0] for c in WHICH_COUNTS])  # fmt: skip
def test_the_file_that_counts_is_the_one_that_counts_at_home(tmp_path, contents, name, notes):
    alice = of_alice(tmp_path, contents)
    at_home = answer_file.locate_submission(tmp_path / "submissions/alice", SLUGS[0])
    assert alice.answers[0].name == name == at_home.name
    assert alice.answers[0].content == contents.get(name, b"")
    assert alice.notes == notes
    assert in_chinese(*notes)


NO_ANSWER = "is no answer to an exercise."
MISNAMED = [
    (f"{SLUGS[0]}_final_v2.py", PY),
    ("ex01-softmax.py", PY),
    ("softmax.py", PY),
    ("ex01.py", PY),
    ("ex05.ipynb", "ex05_causal_mask.ipynb"),
    (f"{PY}.txt", PY),
    (SLUGS[0], PY),
    (f"Copy of {NOTEBOOK}", NOTEBOOK),
    ("SOFTMAX.IPYNB", NOTEBOOK),
]


@pytest.mark.parametrize("name", [
    PY.upper().replace(".PY", ".py"), f"{SLUGS[0]}.PY", f"{SLUGS[0]} (1).py", f"{SLUGS[0]}-1.py",
])  # fmt: skip
def test_the_only_copy_of_an_answer_is_graded_and_noted(tmp_path, name):
    alice = of_alice(tmp_path, {name: ANSWER})
    assert alice.notes == (f"{name} was graded as {PY}.",)
    assert alice.answers[0].content == ANSWER
    assert in_chinese(*alice.notes)


@pytest.mark.parametrize("name, meant", MISNAMED)
def test_a_file_with_a_name_close_to_an_answers_is_asked_about(tmp_path, name, meant):
    alice = of_alice(tmp_path, {name: ANSWER})
    assert alice.notes == (f"{name} {NO_ANSWER} Did you mean {meant}?",)
    assert alice.answers[0].state == "missing"
    assert in_chinese(*alice.notes)


@pytest.mark.parametrize("name", ["helper.py", "notes.txt", "README.md", "report.pdf", "a" * 255])
def test_a_file_with_another_name_is_noted(tmp_path, name):
    assert of_alice(tmp_path, {PY: ANSWER, name: b""}).notes == (f"{name} {NO_ANSWER}",)
    assert in_chinese(f"{name} {NO_ANSWER}")


@pytest.mark.parametrize("name", [
    ".DS_Store", f"._{PY}", ".git/config", "__pycache__/x.pyc", f"__MACOSX/._{PY}", "Thumbs.db",
    "desktop.ini", f".ipynb_checkpoints/{SLUGS[0]}-checkpoint.ipynb",
])  # fmt: skip
def test_what_machines_leave_behind_is_passed_over(tmp_path, name):
    assert of_alice(tmp_path, {PY: ANSWER, name: b""}).notes == ()
    in_zip = of_alice(tmp_path / "2", {"hw.zip": zipped((PY, ANSWER), (f"hw/{name}", b""))})
    assert (in_zip.answers[0].content, in_zip.notes) == (ANSWER, ())


def test_the_resource_fork_of_a_mac_is_no_answer(tmp_path):
    assert of_alice(tmp_path, {f"._{PY}": ANSWER}).answers[0].state == "missing"


def test_a_folder_that_wraps_the_answers_is_noted_with_the_cure(tmp_path):
    alice = of_alice(tmp_path, {f"hw/{PY}": ANSWER})
    assert alice.answers[0].state == "missing"
    assert alice.notes == (
        "hw is a folder, which is not looked into: put its files where it lies.",
    )


@pytest.mark.parametrize("make, says", [
    (a_link, f"notes.txt {A_LINK}"),
    (os.mkfifo, "notes.txt is not a file."),
])  # fmt: skip
def test_what_is_neither_file_nor_answer_is_noted(tmp_path, make, says):
    make(laid(tmp_path / "submissions" / "alice", {PY: ANSWER}) / "notes.txt")
    assert of_alice(tmp_path).notes == (says,)


@pytest.mark.parametrize("count, last", [(10, None), (11, "And 1 more."), (500, "And 490 more.")])
def test_after_ten_notes_the_others_are_counted(tmp_path, count, last):
    notes = of_alice(tmp_path, {f"{n}.txt": b"" for n in range(count)}).notes
    assert len(notes) == MAX_STUDENT_NOTES + (last is not None)
    assert last in (None, notes[-1])
    assert in_chinese(*notes)


def test_what_is_left_out_comes_first_among_the_ten(tmp_path):
    others = {f"{n}.txt": b"" for n in range(10)}
    notes = of_alice(tmp_path, {PY: ANSWER, NOTEBOOK: CELLS, **others}).notes
    assert (notes[0], notes[10:]) == (LEFT_OUT[0], ("And 1 more.",))


HOSTILE = [
    (b"\xff\xfe", "��"),
    (b"new\nline", "new�line"),
    (b"\x1b[31mred\x07", "�[31mred�"),
    (b"::error::x", ": :error::x"),
    (MARKUP.encode(), MARKUP),
    ("a\u2028b".encode(), "a�b"),
    ("a\u202eb".encode(), "a�b"),
    (b"\x01", "�"),
    (b"=cmd()", "=cmd()"),
    (b"a" * 255, "a" * 255),
    ("\U0001f600 Zoë 王".encode(), "\U0001f600 Zoë 王"),
]


@pytest.mark.parametrize("name, printed", HOSTILE)
def test_a_student_of_any_name_has_one_that_can_be_printed(tmp_path, name, printed):
    laid(tmp_path, {name + b"/" + PY.encode(): ANSWER})
    [entry], notes = list_class_students(tmp_path)
    student = gather_student_answers(entry, EXERCISES)
    assert (student.student, notes) == (printed, [])
    assert os.fsencode(student.folder) == name
    assert student.answers[0].path == f"{tmp_path.name}/{printed}/{PY}"
    assert student.answers[0].content == ANSWER


@pytest.mark.parametrize("name, printed", HOSTILE)
def test_a_file_of_any_name_is_noted_in_one_line_that_can_be_printed(tmp_path, name, printed):
    assert of_alice(tmp_path, {PY: ANSWER, name: b""}).notes == (f"{printed} {NO_ANSWER}",)


def test_a_control_character_in_the_name_of_an_answer_makes_it_another(tmp_path):
    alice = of_alice(tmp_path, {PY.replace(".", "\x01."): ANSWER})
    assert alice.answers[0].state == "missing"


def test_a_folder_may_hold_a_zip_in_the_place_of_files(tmp_path):
    alice = of_alice(tmp_path, {"hw.zip": zipped((f"hw/{PY}", ANSWER)), "README.md": b""})
    assert alice.answers[0].content == ANSWER
    assert alice.answers[0].path == f"submissions/alice/hw.zip/hw/{PY}"
    assert alice.notes == (f"README.md {NO_ANSWER}",)


def test_the_files_beside_a_zip_count(tmp_path):
    packed = zipped((PY, b"other"), (f"{SLUGS[1]}.py", b"other"))
    alice = of_alice(tmp_path, {PY: ANSWER, "hw.zip": packed})
    assert (alice.answers[0].content, alice.answers[1].state) == (ANSWER, "missing")
    assert alice.notes == ("hw.zip was left out: the files beside it count.",)
    assert in_chinese(*alice.notes)


def test_of_several_zips_none_is_chosen(tmp_path):
    packed = zipped((PY, ANSWER))
    says = "There is more than one zip (1.zip, 2.ZIP): hand in one."
    alice = of_alice(tmp_path, {"1.zip": packed, "2.ZIP": packed, "3.zip": packed})
    assert [(a.state, a.sentence) for a in alice.answers] == [("unreadable", says)] * 2
    assert in_chinese(says)
