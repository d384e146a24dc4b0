"""The solution's kernels compile for a GPU that is not here, and stay in its registers."""

import json
import os
import subprocess
import sys

import pytest

from grader.catalog import ROOT

pytest.importorskip("triton", reason="the extra `gpu` is not installed")
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
print(json.dumps({"tensor cores": "wgmma.mma_async" in made.asm["ptx"],
                  "shared": made.metadata.shared, "local": ".local" in made.asm["ptx"]}))
"""


@pytest.mark.parametrize(
    ("width", "dtype", "causal"), [(128, "bfloat16", True), (32, "float16", False)]
)
def test_attention_compiles_for_tensor_cores(tmp_path, width, dtype, causal):
    asked = json.dumps([str(SOURCE), width, dtype, causal])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, asked], capture_output=True, text=True, check=False,
        env=os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["tensor cores"]
    assert not told["local"]
    assert told["shared"] <= 227 << 10  # what a program may have on an H100 or H200
