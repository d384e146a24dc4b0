"""`make debug`: the first failing case, in the student's own process, with their frame on top."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from grader.cli import app, debug_command
from grader.core import catalog
from grader.core.catalog import ROOT
from tests.conftest import solution

EXERCISE = catalog.find_catalog_exercise("ex03")
RIGHT = solution("ex03")
UNSCALED = RIGHT.replace("math.sqrt(q.shape[-1])", "q.shape[-1]")
FIRST = "    _check_shapes(q, k, v)\n"  # of attention_numpy
SMALL = solution("ex01")  # where every case is run: these take a third of the time


@pytest.fixture
def debug(tmp_path, monkeypatch):
    """Debug an answer: debug(source, what is typed) -> all that was printed."""

    def run(source: str, *typed: str, slug: str = "ex03_sdpa", options=(), hook=None) -> str:
        monkeypatch.setattr(sys, "breakpointhook", hook or sys.__breakpointhook__)  # not pytest's
        path = tmp_path / f"{slug}.py"
        path.write_text(source, encoding="utf-8")
        arguments = ["debug", slug, "--submission", str(path), *options]
        done = CliRunner().invoke(
            app.app, arguments, input="\n".join([*typed, ""]), catch_exceptions=False
        )
        return done.output

    return run


def line_of(source: str, text: str) -> int:
    return source[: source.index(text)].count("\n") + 1


def test_a_wrong_value_stops_at_the_first_line_of_the_call_that_gave_it(debug):
    said = debug(UNSCALED, "p q.shape", "p k.shape", "n", "q")
    stop = line_of(UNSCALED, FIRST)
    assert "✗ attention_numpy gives softmax(q k^T / sqrt(D)) v" in said
    assert "output[0, 0] is" in said
    assert f"ex03_sdpa.py({stop})attention_numpy()" in said
    assert "(3, 4)" in said
    assert f"ex03_sdpa.py({stop + 1})attention_numpy()" in said


def test_the_command_in_a_process_of_its_own(tmp_path):
    path = tmp_path / "ex03_sdpa.py"
    path.write_text(UNSCALED, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "grader", "debug", "ex03", "--submission", str(path)], cwd=ROOT,
        input="p q.shape\nq\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert f"ex03_sdpa.py({line_of(UNSCALED, FIRST)})attention_numpy()" in done.stdout
    assert done.stderr == ""


def test_the_stack_has_frames_of_the_students_alone(debug):
    source = UNSCALED.replace(FIRST, f"    breakpoint()\n{FIRST}", 1)
    said = debug(source, "w", "u", "q")
    assert "attention_numpy()" in said
    assert "/grader/" not in said
    assert "Oldest frame" in said


def test_what_raised_has_its_own_frame_on_top(debug):
    source = RIGHT.replace("math.sqrt(q.shape[-1])", "math.sqrt(q.width)")
    said = debug(source, "p q.shape", "q")
    assert f"ex03_sdpa.py({line_of(source, 'q.width')})attention_numpy()" in said
    assert "(3, 4)" in said


def test_an_endless_loop_stops_at_its_line(debug, monkeypatch):
    source = RIGHT.replace(FIRST, f"    turns = 7\n    while turns:\n        pass\n{FIRST}", 1)
    short = replace(EXERCISE, limits=replace(EXERCISE.limits, call_seconds=1.0))
    monkeypatch.setattr(debug_command, "parse_exercise_option", lambda *_: short)
    said = debug(source, "p turns", "q")
    assert "no answer within 1 s" in said
    assert f"ex03_sdpa.py({line_of(source, 'while turns')})attention_numpy()" in said
    assert "(Pdb) 7" in said


@pytest.mark.parametrize("own", ["breakpoint()", "import pdb; pdb.set_trace()"])
def test_a_breakpoint_of_the_students_stops_where_it_is(debug, own):
    first = "    wide = x.astype("
    source = SMALL.replace(first, f"    {own}\n{first}", 1)
    said = debug(source, "p x.shape", "q", slug="ex01_softmax")
    assert "Every case passed" in said
    assert said.count("softmax_numpy()") == 1  # not in every case before
    assert "BdbQuit" not in said


SECOND = RIGHT.index("def scaled_dot_product_attention")
WRONG_AFTER = UNSCALED[: UNSCALED.index("def scaled_dot_product_attention")]


def in_second(line: str) -> str:
    """Return an answer with `attention_numpy` wrong, and a line in the other function."""
    rest = RIGHT[SECOND:].replace(
        "    _check_shapes(q, k, v)\n", f"    _check_shapes(q, k, v)\n    {line}\n", 1
    )
    assert line in rest
    return WRONG_AFTER + rest


def test_a_breakpoint_stops_though_another_function_fails(debug):
    said = debug(in_second("breakpoint()"), "p q.dtype", "q")
    assert "✗ attention_numpy gives" in said
    assert "It stops at your own breakpoint" in said
    assert said.count("scaled_dot_product_attention()") == 1
    assert "(Pdb) torch.float32" in said
    assert "BdbQuit" not in said


def test_an_endless_loop_comes_before_a_wrong_value(debug, monkeypatch):
    short = replace(EXERCISE, limits=replace(EXERCISE.limits, call_seconds=1.0))
    monkeypatch.setattr(debug_command, "parse_exercise_option", lambda *_: short)
    said = debug(in_second("while True: pass"), "q")
    assert "no answer within 1 s" in said
    assert re.search(r"ex03_sdpa\.py\(\d+\)scaled_dot_product_attention\(\)", said), said


def test_a_breakpoint_outside_of_functions_can_be_left(debug):
    said = debug(f"{SMALL}\nbreakpoint()\n", "q", slug="ex01_softmax")
    assert "<module>()" in said
    assert "BdbQuit" not in said


def test_a_method_stops_in_the_method(debug):
    source = solution("ex04").replace("return self.w_o(", "return 2 * self.w_o(")
    assert source != solution("ex04")
    said = debug(source, "p type(self).__name__", "q", slug="ex04_heads")
    assert re.search(r"ex04_heads\.py\(\d+\)forward\(\)", said), said
    assert "'MultiHeadAttention'" in said


def test_a_file_that_raises_while_it_is_loaded_stops_there(debug):
    said = debug(f"{RIGHT}\nx = 1 / 0\n", "q")
    assert "The file cannot be imported: ZeroDivisionError: division by zero." in said
    assert "<module>()" in said


@pytest.mark.parametrize(
    "source, says",
    [
        (f"{RIGHT}\nx = (\n", "is not valid Python"),
        ("import torch\n", "There is no attention_numpy in the file."),
        (RIGHT.replace(FIRST, "    raise NotImplementedError('Write it.')\n", 1), "NotImplementedError: Write it."),
        (RIGHT.replace(FIRST, "    import os\n    os.getcwd()\n", 1), "os is not on the list"),
    ],
)  # fmt: skip
def test_what_ran_no_line_gets_a_sentence_and_no_debugger(debug, source, says):
    said = debug(source, "q")
    assert says in said
    assert "(Pdb)" not in said


def test_what_passes_gets_a_sentence_and_no_debugger(debug):
    said = debug(SMALL, "q", slug="ex01_softmax")
    assert "Every case passed (SEED=" in said
    assert "(Pdb)" not in said


def test_a_seed_repeats_the_inputs(debug):
    first, second = (
        debug(UNSCALED, "p q", "q", options=["--seed", "abc"]).split("(Pdb)")[1] for _ in range(2)
    )
    assert first == second


def test_a_search_uses_one_thread_as_grading_does(debug):
    torch.set_num_threads(2)
    debug(RIGHT.replace("math.sqrt(q.shape[-1])", "math.sqrt(q.width)"), "q")
    assert torch.get_num_threads() == 1


def test_another_debugger_is_left_in_its_place(debug):
    """As in an editor: it stops in the same frame, also where the call raises."""

    def other():
        frame = sys._getframe(1)
        print("OTHER", frame.f_code.co_name, frame.f_locals["q"].shape)

    source = RIGHT.replace("math.sqrt(q.shape[-1])", "math.sqrt(q.width)")
    said = debug(source, hook=other)
    assert "OTHER attention_numpy (3, 4)" in said
    assert "(Pdb)" not in said


def test_the_sentences_are_there_in_chinese(debug):
    said = debug(UNSCALED, "q", options=["--lang", "zh"])
    assert "你的代码在本进程里运行" in said
    assert "程序停在给出这个结果的调用里" in said


def test_the_entry_of_vs_code_runs_the_command():
    text = (ROOT / ".vscode" / "launch.json").read_text(encoding="utf-8")
    [entry] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))["configurations"]
    assert (entry["module"], entry["args"][0]) == ("grader", "debug")
    assert entry["python"].endswith("/.venv/bin/python")
    assert entry["subProcess"] is False  # or the process that reads answers waits for an editor
