"""The program that an answer's kernels are: what it may ask of the system, and how it ends."""

import errno
import platform
from contextlib import closing
from pathlib import Path

import pytest
import torch

from grader.core.records import Limits, Submission
from grader.cuda import compiled_answer
from grader.cuda.translate import translate_cuda_answer
from grader.worker.parent import walls
from grader.worker.parent.faults import WorkerDied
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.supervisor import Supervisor
from tests.cuda.kernels import EXERCISE, compiled, file_with
from tests.worker.asking import call

# Assembly, which no answer may use, stands for an answer that has found a way to the kernel.
CALL = """
static long ask(long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  register long e asm("r10") = d;
  asm volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(e) : "rcx", "r11", "memory");
  return number;
}
__global__ void tells(float* out, long said) { out[threadIdx.x] = -said; }
"""
needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="assembly of x86-64")

# name: number of the system call and its arguments, as C++
REFUSED = {
    "open": '2, (long)"/etc/passwd"',
    "openat": '257, -100, (long)"/etc/passwd"',
    "socket": "41, 1, 1",
    "fork": "57",
    "clone": "56",
    "execve": '59, (long)"/bin/true"',
    "kill": "62, 1",
    "tgkill of another": "234, 1, 1, 9",
    "ptrace": "101, 0",
    "process_vm_writev": "311, 1",
    "memory that can be run": "9, 0, 4096, 7, 0x22",
    "code that can be changed": "10, 0, 4096, 7",
    "memfd_create": '319, (long)"x"',
    "shmget": "29, 0, 4096, 0666",
    "prctl": "157, 4, 1",
    "setrlimit": "160, 9",
    "a timer": "38, 0",
    "a call of 32 bits": "0x40000000",
    "a call that nobody knows yet": "9999",
}


@pytest.fixture(scope="module")
def asking():
    files = {
        name: file_with(CALL, f"tells<<<1, 1>>>(out, ask({call}));")
        for name, call in REFUSED.items()
    }
    return compiled(files)


def first_of(module):
    x = torch.ones(1, 4, 4)
    return module.tiled_attention(x, x, x, 1.0, 0).flatten()[0].item()


@needs_x86
@pytest.mark.parametrize("name", REFUSED)
def test_the_system_refuses_it(asking, name):
    assert first_of(asking[name]) == errno.EPERM


@needs_x86
def test_it_has_its_streams_and_one_socket():
    # fstat succeeds for what is open.
    text = (
        "int n = 0; for (int f = 0; f < 1000; ++f) { char s[256]; n += ask(5, f, (long)s) == 0; }"
    )
    found = compiled({"": file_with(CALL, f"{text} tells<<<1, 1>>>(out, -n);")})[""]
    assert first_of(found) == 4


EARLY = {
    "a variable": "static long early() { return clock64(); }\nstatic long first = early();",
    "an object": "struct First { int n; First() { n = (int)clock64(); } };\nstatic First first;",
    "a template": "template <int N> struct First { static long n; };\n"
    "template <int N> long First<N>::n = clock64();\nlong read() { return First<3>::n; }",
}


@pytest.mark.parametrize("name", EARLY)
def test_nothing_of_an_answer_runs_before_it_is_called(name):
    text = file_with(EARLY[name], "")
    with pytest.raises(compiled_answer.NotCpp, match="would run before the program begins"):
        compiled_answer.build_cuda_module(
            text, translate_cuda_answer(text, "answer_0"), EXERCISE, {}
        )


# What the list of words would refuse, as if a way round it had been found.
DEFINED = {
    "a function of the machine's": 'extern "C" void _ZN11cuda_on_cpu15refuse_the_restEv() {}',
    "a function of the system's": 'extern "C" int prctl(int, ...) { return 0; }',
    "one that gives way": 'extern "C" __attribute__((weak)) int prctl(int, ...) { return 0; }',
    "one that is chosen first": 'typedef void F(); static void g() {} extern "C" F* pick() { return g; }\n'
    '__attribute__((ifunc("pick"))) void chosen();\nvoid calls() { chosen(); }',
    "a variable for everybody": "} } int everybodys = 3; namespace answer_0 { namespace {",
}


@pytest.mark.parametrize("name", DEFINED)
def test_an_answer_defines_nothing_that_others_use(name):
    text = file_with("", "")
    translation = translate_cuda_answer(text, "answer_0").replace(
        "#line 1", f"{DEFINED[name]}\n#line 1", 1
    )
    with pytest.raises(compiled_answer.NotCpp, match="cannot be defined"):
        compiled_answer.build_cuda_module(text, translation, EXERCISE, {})


def test_constants_are_no_such_thing():
    text = "const dim3 BLOCK(16, 16);\nstatic float scale = 1 / sqrtf(64.0f);\n" + CALL
    assert compiled({"": file_with(text, "tells<<<1, BLOCK.x>>>(out, -BLOCK.y);")})[""]


