"""What an exception's message gets besides: its cure, where the line leaves no doubt."""

import re
import traceback

import numpy as np
import pytest
import torch

from grader.core.translation import Words
from grader.judging.raised_advice import advise_on_exception
from grader.judging.raised_exception import RaisedException

X = torch.arange(15.0).reshape(3, 5)
LEAF = torch.ones(3, 5, requires_grad=True)
KEEP = "def f(scores, keep=None):\n    {}"
PAIR = "max with a dimension returns a pair, the values and their indices: take its .values, or write amax."
SETTING = (
    "class Module(torch.nn.Module):\n    def __init__(self, x):\n        {}\n"
    "    def forward(self):\n        return self.w_o\n\ndef f(x):\n    return Module(x)()"
)
OTHER = "Nothing in this function sets a; line 2 does, but in another function."
SUPER = "Write super().__init__() in the first line of __init__: before it nothing can be set."
NEW = "This writes into a tensor that needs a gradient: make a new tensor."


def advise(source: str, *args, call: str = "f(...)") -> str:
    """Call `f` of a source, and return the advice on what it raises."""
    names = {"torch": torch, "np": np}
    exec(compile(source, "answer", "exec"), names)
    with pytest.raises(Exception) as caught:
        names["f"](*args)
    frames = traceback.extract_tb(caught.value.__traceback__)
    number = [frame.lineno for frame in frames if frame.filename == "answer"][-1]
    return advise_on_exception(
        RaisedException(
            kind=type(caught.value).__name__,
            message=str(caught.value),
            lines=source.splitlines(),
            number=number,
            call=call,
            name_line=str,
        )
    )


def keeping(name: str, line: int, keyword: str) -> str:
    return f"{name} in line {line} takes its axis away: with {keyword}=True it stays, of size 1."


