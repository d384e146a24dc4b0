"""What cannot be read costs nothing but itself: links, pipes, large files, what may not be read."""

import os
import socket
import tracemalloc
from pathlib import Path

import pytest

from grader.classroom.run import answer_files
from grader.classroom.run.gather_answers import gather_student_answers
from grader.submission import answer_file
from grader.submission.handed_files import MAX_NOTEBOOK_BYTES, find_submission_size_limit
from tests.classes.handing import (
    A_LINK,
    ANSWER,
    EXERCISES,
    NOTEBOOK,
    PY,
    SLUGS,
    a_link,
    as_an_ordinary_user,
    at_once,
    folder_for_everybody,
    in_chinese,
    laid,
    of_alice,
)

LARGE = b"#" * (answer_file.MAX_ANSWER_BYTES + 1)


def link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


def link_out(path: Path) -> None:
    other = path.parent.parent / "mallory.py"
    other.write_bytes(ANSWER)
    path.symlink_to(other)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # the path of a socket has 107 bytes at most


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10_000_000_000)


def large(path: Path) -> None:
    path.write_bytes(LARGE)


TOO_LARGE = "is too large: an answer has at most 150,000 bytes."
UNREADABLE = [
    (PY, a_link, f"{PY} {A_LINK}"),
    (PY, link_to_nothing, f"{PY} {A_LINK}"),
    (PY, link_out, f"{PY} {A_LINK}"),
    (NOTEBOOK, a_link, f"{NOTEBOOK} {A_LINK}"),
    (PY, os.mkfifo, f"{PY} is not a file."),
    (PY, bound_socket, f"{PY} is not a file."),
    (PY, Path.mkdir, f"{PY} is a folder, which is not looked into: put its files where it lies."),
    (PY, large, f"{PY} {TOO_LARGE}"),
    (PY, sparse, f"{PY} {TOO_LARGE}"),
    (NOTEBOOK, sparse,
     f"{NOTEBOOK} is too large: a notebook has at most 20,000,000 bytes. Clear its outputs and save it again."),
    ("hw.zip", sparse,
     "hw.zip is too large: a zip has at most 20,000,000 bytes. Put only the answers into it."),
    ("hw.zip", a_link, f"hw.zip {A_LINK}"),
    ("hw.zip", os.mkfifo, "hw.zip is not a file."),
]  # fmt: skip


@pytest.mark.parametrize("name, make, says", UNREADABLE, ids=lambda x: getattr(x, "__name__", None))
def test_what_cannot_be_read_has_a_sentence(tmp_path, monkeypatch, name, make, says):
    alice = laid(tmp_path / "submissions" / "alice", {})
    monkeypatch.chdir(alice)
    make(alice / name)
    with at_once():
        found = of_alice(tmp_path)
    answer = found.answers[0]
    assert (answer.state, answer.content, answer.sentence) == ("unreadable", b"", says)
    assert found.notes == ()
    assert in_chinese(says)


@pytest.mark.parametrize("name, make, says", [c for c in UNREADABLE if c[0] != "hw.zip"])
def test_what_cannot_be_read_costs_its_own_exercise_only(tmp_path, monkeypatch, name, make, says):
    alice = laid(tmp_path / "submissions" / "alice", {f"{SLUGS[1]}.py": ANSWER})
    monkeypatch.chdir(alice)
    make(alice / name)
    unreadable, other = of_alice(tmp_path).answers
    assert (unreadable.sentence, other.content) == (says, ANSWER)


NOTEBOOK_LIMIT = MAX_NOTEBOOK_BYTES


@pytest.mark.parametrize(
    "name, most", [(PY, answer_file.MAX_ANSWER_BYTES), (NOTEBOOK, NOTEBOOK_LIMIT)]
)
@pytest.mark.parametrize("more, state", [(0, "graded"), (1, "unreadable")])
def test_a_file_may_have_as_many_bytes_as_its_limit(tmp_path, name, most, more, state):
    assert of_alice(tmp_path, {name: b" " * (most + more)}).answers[0].state == state


