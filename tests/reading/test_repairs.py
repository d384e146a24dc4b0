"""The changes that may mend an answer: which there are, where they stand, and what they never add."""

import ast
import re

import pytest

from grader.submission.file_words import read_file_words
from grader.submission.reader_client import UnreadableContent, ask_submission_reader
from grader.submission.repairs import MAX_SOURCE_BYTES, edit_submission, list_repairs_of_submission
from grader.submission.value_sources import count_steps_to_lines
from tests.conftest import solution

HEAD = '"""Words: 1 + 1."""\nimport math\nimport numpy as np\nimport torch\n\n\ndef used(a, b=None):\n    return a\n\n\n'


def changed(body: str, *, params: str = "x, y", kind: str = "", **given) -> list[str]:
    """What stands in the place of the last line of a function, for each edit of it."""
    source = f"{HEAD}def f({params}):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    edits = list_repairs_of_submission(source, ["f"], **given)
    last = source.count("\n")
    texts = [edit_submission(source, e) for e in edits if e["line"] == last and kind in e["kind"]]
    return [text.splitlines()[last - 1].strip().removeprefix("return ") for text in texts]


@pytest.mark.parametrize(
    "body, kind, wanted",
    [
        ("return x < y", "COMPARISON", "(x <= y)"),
        ("return x >= y", "COMPARISON", "(x == y)"),
        ("return x * y", "OPERATOR", "(x @ y)"),
        ("return x - y", "EXCHANGE", "(y - x)"),
        ("return x[0, y]", "EXCHANGE", "x[y, 0]"),
        ("return torch.where(x, y)", "EXCHANGE", "(torch.where(y, x))"),
        ("return x[y:]", "BOUND", "x[y:-1]"),
        ("return torch.where(x, y)", "SIGN_ADDED", "torch.where((~x), y)"),
        ("return x & y", "SIGN_ADDED", "x & (~y)"),
        ("return x if y is None else 0", "NEGATED", "x if (not y is None) else 0"),
        ("return x if True else y", "NEGATED", "x if (y is not None) else y"),
        ("return x.sum(dim=-1)", "KEYWORD", "(x.sum(dim=-1, keepdim=True))"),
        ("z = x.sum(axis=0, keepdims=True)\nreturn y.sum(axis=0)", "KEYWORD", "(y.sum(axis=0, keepdims=True))"),
        ("b = y\nreturn used(x)", "KEYWORD", "(used(x, b=b))"),
        ("return torch.arange(5)", "KEYWORD", "(torch.arange(5, device=x.device))"),
        ("return np.swapaxes(y, -1)", "ADDED", "(np.swapaxes(y, -1, -2))"),
        ("return x + y", "NAME", "(y) + y"),
        ("return wide + y", "NAME", "(x) + y"),
        ("return x.mT + y", "CALL_ADDED", "x.mT + (np.sqrt(y))"),
        ("z = y.float()\nreturn x", "CALL_ADDED", "(x.float())"),
        ("return torch.tril(x)", "FUNCTION", "(torch.triu(x))"),
        ("return x.to(torch.float16)", "FUNCTION", "x.to((torch.bfloat16))"),
        ("return x.dtype in (torch.float16,)", "ADDED", "x.dtype in (torch.float16, torch.bfloat16,)"),
    ],
)  # fmt: skip
def test_a_common_slip_has_a_change_that_undoes_it(body, kind, wanted):
    assert wanted in changed(body, kind=kind)


def test_the_size_of_a_block_is_never_changed():
    """With another the check asks at other places, and a wrong answer passes by luck."""
    assert "x + (17)" in changed("return x + 16", kind="CONSTANT")
    assert changed("return x + 128", kind="CONSTANT") == []


def test_what_is_in_the_condition_of_a_branch_is_marked():
    source = f"{HEAD}def f(x, y):\n    if x > 1:\n        y = 2\n    return 3 if x > 4 else y\n"
    numbers = {
        number: edit["tested"]
        for edit in list_repairs_of_submission(source, ["f"])
        for number in "1234"
        if edit["kind"] == "CONSTANT" and source[edit["start"] : edit["end"]] == number
    }
    assert numbers == {"1": True, "2": False, "3": False, "4": False}


