"""A Chinese text is broken between its characters; an English one as ever; points stay."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from grader.reporting.wrapped_text import STUCK, WrappedText, wrap_text


def draw(text: str, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(wrap_text(Text(text)))
    return console.file.getvalue().splitlines()


def test_chinese_fills_its_line_before_a_word_that_is_long():
    assert draw("· softmax_numpy 沿传入的轴计算，数组有几个轴都行。", 24) == [
        "· softmax_numpy 沿传入的",
        "轴计算，数组有几个轴都",
        "行。",
    ]


def test_no_line_begins_with_a_closing_sign_or_ends_with_an_opening_one():
    assert draw("一二三四，五六", 8) == ["一二三", "四，五六"]
    assert draw("一二三（四五）", 8) == ["一二三", "（四五）"]


def test_lines_and_words_stay_whole():
    assert draw("第一行\n第二行 abc_def", 10) == ["第一行", "第二行", "abc_def"]
    assert not isinstance(wrap_text(Text("no Chinese")), WrappedText)


@pytest.mark.parametrize("words", ["keeps the digits of float64 too.", "保持 float64 的精度。"])
@pytest.mark.parametrize("width", range(14, 40))
def test_points_stay_with_the_word_before_them(words, width):
    lines = draw(f"{words}{2 * STUCK}0/1", width)
    assert "".join(lines).replace(" ", "") == f"{words}0/1".replace(" ", "")
    assert all(cell_len(line) <= width for line in lines)
    assert len(lines[-1]) > len("  0/1") and lines[-1].endswith("  0/1")