CASES = [
    ("def f(x):\n    return x / x.sum(axis=-1)", X.numpy(), keeping("sum", 2, "keepdims")),
    ("def f(x):\n    return x - np.max(x, 1)", X.numpy(), keeping("max", 2, "keepdims")),
    ("def f(x):\n    e = np.exp(x)\n    s = e.sum(-1)\n    return e / s", X.numpy(), keeping("sum", 3, "keepdims")),
    ("def f(x):\n    return x - x.mean(axis=1)", X.numpy().T[None].repeat(2, 0), keeping("mean", 2, "keepdims")),
    ("def f(x, dim=-1):\n    return x - x.amax(dim)", X, keeping("amax", 2, "keepdim")),
    ("def f(x):\n    m, _ = x.max(-1)\n    return x - m", X, keeping("max", 2, "keepdim")),
    ("def f(x):\n    e = x.exp()\n    return e / torch.sum(e, dim=-1)", X, keeping("sum", 3, "keepdim")),
    ("def f(x):\n    return x.sum(-1, keepdim=True)", X.numpy(), "NumPy writes keepdims=True, with an s."),
    ("def f(x):\n    return x - x.max(-1)", X, PAIR),
    ("def f(x):\n    m = x.max(-1, keepdim=True)\n    return torch.exp(m)", X, PAIR),
    ("def f(x):\n    return x.max(-1).unsqueeze(-1)", X, PAIR),
    ("def f(x):\n    return x - x.sort(-1)", X, "sort returns a pair, the values and their indices: take its .values."),
    ("def f(x):\n    return input('x? ')", X, "Nobody can type here: take input() out."),
    ("def f(x):\n    x -= 1", LEAF, "x belongs to the caller: write x = x - ..., which makes a new tensor."),
    ("def f(x):\n    x[0] = 1", LEAF, "x belongs to the caller: make a new tensor, and leave x as it is."),
    ("def f(x):\n    x.sub_(1)", LEAF, "x belongs to the caller: make a new tensor, and leave x as it is."),
    ("def f(x):\n    y = x\n    y *= 2", LEAF, NEW),
    ("def f(x):\n    x = torch.ones(1, requires_grad=True)\n    x += 1", LEAF, NEW),
    ("def f(x):\n    return np.exp(x)", LEAF, "np.exp takes no tensor that needs a gradient: write torch.exp. With .detach() the gradient would be lost."),
    *(
        (KEEP.format(line), X, "keep is None here: then nothing is hidden.")
        for line in (
            "return scores.masked_fill(~keep, -torch.inf)",
            "return scores.masked_fill(keep, 0.0)",
            "return scores.masked_fill(keep == 0, 0.0)",
            "return torch.where(keep, scores, 0.0)",
            "return scores.masked_fill(torch.logical_not(keep), 0.0)",
            "return scores.masked_fill(keep.logical_not(), 0.0)",
            "return (scores > 0) & keep",
            "return keep[0]",
        )
    ),
    (KEEP.format("keep = None\n    return ~keep"), X, "keep is None here."),
    (SETTING.format("super().__init__()\n        self.q = x"), X, "Nothing sets self.w_o: set it in __init__."),
    (SETTING.format("super().__init__()\n        self.w_q = self.v = 1"), X, "Nothing sets self.w_o: set it in __init__."),
    (SETTING.format("super().__init__()\n        self.wo = x"), X, "Nothing sets self.w_o, but something sets self.wo."),
    (SETTING.format("super().__init__()\n        self.w_o_ = torch.nn.Linear(5, 5)"), X, "Nothing sets self.w_o, but something sets self.w_o_."),
    ("class B:\n    def set(self):\n        self.w_o = 1\n\n" + SETTING.format("super().__init__()"), X, "Nothing in Module sets self.w_o; another class does."),
    ("class A:\n    def __init__(self):\n        self.q_rank = 2\n        self.kv_rank = 3\n\n    def g(self):\n        return self.kv_rnak\n\ndef f(x):\n    return A().g()", X, "Nothing sets self.kv_rnak, but something sets self.kv_rank."),
    (SETTING.format("super().__init__()\n    @property\n    def w_o(self):\n        return self.w_p"), X, "w_o is a property: an attribute that it uses is not there."),
    ("def f(x):\n    y = x\n    del y\n    return y", X, "Line 3 deletes y."),
    ("def f(x):\n    return x == true", X, "Nothing sets true: is True meant?"),
    ("def f(x):\n    y = torch.exp(x)\n    return softmax(y)", X, "Nothing sets softmax: is torch.softmax meant?"),
    ("def f(x):\n    def g():\n        a = x\n    return a\n\ndef h(a):\n    a = 1", X, OTHER.replace("2", "3")),
    (SETTING.format("self.w_o = torch.nn.Linear(5, 5)"), X, SUPER),
    (SETTING.format("self.w_o = torch.nn.Parameter(x)"), X, SUPER),
    (SETTING.format("self.register_buffer('w_o', x)"), X, SUPER),
    ("def f(x):\n    mask = None\n    return x + mask.float()", X, "mask is None here."),
    ("def g(x):\n    a = x + 1\n    return a\n\ndef f(x):\n    g(x)\n    return a", X, OTHER),
    ("def f(scores):\n    weights = scores.exp()\n    return weigths", X, "Nothing sets weigths, but something sets weights."),
    ("def f(key):\n    return keys.mT", X, "Nothing sets keys, but something sets key."),
    ("class A:\n    def __init__(self):\n        self.heads = 2\n\n    def g(self):\n        return heads\n\ndef f(x):\n    return A().g()", X, "Nothing sets heads, but something sets self.heads."),
    ("def f(x):\n    return x + scores", X, "Nothing sets scores: give it a value before this line."),
    ("def f(q_weight):\n    return k_weight", X, "Nothing sets k_weight: give it a value before this line."),
    ("def f(x):\n    return math.pi * x", X, "math is not imported here: write `import math` above the functions."),
    ('def g(x):\n    """Returns x."""\n    y = x + 1  # return y\n\ndef f(x):\n    return g(x).sum()', X, "No line of g returns a value."),
    ("def g(x):\n    if len(x):\n        return\n\ndef f(x):\n    y = g(x)\n    return torch.exp(y)", X, "No line of g returns a value."),
    ("def g(x):\n    y = x\n\ndef h(y):\n    return y.mT\n\ndef f(x):\n    return h(g(x))", X, "No line of g returns a value."),
    ("class A(list):\n    def __init__(self):\n        super().__init__()\n\n    def g(self, x):\n        y = x\n\ndef f(x):\n    return x @ A().g(x)", X, "No line of g returns a value."),
    ("def f(x, keep=None):\n    if keep is not None:\n        y = x * keep\n    return y", X, "Line 3 sets y, but did not in this call."),
    ("def f(x):\n    for i, y in enumerate([]):\n        x = y\n    return i", X, "Line 2 sets i, but did not in this call."),
    ("def f(x):\n    total += x\n    return total", X, "This line sets total itself, and no line of this function before it does."),
    ("def f(x):\n    y = x @ mask\n    mask: torch.Tensor = x > 0\n    return y", X, "Line 3 sets mask, but comes after this one."),
]  # fmt: skip


@pytest.mark.parametrize("source, given, says", CASES)
def test_a_cause_that_is_certain_gets_its_cure_in_both_languages(source, given, says, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda prompt: (_ for _ in ()).throw(EOFError))
    assert advise(source, given) == says
    assert re.search("[\u4e00-\u9fff]", Words("zh").said(says))


