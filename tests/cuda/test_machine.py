"""The machine that runs kernels on the CPU: what it computes, and what it reports, at which line."""

import math
import traceback
from functools import cache

import pytest
import torch

from tests.cuda.kernels import compiled, file_with

SHARED = "  extern __shared__ float tile[];\n"
HEAD = "#include <cuda_runtime.h>\n"  # line 1
KERNEL = (
    HEAD + "__global__ void f(const float* q, float* out, int n) {\n"
)  # line 2; the body from 3
ONE = "f<<<1, 64, 256>>>(q, out, Lq);"

# name: the body of a kernel, its launch, the report's kind and its line, a part of what it says
WRONG = {
    "a write that others read": (
        SHARED + "  tile[threadIdx.x] = 1;\n  out[threadIdx.x] = tile[63 - threadIdx.x];\n",
        ONE, "Race", 5, "read at line 5, written at line 4",
    ),
    "a read of what nobody writes": (
        SHARED + "  out[threadIdx.x] = tile[threadIdx.x];\n",
        ONE, "Uninitialized", 4, "to which no thread of its block has written",
    ),
    "a read of what is written after the barrier": (
        SHARED + "  float x = tile[0];\n  __syncthreads();\n  tile[0] = 1;\n  out[threadIdx.x] = x;\n",
        ONE, "Uninitialized", 4, "to which no thread of its block has written",
    ),
    "an index that nobody has written": (
        "  __shared__ int place;\n  out[place] = 1;\n", ONE, "Uninitialized", 4, "no thread of its",
    ),
    "a wait for what nobody has written": (
        "  __shared__ int go;\n  while (go != 1) out[threadIdx.x] = go;\n",
        ONE, "Uninitialized", 4, "no thread of its block",
    ),
    "a read of what another warp has written": (
        SHARED + "  tile[threadIdx.x] = 1;\n  __syncthreads();\n  tile[threadIdx.x] = 2;\n"
        "  out[threadIdx.x] = tile[63 - threadIdx.x];\n",
        ONE, "Race", (6, 7), "written at line 6",
    ),
    "a write over what another warp reads": (
        SHARED + "  tile[threadIdx.x] = 1;\n  __syncthreads();\n"
        "  out[threadIdx.x] = tile[63 - threadIdx.x];\n  tile[threadIdx.x] = 2;\n",
        ONE, "Race", (6, 7), "with no barrier between them",
    ),
    "two values in one place": (
        SHARED + "  tile[0] = threadIdx.x;\n  __syncthreads();\n  out[threadIdx.x] = tile[0];\n",
        ONE, "Race", 4, "two threads write to the same place",
    ),
    "a race within a warp": (
        SHARED + "  tile[threadIdx.x] = 1;\n  __syncthreads();\n  tile[threadIdx.x] = threadIdx.x;\n"
        "  out[threadIdx.x] = tile[threadIdx.x ^ 1];\n",
        ONE, "Race", (6, 7), "with no barrier between them",
    ),
    "a race in static shared memory": (
        "  __shared__ float row[64];\n  row[threadIdx.x] = 1;\n  __syncthreads();\n"
        "  row[threadIdx.x] = 2;\n  out[threadIdx.x] = row[63 - threadIdx.x];\n",
        ONE, "Race", (6, 7), "with no barrier between them",
    ),
    "a byte that another thread has written": (
        "  __shared__ unsigned char seen[64];\n  seen[threadIdx.x ^ 1] = 1;\n"
        "  out[threadIdx.x] = seen[threadIdx.x];\n", ONE, "Race", (4, 5), "place ",
    ),
    "two values in one byte": (
        "  __shared__ short seen[2];\n  seen[1] = threadIdx.x;\n  __syncthreads();\n"
        "  out[threadIdx.x] = seen[1];\n", ONE, "Race", 4, "place 1 of seen",
    ),
    "a byte of a word that another thread reads": (
        "  __shared__ bool seen[64];\n  seen[threadIdx.x] = true;\n  __syncthreads();\n"
        "  seen[threadIdx.x] = true;\n  out[threadIdx.x] = ((int*)seen)[threadIdx.x / 4];\n",
        ONE, "Race", (6, 7), "with no barrier between them",
    ),
    "a byte that nobody has written": (
        "  __shared__ bool seen[64];\n  out[threadIdx.x] = seen[threadIdx.x];\n",
        ONE, "Uninitialized", 4, "to which no thread of its block has written",
    ),
    "two blocks in one place": (
        "  out[threadIdx.x] = blockIdx.x;\n", "f<<<2, 64>>>(q, out, Lq);", "Race", 3, "two blocks",
    ),
    "a barrier that some never reach": (
        "  if (threadIdx.x >= 60) return;\n  __syncthreads();\n  out[threadIdx.x] = 1;\n",
        ONE, "Barrier", 4, "never reach a __syncthreads()",
    ),
    "two barriers": (
        "  if (threadIdx.x < 32)\n    __syncthreads();\n  else\n    __syncthreads();\n",
        ONE, "Barrier", 6, "wait at different barriers",
    ),
    "a shuffle without some of its lanes": (
        "  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffffffff, 1.f, 1);\n"
        "  __syncthreads();\n",
        ONE, "Barrier", 3, "some lanes of a warp wait",
    ),
    "one past the end of an input": (
        "  out[threadIdx.x] = q[threadIdx.x + 1];\n", ONE, "OutOfBounds", 3, "past the end of q",
    ),
    "one before the beginning of the output": (
        "  out[(int)threadIdx.x - 1] = 1;\n", ONE, "OutOfBounds", 3, "before the beginning of out",
    ),
    "far outside": (
        "  out[threadIdx.x] = q[1000000 + threadIdx.x];\n", ONE, "OutOfBounds", 3, "past the end of",
    ),
    "past the end of dynamic shared memory": (
        SHARED + "  tile[threadIdx.x + 1] = 1;\n", ONE, "OutOfBounds", 4, "past the end of shared",
    ),
    "past the end of static shared memory": (
        "  __shared__ float row[64];\n  float* p = row;\n  p[threadIdx.x + 1] = 1;\n",
        ONE, "OutOfBounds", 5, "past the end of shared",
    ),
    "an index too large for its array": (
        "  float row[8];\n  for (int i = 0; i <= n / 8; ++i) row[i] = i;\n  out[0] = row[n % 8];\n",
        ONE, "OutOfBounds", 4, "outside of an array with a fixed size",
    ),
    "an input that is written to": (
        "  ((float*)q)[threadIdx.x] = 1;\n", ONE, "InputChanged", 3, "writes to an input",
    ),
    "the output read before it is written": (
        "  out[threadIdx.x] += 1;\n", ONE, "Uninitialized", 3, "nothing has been written",
    ),
    "a null pointer": (
        "  float* p = nullptr;\n  out[0] = p[n];\n", ONE, "OutOfBounds", 4, "has no memory",
    ),
    "an int that overflows": (
        "  int big = 1 << 20;\n  out[0] = q[big * n * n % 2];\n", ONE, "Overflow", 4, "does not fit",
    ),
    "four numbers from an odd place": (
        "  float4 x = *(const float4*)(q + 1);\n  out[0] = x.y;\n",
        ONE, "Misaligned", 3, "multiple of what its type needs",
    ),
    "too many threads": (
        "  out[threadIdx.x] = 1;\n", "f<<<1, 1025>>>(q, out, Lq);", "LaunchError", 8, "the launch fails",
    ),
    "no blocks": (
        "  out[threadIdx.x] = 1;\n", "f<<<0, 64>>>(q, out, Lq);", "LaunchError", 8, "the launch fails",
    ),
    "a grid too high": (
        "  out[0] = 1;\n", "f<<<dim3(1, 65536), 1>>>(q, out, Lq);", "LaunchError", 8, "the launch fails",
    ),
    "shared memory without asking": (
        "  out[0] = 1;\n", "f<<<1, 1, 49153>>>(q, out, Lq);", "LaunchError", 8, "too much shared",
    ),
    "more shared memory than there is": (
        "  out[0] = 1;\n",
        "cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449); "
        "f<<<1, 1, 232449>>>(q, out, Lq);", "LaunchError", 8, "too much shared",
    ),
    "the host in device memory": (
        "  out[0] = 1;\n", "out[0] = 1;", "HostAccess", 8, "the host uses memory",
    ),
    "a barrier on the host": (
        "  out[0] = 1;\n", "__syncthreads();", "HostAccess", 8, "only kernels can call",
    ),
}  # fmt: skip

