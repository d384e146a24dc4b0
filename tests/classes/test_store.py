"""Results are kept whole or not at all."""

import json
import os

import pytest

from grader.core import result_store
from grader.core.result_store import ResultStore, write_file_whole

KEY = "ab" + 62 * "0"


def test_what_was_put_is_there(tmp_path):
    ResultStore(tmp_path).put(KEY, {"score": 3, "says": "对了 ✓"})
    assert ResultStore(tmp_path).get(KEY) == {"score": 3, "says": "对了 ✓"}


def test_another_key_has_nothing(tmp_path):
    ResultStore(tmp_path).put(KEY, {"score": 3})
    assert ResultStore(tmp_path).get("ab" + 62 * "1") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-5],
        lambda text: "",
        lambda text: "null",
        lambda text: text.replace(KEY, "cd" + 62 * "0"),  # a file that was moved here
        lambda text: json.dumps({"key": KEY}),
    ],
    ids=["cut", "empty", "no object", "another's", "no result"],
)
def test_a_damaged_file_is_no_result(tmp_path, damage):
    kept = ResultStore(tmp_path)
    kept.put(KEY, {"score": 3})
    [path] = tmp_path.rglob("*.json")
    path.write_text(damage(path.read_text()))
    assert kept.get(KEY) is None


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "grades.csv"
    write_file_whole(path, "old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(result_store.os, "fsync", full)
    with pytest.raises(OSError, match="No space") as error:
        write_file_whole(path, "new")
    assert error.value.filename == str(path)
    assert [p.name for p in tmp_path.iterdir()] == ["grades.csv"]
    assert path.read_text() == "old"


def test_a_file_that_would_not_change_is_not_touched(tmp_path):
    path = tmp_path / "grades.csv"
    write_file_whole(path, "same")
    os.utime(path, (0, 0))
    write_file_whole(path, "same")
    assert path.stat().st_mtime == 0


def test_a_file_is_written_for_others_to_read_too(tmp_path):
    write_file_whole(tmp_path / "class.html", "page")
    assert (tmp_path / "class.html").stat().st_mode & 0o777 == 0o644


def test_text_that_is_no_utf_8_is_written_all_the_same(tmp_path):
    write_file_whole(tmp_path / "notes", "\udcff")
    assert (tmp_path / "notes").read_text() == "?"
