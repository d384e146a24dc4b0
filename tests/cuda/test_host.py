"""The host's side of the machine: what it may not touch, how calls end, and what is counted."""

import traceback
from functools import cache

import pytest
import torch

from grader.cuda import compiler
from tests.cuda.kernels import compiled, file_with

COPY = "__global__ void f(const float* q, float* out, int n) {\n"  # the body stands in line 2
EACH = "  out[threadIdx.x] = threadIdx.x;\n"
ONE = "f<<<1, 64>>>(q, out, Lq);"

# name: what stands before the kernel, its body, the launch; the kind, the line, a part of the words
WRONG = {
    "numbers copied to the host": (
        "", EACH, f"float x[64]; {ONE} cudaMemcpy(x, out, 256, cudaMemcpyDeviceToHost);",
        "HostCopy", 7, "from out",
    ),
    "numbers copied to the host in two lines": (
        "", EACH, "float x[64];\ncudaMemcpyAsync(x, q,\n 256, cudaMemcpyDefault);",
        "HostCopy", (10, 11), "from q",
    ),
    "a variable copied to the host": (
        "__device__ float kept[64]; ", EACH,
        f"float x[64]; {ONE} cudaMemcpyFromSymbol(x, kept, 256);", "HostCopy", 7, "from kept",
    ),
    "an input overwritten": (
        "", EACH, "cudaMemset((void*)q, 0, 256);", "InputChanged", 7, "to q",
    ),
    "device memory read": ("", EACH, f"if (q[0] < 2) {ONE}", "HostAccess", 7, "q lies on"),
    "device memory read by memcpy": (
        "", EACH, f"float x; std::memcpy(&x, q, 4); if (x < 2) {ONE}", "HostAccess", 7, "q lies on",
    ),
    "device memory read by a library": (
        "", EACH, f'char x[8]; snprintf(x, 8, "%s", (const char*)q); if (x[0]) {ONE}',
        "HostAccess", 7, "q lies on",
    ),
    "memory of cudaMalloc": (
        "", EACH, "float* t; cudaMalloc(&t, 256); t[0] = 1;", "HostAccess", 7, "of cudaMalloc",
    ),
    "the host's own nothing": (
        "", EACH, f'char x[8]; snprintf(x, 8, "%s", (const char*)8); if (x[0]) {ONE}',
        "HostAccess", 7, "has no memory",
    ),
    "a variable that kernels write": (
        "__device__ float kept[64]; ", "  kept[threadIdx.x] = 1;\n", f"{ONE} if (kept[Lq - 60] < 2) {ONE}",
        "HostAccess", 7, "kept lies on the device",
    ),
    "a variable that the host writes": (
        "static int rows[64]; ", "  out[rows[threadIdx.x]] = 1;\n", f"rows[Lq - 60] = 1; {ONE}",
        "HostAccess", 2, "to which the host writes",
    ),
    "no kernel": ("", EACH, "cudaMemset(out, 0, 256);", "NoKernel", None, "launches no kernel"),
    "an assert in a kernel": (
        "", "  assert(threadIdx.x < 3 && n);\n", ONE,
        "AssertionError", 2, "threadIdx.x < 3 && n; thread (",
    ),
    "an assert on the host": (
        "", EACH, "assert(Lq < 3);", "AssertionError", 7, "Lq < 3; the host",
    ),
    "a kernel that calls itself": (
        "__device__ float deep(float x) { float b[64]; b[(int)x & 63] = x; return deep(x + 1) + b[3]; }\n",
        "  out[0] = deep(n);\n", ONE, "StackOverflow", 1, "calls itself without end",
    ),
    "a host that calls itself": (
        "float deep(float x) { float b[64]; b[(int)x & 63] = x; return deep(x + 1) + b[3]; }\n",
        EACH, "if (deep(Lq) > 0) return;", "StackOverflow", 1, "calls itself without end",
    ),
    "an array too large for a thread": (
        "", "  float x[1 << 20];\n  x[n] = 1;\n  out[0] = x[n + 1];\n", ONE,
        "StackOverflow", (1, 2, 3, 4), "arrays that are too large",
    ),
    "a format that wants characters": (
        "", "  printf(\"%s\", (char*)8);\n", ONE, "PrintError", 2, "something else than its format",
    ),
    "exit": ("", EACH, "exit(1);", "Crash", 7, "exit"),
    "abort, by its whole name": ("", EACH, "std::abort();", "Crash", 7, "abort"),
    "a trap": ("", "  if (threadIdx.x == 3) __trap();\n", ONE, "Crash", 2, "__trap"),
    "a trap of the compiler": ("", "  __builtin_trap();\n", ONE, "Crash", 2, "Illegal instruction"),
}  # fmt: skip

