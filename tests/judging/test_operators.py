"""What may not be used is found however it is written; what may be used is not."""

import pytest

from grader.core import catalog
from grader.submission import python_outline
from grader.submission.cut_functions import cut_forbidden_from_submission
from tests.classes.handing import in_chinese


@pytest.fixture
def diagnosis_seconds() -> float:
    """Nothing is explained: of a report the verdicts are meant."""
    return -1.0


SLUGS = frozenset({"ex02_masking", "ex03_sdpa"})


def refused(source: str, slug: str = "ex01_softmax") -> list[str]:
    done = cut_forbidden_from_submission(
        source, python_outline.parse_submission(source), catalog.find_catalog_exercise(slug), SLUGS
    )
    return [done.file] if done.file else list(done.refused.values())


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.softmax(x, 0)",
        "import torch as t\nt.softmax(x, 0)",
        "import torch.nn.functional as F\nF.softmax(x, 0)",
        "from torch.nn import functional\nfunctional.log_softmax(x, 0)",
        "from torch.nn.functional import softmax\ndef f(x): return softmax(x)",
        "from torch import softmax as s\ns(x, 0)",
        "from torch import nn\nnn.Softmax(-1)",
        "def f(x):\n    return x.softmax(-1)",
        "f = x.log_softmax",
        "import torch\nT = torch\nT.softmax(x, 0)",
        "getattr(x, 'softmax')(-1)",
        "getattr(x, name)(-1)",
        "import scipy.special\nscipy.special.softmax(x)",
        "from scipy.special import softmax\nsoftmax(x)",
        "from torch import *",
        "import torch\ntorch.ops.aten.softmax(x)",
        "import torch\ntorch._C._nn",
        "import torch\ntorch._softmax(x, 0, False)",
        "import importlib\nimportlib.import_module('os')",
        "eval('1')",
        "exec('1')",
        "__import__('os')",
        "import torch\ntorch.__dict__['softmax']",
        "vars(x)",
        "import sys\nsys.modules['torch']",
        "from ex02_masking import f\nf(1)",
        "import reference\nreference.x",
        "from grader.core import catalog\ncatalog.find_catalog_exercise",
        "from . import x\nx.y",
        "g = getattr",
        "getattr = getattr\ngetattr(x, 'soft' + 'max')",
        "import torch\ndef f(vars): ...\nvars(torch)['softmax']",
        "def f(eval): ...\ng = eval",
        "import warnings\nclass W(warnings.catch_warnings):\n    def f(self): return self._module",
        "import warnings\nclass N: _module = None\nwarnings.catch_warnings()._module",
        "def look(self, name): return getattr(self, name)",
        "def look(self): return self._secret",
        "class N:\n    import torch as t\nN.t.sys",
        "class N:\n    if x:\n        from torch import nn as t\nN.t",
        "import typing\ntyping.get_args(typing.Optional['x'])",
        "class A:\n    def __init__(self): self.__array_interface__ = {}",
        "import numpy as np\nnp.random.default_rng().bit_generator.ctypes",
        "@swap\nclass P: pass\nmatch x:\n    case P(b): pass",
        "from functools import reduce\nreduce(getattr, ['softmax'], x)",
        "match x:\n    case object(softmax=f): pass",
        "import torch\nif __name__ != '__main__':\n    torch.softmax",
        "import torch\nif __name__ == '__main__':\n    pass\nelse:\n    torch.softmax",
        "import torch\nif __name__ == '__main__' or x:\n    torch.softmax",
        "import torch\ndef f(x: torch.softmax): ...",
        "import torch\ntorch.distributions.Categorical(logits=x).probs",
        "import torch.nn.functional as F\nF.scaled_dot_product_attention(q, k, v)",
        "import torch.nn.functional as F\nF.cross_entropy(x, y)",
    ],
)
def test_it_is_refused(source):
    sentences = refused(source)
    assert sentences
    assert all(sentence.startswith("Line ") for sentence in sentences)


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.exp(x)",
        "def softmax(x):\n    return x\n\ny = softmax(3)",
        "softmax = 3\nprint(softmax)",
        "import torch\nx.sum(-1, keepdim=True).amax()",
        "import torch\nclass A:\n    def softmax(self, x): ...\n    def g(self): self.softmax(1)",
        "getattr(x, 'shape')",
        "import math, typing, dataclasses, numpy as np",
        "import torch\ntorch.logsumexp(x, 0)",
        "import torch\nif __name__ == '__main__':\n    print(torch.softmax(x, 0))",
        "class Ops:\n    @staticmethod\n    def softmax(x): ...\nOps.softmax(1)",
        "class Layer:\n    def softmax(self, x): ...\nlayer = Layer()\nlayer.softmax(1)",
        "class Layer:\n    softmax: int\ndef f(parts: Layer): return parts.softmax",
        "vars = [1]\nprint(vars)",
        "def f(locals): return locals",
        "setattr(x, f'w_{n}', 1)",
        "class A:\n    def softmax(self): ...\nboth = [A()]\nboth[0].softmax()",
        "from __future__ import annotations\ndef f(x: jaxtyping.Float) -> torch.jit.Any: y: sys.x = 1",
        "import torch\n__name__ = '__main__'\nif __name__ == '__main__':\n    torch.softmax",
        "import torch\nif __name__ == '__main__':\n    torch.softmax\nelse:\n    print()",
        "import torch\nif '__main__' == __name__ and x:\n    torch.softmax",
        "import torch\nif not __name__ == '__main__':\n    pass\nelse:\n    torch.softmax",
        "class A:\n    _cache = 1\ngetattr(x, '_cache', None)",
        "class A:\n    def f(self):\n        for name in names: getattr(self, name)",
    ],
)
def test_it_is_allowed(source):
    assert refused(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import torch.nn.functional as F\nF.scaled_dot_product_attention(q, k, v)",
        "import torch\ntorch.nn.MultiheadAttention(4, 2)",
        "from torch.nn.attention import sdpa_kernel\nsdpa_kernel(1)",
        "from torch import nn\nnn.TransformerEncoderLayer(4, 2)",
    ],
)
def test_the_fused_operator_is_for_the_last_exercise(source):
    assert refused(source, "ex03_sdpa")
    assert refused(source, "ex08_cuda_sdpa") == []


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.softmax(x, -1)",
        "def scaled_dot_product_attention(q): ...\nscaled_dot_product_attention(1)",
        "class A:\n    def f(self):\n        self.attention = 1\n        self.attention(2)",
        "block.attention(x)",
    ],
)
def test_what_looks_alike_is_allowed_in_attention(source):
    assert refused(source, "ex03_sdpa") == []


