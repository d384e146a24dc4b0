"""The solution's kernels compile for a GPU that is not here, and stay in its registers."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grader.catalog import ROOT

triton = pytest.importorskip("triton", reason="the extra `gpu` is not installed")
SOURCE = ROOT / "solutions" / "ex14_triton.py"
PROGRAM = """
import importlib.util, json, re, sys
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

path, width, dtype, causal = json.loads(sys.argv[1])
spec = importlib.util.spec_from_file_location("solution", path)
solution = sys.modules["solution"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(solution)
kernel = solution.flash_attention_kernel
tiles = solution._tiles(width, getattr(torch, dtype))
options = {name: tiles.pop(name) for name in ("num_warps", "num_stages")}
fixed = {"CAUSAL": causal, "D": width, **dict.fromkeys(("q_d", "k_d", "v_d", "o_d"), 1), **tiles}
short = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}[dtype]

def kind(name):
    if name in fixed:
        return "constexpr"
    return f"*{short}" if name.endswith("_ptr") else "fp32" if name == "scale" else "i32"

names = kernel.arg_names
aligned = [n for n in names if re.fullmatch("[qkvo]_(ptr|b|h|l)", n)]
source = ASTSource(
    kernel, {n: kind(n) for n in names}, {(names.index(n),): x for n, x in fixed.items()},
    {(names.index(n),): [["tt.divisibility", 16]] for n in aligned},
)
made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
print(json.dumps({"ptx": made.asm["ptx"], "shared": made.metadata.shared}))
"""


OWN_TILES = "tiles = solution._tiles(width, getattr(torch, dtype))"
PTXAS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"


def compiled(folder: Path, width: int, dtype: str, causal: bool, tiles: str = "") -> dict:
    """The kernel in PTX with what it needs of shared memory; `tiles` replaces the solution's own."""
    asked = json.dumps([str(SOURCE), width, dtype, causal])
    program = PROGRAM.replace(OWN_TILES, tiles or OWN_TILES)
    done = subprocess.run(
        [sys.executable, "-c", program, asked], capture_output=True, text=True, check=False,
        env=os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def spilled(folder: Path, ptx: str) -> int:
    """The bytes that ptxas stores outside registers, which PTX does not show."""
    path = folder / "kernel.ptx"
    path.write_text(ptx)
    done = subprocess.run(
        [PTXAS, "-v", "--gpu-name=sm_90a", path, "-o", folder / "kernel.cubin"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    [stores] = re.findall(r"(\d+) bytes spill stores", done.stderr)
    return int(stores)


@pytest.mark.parametrize(
    ("width", "dtype", "causal"),
    [
        (128, "bfloat16", True), (32, "float16", False), (16, "float32", True),
        (32, "float32", False), (64, "float32", True), (128, "float32", True),
    ],
)  # fmt: skip
def test_attention_compiles_and_stays_in_registers(tmp_path, width, dtype, causal):
    told = compiled(tmp_path, width, dtype, causal)
    assert ("wgmma.mma_async" in told["ptx"]) == (dtype != "float32")  # on tensor cores
    assert spilled(tmp_path, told["ptx"]) == 0
    assert told["shared"] <= 227 << 10  # what a program may have on an H100 or H200


def test_a_tile_that_is_too_large_spills(tmp_path):
    large = 'tiles = {"BLOCK_Q": 128, "BLOCK_K": 128, "num_warps": 4, "num_stages": 2}'
    assert spilled(tmp_path, compiled(tmp_path, 128, "bfloat16", True, large)["ptx"]) > 0