# name: as above, up to the launch; it writes 0, 1, 2, ... to out
RIGHT = {
    "a variable handed over in the launch": (
        "static int rows[8]; ", "  out[threadIdx.x] = threadIdx.x + n - 64;\n",
        "rows[Lq % 8] = Lq; f<<<1, 64>>>(q, out,\n  rows[Lq % 8]);",
    ),
    "a constant with a beginning": (
        "__constant__ float one = 1; static const float zero = sinf(0.f); ",
        "  out[threadIdx.x] = threadIdx.x * one + zero;\n", ONE,
    ),
    "a counter on the device": (
        "__device__ int count; ", "  atomicAdd(&count, 1);\n" + EACH, ONE,
    ),
    "a copy within the device": (
        "", EACH, "float* t; cudaMalloc(&t, 256); f<<<1, 64>>>(q, t, Lq); "
        "cudaMemcpy(out, t, 256, cudaMemcpyDeviceToDevice); cudaFree(t);",
    ),
    "numbers from the host": (
        "", "  out[threadIdx.x] = q[threadIdx.x];\n",
        "float x[64], *t; for (int i = 0; i < 64; ++i) x[i] = i; cudaMalloc(&t, 256); "
        "cudaMemcpy(t, x, 256, cudaMemcpyHostToDevice); f<<<1, 64>>>(t, out, Lq);",
    ),
    "the host's own memory": (
        "", "  out[threadIdx.x] = threadIdx.x + n;\n",
        "float x[2] = {1, 2}, y[2]; std::memcpy(y, x, 8); memmove(x, y, 8); memset(y, 0, 8); "
        "f<<<1, 64>>>(q, out, (int)y[1]);",
    ),
    "a variable filled by the host": (
        "struct Sizes { int none, one, n; }; __constant__ Sizes sizes; ",
        "  out[threadIdx.x] = threadIdx.x + sizes.one - sizes.n;\n",
        "Sizes s = {7, 8, Lq}; cudaFuncSetCacheConfig(f, cudaFuncCachePreferShared); "
        "cudaMemcpyToSymbol(sizes, &s, sizeof s); "
        "if (cudaMemcpyToSymbol(sizes, &s, sizeof s, 4) == cudaSuccess) return; "
        "cudaMemcpyToSymbol(sizes, &Lq, 4, offsetof(Sizes, one)); "
        f"cudaMemcpyToSymbolAsync(sizes, &Lq, 4, 8, cudaMemcpyHostToDevice, 0); {ONE}",
    ),
    "an assert that holds": ("", "  assert(n == 64 && q);\n" + EACH, ONE),
    "a struct without a name": (
        "", "  __shared__ struct {\n    float here[64];\n    int there;\n  } a, b[2];\n"
        "  b[1].here[63 - threadIdx.x] = 63 - threadIdx.x;\n  a.there = 0;\n  __syncthreads();\n"
        "  out[threadIdx.x] = b[1].here[threadIdx.x] + a.there;\n", ONE,
    ),
    "a struct with a name": (
        "", "  __shared__ struct Tile { float x[64]; } tile;\n  Tile* t = &tile;\n"
        "  t->x[threadIdx.x] = threadIdx.x;\n  out[threadIdx.x] = t->x[threadIdx.x];\n", ONE,
    ),
}  # fmt: skip