@pytest.mark.parametrize(
    "source",
    [
        "import numpy\nnumpy.exp",
        "import numpy.linalg as a\na.norm",
        "from torch import exp\nexp(1)",
        "import torch.nn.functional\ntorch.nn.functional.relu",
        "import math, array\nmath.exp(array.array(1))",
        "import os\nos.x",
        "import typing\ntyping.sys.modules",
        "from collections import abc\nabc.Sized",
        "def f():\n    import statistics",
        "try:\n    import jax\nexcept ImportError:\n    pass\njax.x",
    ],
)
def test_where_one_module_is_allowed_every_other_is_refused(source):
    sentence = refused(source, "ex00_plain_python")[0]
    assert sentence.endswith("Write it with lists, loops and the module math.")


def test_nor_is_another_imported_by_other_ways():
    assert refused("__builtins__['__imp' + 'ort__']('numpy')", "ex00_plain_python")


@pytest.mark.parametrize(
    "source",
    ["import math", "from math import exp as e", "from __future__ import annotations", "x.sum(1)"],
)
def test_the_one_module_is_allowed(source):
    assert refused(source, "ex00_plain_python") == []


def test_the_sentence_names_line_operator_and_cure():
    assert refused("import torch\n\ntorch.softmax(x, 0)") == [
        "Line 3: torch.softmax is not allowed in this exercise. "
        "Write it with exp, a sum and a division."
    ]


def test_a_file_is_told_its_first_line():
    [line] = refused(
        "import torch\ndef f(): eval('1')\ntorch.softmax(torch.softmax(x, 0), 0)\neval('2')"
    )
    assert line.startswith("Line 3: torch.softmax")


SHADOW = """
class Other:
    def softmax(self, dim):
        return self


def softmax(x, dim=-1):
    return x.softmax(dim)
"""


def test_a_method_of_a_class_does_not_open_that_of_a_tensor(graded):
    report = graded("ex01_softmax", "import torch\n" + SHADOW)
    assert report.score.earned == 0
    values = next(c for c in report.checks if c.id == "test_values")
    assert values.why.startswith("NotAllowed: torch's _softmax is not allowed in this exercise")


INJECTED = """
import dataclasses
found = []


@dataclasses.dataclass
class A:
    a: object = None


def softmax(x, dim=-1):
    {way}

    @dataclasses.dataclass(init=False, eq=False)
    class B(A):
        {own}
    b = B()
    b.a = found
    repr(b)
    return found[0]
"""


@pytest.mark.parametrize(
    ("way", "own"),
    [
        ("dataclasses.fields(A)[0].name = 'a.append(7)'", "pass"),
        ("pass", "__annotations__ = {'a; found.append(7)': int}"),
    ],
)
def test_no_code_is_written_by_the_name_of_a_field(graded, way, own):
    report = graded("ex01_softmax", INJECTED.replace("{way}", way).replace("{own}", own))
    values = next(c for c in report.checks if c.id == "test_values")
    assert values.why.startswith(("NotAllowed: a field of a dataclass", "Line"))


HELPED = """
import heapq, queue


def helper(x):
    y = 1
    return queue.Queue(x)


def softmax(x, dim=-1):
    return helper(x)
"""


def test_what_a_helper_may_not_use_is_told_of_its_own_line(graded):
    report = graded("ex01_softmax", HELPED)
    values = next(c for c in report.checks if c.id == "test_values")
    assert (
        values.why
        == "Line 7: queue is not on the list of what an answer may use (docs/allowed.md)."
    )


def test_what_calls_it_with_the_file_is_told_where_to_go(graded):
    report = graded("ex01_softmax", f"{HELPED}\n\nprint(helper(3))\n")
    says = (
        "Line 7: queue is not on the list of what an answer may use (docs/allowed.md). What calls "
        "it runs with the file: put that under "
        '`if __name__ == "__main__":`.'
    )
    assert report.sentence == says
    assert in_chinese(says)
