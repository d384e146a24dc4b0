"""A worker does without PyTorch's compiler, unless something asks for it."""

import subprocess
import sys

import pytest

from grader.core.catalog import ROOT

DEFERRED = """
import sys, torch
from grader.worker.child.deferred_dynamo import _DeferredDynamo, defer_dynamo_import
defer_dynamo_import()
x = torch.ones(2, 3, device="meta")
(x + 1).sum()
import torch.nn.attention.bias, inspect
inspect.getmodule(torch.ones)
assert isinstance(sys.modules["torch._dynamo"], _DeferredDynamo)
"""
ASKED = {
    "an attribute": "torch._dynamo.config",
    "a name in it": "from torch._dynamo import reset",
    "a module in it": "import torch._dynamo.utils",
    "a compilation": "assert torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1)) == 2",
}


def runs(*lines):
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=ROOT, check=False)
    return done.returncode == 0


@pytest.mark.parametrize("line", ASKED.values(), ids=ASKED)
def test_the_compiler_is_imported_once_something_is_asked_of_it(line):
    here = "assert sys.modules['torch._dynamo'] is torch._dynamo and torch._dynamo.__file__"
    assert runs(DEFERRED, line, here)