@cache
def modules():
    """All files of this page, compiled once."""
    parts = {name: w[:3] for name, w in (WRONG | RIGHT).items()}
    return compiled({n: file_with(f"{b}{COPY}{k}}}", call) for n, (b, k, call) in parts.items()})


def asked(name):
    x = torch.linspace(0, 1, 64)[None, :, None]
    return modules()[name].tiled_attention(x, x, x, 1.0, False)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_reported_at_its_line(name):
    *_, kind, line, says = WRONG[name]
    with pytest.raises(Exception) as caught:
        asked(name)
    frames = [f for f in traceback.extract_tb(caught.tb) if f.filename == "<submission>"]
    assert (type(caught.value).__name__, says in str(caught.value)) == (kind, True), caught.value
    if line is None:
        assert not frames
    else:
        assert frames[-1].lineno in (line if isinstance(line, tuple) else (line,)), caught.value


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_computed(name):
    for _ in range(2):
        assert asked(name).flatten().tolist() == list(range(64))


def test_after_a_crash_the_machine_goes_on():
    for name in ("a kernel that calls itself", "device memory read by a library"):
        for _ in range(2):
            with pytest.raises(Exception, match=r"lies on|is used up"):
                asked(name)
    assert asked("an assert that holds").flatten().tolist() == list(range(64))


def test_code_behind_a_row_without_a_number_belongs_to_no_line():
    said = "answer_0   7  0x10  x\nanswer_0   -  0x20\nwarp.h  9  0x30  x\nanswer_0  8  0x20  x\n"
    assert compiler._read_cuda_line_table(said) == {0x10: 7, 0x20: 8, 0x30: 8}
    assert compiler._read_cuda_line_table(said.replace("8  0x20", "8  0x40")) == {
        0x10: 7,
        0x20: 0,
        0x30: 0,
        0x40: 8,
    }


COUNTED = """
__global__ void copies(const float* q, float* t, int n) {
  __shared__ float tile[64];
  tile[threadIdx.x] = q[threadIdx.x];
  __syncthreads();
  t[threadIdx.x] = tile[63 - threadIdx.x];
}
template <int N> __global__ void doubles(const float* t, float* out) {
  if (threadIdx.x < 4) out[threadIdx.x] = t[threadIdx.x] * N;
}
"""
LAUNCHES = """float* t; cudaMalloc(&t, 256); copies<<<1, 64>>>(q, t, Lq);
  doubles<2><<<2, 8>>>(t, out + 4 * 0); cudaFree(t);"""


SYMBOL = """
struct Sizes { int n; };
__constant__ Sizes sizes;
__device__ float copy[64];
__global__ void reads(float* out) {
  if (threadIdx.x < sizes.n) out[threadIdx.x] = copy[threadIdx.x];
}
"""
FILLED = """Sizes s = {Lq}; cudaMemcpyToSymbol(sizes, &s, sizeof s);
  cudaMemcpyToSymbol(copy, q, 256, 0, cudaMemcpyDeviceToDevice); reads<<<1, 64>>>(out);"""


def counted(file):
    """The machine after a call of a file's function on 64 ones."""
    function = compiled({"file": file})["file"].tiled_attention
    x = torch.ones(1, 64, 1)
    function(x, x, x, 1.0, 0)
    return function.args[0]


def test_a_variable_with_numbers_of_an_input_counts_as_a_copy_of_it():
    assert counted(file_with(SYMBOL, FILLED)).counts["copies_read"] == 64


def test_what_the_kernels_do_is_counted():
    machine = counted(file_with(COUNTED, LAUNCHES.replace("<<<2, 8>>>", "<<<1, 8>>>")))
    assert machine.kernels == "copies, doubles<2>"
    assert machine.loads == {"q": 64, "k": 0, "v": 0}
    assert machine.counts == {
        "kernels": 2, "threads": 72, "workers": 4, "loads": 68, "stores": 68, "copies_read": 4,
        "shared_stores": 64, "shared_loads": 64, "exchanged": 64, "barriers": 1,
    }  # fmt: skip
