"""A worker does without PyTorch's compiler, unless something asks for it."""

import subprocess
import sys

from grader.core.catalog import ROOT

SCRIPT = """
import inspect, os, sys, torch
from grader.worker.child.deferred_dynamo import _DeferredDynamo, defer_dynamo_import

defer_dynamo_import()
(torch.ones(2, 3, device="meta") + 1).sum()
import torch.nn.attention.bias
inspect.getmodule(torch.ones)
assert isinstance(sys.modules["torch._dynamo"], _DeferredDynamo)
for line in (
    "import torch._dynamo.utils",
    "assert torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1)) == 2",
):
    child = os.fork()
    if child == 0:
        exec(line)
        assert sys.modules["torch._dynamo"] is torch._dynamo and torch._dynamo.__file__
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, line
"""


def test_the_compiler_is_imported_once_something_is_asked_of_it():
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, check=False)
    assert done.returncode == 0
