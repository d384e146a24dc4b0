"""The parts of an interview: the editor, the file that it begins with, the clock's two faces."""

import io
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from grader.cli.interview_command import _describe_repeat_command
from grader.core import catalog
from grader.core.translation import Words
from grader.practice.interview import clock, editor
from grader.practice.interview.interview_task import write_interview_task
from tests.classes.handing import in_chinese


def problem(named: str) -> editor.NoEditor:
    with pytest.raises(editor.NoEditor) as caught:
        editor.choose_interview_editor({"EDITOR": named})
    return caught.value


def test_the_editor_is_the_one_that_was_asked_for():
    assert editor.choose_interview_editor({"VISUAL": f"'{sys.executable}' -x", "EDITOR": "no"}) == [
        sys.executable,
        "-x",
    ]
    assert str(problem("'")).startswith("VISUAL and EDITOR name no editor: ")
    assert str(problem("no-such-editor")).startswith("The editor no-such-editor is not there: ")


def test_that_there_is_no_editor_is_said_in_chinese_too():
    assert in_chinese(str(problem("")), str(problem("no-such-editor")))


def test_an_editor_is_waited_for_until_the_end_and_no_longer(tmp_path):
    closed = editor.open_interview_editor([sys.executable, "-c", ""], tmp_path, 60.0)
    assert closed.poll() == 0
    left_open = editor.open_interview_editor([shutil.which("sleep")], Path("60"), 0.01)
    assert left_open.poll() is None
    left_open.kill()
    left_open.wait()


@pytest.mark.parametrize("exercise", catalog.list_catalog_exercises(), ids=lambda e: e.slug)
def test_the_file_says_what_to_write_and_holds_no_code(exercise):
    text = write_interview_task(exercise, 30, Words())
    sign = "#" if exercise.language == "python" else "//"
    assert all(line.startswith(sign) for line in text.splitlines() if line)
    assert all(f"{name}(" in text or f"class {name}" in text for name in exercise.names)
    hints = [h for n in exercise.names for h in Words().hints(exercise, n)]
    assert not any(hint in text for hint in hints)
    assert not any(word in text for word in ("NotImplementedError", "super()", "import torch"))


class Paper:
    """A console that is no terminal."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def print(self, text: str, **_) -> None:
        self.lines.append(text)


def test_without_a_terminal_a_line_comes_every_five_minutes():
    paper = Paper()
    with clock.Lines(paper, Words()) as shown:
        for left in range(12 * 60, 0, -1):
            shown.show(left)
    assert paper.lines == ["12:00 left.", "10:00 left.", "5:00 left."]


@pytest.mark.parametrize("left", [600, 60])
def test_the_line_on_the_screen_is_there_in_chinese(left):
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with clock.draw_interview_clock(console, Words("zh")) as shown:
        shown.show(left)
    told = "按 Enter 交卷" if left > 60 else "请保存文件"
    assert told in console.file.getvalue()


def test_an_exercise_of_a_pack_is_graded_again_with_its_pack():
    packed = replace(catalog.find_catalog_exercise("ex02"), home=Path("/my packs/one"))
    assert _describe_repeat_command(packed, Path("a.py")) == (
        "  make grade EX=ex02_masking EXERCISES='/my packs/one' SUBMISSION=a.py"
    )
