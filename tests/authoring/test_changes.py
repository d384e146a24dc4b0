"""The mechanical changes of a source: exactly those that are expected, each once."""

import pytest

from grader.authoring.changes import make_mechanical_changes
from grader.submission.reach import list_definition_users
from grader.submission.replacements import REPAIRING_KINDS, ReplacementKind

SAMPLE = '''
import torch

def f(x, n=2, keep=None):
    """Words: 1 + 1."""
    if n == 0 and not keep:
        raise ValueError(f"{n + 1} is {-n}")
    y: torch.Tensor = torch.exp(x.float(), n)
    y -= x[1:]
    return y
'''
TEST, CALL = "if n == 0 and (not keep):", "y: torch.Tensor = torch.exp(x.float(), n)"
HEAD, SLICE = "def f(x, n=2, keep=None):", "y -= x[1:]"
EXPECTED = [
    (4, ReplacementKind.DEFAULT, HEAD, "def f(x, n=3, keep=None):"),
    (4, ReplacementKind.DEFAULT, HEAD, "def f(x, n=1, keep=None):"),
    (4, ReplacementKind.DEFAULT, HEAD, "def f(x, n=2, keep=0):"),
    (6, ReplacementKind.STATEMENT, TEST, "(removed)"),
    (6, ReplacementKind.CONDITION, TEST, "if True:"),
    (6, ReplacementKind.CONDITION, TEST, "if False:"),
    (6, ReplacementKind.AND_OR, TEST, "if n == 0 or not keep:"),
    (6, ReplacementKind.COMPARISON, TEST, "if n != 0 and (not keep):"),
    (6, ReplacementKind.COMPARISON, TEST, "if n <= 0 and (not keep):"),
    (6, ReplacementKind.COMPARISON, TEST, "if n >= 0 and (not keep):"),
    (6, ReplacementKind.CONSTANT, TEST, "if n == 1 and (not keep):"),
    (6, ReplacementKind.CONSTANT, TEST, "if n == -1 and (not keep):"),
    (6, ReplacementKind.SIGN, TEST, "if n == 0 and keep:"),
    (7, ReplacementKind.STATEMENT, "raise ValueError(f'{n + 1} is {-n}')", "(removed)"),
    (8, ReplacementKind.STATEMENT, CALL, "(removed)"),
    (8, ReplacementKind.ARGUMENT, CALL, "y: torch.Tensor = torch.exp(n)"),
    (8, ReplacementKind.ARGUMENT, CALL, "y: torch.Tensor = torch.exp(x.float())"),
    (8, ReplacementKind.EXCHANGE, CALL, "y: torch.Tensor = torch.exp(n, x.float())"),
    (8, ReplacementKind.CALL, CALL, "y: torch.Tensor = x.float()"),
    (8, ReplacementKind.CALL, CALL, "y: torch.Tensor = torch.exp(x, n)"),
    (9, ReplacementKind.STATEMENT, SLICE, "(removed)"),
    (9, ReplacementKind.OPERATOR, SLICE, "y += x[1:]"),
    (9, ReplacementKind.SLICE, SLICE, "y -= x[:]"),
    (9, ReplacementKind.CONSTANT, SLICE, "y -= x[2:]"),
    (9, ReplacementKind.CONSTANT, SLICE, "y -= x[0:]"),
    (10, ReplacementKind.STATEMENT, "return y", "(removed)"),
]


def texts(body):
    """What stands in the place of the one line of a function."""
    return [
        c.new.removeprefix("return ")
        for c in make_mechanical_changes(f"def f(x, y):\n    return {body}\n")
    ]


def test_the_changes_of_a_function_are_these_and_no_others():
    assert [(c.line, c.kind, c.old, c.new) for c in make_mechanical_changes(SAMPLE)] == EXPECTED


def test_every_kind_of_change_is_in_the_sample():
    assert {kind for _, kind, _, _ in EXPECTED} == set(ReplacementKind) - REPAIRING_KINDS


def test_each_change_is_made_in_an_unchanged_source():
    found = [c.source for c in make_mechanical_changes(SAMPLE)]
    assert len(set(found)) == len(EXPECTED)
    assert sum("n=2" in source for source in found) == len(EXPECTED) - 2
    assert all("Words" not in source for source in found)


def test_a_change_has_the_lines_of_its_statement_unless_it_may_tell_where_that_does_not_run():
    found = {c.line: c.lines for c in make_mechanical_changes(SAMPLE)}
    assert found == {
        4: range(0), 6: range(6, 8), 7: range(7, 8), 8: range(8, 9), 9: range(9, 10),
        10: range(10, 11),
    }  # fmt: skip


@pytest.mark.parametrize(
    "source",
    [
        "x = 1 + 2\n",
        "@g\ndef f(x):\n    return x + 1\n",
        "@g\nclass C:\n    def f(self):\n        return self + 1\n",
        "def f(x):\n    if x:\n        yield x + 1\n",
    ],
)
def test_a_change_of_a_constant_a_generator_or_below_a_decorator_may_always_tell(source):
    assert {c.lines for c in make_mechanical_changes(source)} == {range(0)}


@pytest.mark.parametrize(
    "body, expected",
    [
        ("x @ y", ["x * y"]),
        ("x * y", ["x / y", "x + y"]),
        ("x < y", ["x <= y", "x >= y"]),
        ("x in (1.5,)", ["x not in (1.5,)", "x in ()", "x in (2.5,)", "x in (0.5,)"]),
        ("True", ["False"]),
        ("[i for i in x if i]", ["[i for i in x if True]", "[i for i in x if False]"]),
        ("x if y else 'no'", ["x if True else 'no'", "x if False else 'no'"]),
        ("x(keep=y)", ["x()"]),
        ("self.layer(x)", ["self.layer()", "x"]),
        ("x(y, y)", ["x(y)", "y"]),  # either y may go, and exchanging them changes nothing
        ("f'{x + 1}'", []),
    ],
)
def test_the_changes_of_an_expression(body, expected):
    assert texts(body) == ["(removed)", *expected]


def test_what_does_not_compile_is_no_change():
    source = "def f(x):\n    match x:\n        case 1 + 2j:\n            pass\n"
    assert [c.new for c in make_mechanical_changes(source)] == ["(removed)"] + [
        "match x:"
    ] * 3  # no 1 * 2j


def test_annotations_decorators_and_bases_are_left_alone():
    source = "@g(1)\nclass C(B(2)):\n    n: int\n\n    def f(self, x: 3) -> 4:\n        pass\n"
    assert make_mechanical_changes(source) == []


def test_a_method_is_named_after_its_class():
    [change] = make_mechanical_changes("class C:\n    def f(self):\n        return self\n")
    assert (change.definition, change.where) == ("C", "C.f")


def test_what_stands_in_another_source_is_left_alone():
    old = "def f(x):\n    return -x\n"
    assert {
        c.definition for c in make_mechanical_changes(old + "\ndef g(x):\n    return -x\n", old)
    } == {"g"}


def test_a_helper_is_used_by_whatever_names_what_uses_it():
    source = (
        "def _a(): ...\n\ndef b():\n    _a()\n\nclass C:\n    def d(self): b()\n\ndef e(): ...\n"
    )
    assert list_definition_users(source)["_a"] == {"_a", "b", "C"}
    assert list_definition_users(source)["e"] == {"e"}