# name: a kernel's body and its launch; it writes 0, 1, 2, ... to out
RIGHT = {
    "one thread a place": ("  out[threadIdx.x] = threadIdx.x;\n", ONE),
    "blocks of a grid": (
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) out[i] = i;\n",
        "f<<<(Lq + 6) / 7, 7>>>(q, out, Lq);",
    ),
    "three dimensions": (
        "  int i = (blockIdx.z * 4 + blockIdx.y * 2 + blockIdx.x) * 8 + threadIdx.z * 4 +\n"
        "          threadIdx.y * 2 + threadIdx.x;\n  out[i] = i;\n",
        "f<<<dim3(2, 2, 2), dim3(2, 2, 2)>>>(q, out, Lq);",
    ),
    "lanes that have the same value": (
        "  unsigned alike = __match_any_sync(0xffffffff, threadIdx.x % 2);\n"
        "  int all; unsigned same = __match_all_sync(0xffffffff, 7, &all);\n"
        "  bool right = alike == (threadIdx.x % 2 ? 0xaaaaaaaau : 0x55555555u);\n"
        "  out[threadIdx.x] = right && all && same == ~0u ? threadIdx.x : -1;\n", ONE,
    ),
    "values of a warp put together": (
        "  int lane = threadIdx.x % 32, x = lane - 5;\n"
        "  bool right = __reduce_add_sync(~0u, x) == 336 && __reduce_max_sync(~0u, x) == 26 &&\n"
        "      __reduce_min_sync(~0u, x) == -5 && __reduce_or_sync(~0u, 1u << lane) == ~0u &&\n"
        "      __reduce_and_sync(~0u, 6u | lane) == 6 && __reduce_xor_sync(~0u, 1u << lane) == ~0u;\n"
        "  out[threadIdx.x] = right ? threadIdx.x : -1;\n", ONE,
    ),
    "words about caches, clocks and small vectors": (
        "  long long then = clock64(); uchar4 c = make_uchar4(1, 2, 3, 4);\n"
        "  bool right = __ldcs(q + n - 1) >= 0 && clock64() > then && c.w == 4 && __brev(1) == 1u << 31;\n"
        "  __stcs(out + threadIdx.x, right ? threadIdx.x : -1);\n", ONE,
    ),
    "a reversal in shared memory": (
        SHARED + "  tile[63 - threadIdx.x] = threadIdx.x;\n  __syncthreads();\n"
        "  out[63 - threadIdx.x] = 63 - tile[threadIdx.x] + 63 - 2 * threadIdx.x +\n"
        "      2 * threadIdx.x - 63 + threadIdx.x - threadIdx.x + tile[threadIdx.x] - threadIdx.x;\n",
        ONE,
    ),
    "the same value from every thread": (
        "  __shared__ int first;\n  first = 0;\n  __syncthreads();\n"
        "  out[threadIdx.x] = first + threadIdx.x;\n", ONE,
    ),
    "a byte for each thread": (
        "  __shared__ unsigned char own[64];\n  own[threadIdx.x] = threadIdx.x;\n"
        "  own[threadIdx.x] += 1;\n  float x = own[threadIdx.x] - 1;\n  __syncthreads();\n"
        "  out[threadIdx.x] = x + own[63 - threadIdx.x] - 64 + threadIdx.x;\n", ONE,
    ),
    "words read as bytes, and bytes as words": (
        "  __shared__ int own[64];\n  own[threadIdx.x] = threadIdx.x;\n  __syncthreads();\n"
        "  int x = ((unsigned char*)own)[4 * threadIdx.x];\n  __syncthreads();\n"
        "  ((unsigned char*)own)[threadIdx.x] = 0;\n  __syncthreads();\n"
        "  out[threadIdx.x] = x + own[threadIdx.x / 4];\n", ONE,
    ),
    "the same flag from every thread": (
        "  __shared__ bool flag;\n  flag = false;\n  __syncthreads();\n"
        "  out[threadIdx.x] = flag + threadIdx.x;\n", ONE,
    ),
    "a shuffle": (
        "  float other = __shfl_xor_sync(0xffffffff, (float)threadIdx.x, 1);\n"
        "  out[threadIdx.x] = threadIdx.x % 2 ? other + 1 : other - 1;\n", ONE,
    ),
    "a sum by shuffles, in part of a warp": (
        "  float x = 1;\n  for (int o = 4; o; o >>= 1) x += __shfl_down_sync(0xffffffff, x, o, 8);\n"
        "  x = __shfl_sync(0xffffffff, x, 0, 8);\n  out[threadIdx.x] = x - 8 + threadIdx.x;\n", ONE,
    ),
    "a warp that orders itself": (
        SHARED + "  tile[threadIdx.x] = threadIdx.x;\n  __syncwarp();\n  float x = tile[threadIdx.x ^ 1];\n"
        "  __syncwarp();\n  tile[threadIdx.x] = x;\n  __syncwarp();\n"
        "  out[threadIdx.x] = tile[threadIdx.x ^ 1];\n", ONE,
    ),
    "votes": (
        "  unsigned even = __ballot_sync(0xffffffff, threadIdx.x % 2 == 0);\n"
        "  int all = __all_sync(0xffffffff, 1), any = __any_sync(0xffffffff, 0);\n"
        "  out[threadIdx.x] = threadIdx.x + (even != 0x55555555) + (all != 1) + (any != 0) +\n"
        "      (__syncthreads_count(threadIdx.x < 5) != 5);\n", ONE,
    ),
    "atomic additions": (
        "  __shared__ int count;\n  if (threadIdx.x == 0) count = 0;\n  __syncthreads();\n"
        "  atomicAdd(&count, 1);\n  __syncthreads();\n  out[threadIdx.x] = count - 64 + threadIdx.x;\n",
        ONE,
    ),
    "a loop over barriers": (
        SHARED + "  for (int i = 0; i < 5; ++i) {\n    tile[threadIdx.x] = i;\n    __syncthreads();\n"
        "    float x = tile[63 - threadIdx.x];\n    __syncthreads();\n"
        "    out[threadIdx.x] = x - i + threadIdx.x;\n  }\n", ONE,
    ),
    "a temporary on the device": (
        "  out[threadIdx.x] = threadIdx.x + q[threadIdx.x] - q[threadIdx.x];\n",
        "float* t; cudaMalloc(&t, Lq * sizeof(float)); cudaMemset(t, 0, Lq * sizeof(float)); "
        "f<<<1, 64>>>(t, out, Lq); cudaFree(t);",
    ),
    "words of printf": ('  out[threadIdx.x] = threadIdx.x;\n  if (n < 0) printf("%d", n);\n', ONE),
}  # fmt: skip


