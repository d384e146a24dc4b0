"""The solution's kernels compile for a GPU that is not here, and stay in its registers."""

import json
import os
import subprocess
import sys

import pytest

from grader.core import catalog

pytest.importorskip("triton", reason="the extra `gpu` is not installed")
LARGEST_SHARED = 227 << 10  # bytes that a program may have on an H100 or H200


def compiled(folder, *options):
    """What each compiled kernel takes, by the name of its case."""
    exercise = catalog.find_catalog_exercise("ex14")
    command = [sys.executable, exercise.folder / "compiled.py", exercise.solution, "cpu", *options]
    environment = os.environ | {"TRITON_CACHE_DIR": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


def test_attention_compiles_and_stays_in_registers(tmp_path):
    kernels = compiled(tmp_path)
    assert len(kernels) >= 8
    for name, kernel in kernels.items():
        assert kernel["spilled_bytes"] == 0, name
        assert 0 < kernel["shared_bytes"] <= LARGEST_SHARED, name
        assert kernel["tensor_cores"] == ("float32" not in name), name


@pytest.mark.weekly
def test_a_tile_that_is_too_large_spills(tmp_path):
    kernels = compiled(tmp_path, "--tiles")
    assert kernels["128 x 128, 4 warps, 2 stages"]["spilled_bytes"] > 0
    assert kernels["128 x 64, 8 warps, 3 stages"]["spilled_bytes"] == 0
