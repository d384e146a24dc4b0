"""The line of the first wrong value: found where it is sure, and nowhere else."""

import re

import numpy as np
import pytest

from grader.core import catalog
from grader.core.diagnosis_records import PinnedLine
from grader.core.records import Submission
from grader.diagnosis import pinned_line, wrong_value
from grader.diagnosis.right_values import RightValues
from grader.diagnosis.traced_values import read_trace
from grader.judging import suite_runner
from grader.judging.case import StudentFault
from grader.judging.judge import Judge
from grader.judging.student import Student
from grader.worker.parent.in_process import call_without_wall, load_text_without_wall
from tests.conftest import solution

Edit = tuple[str, str]


def pinned(
    slug: str, *edits: Edit, only: frozenset[str] = frozenset()
) -> tuple[PinnedLine | None, str]:
    """The line that is pinned in a solution with these edits, and its text.

    only  the checks that are run; all if it is empty
    """
    exercise, source = catalog.find_catalog_exercise(slug), solution(slug)
    for old, new in edits:
        assert source.count(old) == 1
        source = source.replace(old, new)
    answer = Submission(slug=slug, path=exercise.solution, sha256="", source=source)
    client = call_without_wall(load_text_without_wall(source, slug))
    judge = Judge(Student(exercise, client, answer=answer), ("pinned", slug))
    checks = suite_runner.run_suite_checks(exercise, judge, only)
    assert judge.failures
    checks = pinned_line.add_pinned_lines(
        exercise, checks, {f.check: f for f in judge.failures}, judge
    )
    found = [c.diagnosis.pinned for c in checks if c.diagnosis]
    assert len(found) <= 1
    return (found[0], source.splitlines()[found[0].line - 1].strip()) if found else (None, "")