@needs_x86
@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("ask(231, 7)", r"the process ended itself \(exit code 7\)"),
        ("ask(234, ask(39), ask(186), 9)", "the process was killed"),
    ],
)
@pytest.mark.parametrize("name", walls.WALL_NAMES)
def test_where_it_ends_the_worker_ends_alike_and_another_one_comes(name, end, says):
    tried = walls.probe_wall(name)
    if tried.wall is None:
        pytest.skip(tried.why)
    launch = f"if (heads == 2) {end}; tells<<<1, 1>>>(out, -3);"
    text = file_with(CALL, launch)
    made, program = compiled_answer.build_cuda_module(
        text, translate_cuda_answer(text, "answer_0"), EXERCISE, {}
    )
    submission = Submission(
        slug=EXERCISE.slug, path=Path("x.cu"), sha256="", source=made, program=program
    )
    one, two = (torch.ones(n, 4, 4) for n in (1, 2))
    with Nursery(tried.wall) as nursery, closing(Supervisor(nursery, submission, Limits())) as it:
        client = it.client()
        for _ in range(2):
            assert call(client, "tiled_attention", one, one, one, 1.0, 0).flatten()[0] == 3
            with pytest.raises(WorkerDied, match=says):
                call(client, "tiled_attention", two, two, two, 1.0, 0)


COPIES = {
    "memcpy": "memcpy(row, k, 4 * n)",
    "memmove": "memmove(row, k, 4 * n)",
    "a builtin": "__builtin_memcpy(row, k, 4 * n)",
    "std::copy": "std::copy(k, k + n, row)",
    "memcmp": "row[0] = memcmp(k, row + 4, 4 * n)",
    "a loop": "for (int i = 0; i < n; ++i) row[i] = k[i]",
}


@pytest.fixture(scope="module")
def copying():
    return compiled(
        {
            name: file_with(
                "__global__ void f(const float* k, float* out, int n) "
                f"{{ float row[64] = {{}}; {how}; out[0] = row[0] + row[n - 1]; }}",
                "f<<<1, 1>>>(k, out, Lk);",
            )
            for name, how in COPIES.items()
        }
    )


@pytest.mark.parametrize("name", COPIES)
def test_what_a_library_reads_is_counted(copying, name):
    module = copying[name]
    x = torch.ones(1, 16, 1)
    module.tiled_attention(x, x, x, 1.0, 0)
    assert module.tiled_attention.args[0].loads["k"] == 16


# Found as a hostile file would: by looking for it from a variable of its own.
HUNT = """
static long mine[4] = {1, 2, 3, 4};
static long* counts_here() {
  for (long* at = mine - 500000; at < mine + 500000; ++at)
    if (((unsigned long)at & 7) == 0 && *at >> 45 == 1 && (*at & 0xffff) == 0) return (long*)*at;
  return nullptr;
}
"""
FORGED = {
    "the host": "{one} long* c = counts_here(); if (c) c[8] = 1 << 20;",
    "the host through a library": "{one} long* c = counts_here(), n = 7; if (c) memcpy(c + 8, &n, 8);",
    "the host through CUDA": "{one} long* c = counts_here(), n = 7; if (c) cudaMemcpy(c, &n, 8, cudaMemcpyHostToHost);",
    "the host through a format": '{one} long* c = counts_here(); if (c) snprintf((char*)c, 8, "%d", Lq);',
    "a kernel": "g<<<1, 1>>>(counts_here());",
    "the place of the counts": "{one} for (long* at = mine + 4; at < mine + 4000; ++at) *at = Lk;",
}


@pytest.fixture(scope="module")
def forging():
    kernel = (
        HUNT + "__global__ void f(float* out) { out[threadIdx.x] = 1; }\n"
        "__global__ void g(long* c) { if (c) c[8] = 1 << 20; }"
    )
    return compiled(
        {
            n: file_with(kernel, how.replace("{one}", "f<<<1, 1>>>(out);"))
            for n, how in FORGED.items()
        }
    )


@pytest.mark.parametrize("name", FORGED)
def test_counts_cannot_be_written_by_an_access_that_is_seen(forging, name):
    x = torch.ones(1, 4, 4)
    with pytest.raises(Exception, match="memory") as caught:
        forging[name].tiled_attention(x, x, x, 1.0, 0)
    assert type(caught.value).__name__ in ("OutOfBounds", "HostAccess")


# The host gets at what a kernel knows, and computes; none of it is refused by its words.
TOLD = """
__device__ float told[64];
__device__ const float* where;
__global__ void tells(const float* q) { for (int i = 0; i < 16; ++i) told[i] = q[i]; }
__global__ void unrolled(const float* q) { told[0] = q[0]; }
__global__ void shows(const float* q) { float own[16]; for (int i = 0; i < 16; ++i) own[i] = q[i]; where = own; }
__global__ void fills(float* out, float x) { out[threadIdx.x] = x; }
static float host_sum(const float* at) { return at[0] + at[1]; }
"""
HOST = {
    "a variable": "tells<<<1, 1>>>(q); fills<<<1, 4>>>(out, told[0]);",
    "a variable at one place": "unrolled<<<1, 1>>>(q); fills<<<1, 4>>>(out, told[0]);",
    "a copy in a variable": "cudaMemcpyToSymbol(told, q, 64); fills<<<1, 4>>>(out, told[0]);",
}


