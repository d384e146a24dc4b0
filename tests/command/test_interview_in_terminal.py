"""An interview in a terminal of its own."""

from tests.command.terminal import Terminal

HELD = """
import sys
from grader.cli import app, interview_command
from grader.core.questions import Question
asked = tuple(Question(id=str(n), asks=f"第{n}个问题：为什么？", answer="因为方差。") for n in range(3))
interview_command.read_questions_toml = lambda exercise: asked
sys.argv[0] = "grader"
app.run_command_line()
"""


def test_in_a_terminal_the_clock_counts_down_and_the_verdict_comes_after_it(tmp_path):
    terminal = Terminal(
        "-c", HELD, "interview", "ex02", "-o", str(tmp_path), "--isolation", "process",
        "--lang", "zh", rows=70, columns=72,
    )  # fmt: skip
    terminal.until("。按 Enter 交卷；按 Ctrl-C 结束，不评分。")
    drawn = terminal.text  # 30:00, or later on a slow machine
    terminal.until(lambda text: text != drawn)
    assert terminal.text.count("还剩") == 1  # drawn in place
    [folder] = tmp_path.iterdir()
    wrong = "def keep_from_blocked(blocked):\n    return blocked\n"
    (folder / "ex02_masking.py").write_text(wrong, encoding="utf-8")
    terminal.child.send("\r")
    terminal.until("交卷，用时 0:")
    terminal.until("第 1 问，共 3 问")
    assert "✗ keep_from_blocked 在 blocked 为 False 处是 True" in terminal.text
    assert "取反" in terminal.text  # the diagnosis
    for number in (1, 2, 3):
        terminal.until(f"第 {number} 问，共 3 问")
        terminal.until(lambda text, n=number: text.count("直接按 Enter 继续") >= n)
        terminal.child.send("点积的方差是 D\r\r" if number == 1 else "\r")
    assert terminal.exit_code() == 0
    kept = (folder / "answers.md").read_text(encoding="utf-8")
    assert kept.count("> 点积的方差是 D\n") == 1
    assert kept.count("（没有写）") == 2
    assert "Traceback" not in terminal.raw


def test_ctrl_c_in_a_terminal_is_no_trace(tmp_path):
    terminal = Terminal("-m", "grader", "interview", "ex02", "-o", str(tmp_path), "--lang", "en")
    terminal.until(" left. Enter hands in, Ctrl-C ends it without a verdict.")
    terminal.interrupt()
    assert terminal.exit_code() == 0
    assert "make grade EX=ex02_masking SUBMISSION=" in terminal.raw
    assert "Traceback" not in terminal.raw
