"""What is read from a CUDA file before anything is compiled: what it uses, defines and lacks."""

import pytest

from grader.cuda import allowed_cuda, declarations
from grader.cuda.source import blank_cuda_comments, join_cuda_lines
from grader.cuda.translate import translate_cuda_answer
from tests.conftest import solution
from tests.cuda.kernels import EXERCISE, PARAMETERS


def refusals(text):
    return [f"Line {line}: {why}" for line, why in allowed_cuda.find_refused_cuda_lines(text)]


# text, and a part of the sentence
REFUSED = {
    "a file of its own": ('#include "secret.h"', "<secret.h> is not allowed"),
    "a path": ("#include </etc/passwd>", "</etc/passwd> is not allowed"),
    "a path upwards": ('#include "../../solutions/ex15_cuda_kernel.cu"', "is not allowed"),
    "a header by macro": ("#define H <unistd.h>\n#include H", "write the name of a header"),
    "a header with a comment inside": ("#include <cmath/**/>", "is not allowed"),
    "a header after a comment": ("/* */ # /* */ include /* */ </etc/passwd>", "is not allowed"),
    "a joined line": ("#inc\\\nlude </etc/passwd>", "is not allowed"),
    "a joined line with spaces": ("#inc\\  \nlude </etc/passwd>", "is not allowed"),
    "a digraph": ("%:include </etc/passwd>", "`%:` is not allowed"),
    "a trigraph": ("??=include </etc/passwd>", "`??` before a sign"),
    "embed": ("#embed </etc/passwd>", "#embed is not allowed"),
    "include_next": ("#include_next <math.h>", "#include_next is not allowed"),
    "import": ("#import <math.h>", "#import is not allowed"),
    "another line number": ("#line 1 \"x\"", "#line is not allowed"),
    "a pragma": ("#pragma GCC optimize(\"O0\")", "`#pragma unroll` is"),
    "a pragma as an operator": ("_Pragma(\"GCC poison x\")", "_Pragma is not allowed"),
    "a question about files": ("#if __has_include(</etc/passwd>)\n#endif", "__has_include"),
    "assembly": ('asm(".incbin \\"/etc/passwd\\"");', "assembly"),
    "assembly with underscores": ('__asm__ volatile("");', "assembly"),
    "assembly over two lines": ('as\\\nm("");', "assembly"),
    "assembly from pieces": ("#define J(a, b) a##b\nJ(as, m)(\"\");", "`##` is not allowed"),
    "assembly after a string": ('const char* s = "//"; asm("");', "assembly"),
    "assembly after a half comment": ("/* // */ asm(\"\");", "assembly"),
    "assembly after digits": ("int x = 1'000; asm(\"\"); int y = 2'000;", "assembly"),
    "a section": ('__attribute__((section("x"))) int x;', "object file"),
    "a section in brackets": ('[[gnu::section("x")]] int x;', "this attribute is not allowed"),
    "a raw string": ('const char* s = R"(")"; asm("");', "raw string"),
    "a letter as a number": ("int \\u0061sm;", "written as a number"),
    "a control character": ("int x;\x0b", "control character"),
    "tensor cores": ("#include <mma.h>", "tensor cores"),
    "tensor cores by name": ("using namespace nvcuda;", "tensor cores"),
    "cooperative groups": ("#include <cooperative_groups.h>", "cooperative groups"),
    "groups by name": ("namespace cg = cooperative_groups;", "cooperative groups"),
    "a comment that hides a directive": ("#/*\n*/pragma GCC optimize", "has to end in it"),
    "a quote after a letter": ("GO(1'\u00e9', __attribute__((x))) //'", "__attribute__"),
    "an attribute in two brackets": ("[ [gnu::ifunc(\"f\")] ] int f();", "this attribute"),
    "an attribute in other signs": ("<:<:gnu::weak:>:> int f();", "signs for brackets"),
    "a brace too many": ("} } int f(); namespace a { namespace {", "this brace closes nothing"),
    "a name of the machine": ("#define launch(...) 0", "belongs to the machine"),
    "a word of C++": ("#define int long", "belongs to the machine"),
    "a function of g++'s": ("__builtin_ia32_loadlpd(p, at);", "of g++'s own functions"),
    "which lanes run": ("__activemask();", "which lanes run together"),
    "which side it is": ("#ifdef __CUDA_ARCH__", "one program is both sides"),
    "a pipeline": ("#include <cuda/pipeline>", "libraries of blocks, warps and copies"),
    "memory of both sides": ("cudaMallocManaged(&x, 4);", "that the host and the device share"),
    "a variable of both sides": ("__managed__ float x[64];", "that the host and the device share"),
    "half precision": ("#include <cuda_fp16.h>", "half precision"),
    "textures": ("cudaTextureObject_t t;", "textures"),
    "the machine's own": ("cuda_on_cpu::reported = true;", "belongs to the machine"),
    "a launch by address": (
        "cudaLaunchKernel((void*)f, 1, 1, args, 0, 0);", "kernel<<<grid, block, shared>>>",
    ),
    "other programs": ("system(\"ls\");", "reaches out of the program"),
    "other libraries": ("dlopen(\"libtorch.so\", 1);", "reaches out of the program"),
}  # fmt: skip
ALLOWED = [
    '#include <cuda_runtime.h>\n#include "math.h"  // NAN\n#include <cstdint>',
    "#pragma unroll\n#pragma unroll 4\n#define N 4\n#ifdef N\n#endif",
    '// asm(""); #include <x>\n/* __attribute__ */ const char* s = "asm"; char c = \'"\';',
    "#define TWICE(x) \\\n  ((x) * 2)\n",
    "int module = 1, barrier = 2, pipeline = module + barrier, mma = 3, cg = 4;",
    "[[maybe_unused]] int x = a[b[0]];",
    "// 那些注释 — with any letters",
]