@cache
def modules():
    """All kernels of this page, compiled once."""
    files = {name: file_with(f"{KERNEL}{w[0]}}}", w[1]) for name, w in (WRONG | RIGHT).items()}
    return compiled(files)


def asked(name, seed=0):
    x = torch.linspace(0, 1, 64)[None, :, None] + seed
    return modules()[name].tiled_attention(x, x, x, 1.0, False)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_reported_at_its_line(name):
    _, _, kind, line, says = WRONG[name]
    with pytest.raises(Exception) as caught:
        asked(name)
    frames = [f for f in traceback.extract_tb(caught.tb) if f.filename == "<submission>"]
    assert type(caught.value).__name__ == kind, caught.value
    assert says in str(caught.value)
    assert frames[-1].lineno in (line if isinstance(line, tuple) else (line,)), caught.value


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_computed(name):
    for seed in range(6):  # forwards, backwards, shuffled
        assert asked(name, seed).flatten().tolist() == list(range(64))


def test_after_a_report_the_machine_goes_on():
    with pytest.raises(Exception, match="never reach"):
        asked("a barrier that some never reach")
    assert asked("a loop over barriers").flatten().tolist() == list(range(64))


def test_mathematics_is_that_of_the_c_library():
    functions = {
        "__expf(x)": math.exp, "rsqrtf(x)": lambda x: x**-0.5, "fmaxf(x, 1.f)": lambda x: max(x, 1),
        "__fdividef(x, 3.f)": lambda x: x / 3, "exp2f(x)": lambda x: 2**x, "logf(x)": math.log,
        "min(x, 1.5f)": lambda x: min(x, 1.5), "__fmaf_rn(x, x, x)": lambda x: x * x + x,
    }  # fmt: skip
    body = "".join(
        f"  if (threadIdx.x % 8 == {i}) out[threadIdx.x] = {text};\n"
        for i, text in enumerate(functions)
    )
    file = file_with(f"{KERNEL}  float x = q[threadIdx.x];\n{body}}}", ONE)
    x = torch.rand(1, 64, 1) + 0.5
    out = compiled({"": file})[""].tiled_attention(x, x, x, 1.0, False).flatten()
    right = [list(functions.values())[i % 8](v) for i, v in enumerate(x.flatten().tolist())]
    assert torch.allclose(out, torch.tensor(right), rtol=1e-5)
