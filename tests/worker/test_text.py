"""What came from a submission is no command, wherever it is printed."""

import io

import pytest
from rich.console import Console

from grader.worker.parent.harmless_text import clean_worker_text

COMMAND = "::error::owned"


@pytest.mark.parametrize(
    "text",
    [
        COMMAND, f"  {COMMAND}", f"fine\n{COMMAND}", f"fine\r{COMMAND}", f"\x0b{COMMAND}",
        f"\u2003{COMMAND}", f"\u2028{COMMAND}", f"a {COMMAND}", "##[add-mask]x",
        "in a line ##[stop-commands]x", "##\x00[add-mask]x", f":\x00{COMMAND[1:]}", f":{COMMAND}",
    ],
)  # fmt: skip
def test_no_line_is_a_command_to_githubs_runner(text):
    lines = clean_worker_text(text).splitlines()
    assert not [line for line in lines if line.strip().startswith("::") or "##[" in line]


@pytest.mark.parametrize("before", range(170))
@pytest.mark.parametrize("letter", ["x", "x ", "wörter"])
def test_neither_is_one_that_is_wrapped(before, letter):
    said = (letter * before)[:before] + COMMAND
    file = io.StringIO()
    Console(file=file, width=80).print(f"  ✗ {clean_worker_text(said)}", markup=False)
    assert not [line for line in file.getvalue().splitlines() if line.strip().startswith("::")]


@pytest.mark.parametrize("text", ["x[::2]", "a: b", "std::vector", "# a comment", "#[1]", "::"[:1]])
def test_other_text_is_left_as_it_is(text):
    assert clean_worker_text(text) == text


def test_controls_and_lone_surrogates_are_gone():
    assert clean_worker_text("a\x00\x1b[31mb\udcff\tc\nd") == "a[31mb?\tc\nd"


@pytest.mark.parametrize("sign", "\u061c\u200b\ufeff\u202e\u2066\u2028\x85\U000e0041\U000e007f")
def test_signs_that_nobody_sees_are_gone(sign):
    assert clean_worker_text(f"a{sign}b") == "ab"


@pytest.mark.parametrize("text", ["中文", "می\u200cخواهم", "👩\u200d🔬", "naïve", "a\u00a0b"])
def test_signs_that_a_language_needs_stay(text):
    assert clean_worker_text(text) == text