@pytest.mark.parametrize(
    "slug, old, new, name",
    [
        ("ex01_softmax", "powers / powers.sum(axis=axis, keepdims=True)", "powers / (powers.sum(axis=axis, keepdims=True) + 1)", "weights"),
        ("ex02_masking", "return positions < lengths", "return positions <= lengths", "return"),
        ("ex03_sdpa", "weights = powers / np", "weights = powers * np", "weights"),
        ("ex04_heads", "    scores = q @ k.mT / math", "    scores = q @ k.mT.flip(-1) / math", "scores"),
        ("ex05_causal_mask", "(behind >= 0) &", "(behind <= 0) &", "return"),
        ("ex06_kv_cache", "    scores = q @ k.mT", "    scores = q @ k.mT.flip(-1)", "scores"),
        ("ex07_mqa_gqa", "return x.repeat_interleave(n, dim=-3)", "return x.repeat_interleave(n, dim=-3).flip(-3)", "return"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_pinned(slug, old, new, name):
    only = frozenset({"test_repeat_kv"} if slug == "ex07_mqa_gqa" else ())  # its suite is long
    found, text = pinned(slug, (old, new), only=only)
    assert found is not None and found.name == name
    assert new.strip() in text
    assert found.got == found.right


def test_a_wrong_shape_is_told_with_the_right_one():
    found, text = pinned(
        "ex03_sdpa",
        ("    total = powers.sum(axis=-1, keepdims=True)", "    total = powers.sum(axis=-2, keepdims=True)"),
    )  # fmt: skip
    assert found is not None and text.startswith("total =")
    assert found.right is not None and found.got[-1] > found.right[-1] == 1


@pytest.mark.parametrize(
    "edits",
    [
        # The mistake comes after values that no right answer of ours has, but that are right.
        [("    powers = np.exp(scores - top)", "    powers = np.exp(scores - top - 1.5) * 3"),
         ("    return (weights @ v).astype(dtype), weights", "    return (weights @ v).astype(dtype) + 1, weights")],
        [("    scores = q * scale @ k.mT", "    scores = (q * scale @ k.mT + 1.5)"),
         ("    if keep is None:\n        weights = torch.softmax(scores, dim=-1)", "    if keep is None:\n        weights = torch.softmax(scores, dim=-2)")],
        # Only half precision is wrong: no value is.
        [("    if dtype == np.float16:", "    if False:")],
    ],
)  # fmt: skip
def test_no_line_is_pinned_in_doubt(edits):
    source = solution("ex03_sdpa")
    if any(source.count(old) != 1 for old, _ in edits):
        pytest.fail(f"the solution reads otherwise: {edits}")
    assert pinned("ex03_sdpa", *edits) == (None, "")


@pytest.mark.parametrize(
    "line, told",
    [
        ("output = torch.empty(q.shape)", False),
        ("output = np.empty_like(v)", False),
        ("output = q.new_empty(3)", False),
        ("output = torch.zeros(q.shape)", True),
        ("output = mended if x.empty else x", True),
    ],
)
def test_what_memory_holds_before_it_is_written_into_is_no_wrong_value(line, told):
    found = PinnedLine(line=2, name="output", got=(3,), right=(3,))
    assert pinned_line._is_memory_to_write_into(found, f"import torch\n{line}\n") != told


def test_of_a_function_that_returns_nothing_no_value_is_wrong():
    end = "    return x.swapaxes(1, 2)  # (B, H, L, D)"
    line = "    x = x.reshape(batch, length, num_heads, width // num_heads)  # (B, L, H, D)\n"
    moved = line.replace("  #", ".swapaxes(1, 2)  #")
    only = frozenset({"test_split_and_merge"})
    assert pinned("ex04_heads", (line + end, moved), only=only) == (None, "")


def test_a_shape_that_makes_another_line_raise_is_told():
    found, text = pinned(
        "ex03_sdpa",
        ("    total = powers.sum(axis=-1, keepdims=True)", "    total = powers.sum(axis=-1)"),
    )
    assert found is not None and text.startswith("total =")
    assert found.right == (*found.got, 1)


def test_a_line_that_raises_by_itself_is_not_told_once_more():
    assert pinned("ex01_softmax", ("    wide = x.float()", "    wide = x.floatt()"))[0] is None


def test_what_ends_its_worker_is_not_run_again():
    fault = StudentFault("the process was killed")
    fault.returned = False
    assert not pinned_line._has_traced_call_returned(fault)
    fault.kind = "ValueError"
    assert pinned_line._has_traced_call_returned(fault)


X, Y = np.array([0.3, -1.2, 2.0, 0.7]), np.array([1.1, 0.4, -0.6, 2.3])
INPUTS = [(1, "x", "input", [], X), (1, "y", "input", [], Y)]
RIGHT = [*INPUTS, (2, "a", "variable", [0, 1], X * Y), (3, "b", "variable", [2], np.sin(X * Y)),
         (4, "return", "answer", [1, 3], np.sin(X * Y) @ Y * X)]  # fmt: skip


def line_of(*values) -> int | None:
    """The line that is pinned in a trace of the inputs and these values."""
    right = read_trace(RIGHT)
    found = wrong_value.pin_wrong_value_in_trace(
        read_trace([*INPUTS, *values]), RightValues([right]), right
    )
    return found and found.line


def test_the_first_value_that_no_right_answer_has_is_pinned():
    wrong = (2, "a", "variable", [0, 1], np.cos(X) + Y)
    assert line_of(wrong, (4, "return", "answer", [1, 2], Y)) == 2


def test_a_value_from_which_a_right_one_follows_is_not():
    other = (2, "a", "variable", [0, 1], np.cos(X) + Y)
    again = (3, "b", "variable", [2], np.sin(X * Y))
    assert line_of(other, again, (4, "return", "answer", [1, 3], np.cos(Y))) is None


def test_a_value_from_a_wrong_one_is_not():
    first = (2, "a", "variable", [0, 1], np.cos(X) + Y)
    second = (3, "b", "variable", [1, 2], np.cos(X * X) - Y)
    assert line_of(first, second, (4, "return", "answer", [1, 3], Y)) == 2
    doubtful = (2, "a", "variable", [0, 1], X[::-1] * Y[::-1] * 2)
    assert line_of(doubtful, second, (4, "return", "answer", [1, 3], Y)) != 3


def test_a_value_that_nothing_wrong_is_computed_from_is_not():
    aside = (2, "a", "variable", [0, 1], np.cos(X) + Y)
    assert line_of(aside, (4, "return", "answer", [0, 1], np.cos(X * X) - Y)) == 4


def test_two_lines_are_none():
    first = (2, "a", "variable", [0, 1], np.cos(X) + Y)
    second = (3, "c", "variable", [0, 1], np.cos(Y) - X)
    assert line_of(first, second, (4, "return", "answer", [2, 3], Y)) is None


def test_other_arguments_by_default_and_another_state_are_seen():
    with_axis = read_trace([*INPUTS, (1, "axis", "input", [], -1)])
    state = read_trace([*INPUTS, (1, "self.length", "input", [], 2)])
    longer = read_trace([*INPUTS, (1, "self.length", "input", [], 3)])
    assert pinned_line._have_equal_inputs(with_axis, with_axis)
    assert not pinned_line._have_equal_inputs(read_trace(INPUTS), with_axis)
    assert pinned_line._have_equal_inputs(read_trace(INPUTS), state)
    assert not pinned_line._have_equal_inputs(longer, state)


def test_exchanged_arguments_are_pinned_where_they_are_passed():
    passed = [(2, "a", "argument", [0, 1], X), (2, "b", "argument", [0, 1], Y)]
    right = read_trace([*INPUTS, *passed, (7, "return", "answer", [2, 3], X - np.sin(Y))])
    mine = [(2, "a", "argument", [0, 1], Y), (2, "b", "argument", [0, 1], X)]
    trace = read_trace([*INPUTS, *mine, (7, "return", "answer", [2, 3], Y - np.sin(X))])
    found = wrong_value.pin_wrong_value_in_trace(trace, RightValues([right]), right)
    assert found is not None and (found.line, found.name) == (2, "a")


GOOD = (3, "x", "variable", [], np.ones(2))


@pytest.mark.parametrize(
    "item",
    [
        None, 5, (3, "x", "variable", []), (0, "x", "variable", [], 1.0),
        (10**9, "x", "variable", [], 1.0), (3, "x\n::error", "variable", [], 1.0),
        (3, "x" * 61, "variable", [], 1.0), (3, "x", "verdict", [], 1.0),
        (3, "x", "variable", [1], 1.0), (3, "x", "variable", [-1], 1.0),
        (3, "x", "variable", [True], 1.0), (3, "x", "variable", [], "1.0"),
        (True, "x", "variable", [], 1.0),
    ],
)  # fmt: skip
def test_a_trace_of_another_form_is_none(item):
    assert len(read_trace([GOOD])) == 1
    assert read_trace([GOOD, item]) == ()


def test_a_trace_of_too_many_values_is_none():
    assert read_trace([GOOD] * 401) == () and read_trace("x") == ()


def test_a_notebook_has_its_cell_and_a_line_beyond_the_file_is_none():
    found = PinnedLine(line=2, name="x", got=())
    answer = Submission(slug="x", path=None, sha256="", source="a\nb\nc", lines=((1, 1), (4, 2)))
    named = pinned_line.name_pinned_line(found, answer)
    assert named is not None and (named.cell, named.line) == (4, 2)
    far = PinnedLine(line=9, name="x", got=())
    assert pinned_line.name_pinned_line(far, answer) is None
    plain = Submission(slug="x", path=None, sha256="", source="a\nb\nc")
    assert pinned_line.name_pinned_line(found, plain) == found
    assert pinned_line.name_pinned_line(far, plain) is None


def test_it_is_told_behind_a_wall(graded):
    source = solution("ex03_sdpa").replace("weights = powers / np", "weights = powers * np")
    report = graded("ex03_sdpa", source)
    [found] = [c.diagnosis.pinned for c in report.checks if c.diagnosis and c.diagnosis.pinned]
    assert re.match(r"\s*weights = powers \*", source.splitlines()[found.line - 1])