@pytest.mark.parametrize(
    "source, given",
    [
        ("def f(x):\n    return x + x[:, :3]", X),  # nothing is reduced
        ("def f(x):\n    m = x.sum(-1)\n    return x + x[:, :3]", X),  # m is not used
        ("def f(x):\n    return x / x.sum(-1, keepdims=True)[:, [0, 0]]", X.numpy()),
        ("def f(x):\n    return x.sum(-1)[..., None] + x[:, :2]", X[None]),
        ("def f(x):\n    return x[:, :4] + x.sum(0)", X.numpy()),  # not an axis too few
        ("def f(x):\n    return x + np.ones((2, max(1, 2))) + x.sum()", X.numpy()),
        ("def f(x):\n    raise EOFError", X),
        ('def g(x):\n    """\n    a = x\n    """\n\ndef f(x):\n    return a', X),  # in a text
        (
            "def g(x):\n    # a = x\n    return dict(b=x,\n        a=x)\n\ndef f(x):\n    return a",
            X,
        ),
        ("class A:\n    a = 3\n\ndef f(x):\n    return a", X),
        ("class A:\n    def g(self):\n        return 1\n\n    a = 3\n\ndef f(x):\n    return a", X),
        ("def g(x):\n    return x\n\nif not g:\n    a = 3\n\ndef f(x):\n    return a", X),
        (
            "def g(x):\n    b = x\n    return b\n\ndef f(x):\n    a = [b for b in x]\n    return b",
            X,
        ),
        ("def g(x):\n    y = x\n\ndef f(x, g=lambda x: x[None, 0] @ x):\n    return g(x)", X),
        ("def f(x):\n    raise NameError(\"name 'x' is not defined\")", X),
        ("def f(x):\n    y = z = None\n    return y.a.b + z.a", X),  # one of two
        ("def f(x):\n    self = x\n    return self.w_o", X),  # no class of the answer
        (
            "class B:\n    @property\n    def a(self):\n        return 1\n\n    def w_o(self):\n        pass\n\n"
            + SETTING.format("super().__init__()"),
            X,
        ),
        ("def f(x):\n    return dict(a=None)['a'].mT.mT", X),
        ("def f(x):\n    return [[None]][0][0][0]", X),
        ("def g(\n    x,\n):\n    return None\n\ndef f(x):\n    return g(x).mT.mT", X),
        (
            'def g(x):\n    """\nA text.\n"""\n    return None\n\ndef f(x):\n    return g(x).mT.mT',
            X,
        ),
        (
            SETTING.format("super().__init__()\n        if x is None:\n            Module.w_o = x"),
            X,
        ),
        (
            SETTING.format(
                "super().__init__()\n        if x is None:\n            self.w_o: object = x"
            ),
            X,
        ),
        (
            SETTING.format(
                "super().__init__()\n        if x is None:\n            self.q, self.w_o = x"
            ),
            X,
        ),
        (
            "class B:\n    def set(self):\n        self.w_o = 1\n\n"
            + SETTING.format("super().__init__()").replace("torch.nn.Module", "torch.nn.Module, B"),
            X,
        ),
        (SETTING.format("super().__init__()\n        x is None and setattr(self, 'w_o', x)"), X),
    ],
)
def test_a_cause_that_may_be_another_gets_none(source, given):
    assert advise(source, given) == ""


@pytest.mark.parametrize(
    "body, masks, says",
    [
        ("masks[0]", (), "masks is empty here: the call has no arguments."),
        ("torch.stack(masks)", (), "masks is empty here: the call has no arguments."),
        ("[m for m in masks if m is not None][0]", (None, None), "All of masks are None here."),
        ("torch.tensor([1])[2]", (X,), ""),
    ],
)
def test_a_call_without_arguments_is_named(body, masks, says):
    call = f"f({', '.join('None' if m is None else 'float32 (3, 5)' for m in masks)})"
    assert advise(f"def f(*masks):\n    return {body}", *masks, call=call) == says
    assert not says or Words("zh").said(says) != says


def test_without_a_line_of_the_answer_nothing_is_said_of_what_it_writes():
    raised = RaisedException(
        kind="RuntimeError",
        message="a leaf Variable that requires grad is being used in an in-place operation.",
        lines=["x = 1"],
        number=0,
        call="f(...)",
        name_line=str,
    )
    assert advise_on_exception(raised) == ""


def test_what_only_a_check_reads_is_named_too():
    answer = (
        "class Module:\n    def __init__(\n        self,\n        w_o: int,\n    ): self.w_q = w_o"
    )
    raised = RaisedException(
        kind="AttributeError",
        message="'Module' object has no attribute 'w_o'",
        lines=answer.splitlines(),
        number=0,
        call="Module().w_o.weight",
        name_line=str,
    )
    assert advise_on_exception(raised) == "Nothing sets self.w_o: set it in __init__."


def test_long_lines_and_messages_are_searched_in_no_time():
    line = "    x " + "x " * 70_000
    raised = RaisedException(
        kind="RuntimeError",
        message="a leaf Variable that requires grad is being used in an in-place operation.",
        lines=["def f(x):", *[line] * 300, "    x -= 1"],
        number=302,
        call="f(...)",
        name_line=str,
    )
    assert advise_on_exception(raised) == NEW  # its `def` is too far above
