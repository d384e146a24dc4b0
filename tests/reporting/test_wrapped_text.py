"""A Chinese text is broken between its characters; an English one as ever."""

import io

from rich.console import Console
from rich.text import Text

from grader.reporting.wrapped_text import WrappedText, wrap_text


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
