"""When a file counts as saved."""

import os

from grader.practice.watch.watched_files import WatchedFiles


def test_a_save_is_seen_when_two_looks_agree(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("1")
    files = WatchedFiles({"a": path})
    assert files.saved() == []
    path.write_text("12")
    assert files.saved() == []  # it may not be all of it yet
    path.write_text("123")
    assert files.saved() == []
    assert files.saved() == ["a"]
    files.take("a")
    assert files.saved() == []


def test_of_several_saves_the_newest_comes_last(tmp_path):
    paths = {name: tmp_path / name for name in "abc"}
    files = WatchedFiles(paths)
    for name, when in (("c", 1), ("a", 3), ("b", 2)):
        paths[name].write_text(name)
        os.utime(paths[name], (when, when))
    files.saved()
    assert files.saved() == ["c", "b", "a"]


def test_what_is_saved_while_it_is_graded_is_graded_again(tmp_path):
    path = tmp_path / "a.py"
    files = WatchedFiles({"a": path})
    path.write_text("1")
    files.take("a")
    path.write_text("12")
    assert files.changed("a")
    files.saved()
    assert files.saved() == ["a"]