@pytest.mark.parametrize("name", REFUSED)
def test_what_reaches_beyond_the_file_is_refused(name):
    text, says = REFUSED[name]
    found = refusals(f"// one\n{text}\n")
    assert any(says in sentence for sentence in found), found
    assert not found[0].startswith("Line 1:")


@pytest.mark.parametrize("text", ALLOWED)
def test_what_does_not_is_left_alone(text):
    assert refusals(text) == []


def test_the_solution_uses_nothing_that_is_refused():
    assert refusals(solution(EXERCISE.slug)) == []


@pytest.mark.parametrize("text", ["a\\\nb\nc", "a\\\n\\\nb\nc\nd", "a\n", "// x\\\ny\nz"])
def test_joined_lines_keep_the_places_of_the_others(text):
    assert join_cuda_lines(text).count("\n") == text.count("\n")
    assert join_cuda_lines(text).split("\n")[-1] == text.split("\n")[-1]


def test_bare_code_keeps_every_place():
    text = 'int a; // "x\n/* y\n*/ char* b = "z;\\"//";\nint c = 1\'000;'
    code = blank_cuda_comments(text)
    assert len(code) == len(text)
    assert [i for i, c in enumerate(code) if c == "\n"] == [
        i for i, c in enumerate(text) if c == "\n"
    ]
    assert "x" not in code
    assert "z" not in code
    assert "char* b" in code
    assert "int c = 1'000;" in code


LAUNCHES = {
    "f<<<1, 2>>>(x, y);": "shape(1, 2), [=](auto... cuda_on_cpu_given) { f(cuda_on_cpu_given...); })(x, y);",
    "f<4><<<dim3(1, 2), dim3(3), 4 * (5)>>>(x);": "shape(dim3(1, 2), dim3(3), 4 * (5))",
    "ns::f<int, 3> <<< g, b >>> (h(x), (y));": '"ns::f<int, 3>"',
    "if (a < b) f<<<g, b>>>();": "if (a < b) cuda_on_cpu::launch(",
    'printf("<<<"); f<<<g, b>>>("(");': 'printf("<<<"); cuda_on_cpu::launch(',
}


@pytest.mark.parametrize("text", LAUNCHES)
def test_launches_become_calls(text):
    made = " ".join(translate_cuda_answer(text, "answer_0").split()).replace("( ", "(")
    assert LAUNCHES[text].replace(" ", "") in made.replace(" ", "")


def test_every_line_keeps_its_number():
    text = solution(EXERCISE.slug)
    made = translate_cuda_answer(text, "answer_0")
    body = made.split('#line 1 "answer_0"\n')[1]
    for number, line in enumerate(text.split("\n")):
        if "expf(" in line:
            assert body.split("\n")[number] == line


UNFIT = {
    "void naive_attention(const float* q) { f(); }": "naive_attention takes (const float* q)",
    "void naive_attenion() { f(); }": "There is no naive_attention in the file. Did you mean naive_attenion?",
    f"void naive_attention({PARAMETERS}) {{ f(); }}": 'no C linkage: write extern "C" before it.',
    f'extern "C" {{ void f() {{ }} }}\nvoid naive_attention({PARAMETERS}) {{ f(); }}': "no C linkage",
    f'extern "C" void f();\nvoid naive_attention({PARAMETERS}) {{ f(); }}': "no C linkage",
    f"/// Do it.\nvoid naive_attention({PARAMETERS}) {{\n  // later\n}}": "is not written yet: Do it.",
    f"void naive_attention({PARAMETERS}) {{ f(); }}\n/// Count.\n__global__ void\n"
    "naive_attention_kernel(int n) { }": "naive_attention_kernel is not written yet: Count.",
}  # fmt: skip


@pytest.mark.parametrize("text", UNFIT)
def test_what_is_missing_gets_its_sentence(text):
    assert UNFIT[text] in declarations.compare_cuda_with_manifest(text, EXERCISE)["naive_attention"]


FITS = [
    f'extern "C" void naive_attention({PARAMETERS}) {{ f(); }}',
    f'#define API extern "C"\nAPI void\nnaive_attention({PARAMETERS})\n{{ f(); }}',
    f'extern "C" void naive_attention({PARAMETERS});\nvoid naive_attention({PARAMETERS}) {{ f(); }}',
    '#ifdef __cplusplus\nextern "C" {\n#endif\nvoid f();\n'
    f"void naive_attention({PARAMETERS}) {{ f(); }}\n#ifdef __cplusplus\n}}\n#endif",
    'extern "C" {\nvoid naive_attention(const float* __restrict__ a, float const *b, const float c[],\n'
    "  float* d, const int e, int f, int g, int h, const float s, bool causal)\n{ f(); }\n}",
]


@pytest.mark.parametrize("text", FITS)
def test_other_spellings_of_the_declaration_fit(text):
    assert "naive_attention" not in declarations.compare_cuda_with_manifest(text, EXERCISE)