@pytest.mark.parametrize("name", [PY, NOTEBOOK, "hw.zip"])
def test_of_a_file_that_grows_no_more_is_read_than_its_limit(tmp_path, monkeypatch, name):
    path = laid(tmp_path, {}) / name
    sparse(path)
    measured = os.fstat

    def small(handle):
        status = measured(handle)
        return os.stat_result([*status[:6], 0, *status[7:10]])

    monkeypatch.setattr(answer_files.os, "fstat", small)
    tracemalloc.start()
    with pytest.raises(answer_file.UnreadableFile, match="too large"):
        answer_files.read_student_file(path, name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * find_submission_size_limit(name) + 100_000


def test_nothing_is_read_of_a_file_whose_size_says_that_it_is_too_large(tmp_path, monkeypatch):
    sparse(tmp_path / NOTEBOOK)
    monkeypatch.setattr("builtins.open", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(answer_file.UnreadableFile, match="too large"):
        answer_files.read_student_file(tmp_path / NOTEBOOK, NOTEBOOK)


DENIED = [
    (lambda alice: alice.chmod(0), "alice cannot be read: Permission denied."),
    (lambda alice: (alice / PY).chmod(0), f"{PY} cannot be read: Permission denied."),
    (lambda alice: alice.chmod(0o444), f"{PY} cannot be read: Permission denied."),
]


@pytest.mark.parametrize("deny, says", DENIED)
def test_what_may_not_be_read_has_a_sentence(deny, says):
    with folder_for_everybody() as folder:
        alice = laid(folder / "submissions" / "alice", {PY: ANSWER})
        deny(alice)
        with as_an_ordinary_user():
            answer = gather_student_answers(alice, EXERCISES).answers[0]
    assert (answer.state, answer.sentence) == ("unreadable", says)
    assert in_chinese(says)


def test_a_folder_that_is_exchanged_for_a_link_meanwhile_is_still_the_one_that_was_opened(tmp_path):
    alice = laid(tmp_path / "alice", {PY: ANSWER})
    with answer_files.open_student_folder(alice, "alice") as folder:
        [file] = answer_files.list_student_folder(folder, "alice")
        alice.rename(tmp_path / "elsewhere")
        alice.symlink_to(laid(tmp_path / "mallory", {PY: b"other"}))
        assert file.content() == ANSWER


def test_a_folder_that_became_a_link_is_not_opened(tmp_path):
    (tmp_path / "alice").symlink_to(laid(tmp_path / "mallory", {PY: ANSWER}))
    with (
        pytest.raises(answer_file.UnreadableFile),
        answer_files.open_student_folder(tmp_path / "alice", "alice"),
    ):
        pass


@pytest.mark.parametrize("make, says", [(a_link, A_LINK), (os.mkfifo, "is not a file.")])
def test_a_file_that_is_exchanged_meanwhile_is_not_read(tmp_path, make, says):
    alice = laid(tmp_path / "alice", {PY: ANSWER})
    with answer_files.open_student_folder(alice, "alice") as folder:
        [file] = answer_files.list_student_folder(folder, "alice")
        (alice / PY).unlink()
        make(alice / PY)
        with at_once(), pytest.raises(answer_file.UnreadableFile) as told:
            file.content()
    assert str(told.value) == f"{PY} {says}"


@pytest.mark.parametrize("make, says", [
    (lambda path: None, "alice cannot be read: No such file or directory."),
    (a_link, f"alice {A_LINK}"),
    (lambda path: path.symlink_to(path.parent), f"alice {A_LINK}"),
    (lambda path: path.write_bytes(ANSWER), "alice cannot be read: Not a directory."),
    (os.mkfifo, "alice cannot be read: Not a directory."),
])  # fmt: skip
def test_an_entry_that_is_no_folder_any_more_has_a_sentence_for_each_exercise(tmp_path, make, says):
    make(tmp_path / "alice")
    alice = gather_student_answers(tmp_path / "alice", EXERCISES)
    assert [(a.state, a.sentence) for a in alice.answers] == [("unreadable", says)] * 2
    assert in_chinese(says)
