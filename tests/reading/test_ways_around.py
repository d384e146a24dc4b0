"""No way of getting at a name reaches what is not on the list, whatever it reaches for."""

import pytest

from grader.core import catalog
from grader.submission import python_outline
from grader.submission.cut_functions import cut_forbidden_from_submission
from tests.classes.handing import in_chinese
from tests.reading.ways import TARGETS, WAYS, answers

EXERCISE = catalog.find_catalog_exercise("ex01_softmax")


@pytest.fixture
def diagnosis_seconds() -> float:
    """Nothing is explained: of a report the verdicts are meant."""
    return -1.0


def refused(source):
    """The sentence about a file or its softmax, "" if it runs as it is, or why it is no Python."""
    try:
        done = cut_forbidden_from_submission(
            source, python_outline.parse_submission(source), EXERCISE, frozenset()
        )
    except python_outline.NotPython as problem:
        return str(problem)
    return done.file or done.refused.get("softmax", "")


def test_there_are_many():
    assert len(WAYS) * len(TARGETS) >= 1500


@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_allowed_is_refused_in_every_way(way, graded):
    for name, source in answers(way):
        if not refused(source):
            report = graded("ex01_softmax", source)
            assert report.state == "graded", name
            assert report.score.earned == 0, name


@pytest.mark.parametrize(
    "code, name",
    [
        ("u = torch.nn.utils", "torch.nn.utils"),
        ("getattr(torch.nn.utils, 'parametrize')", "torch.nn.utils"),
        ("torch.nn.utils.parametrize.register_parametrization", "torch.nn.utils.parametrize"),
        ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm_"),
        ("torch.nn.utils.rnn.torch.softmax(x, 0)", "torch.nn.utils.rnn.torch"),
        ("torch.nn.utils.rnn = 3", "torch.nn.utils.rnn"),
        ("[torch.nn.utils.rnn]", "torch.nn.utils.rnn"),
    ],
)
def test_a_package_that_leads_to_a_listed_module_opens_nothing_else(code, name):
    source = f"import torch\n\n\ndef softmax(x, dim=-1):\n    {code}\n"
    assert refused(source).startswith(f"Line 5: {name} is ")


SENTENCES = {
    "unlisted": "import torch\ntorch.hub.load('x')",
    "a value": "import numpy as np\nf(np)",
    "two things": "import numpy as x\nimport torch as x\nx.y",
    "called only": "from functools import wraps\nw = wraps",
    "changed": "import torch\ntorch.exp = 1",
    "underscore": "x._y",
    "two underscores": "x.__dict__",
    "type": "type('A', (), {})",
    "alias of type": "T = type",
    "class": "x.__class__",
    "array class": "import numpy as np\nnp.ndarray(1)",
    "keyword": "f(__dict__=1)",
    "copied": "import functools\nfunctools.wraps(f, assigned=('x',))",
    "pattern": "match x:\n    case object(a=b): pass",
    "breakpoint": "breakpoint()",
    "getattr": "getattr(x, y)",
    "star": "from numpy import *",
    "frames": "x.gi_frame",
    "another exercise": "import reference",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_each_refusal_is_told_in_chinese(name):
    assert in_chinese(refused(SENTENCES[name]))


MAIN = 'if __name__ == "__main__":\n    LEFT.append(torch)\n'
BINDERS = [
    "__name__ = '__main__'",
    "match E():\n    case __name__: pass",
    "match [E()]:\n    case [*__name__]: pass",
    "match {'a': E()}:\n    case {**__name__}: pass",
    "@(lambda f: '__main__')\ndef __name__(): pass",
    "@(lambda f: '__main__')\nclass __name__: pass",
    "def put():\n    global __name__\n    __name__ = '__main__'\nput()",
    "for __name__ in ['__main__']: pass",
    "import math as __name__",
    "(__name__ := '__main__')",
]


@pytest.mark.parametrize("binder", BINDERS)
@pytest.mark.parametrize(
    "main",
    [
        MAIN,
        MAIN.replace("__name__", "__ｎａｍｅ__"),
        'if not __name__ == "__main__":\n    pass\nelse:\n    LEFT.append(torch)\n',
        'if "__main__" != __name__:\n    pass\nelif LEFT.append(torch):\n    pass\n',
        'if (__name__ ==\n    "__main__") and LEFT.append(torch):\n    pass\n',
    ],
)
def test_what_is_not_read_never_runs_whatever_binds_the_name_of_the_module(binder, main):
    source = f"class E:\n    def __eq__(self, other): return True\n\n\n{binder}\n{main}"
    done = cut_forbidden_from_submission(
        source, python_outline.parse_submission(source), EXERCISE, frozenset()
    )
    assert done.file == ""
    assert done.runs.count("\n") == source.count("\n")
    left = []
    exec(done.runs, {"LEFT": left, "torch": 1, "__name__": "__main__"})
    assert left == []
