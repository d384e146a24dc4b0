"""Bad input gets a sentence, not a trace, and costs what it must and no more."""

import os
from importlib.util import find_spec

import pytest

from grader.core import catalog
from grader.core.records import ExerciseReport, Verdict
from grader.judging.door import Connection
from grader.submission import answer_file
from tests.conftest import solution

SLUG = "ex01_softmax"
RIGHT = solution(SLUG)
NUMPY = RIGHT[: RIGHT.index("def softmax(")]  # softmax_numpy is right, softmax is missing


@pytest.fixture
def diagnosis_seconds() -> float:
    """Of a report the verdicts are meant; but what explains them meets such answers too."""
    return 0.2


def failures(report: ExerciseReport) -> dict[str, str]:
    return {c.id: c.why for c in report.checks if c.verdict is Verdict.FAILED}


def with_softmax(body: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{NUMPY}\n\ndef softmax(x, dim=-1):\n{lines}\n"


@pytest.mark.parametrize(
    "source, state, says",
    [
        (None, "missing", "ex01_softmax.py is not there. `make reset EX=ex01_softmax` writes it."),
        ("", "unreadable", "is empty. `make reset EX=ex01_softmax` writes the task into it again."),
        ("  \n\n", "unreadable", "is empty."),
        (b"\xff\xfe\x00", "unreadable", "is not UTF-8 text: save it as UTF-8."),
        ("x = '\0'", "unreadable", "contains null bytes: save it as plain text."),
        ('{"cells": [], "nbformat": 4}', "unreadable", "is a notebook: name it ex01_softmax.ipynb."),
        ("#" * 150_001, "unreadable", "is too large: an answer has at most 150,000 bytes."),
        ("def f(:\n", "unreadable", "Line 1 is not valid Python (invalid syntax): def f(:"),
        ("x = 1\ny = x / 0\n", "unreadable", "ZeroDivisionError: division by zero (line 2: y = x / 0)."),
        ("raise SystemExit(0)", "unreadable", "The file cannot be imported: SystemExit: 0 (line 1"),
        ("import scipy.special as s\ns.softmax(1)\n", "refused",
         "Line 2: scipy is not allowed in this exercise."),
        ("import os\nprint(os.getcwd())\n", "refused",
         "Line 2: os is not on the list of what an answer may use (docs/allowed.md)."),
        ("import torch\ntorch.softmax\n", "refused", "Line 2: torch.softmax is not allowed"),
        ("import ex02_masking\nx = ex02_masking.x\n", "refused", "Line 2: an exercise stands alone"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_graded_gets_a_sentence_and_nothing(graded, source, state, says):
    report = graded(SLUG, source)
    assert report.state == state
    assert says in report.sentence
    assert (report.score.earned, report.score.possible) == (0, 10)


def test_a_module_on_the_list_that_is_not_installed_is_told(graded):
    if find_spec("einops"):
        pytest.skip("einops is installed here")
    report = graded(SLUG, "import numpy\nimport einops\n")
    assert report.state == "unreadable"
    assert report.sentence == (
        "The file cannot be imported: No module named 'einops' (line 2: import einops). "
        "numpy and torch are at hand."
    )


@pytest.mark.parametrize(
    "line, state, says",
    [
        ("def f(x)", "unreadable", "Line 2 is not valid Python (expected ':'): def f(x)"),
        ("return 1", "unreadable", "The file cannot be imported: SyntaxError: 'return' outside function (line 2: return 1)."),
        ("torch.softmax", "refused", "Line 2: torch.softmax is not allowed"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_run_names_its_line_once_and_its_checks_point_at_it(
    graded, line, state, says
):
    report = graded(SLUG, f"import torch\n{line}\n")
    assert report.state == state
    assert report.sentence.startswith(says)
    assert report.sentence.lower().count("line 2") == 1
    assert {c.line for c in report.checks} == {2}


def test_a_file_that_ends_the_process_while_it_is_loaded(graded, list_open):
    report = graded(SLUG, "import os\nos._exit(0)\n")
    says = "While the file was loaded, the process ended itself (exit code 0) and gave no answer."
    assert report.sentence == says
    assert report.score.earned == 0


def test_what_is_not_allowed_costs_the_function_that_uses_it_and_no_other(graded):
    source = RIGHT.replace("import torch\n", "import torch\nimport os, time\n", 1).replace(
        "def softmax(", "def softmax(x, dim=-1):\n    return x.softmax(dim)\n\n\ndef other(", 1
    )
    report = graded(SLUG, source)
    line = source[: source.index("return x.softmax")].count("\n") + 1
    assert report.state == "graded"
    assert report.score.earned == 4  # those of softmax_numpy
    assert failures(report)["test_values"].startswith(
        f"Line {line}: torch.softmax is not allowed in this exercise. Write it with exp, "
    )


def test_a_helper_that_uses_what_is_not_allowed_says_so_where_it_is_called(graded):
    source = with_softmax("return help(x, dim)") + (
        "\n\ndef help(x, dim):\n    scores = x\n    return eval('scores.softmax(dim)')\n"
    )
    line = source[: source.index("return eval")].count("\n") + 1
    why = failures(graded(SLUG, source))["test_values"]
    assert f"Line {line}: eval is not allowed: it reaches code by other ways than its name." in why


def test_a_file_that_hangs_while_it_is_loaded(graded):
    report = graded(SLUG, "while True: pass", call_seconds=0.5)
    at = " (line 1: while True: pass)"
    assert report.sentence == f"While the file was loaded, no answer within 0.5 s{at}."
    assert report.score.earned == 0


def test_windows_line_ends_and_byte_order_marks_are_fine(graded):
    text = b"\xef\xbb\xbf" + RIGHT.replace("\n", "\r\n").encode()
    assert graded(SLUG, text).score.earned == 10


@pytest.mark.parametrize(
    "source, says",
    [
        (NUMPY, "There is no softmax in the file. Did you mean softmax_numpy?"),
        (RIGHT.replace("def softmax(", "def sotfmax("), "There is no softmax in the file. Did you mean sotfmax?"),
        (RIGHT.replace("dim: int = -1", "axis: int = -1"), "softmax takes (x, axis=-1), but should take (x, dim=-1)."),
        (with_softmax("raise NotImplementedError('Turn scores into weights.')"),
         "softmax is not written yet: Turn scores into weights."),
        (with_softmax("return x.tolist()"), "weights is a list of 7, but should be a tensor  [softmax(float32 (7,))]"),
        (with_softmax("pass"), "weights is None, but should be a tensor  [softmax(float32 (7,))]"),
        (with_softmax("return x.sum()"), "weights.shape is (), but should be (7,)  [softmax(float32 (7,))]"),
        (with_softmax("return x.double()"), "weights.dtype is float64, but should be float32  [softmax(float32 (7,))]"),
        (with_softmax("return x[99]"),
         "IndexError: index 99 is out of bounds for dimension 0 with size 7  [softmax(float32 (7,))]\n"),
        (with_softmax("import os\nos._exit(0)"),
         "the process ended itself (exit code 0) and gave no answer  [softmax(float32 (7,))]"),
        (with_softmax("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"),
         "the process crashed (a segmentation fault)  [softmax(float32 (7,))]"),
        (with_softmax("return torch.empty(1 << 40)"), "the call ran out of memory  [softmax(float32 (7,))]"),
        (with_softmax("return [0] * (1 << 40)"), "the call ran out of memory  [softmax(float32 (7,))]"),
        (with_softmax("def deep(n): return deep(n + 1)\nreturn deep(0)"),
         "RecursionError: maximum recursion depth exceeded"),
        (with_softmax("return x * float('nan')"), "weights[0] is nan, but should be 0."),
        (with_softmax("raise SystemExit"), "SystemExit"),
    ],
)  # fmt: skip
def test_one_bad_function_costs_its_own_checks_only(graded, list_open, source, says):
    report = graded(SLUG, source)
    assert report.state == "graded"
    assert failures(report).keys() == {"test_values"}
    assert failures(report)["test_values"].startswith(says)
    assert report.score.earned == 4  # those of softmax_numpy
    blocked = [c for c in report.checks if c.verdict is Verdict.BLOCKED]
    assert len(blocked) == 5
    assert all(
        c.why.startswith("softmax gives exp(x) / sum(exp(x)) along the last dimension")
        for c in blocked
    )


def test_the_students_own_line_is_shown(graded):
    report = graded(SLUG, with_softmax("y = x + 1\nreturn y[99]"))
    [line] = failures(report)["test_values"].splitlines()[1:]
    number = with_softmax("y = x + 1\nreturn y[99]").splitlines().index("    return y[99]") + 1
    assert line == f"line {number}: return y[99]"


def test_a_hang_costs_seconds_once_and_the_rest_is_graded(graded, monkeypatch):
    waits, tell = [], Connection._fault_of_timeout
    monkeypatch.setattr(
        Connection, "_fault_of_timeout", lambda *args: waits.append(args) or tell(*args)
    )
    source = with_softmax("turns = 1\nwhile True: pass")
    report = graded(SLUG, source, call_seconds=6.0)
    assert len(waits) == 1  # nothing that explains a failure waits again
    [says, line, cure] = failures(report)["test_values"].splitlines()
    assert says == "no answer within 6 s  [softmax(float32 (7,))]"
    assert line == f"line {source[: source.index('while')].count(chr(10)) + 1}: while True: pass"
    assert cure == (
        "It was still at this line: see that its loop ends, or let it do less. `make debug` stops "
        "there."
    )
    assert report.score.earned == 4


def test_a_hang_that_catches_everything_has_no_line(graded):
    """It hides where it is from the one that asks, and loses its points all the same."""
    source = with_softmax(
        "while True:\n    try:\n        for n in iter(int, 1): abs(n)\n    except: pass"
    )
    report = graded(SLUG, source, call_seconds=2.0)
    assert failures(report) == {"test_values": "no answer within 2 s  [softmax(float32 (7,))]"}


@pytest.mark.parametrize(
    "body, cure",
    [
        ("p = np.exp(x - x.amax(dim, keepdim=True))\nreturn p / p.sum(dim, keepdim=True)",
         "np.exp takes no tensor that needs a gradient: write torch.exp."),
        ("y = torch.tensor(x.numpy())\np = (y - y.amax(dim, keepdim=True)).exp()\nreturn p / p.sum(dim, keepdim=True)",
         "NumPy takes no tensor that needs a gradient: compute this in PyTorch."),
        ("p = x.exp()\nreturn p / p.sum(dim)",
         "takes its axis away: with keepdim=True it stays, of size 1."),
        ("x -= x.amax(dim, keepdim=True)\nreturn x.exp() / x.exp().sum(dim, keepdim=True)",
         "x belongs to the caller: write x = x - ..., which makes a new tensor."),
        ("return x.exp() / float(input())", "Nobody can type here: take input() out."),
    ],
)  # fmt: skip
def test_an_exception_whose_cause_is_certain_gets_its_cure(graded, list_open, body, cure):
    assert cure in "\n".join(failures(graded(SLUG, with_softmax(body))).values())


@pytest.mark.parametrize(
    "body", ["breakpoint()", "import pdb\npdb.set_trace()", "import pdb; pdb.run('x')"]
)
def test_a_forgotten_breakpoint_gets_its_cure(graded, body):
    source = with_softmax(f"{body}\nreturn torch.softmax")
    at = source[: source.index(body.splitlines()[0])].count("\n") + 1
    told = f"Line {at}: a breakpoint was left in: take it out. `make debug` stops at it."
    assert failures(graded(SLUG, source))["test_values"].startswith(told)


def test_no_message_is_longer_than_ten_lines(graded):
    report = graded(SLUG, with_softmax("raise ValueError('x\\n' * 500)"))
    assert all(len(why.splitlines()) <= 10 for why in failures(report).values())


def test_printing_costs_nothing_and_is_shown(graded):
    report = graded(SLUG, with_softmax("print('hello', x.shape)\n") + RIGHT)
    assert report.score.earned == 10
    assert graded(SLUG, "print('hello')\n" + RIGHT).output == "hello\n"


def test_the_skeleton_is_not_started_and_earns_nothing(graded):
    from grader.authoring.skeletons import make_skeleton
    from grader.core.catalog import find_catalog_exercise

    report = graded(SLUG, make_skeleton(find_catalog_exercise(SLUG), RIGHT))
    assert report.state == "not_started"
    assert report.sentence == "Not started yet. The lesson: docs/lessons/ex01_softmax.en.md"
    assert report.score.earned == 0


def test_a_file_that_loads_only_once_costs_itself(graded, list_open):
    once = (
        "import os\nif os.path.exists('/tmp/{0}'): raise RuntimeError('again')\n"
        "open('/tmp/{0}', 'w').close()\ndef softmax_numpy(x, axis=-1): os._exit(0)\n"
        "def softmax(x, dim=-1): return x\n"
    ).format(f"loaded-once-{os.getpid()}")
    try:
        report = graded(SLUG, once)
    finally:
        os.unlink(f"/tmp/loaded-once-{os.getpid()}")
    assert report.state == "graded"
    assert report.score.earned == 0
    assert "could not be loaded again after a crash" in report.checks[4].why


def test_every_start_has_a_folder_of_its_own(graded, list_open):
    source = "open('log.txt', 'x').close()\n" + RIGHT.replace(
        "    wide = x.astype", "    import os; os._exit(0)\n    wide = x.astype"
    )
    assert graded(SLUG, source).score.earned == 6  # those of softmax, after a restart


@pytest.mark.parametrize("text", ["bad \\ud800", "red \\x1b[31m", "\\n::error::x", "bell \\a"])
def test_nothing_in_a_message_or_in_print_can_hurt_a_terminal(graded, text):
    report = graded(SLUG, with_softmax(f"print('{text}')\nraise ValueError('{text}')"))
    for shown in (report.output, *failures(report).values()):
        shown.encode()
        assert not set(shown) & {"\x1b", "\a"}
        assert not any(line.strip().startswith("::") for line in shown.splitlines())


def test_a_nursery_that_is_killed_is_a_fault_of_that_exercise_alone(graded, list_open):
    killer = with_softmax("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nreturn x")
    report = graded(SLUG, killer)
    assert report.state == "fault"
    assert report.score is None
    assert graded(SLUG, RIGHT).score.earned == 10


@pytest.mark.parametrize(
    "body, says",
    [
        ("return x.to_sparse()", "NotAllowed: torch's to_sparse is not on the list of what an"),
        (
            "class Odd: pass\nreturn Odd()",
            "weights is an object of type Odd, but should be a tensor",
        ),
        ("return (i for i in x)", "weights is an object of type generator, but should be a tensor"),
        ("return torch.empty(1 << 28)", "the answer is too large: 1,073,741,824 bytes do not fit"),
        ("return x.to('meta')", "weights is an object of type Tensor, but should be a tensor"),
        ("torch.nn.Module()(x)", "NotImplementedError: Module [Module] is missing the required"),
        ("return 10 ** 5000", "WireError: the answer cannot be sent"),
    ],
)
def test_odd_answers_are_named(graded, body, says):
    assert failures(graded(SLUG, with_softmax(body)))["test_values"].startswith(says)


def test_an_error_derived_from_value_error_is_one(graded):
    own = solution("ex00_plain_python").replace("raise ValueError(", "raise SizesError(")
    assert own.count("raise SizesError(") == 1
    report = graded("ex00_plain_python", f"class SizesError(ValueError):\n    pass\n\n\n{own}")
    assert failures(report) == {}


def test_an_answer_may_be_a_named_tuple(graded):
    text = solution("ex03_sdpa")
    report = graded("ex03_sdpa", text + NAMED)
    assert failures(report) == {}


NAMED = """

from typing import NamedTuple


class Out(NamedTuple):
    output: object
    weights: object


plain = scaled_dot_product_attention


def scaled_dot_product_attention(q, k, v, keep=None, scale=None):
    return Out(*plain(q, k, v, keep, scale))
"""


def test_what_is_no_file_is_said(tmp_path):
    (tmp_path / "ex01_softmax.py").mkdir()
    with pytest.raises(answer_file.UnreadableFile, match="is not a file"):
        answer_file.read_submission(tmp_path / "ex01_softmax.py", SLUG)


@pytest.mark.parametrize("own", [True, False])
def test_a_link_is_followed_at_home_and_not_where_it_counts(nursery, tmp_path, own):
    from grader.grading.exercise import Run, grade_answer

    path = tmp_path / "ex01_softmax.py"
    path.symlink_to(catalog.ROOT / "solutions" / path.name)
    run = Run(nursery=nursery, student="test", secret="test", own=own, speed=False)
    report = grade_answer(catalog.find_catalog_exercise("ex01"), tmp_path, run)
    assert report.score.earned == (10 if own else 0)
    said = "" if own else "ex01_softmax.py is a link: hand in the file itself."
    assert report.sentence == said