def test_the_argument_that_is_left_out_is_said_and_no_other():
    source = f"{HEAD}def f(x, y):\n    return torch.exp(x.sum(-1, keepdim=True))\n"
    edits = list_repairs_of_submission(source, ["f"])
    said = {(edit["kind"], edit["dropped"]) for edit in edits if edit["dropped"]}
    assert {("ARGUMENT", "-1"), ("ARGUMENT", "keepdim=True")} <= said
    assert {kind for kind, _ in said} == {"ARGUMENT"}


def test_what_is_not_allowed_or_reaches_other_names_is_never_added():
    assert "(torch.triu(x))" not in changed("return torch.tril(x)", refused=["triu"])
    assert not [
        t for t in changed("xp = np if y else torch\nreturn x + y") if re.search(r"\bxp\b", t)
    ]
    assert not [t for t in changed('z = getattr(x, "shape")\nreturn y + y') if "getattr" in t]
    assert changed('return getattr("shape", x)', kind="EXCHANGE") == []


def test_a_change_brings_no_word_that_the_file_has_not_but_a_few():
    source = solution("ex06_kv_cache")
    known = set(re.findall(r"[A-Za-z_]\w*", source)) | {"keepdim", "keepdims", "mT", "contiguous"}
    known |= {
        "True",
        "False",
        "None",
        "not",
        "and",
        "or",
        "is",
        "in",
        "pass",
        "float",
        "sqrt",
        "exp",
    }
    for edit in list_repairs_of_submission(source, ["KVCache", "CachedAttention"]):
        if edit["kind"] != "FUNCTION":  # one of a table
            assert set(re.findall(r"[A-Za-z_]\w*", edit["text"])) <= known, edit


def test_the_line_is_that_of_the_file_and_all_else_stays():
    source = f"{HEAD}def f(x):\n    # é: a comment\n    y = (x +\n         1)\n    return y\n"
    [edit] = [
        e for e in list_repairs_of_submission(source, ["f"])
        if e["kind"] == "OPERATOR" and e["text"] == "(x - 1)"
    ]  # fmt: skip
    assert (edit["line"], edit["statement"]) == (13, 13)
    assert edit_submission(source, edit) == source.replace("x +\n         1", "(x - 1)")


def test_own_definitions_come_before_those_that_they_use_and_others_never():
    source = (
        "def g(x):\n    return x + 1\n\ndef f(x):\n    return g(x) + 2\n\ndef h(x):\n    return x\n"
    )
    lines = [e["line"] for e in list_repairs_of_submission(source, ["f"]) if e["rank"] == [4, 0]]
    assert set(lines) == {2, 5} and lines == sorted(lines, reverse=True)


def test_nothing_in_a_while_loop_is_changed():
    assert changed("n = x\nwhile n < y:\n    n = n + 1") == []


ODD = """
async def a(*args, b: int = 3, **more):
    async with args[0] as c:
        return [await x async for x in c if (y := x) > 2]

def f(x, /, *, z=lambda q: q + 1):
    match x:
        case [1, *rest] | {"k": -2, **rest} if rest:
            x[1:2, ..., None] += yield from rest
        case int(real=3):
            del x[0], z
    try:
        return f"{x!r:>{z}}" if not x else {**x, "a": {*rest}, -1: not z}, *x
    except (ValueError, TypeError) as e:
        raise RuntimeError(x + 1) from e
    finally:
        global g
        print(*x, sep="" if x else "b"); assert 1 < x <= 3, "no"
"""


def test_changes_of_unusual_code_are_python():
    edits = list_repairs_of_submission(ODD, ["f", "a"])
    assert len(edits) > 100
    bad = [e for e in edits if not _compiles(edit_submission(ODD, e))]
    assert len(bad) <= len(edits) // 10


def _compiles(source: str) -> bool:
    try:
        compile(source, "x", "exec")
    except SyntaxError:
        return False
    return True


def test_a_long_file_has_no_changes_and_one_that_is_nested_deeply_costs_only_its_reader():
    assert list_repairs_of_submission("x = 1\n" * MAX_SOURCE_BYTES, ["x"]) == []
    deep = "def f(x):\n    return " + "(" * 150 + "x" + " + 1)" * 150 + "\n"
    try:
        found = ask_submission_reader("repairs", deep, names=["f"])
    except UnreadableContent:
        return
    assert all(e["end"] - e["start"] <= 1000 for e in found)


