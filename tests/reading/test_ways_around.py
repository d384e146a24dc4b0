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
