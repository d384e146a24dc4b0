"""Each command writes its own part of docs/evidence.md."""

from datetime import date

import pytest

from grader.authoring import evidence

PAGE = "# Evidence\n\n<!-- begin one -->\nold\n<!-- end one -->\n\n<!-- begin two -->\n<!-- end two -->\n"


HEAD = ("exercise", "holes", "answer")


@pytest.fixture
def page(tmp_path):
    page = tmp_path / "evidence.md"
    page.write_text(PAGE)
    return page


def table(page, command):
    """The cells of a command's table, without the days."""
    part = page.read_text().partition(f"<!-- begin {command} -->")[2].partition("<!-- end")[0]
    rows = [line.split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip("| ") for cell in row[:-1]] for row in rows[2:]]


def test_a_command_writes_its_part_and_no_other(page):
    evidence.write_evidence_rows("two", HEAD, [("ex01", "0", r"a \d b")], page=page)
    first, second = page.read_text().split("<!-- begin two -->\n")
    assert first == PAGE.partition("<!-- begin two -->")[0]
    today = date.today().isoformat()
    assert second.startswith(
        "| exercise | holes | answer | written |\n| --- | --- | --- | --- |\n"
        f"| ex01 | 0 | a \\d b | {today} |\n\nLast written with Python "
    )
    assert second.endswith("<!-- end two -->\n")


def test_rows_of_other_exercises_stay(page):
    evidence.write_evidence_rows(
        "two", HEAD, [("ex02", "1,200", "a"), ("ex03", "0", "b")], page=page
    )
    evidence.write_evidence_rows(
        "two", HEAD, [("ex03", "7", ""), ("ex01", "2", "c")], page=page, sums=["holes"]
    )
    rows = [["ex01", "2", "c"], ["ex02", "1,200", "a"], ["ex03", "7", ""]]
    assert table(page, "two") == [*rows, ["all", "1,209", ""]]
    evidence.write_evidence_rows("two", HEAD, [("ex02", "0", "a")], page=page, sums=["holes"])
    assert table(page, "two")[-1] == ["all", "9", ""]


def test_a_table_of_other_columns_is_begun_anew(page):
    evidence.write_evidence_rows("two", HEAD, [("ex02", "1", "a")], page=page)
    evidence.write_evidence_rows("two", ("exercise", "faults"), [("ex03", "0")], page=page)
    assert table(page, "two") == [["ex03", "0"]]


def test_a_page_without_the_part_is_a_sentence(page):
    with pytest.raises(evidence.NoSuchEvidence, match="begin three"):
        evidence.write_evidence_rows("three", (), [], page=page)


def test_the_page_has_a_part_for_each_command():
    text = evidence.EVIDENCE_PATH.read_text(encoding="utf-8")
    for command in ("mutants", "mechanical", "diagnose-trial", "diagnose-trial pairs", "headroom"):
        assert text.count(f"<!-- begin {command} -->") == text.count(f"<!-- end {command} -->") == 1
