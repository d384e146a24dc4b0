"""The reader, Python and the report count the lines of a file alike."""

import json
from pathlib import Path

import pytest

from grader.core import catalog
from grader.core.records import Submission
from grader.grading.ungraded import name_ungraded_line
from grader.submission import answer_file
from grader.submission.admission import admit_submission
from grader.submission.answer_file import UnreadableFile, read_submission

EXERCISE = catalog.find_catalog_exercise("ex01_softmax")
NAMES = catalog.list_catalog_names(EXERCISE)
CODE = "import torch\n{}\ndef softmax_numpy(x, axis=-1):\n    return x\ndef softmax(x, dim=-1):\n    return x.softmax(dim)\n"
ODD = [
    "# a\rTEXT = 0",
    "# a\r\r# b",
    "TEXT = '''\r'''",
    "# \x0b \x0c \x1c \x1d \x1e \x85 \u2028 \u2029",
    "# a\r\n#",
]


def write(tmp_path, text, *, notebook=False):
    path = tmp_path / ("ex01_softmax.ipynb" if notebook else "ex01_softmax.py")
    if notebook:
        text = json.dumps({"cells": [{"cell_type": "code", "source": text}]})
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


@pytest.mark.parametrize("notebook", [False, True])
@pytest.mark.parametrize("odd", ODD)
def test_what_is_refused_is_cut_where_it_stands(odd, notebook, tmp_path):
    path = write(tmp_path, CODE.format(odd), notebook=notebook)
    admitted = admit_submission(read_submission(path, EXERCISE.slug, NAMES), EXERCISE)
    assert "softmax(dim)" not in admitted.runs.source
    assert "raise RuntimeError" in admitted.runs.source.partition("def softmax(")[2]
    assert "x.softmax" not in str(admitted.problems.get("softmax_numpy"))


@pytest.mark.parametrize("odd", ODD)
def test_a_line_is_quoted_as_python_counts_it(odd):
    content = f"{odd}\nhere\n".encode()
    source = answer_file._decode_submission(content, Path("ex01_softmax.py"))
    answer = Submission(slug="ex01_softmax", path=None, sha256="", source=source)
    lines = source.count("\n")
    assert name_ungraded_line(answer, lines) == f" (line {lines}: here)"
    assert name_ungraded_line(answer, lines + 5) == ""


def test_a_cell_that_is_no_python_is_quoted_without_its_controls(tmp_path):
    path = write(tmp_path, "def softmax(x): \x1b[2J ::error::x \u202e", notebook=True)
    with pytest.raises(UnreadableFile) as told:
        read_submission(path, EXERCISE.slug, NAMES)
    assert not set(str(told.value)) & set("\x1b\u202e")
    assert " ::error" not in str(told.value)


def test_so_is_one_beside_a_cell_that_is(tmp_path):
    cells = ["def softmax_numpy(x, axis=-1): return x", "def softmax(x): \x1b[2J"]
    cells = [{"cell_type": "code", "source": text} for text in cells]
    path = tmp_path / "ex01_softmax.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    answer = read_submission(path, EXERCISE.slug, NAMES)
    assert "Cell 2 is not valid Python" in answer.problems["softmax"]
    assert "\x1b" not in answer.problems["softmax"]
