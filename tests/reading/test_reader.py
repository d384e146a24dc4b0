"""Texts are read in a process of its own: what it gives up is a sentence, and the next is read."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from grader.core import catalog
from grader.core.catalog import ROOT
from grader.submission import admission
from grader.submission import reader_client as asking
from grader.submission.reader_client import UnreadableContent, ask_submission_reader
from grader.worker.parent.faults import NurseryFailed
from tests.conftest import solution

PYTHON, CUDA = (
    catalog.find_catalog_exercise("ex01_softmax"),
    catalog.find_catalog_exercise("ex15_cuda_kernel"),
)
TWICE = "".join(
    f"class A{i}(A{(i + 1) % 40}, A{(i + 2) % 40}):\n    pass\n\n\n" for i in range(40)
)  # forty classes, each of which inherits from the next two, in a circle
SIZES = "__global__ void f() {\n  __shared__ float x" + "[1]" * 44 + "\n  y;\n}\n"
# What one of our own expressions could be slow at, repeated.
REPEATED = {
    "python": ["(", "[", "-", "x.", "x[", "lambda:", "if x:\n", '"', "'''", "\\\n", "f'{", "match "],
    "cuda": [
        *("(", "{", "f(", "f(){", "f((", '"', "'", "\"\\\"", "/*", "//", "\\\n", "\n", " ", "<", ">"),
        *("<<<", ">>>", "f<<<", "f<<<>>>(", "a<a<", "x[", "x[ ", "[[", "[[ ", "1'", "1e+"),
        *("extern ", 'extern "', 'extern "C" ', 'extern "C" {', "__shared__ ", "extern __shared__ "),
        *("__shared__ float x[", "__shared__ x, ", "__shared__ struct ", "__shared__ struct x {"),
        *("__align__(", "alignas(", "# include ", "#define ", '#define A extern "\n', "#pragma "),
        *("naive_attention(", "naive_attention ( ", "module ", "import\n", "cg", "asm ", "??"),
        *("const ", "f()const ", "f() noexcept ", "\t", "x,", "x, ", "(,", "u8R", "\\u"),
    ],
    "notebook": ["\n", " ", "x, ", "%", "%%", "x?", "x.", "x = ", "def ", "!", "\n ", "(", "\\\n"],
}  # fmt: skip
SIZE = 140_000


def read(language, text):
    if language == "notebook":
        cell = {"cell_type": "code", "source": text + "\n%magic\ndef softmax(x): return x"}
        return ask_submission_reader("notebook", json.dumps({"cells": [cell]}).encode(), names=("softmax",),
                   language="python")  # fmt: skip
    given = {"slugs": frozenset()} if language == "python" else {}
    exercise = PYTHON if language == "python" else CUDA
    return ask_submission_reader(language, text, exercise=exercise, **given)


def test_what_is_read_comes_back_as_plain_data():
    found = read("python", solution("ex01_softmax"))
    assert found["runs"] == solution("ex01_softmax")
    assert found["problems"] == {}
    assert found["lines"]["softmax"] > 1


def test_classes_that_inherit_twice_from_each_other_are_read():
    found = read("python", f"{TWICE}class softmax(A0):\n    pass\n")
    assert "should be a function" in found["problems"]["softmax"]


def test_a_declaration_with_many_sizes_is_read():
    assert "float x[1][1]" in read("cuda", SIZES)["translated"]


@pytest.mark.parametrize(
    "language, part", [(name, part) for name, parts in REPEATED.items() for part in parts]
)
def test_no_repetition_is_too_much(language, part):
    # A step that looks at the rest for each of these letters takes a hundred times as long as the
    # limit allows. What Python's own parser cannot read is told in a sentence.
    found = read(language, part * (SIZE // len(part)))
    assert isinstance(found, dict)
    if language == "python":
        assert found.keys() & {"unreadable", "refused", "runs"}


@pytest.mark.parametrize("what", ["while True: pass", "x = 'x' * 2**30", "import os; os.abort()"])
def test_a_reader_that_does_not_end_or_grows_or_dies_is_a_sentence(what, monkeypatch):
    # No text is known that does so; the reader itself is made to.
    spoiled = asking._SERVER_CODE.replace(
        "reader_server.serve_submission_reader(",
        f"from grader.submission import readers; readers.READERS['drawn'] = lambda content: exec({what!r});"
        " reader_server.serve_submission_reader(",
    )
    monkeypatch.setattr(asking, "_SERVER_CODE", spoiled)
    asking._open_reader_socket.cache_clear()
    try:
        with pytest.raises(UnreadableContent, match="cannot be read within 5 seconds and 512 MiB"):
            ask_submission_reader("drawn", "x = 1")
        assert read("python", "x = 1")["runs"] == "x = 1"  # the next one is read
    finally:
        asking._open_reader_socket.cache_clear()


def test_an_answer_that_is_too_long_is_a_sentence(monkeypatch):
    monkeypatch.setattr(asking.reading_limits, "MAX_REPLY_BYTES", 10)
    with pytest.raises(UnreadableContent):
        read("python", solution("ex01_softmax"))


def test_a_hole_of_ours_is_a_fault_and_not_the_students():
    with pytest.raises(NurseryFailed, match="the reader stopped: KeyError: 'no such question'"):
        ask_submission_reader("no such question", "")


def test_a_reader_that_was_killed_is_started_again():
    read("python", "x = 1")
    asking._open_reader_socket(os.getpid()).close()
    assert read("python", "x = 1")["runs"] == "x = 1"


def test_many_texts_are_read_at_once():
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: read("python", f"def f{i}(): pass"), range(32)))
    assert [list(one["lines"]) for one in found] == [[f"f{i}"] for i in range(32)]


def test_a_text_that_cannot_be_read_is_the_sentence_of_the_report(graded, monkeypatch):
    def gives_up(*_, **__):
        raise UnreadableContent(asking.LIMITS_EXCEEDED)

    monkeypatch.setattr(admission, "ask_submission_reader", gives_up)
    report = graded("ex01_softmax", "x = 1\n")
    assert report.state == "unreadable"
    assert report.sentence == asking.LIMITS_EXCEEDED
    assert report.score.earned == 0


def test_half_a_letter_is_no_fault():
    assert "unreadable" in read("python", "x = '\ud800'")
    assert "\ud800" in read("cuda", "// \ud800\n")["translated"]


def test_the_reader_imports_the_standard_library_only():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from grader.submission import reader_server;"
        "print([n for n in sys.modules if n.partition('.')[0] not in"
        " {*sys.stdlib_module_names, '__main__', 'grader'}])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT)], capture_output=True, text=True
    )
    assert done.stdout == "[]\n", done.stderr
