"""A file that two sides edit: each text is in the file or beside it, never lost."""

import pytest

from grader.learn.open_files import NotEditable, OpenFile


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ex01_softmax.py"
    path.write_text("first\n", encoding="utf-8")
    return path


@pytest.fixture
def tab(path) -> OpenFile:
    found = OpenFile(path)
    assert found.read() == "first\n"
    return found


def texts(path) -> dict[str, str]:
    return {p.name: p.read_text(encoding="utf-8") for p in path.parent.iterdir()}


def test_a_save_is_the_file_and_leaves_nothing_beside_it(tab, path):
    path.chmod(0o640)
    assert tab.save("second\n").kept is None
    assert texts(path) == {path.name: "second\n"}
    assert path.stat().st_mode & 0o777 == 0o640
    assert tab.read_change() is None


def test_a_save_puts_a_whole_new_file_in_the_place_of_the_old_one(tab, path):
    before = path.open(encoding="utf-8")
    tab.save("second\n")
    assert before.read() == "first\n"  # who reads the old file meanwhile reads all of it
    before.close()


def test_a_change_of_another_program_is_seen_once(tab, path):
    assert tab.read_change() is None
    path.write_text("by vim\n")
    assert tab.read_change() == "by vim\n"
    assert tab.read_change() is None


def test_if_both_sides_changed_the_other_version_is_kept_beside_the_file(tab, path):
    path.write_text("by vim\n")
    saved = tab.save("by the page\n")
    assert saved.kept is not None
    assert texts(path) == {path.name: "by the page\n", "ex01_softmax.1.py": "by vim\n"}


def test_two_tabs_follow_each_other_and_lose_nothing(tab, path):
    other = OpenFile(path)
    other.read()
    tab.save("of the first tab\n")
    assert other.read_change() == "of the first tab\n"
    other.save("of the second tab\n")
    tab.save("of the first tab again\n")
    assert texts(path) == {
        path.name: "of the first tab again\n",
        "ex01_softmax.1.py": "of the second tab\n",
    }


def test_the_same_text_on_both_sides_is_no_conflict(tab, path):
    path.write_text("the same\n")
    assert tab.save("the same\n").kept is None
    assert list(texts(path)) == [path.name]


def test_a_deleted_file_is_written_again(tab, path):
    path.unlink()
    assert tab.read_change() is None
    assert not tab.exists
    assert tab.save("again\n").kept is None
    assert texts(path) == {path.name: "again\n"}


def test_a_deleted_folder_gives_a_sentence(tab, path):
    path.unlink()
    path.parent.rmdir()
    assert (
        tab.save("text\n").problem
        == "ex01_softmax.py cannot be written: No such file or directory."
    )


def test_line_ends_and_byte_order_mark_stay_as_they_are(path):
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    tab = OpenFile(path)
    assert tab.read() == "one\ntwo\n"
    tab.save("one\nthree\n")
    assert path.read_bytes() == b"\xef\xbb\xbfone\r\nthree\r\n"


def test_a_link_stays_a_link(tab, path, tmp_path):
    real = tmp_path / "real.txt"
    path.rename(real)
    path.symlink_to(real)
    tab.read()
    tab.save("through the link\n")
    assert path.is_symlink() and real.read_text() == "through the link\n"


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"x" * 1_100_000, "is too large"),
    ],
)
def test_what_is_no_text_is_not_opened(path, content, sentence):
    path.write_bytes(content)
    with pytest.raises(NotEditable, match=sentence):
        OpenFile(path).read()


def test_what_is_no_text_is_opened_as_soon_as_it_is_text(path):
    path.write_bytes(b"\xff\xfe")
    tab = OpenFile(path)
    for look in (tab.read, tab.read_change, tab.read_change):
        with pytest.raises(NotEditable):
            look()
    path.write_bytes(b"text now\n")
    assert tab.read_change() == "text now\n"


def test_what_is_no_text_is_not_overwritten_either(tab, path):
    path.write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in tab.save("text\n").problem
    assert path.read_bytes() == b"\xff\xfe"


def test_a_text_is_kept_under_a_name_that_no_answer_has(tab, path):
    assert tab.keep_beside("a draft\n").name == "ex01_softmax.1.py"
    assert tab.keep_beside("another\n").name == "ex01_softmax.2.py"