def test_suspect_lines_come_first_and_then_what_they_call():
    source = (
        "def g(x):\n    return x + 1\n\n"
        "def f(x):\n    y = x * 3\n    z = g(y)\n    return z + 2\n"
    )  # fmt: skip
    lines = [e["line"] for e in list_repairs_of_submission(source, ["f"], suspects=[6])]
    assert list(dict.fromkeys(lines))[:3] == [6, 5, 2]  # 5 sets what 6 uses
    assert set(lines) == {2, 5, 6, 7}


def test_after_suspect_lines_come_those_that_set_or_test_what_these_use():
    source = (
        "class C:\n"
        "    def __init__(self, n, m=2):\n"
        "        self.n, self.m = n + 1, m\n"
        "        self.k = n * 5\n"
        "    def f(self, x, y=3):\n"
        "        z = x * 4\n"
        "        w = x - 7\n"
        "        if y > 6:\n"
        "            return z + self.n\n"
        "        return w * 8\n"
    )  # fmt: skip
    edits = list_repairs_of_submission(source, ["C"], suspects=[9])
    places = {e["rank"][0]: set() for e in edits}
    for e in edits:
        places[e["rank"][0]].add(e["line"])
    assert [places[n] for n in (0, 1, 2)] == [{9}, {3, 6, 8}, {2, 5}]
    assert places[4] | places.get(7, set()) == {4, 7, 10}


def test_a_parameter_leads_to_the_calls_that_give_it_and_a_call_into_the_function():
    source = (
        "def g(x):\n    y = x + 1\n    return y\n\n"
        "def f(x):\n    u = x * 2\n    v = x * 3\n    for w in h(u):\n        v = g(w)\n    return v\n\n"
        "def h(x):\n    return x, lambda y: y - 4\n"
    )  # fmt: skip
    steps = count_steps_to_lines(ast.parse(source), [2])
    assert steps == {2: 0, 9: 1, 3: 2, 8: 2, 6: 3, 13: 3}
    assert count_steps_to_lines(ast.parse(source), []) == {}


def test_a_call_that_is_given_may_be_added_as_one_of_the_file_may():
    source = f"{HEAD}def f(x):\n    return x\n"
    texts = {e["text"] for e in list_repairs_of_submission(source, ["f"], calls=["_.flatten(-2)"])}
    assert "(x.flatten(-2))" in texts
    assert "(x.flatten(-2))" not in {e["text"] for e in list_repairs_of_submission(source, ["f"])}


def test_calls_that_the_solution_makes_more_often_come_before_other_calls():
    source = f"{HEAD}def f(x, y):\n    return x.flatten(-2).exp() + y\n"
    calls = ["_.flatten(-2)", "_.flatten(-2)", "_.exp()", "_norm(_)"]
    edits = list_repairs_of_submission(source, ["f"], calls=calls)
    added = [e for e in edits if e["kind"].startswith("CALL_")]
    lacked = [e["text"] for e in added if e["kind"] == "CALL_LACKED"]
    assert {"(y.flatten(-2))", "(_norm(y))"} <= set(lacked)
    assert "(y.exp())" in {e["text"] for e in added} - set(lacked)
    assert [e["text"] for e in added[: len(lacked)]] == lacked


def test_what_a_file_calls_once_less_than_the_solution_comes_before_all_else():
    source = "def f(x):\n    y = x + 1\n    return y.mT\n"
    calls = ["_.view(-1, (h, 2))", "self.norm(_)", "_.exp()"]
    for few, more in ((calls[:2], True), (calls, False)):
        edits = list_repairs_of_submission(source, ["f"], suspects=[2], calls=few)
        assert (edits[0]["kind"] == "CALL_LACKED") is more
    edits = list_repairs_of_submission(source, ["f"], calls=calls[:1])
    assert "(y.view(-1, (h, 2)))" in {e["text"] for e in edits}  # before `.mT`


def test_a_method_of_a_value_is_no_function_that_a_file_lacks():
    tree = ast.parse("x.view(n, 2)\nself.norm(x)\ntorch.nn.functional.silu(x)\nimport torch")
    assert list(read_file_words(tree, ()).counts) == [
        "_.view(n, 2)", "self.norm(_)", "torch.nn.functional.silu(_)",
    ]  # fmt: skip
