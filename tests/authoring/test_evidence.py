"""Each command writes its own part of docs/evidence.md."""

import pytest

from grader.authoring import evidence

PAGE = "# Evidence\n\n<!-- begin one -->\nold\n<!-- end one -->\n\n<!-- begin two -->\n<!-- end two -->\n"


def test_a_command_writes_its_part_and_no_other(tmp_path):
    page = tmp_path / "evidence.md"
    page.write_text(PAGE)
    evidence.write("two", ("exercise", "holes"), [("ex01", 0)], "No holes.", page)
    first, second = page.read_text().split("<!-- begin two -->\n")
    assert first == PAGE.partition("<!-- begin two -->")[0]
    assert second.startswith("| exercise | holes |\n| --- | --- |\n| ex01 | 0 |\n\nNo holes.\n")
    evidence.write("one", ("exercise",), [], r"A \d backslash.", page)
    assert "old" not in page.read_text()
    assert r"A \d backslash." in page.read_text()


def test_a_page_without_the_part_is_a_sentence(tmp_path):
    page = tmp_path / "evidence.md"
    page.write_text(PAGE)
    with pytest.raises(evidence.NoSuchPart, match="begin three"):
        evidence.write("three", (), [], "", page)


def test_the_page_has_a_part_for_each_command():
    text = evidence.PAGE.read_text(encoding="utf-8")
    for command in ("mutants", "mechanical", "headroom"):
        assert text.count(f"<!-- begin {command} -->") == text.count(f"<!-- end {command} -->") == 1
