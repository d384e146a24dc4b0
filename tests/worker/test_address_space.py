"""The limit on memory: libraries that PyTorch maps are not counted as the answer's."""

import subprocess
import sys

import pytest

from grader.core.catalog import ROOT

CODE = """
import mmap, sys
from grader.worker.child import worker

def take(size):
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)

libraries = take(int(sys.argv[1]) << 30)
worker._set_worker_limits({"memory_bytes": 4 << 30, "cpu_seconds": 60})
arenas = [take(512 << 20) for _ in range(2)]
try:
    take(4 << 30)
except OSError:
    print("limited")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone limits address space")
@pytest.mark.parametrize("libraries", [1, 3, 6])
def test_libraries_leave_an_answer_its_memory(libraries):
    command = [sys.executable, "-c", CODE, str(libraries)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "limited\n"), done.stderr