@pytest.fixture(scope="module")
def told():
    files = {n: file_with(TOLD, launch) for n, launch in HOST.items()}
    files["a thread's variable"] = file_with(
        TOLD, "shows<<<1, 1>>>(q); const float* at = where; fills<<<1, 4>>>(out, at ? at[0] : 0);"
    )
    files["an argument"] = file_with(TOLD, "fills<<<1, 4>>>(out, host_sum(q));")
    files["a kernel"] = file_with(
        TOLD + "__global__ void reads(float* out) { out[threadIdx.x] = told[threadIdx.x]; }",
        "tells<<<1, 1>>>(q); reads<<<1, 4>>>(out);",
    )
    return compiled(files)


@pytest.mark.parametrize("name", HOST)
def test_what_kernels_write_to_variables_is_not_the_hosts(told, name):
    x = torch.ones(1, 4, 4)
    assert torch.isnan(told[name].tiled_attention(x, x, x, 1.0, 0).flatten()[:4]).all()


@pytest.mark.parametrize("name", ["a thread's variable", "an argument"])
def test_the_host_reaches_nothing_of_the_kernels(told, name):
    x = torch.ones(1, 4, 4)
    with pytest.raises(Exception, match=r"the host uses|multiple of what its type"):
        told[name].tiled_attention(x, x, x, 1.0, 0)


def test_another_kernel_finds_what_the_first_has_written(told):
    x = torch.arange(16.0).reshape(1, 4, 4)
    assert told["a kernel"].tiled_attention(x, x, x, 1.0, 0).flatten()[:4].tolist() == [0, 1, 2, 3]


LAUNCHED = {
    "a member": (
        "struct L { float x; void go(float* out) { fills<<<1, 4>>>(out, x); } };",
        "L l{3}; l.go(out);",
    ),
    "through a pointer": ("struct P { float x; };", "P p{3}; P* at = &p; fills<<<1, 4>>>(out, at->x);"),
    "no pointer": (
        "__global__ void both(float* out, const float* more) { out[threadIdx.x] = more ? *more : 3; }",
        "both<<<1, 4>>>(out, NULL); both<<<1, 4>>>(out, nullptr);",
    ),
    "one of two": ("", "(Lq > 9 ? fills : three)<<<1, 4>>>(out, 3);"),
    "of a table": ("", "void (*both[])(float*, float) = {fills, three}; both[1]<<<1, 4>>>(out, 1);"),
    "shared memory behind its type": (
        "__global__ void uses(float* out) { float __shared__ s[4]; s[threadIdx.x] = 3; "
        "__syncthreads(); out[threadIdx.x] = s[3 - threadIdx.x]; }", "uses<<<1, 4>>>(out);",
    ),
    "for nvcc alone": ("#ifndef __CUDACC__\n#error nvcc\n#endif", "fills<<<1, 4>>>(out, 3);"),
}  # fmt: skip


@pytest.fixture(scope="module")
def launched():
    three = "__global__ void fills(float* out, float x) { out[threadIdx.x] = x; }\n"
    three += "__global__ void three(float* out, float) { out[threadIdx.x] = 3; }\n"
    return compiled({n: file_with(three + k, launch) for n, (k, launch) in LAUNCHED.items()})


@pytest.mark.parametrize("name", LAUNCHED)
def test_ways_to_launch(launched, name):
    x = torch.ones(1, 4, 4)
    assert launched[name].tiled_attention(x, x, x, 1.0, 0).flatten()[:4].tolist() == [3] * 4


FORMATS = {"%n": 'printf("%d%n", 1, (int*)out)', "%*d%hhn": 'printf("%*d%hhn", 3, 1, (char*)out)'}


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_writes(name):
    text = file_with(
        "__global__ void f(float* out) { " + FORMATS[name] + "; }", "f<<<1, 1>>>(out);"
    )
    x = torch.ones(1, 4, 4)
    with pytest.raises(Exception, match="no %n"):
        compiled({"": text})[""].tiled_attention(x, x, x, 1.0, 0)


def test_a_thread_finds_nothing_of_the_one_before():
    kernel = (
        "__device__ void keeps(float* at) { float own[64]; for (int i = 0; i < 64; ++i) own[i] = 7; *at = own[9]; }\n"
        "__device__ void finds(float* at) { float own[64]; *at = own[9] + own[10]; }\n"
        "__global__ void f(float* out) { if (blockIdx.x == 0) keeps(out); else finds(out + 1); }"
    )
    found = compiled({"": file_with(kernel, "f<<<2, 1>>>(out);")})[""]
    x = torch.ones(1, 4, 4)
    assert found.tiled_attention(x, x, x, 1.0, 0).flatten()[1] < -1e30
