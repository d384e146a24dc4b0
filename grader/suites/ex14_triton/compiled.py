"""Compiles the kernels of an answer for a GPU that need not be there, and prints their resources.

`python compiled.py solutions/ex14_triton.py cuda` compiles for this device, with `cpu` for
an H100 (sm_90). It prints a JSON object a line; `--tiles` compares tiles for bfloat16 of width 128.
ptxas reports registers and spills: PTX does not show them.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "0"  # read when triton is imported

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

SM_90 = 90
KINDS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
# width, dtype, causal
CASES = [
    (128, "bfloat16", True), (128, "float16", False), (64, "bfloat16", True),
    (32, "float16", False), (16, "float32", True), (32, "float32", False), (64, "float32", True),
    (128, "float32", True),
]  # fmt: skip
TILES = [
    {"BLOCK_Q": q, "BLOCK_K": k, "num_warps": warps, "num_stages": stages}
    for q, k, warps, stages in product((64, 128), (64, 128), (4, 8), (2, 3))
]


def compiled(solution, width, dtype, causal, capability=SM_90, tiles=None):
    """Compile the attention kernel; return its registers, spilled bytes and shared bytes.

    tiles  in the place of the solution's own
    """
    tiles = dict(tiles or solution._tiles(width, getattr(torch, dtype)))
    options = {name: tiles.pop(name) for name in ("num_warps", "num_stages")}
    fixed = {
        "CAUSAL": causal,
        "D": width,
        **dict.fromkeys(("q_d", "k_d", "v_d", "o_d"), 1),
        **tiles,
    }
    kernel = solution.flash_attention_kernel
    names = kernel.arg_names
    aligned = [name for name in names if re.fullmatch("[qkvo]_(ptr|b|h|l)", name)]
    source = ASTSource(
        kernel,
        {name: _kind(name, fixed, KINDS[dtype]) for name in names},
        {(names.index(name),): value for name, value in fixed.items()},
        {(names.index(name),): [["tt.divisibility", 16]] for name in aligned},
    )
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return _told_by_ptxas(made.asm["ptx"]) | {"shared_bytes": made.metadata.shared}


def _kind(name, fixed, short):
    if name in fixed:
        return "constexpr"
    return f"*{short}" if name.endswith("_ptr") else "fp32" if name == "scale" else "i32"


def _told_by_ptxas(ptx):
    ptxas = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
    target = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)[1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx)
        said = subprocess.run(
            [ptxas, "-v", f"--gpu-name={target}", path, "-o", Path(folder) / "kernel.cubin"],
            capture_output=True, text=True, check=True,
        ).stderr  # fmt: skip
    [registers], [spilled] = (
        re.findall(pattern, said)
        for pattern in (r"Used (\d+) registers", r"(\d+) bytes spill stores")
    )
    return {
        "registers": int(registers),
        "spilled_bytes": int(spilled),
        "tensor_cores": "mma" in ptx,  # wgmma.mma_async on Hopper, mma.sync before
    }


def lines(solution, capability, tiles) -> Iterator[dict]:
    """Yield one line for each case, or for each of several tiles."""
    if tiles:
        for one in TILES:
            found = compiled(solution, 128, "bfloat16", True, capability, one)
            name = "{BLOCK_Q} x {BLOCK_K}, {num_warps} warps, {num_stages} stages".format(**one)
            yield {"name": name, **found}
        return
    for width, dtype, causal in CASES:
        found = compiled(solution, width, dtype, causal, capability)
        yield {"name": f"width {width}, {dtype}{', causal' if causal else ''}", **found}


def load(path):
    """Load an answer as a module."""
    spec = importlib.util.spec_from_file_location("solution", path)
    solution = sys.modules["solution"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(solution)
    return solution


def main():
    """Print a line for each compiled kernel."""
    parser = argparse.ArgumentParser(description="Compile the kernels of an answer.")
    parser.add_argument("solution")
    parser.add_argument("device", choices=("cpu", "cuda"))
    parser.add_argument("--tiles", action="store_true", help="compare tiles instead")
    given = parser.parse_args()
    major, minor = torch.cuda.get_device_capability() if given.device == "cuda" else (9, 0)
    for found in lines(load(given.solution), 10 * major + minor, given.tiles):
        print(json.dumps({"about": "compiled", **found}), flush=True)


if __name__ == "__main__":
    main()
