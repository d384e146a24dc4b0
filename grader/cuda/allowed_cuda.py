"""Finds in the text of a CUDA file what it may not use, before any compiler reads it.

Two kinds of things: what reaches beyond the file (other files, assembly, sections of the object
file), and what the CPU cannot run. The second kind is real CUDA that a student may well know, so
each sentence says what to write instead.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from grader.cuda.source import (
    blank_cuda_comments,
    find_cuda_line,
    find_open_cuda_quotes,
    join_cuda_lines,
)

HEADERS = (
    *("cuda_runtime.h", "cuda.h", "device_launch_parameters.h", "math_constants.h"),
    *("math.h", "cmath", "float.h", "cfloat", "limits.h", "climits", "limits", "stdint.h"),
    *("cstdint", "stddef.h", "cstddef", "stdio.h", "cstdio", "stdlib.h", "cstdlib", "string.h"),
    *("cstring", "assert.h", "cassert", "algorithm", "utility", "type_traits"),
)
_DIRECTIVES = ("define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error")
_PRAGMAS = ("unroll", "once", "nounroll")

_NO_ASSEMBLY = "assembly (PTX) cannot run on the CPU: write it in C++"
_NO_TENSOR_CORES = "tensor cores cannot be had on the CPU: multiply with ordinary float arithmetic"
_NO_ASYNC_COPIES = "asynchronous copies cannot run on the CPU: load, store, then __syncthreads()"
_NO_COOPERATIVE_GROUPS = (
    "cooperative groups cannot run on the CPU: __syncthreads(), __syncwarp() and the shuffles do"
)
_NO_HALF_PRECISION = "numbers of half precision cannot be had on the CPU: this exercise is in float"
_NO_TEXTURES = "textures and surfaces cannot be had on the CPU: read through the pointer"
_LAUNCH_BY_NAME = (
    "the CPU launches kernels by name alone: kernel<<<grid, block, shared>>>(arguments)"
)
_NO_SHARED_WITH_HOST = (
    "memory that the host and the device share cannot be had: cudaMalloc, and kernels do the work"
)
_NO_OBJECT_FILE = "it reaches into the object file, which nothing here needs"
_NAME_OF_RUNTIME = "this name belongs to the machine that runs kernels: call yours otherwise"
_NO_OUTSIDE = "it reaches out of the program, and an answer needs nothing there"

_NO_BUILTIN = "of g++'s own functions those for bits and hints can be used, and __builtin_memcpy"
_ALLOWED_BUILTINS = re.compile(
    r"__builtin_(?:expect\w*|unreachable|assume_aligned|popcount\w*|cl[rz]\w*|ctz\w*|ffs\w*|"
    r"parity\w*|bswap\w*|bit_cast|constant_p|prefetch|trap|offsetof|mem(?:cpy|move|set|cmp)|"
    r"(?:inf|nan|huge_val|fma|sqrt|exp|fabs|fmax|fmin)f?|is(?:nan|inf|finite)\w*)"
)

# Whole words, and what is to be said of them; a star stands for anything that follows.
REFUSED_WORDS = {
    **dict.fromkeys(("asm", "__asm", "__asm__", "__asm*", "__cvta_*"), _NO_ASSEMBLY),
    **dict.fromkeys(("wmma", "nvcuda", "mma_sync", "__mma*", "wgmma*", "mma"), _NO_TENSOR_CORES),
    **dict.fromkeys(
        ("__pipeline*", "memcpy_async", "cuda_pipeline*", "cp_async*", "pipeline", "barrier",
         "__cp_async*"), _NO_ASYNC_COPIES,
    ),
    **dict.fromkeys(("cooperative_groups", "cg"), _NO_COOPERATIVE_GROUPS),
    **dict.fromkeys(
        ("half", "half2", "__half", "__half2", "__nv_bfloat16*", "__nv_fp8*", "__float2half*",
         "__half2float*", "__float2bfloat16*", "__bfloat162float*"), _NO_HALF_PRECISION,
    ),
    **dict.fromkeys(("tex1D*", "tex2D*", "tex3D*", "surf2D*", "cudaTextureObject_t"), _NO_TEXTURES),
    **dict.fromkeys(("__managed__", "cudaMallocManaged", "cudaMallocHost", "cudaHostAlloc",
                     "cudaHostRegister", "cudaHostGetDevicePointer"), _NO_SHARED_WITH_HOST),
    **dict.fromkeys(("cudaLaunch*", "cudaGraph*"), _LAUNCH_BY_NAME),
    **dict.fromkeys(("__attribute__", "__attribute", "__declspec", "_Pragma"), _NO_OBJECT_FILE),
    **dict.fromkeys(("cuda_on_cpu*", "CUDA_ON_CPU*", "__asan*", "__ubsan*", "__sanitizer*"),
                    _NAME_OF_RUNTIME),
    **dict.fromkeys(
        ("dlopen", "dlsym", "syscall", "system", "popen", "fork", "vfork", "execv*", "execl*",
         "__has_include", "__has_embed", "__has_include_next", "setjmp", "longjmp", "module",
         "import"), _NO_OUTSIDE,
    ),
    "__builtin_*": _NO_BUILTIN,
    "__CUDA_ARCH__": "one program is both sides here: what it chooses between is not told apart",
    "__activemask": "which lanes run together is not known here: write 0xffffffff, or take a vote",
}  # fmt: skip
_ORDINARY_WORDS = ("barrier", "pipeline", "module", "import", "mma", "cg")  # people call theirs so
_RUNTIME_NAMES = re.compile(
    r"\b(?:int|unsigned|size_t|float|double|bool|auto|long)\s+half\b"
)  # a variable
_RUNTIME = Path(__file__).parent / "runtime"
_KEYWORDS = (
    "alignas auto bool break case char class const constexpr continue decltype default delete do "
    "double else enum explicit extern false float for friend goto if inline int long mutable "
    "namespace new noexcept nullptr operator private protected public return short signed sizeof "
    "static static_cast struct switch template this throw true try typedef typename union unsigned "
    "using virtual void volatile while __restrict INFINITY std noinline shape launch guard guarded "
    "shared_variable dynamic_bytes MARGIN cuda_on_cpu_given"
)
_REFUSED_WORD = re.compile(
    r"(?<!\w)(?:"
    + "|".join(re.escape(w).replace(r"\*", r"\w*") for w in REFUSED_WORDS)
    + r")(?!\w)"
)
LOOKBACK_CHARACTERS = 64  # letters that are looked at before and after an ordinary word
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")


def find_refused_cuda_lines(text: str) -> list[tuple[int, str]]:
    """Return, in order, each line that uses something refused, with the reason as a sentence."""
    return sorted(dict(sorted(_find_refused_cuda_uses(text), reverse=True)).items())


def _find_refused_cuda_uses(text: str) -> Iterator[tuple[int, str]]:
    plain = join_cuda_lines(text)
    code = blank_cuda_comments(plain)
    for found in _CONTROL.finditer(text):
        yield find_cuda_line(text, found.start()), "a control character: type the line anew."
    for place in find_open_cuda_quotes(plain):
        yield find_cuda_line(plain, place), "the quote is not closed in its line."
    lines = plain.split("\n")
    yield from _find_hidden_cuda_text(plain, code)
    yield from _find_unbalanced_cuda_parts(plain, code)
    for found in re.finditer(r"^[ \t]*#[ \t]*(\w*)[ \t]*(.*)$", code, re.MULTILINE):
        line = find_cuda_line(code, found.start())
        yield from (
            (line, why) for why in _explain_cuda_directive(found[1], lines[line - 1], found[2])
        )
    for found in _REFUSED_WORD.finditer(code):
        if _ALLOWED_BUILTINS.fullmatch(found.group()):
            continue
        if found.group() == "half" and _RUNTIME_NAMES.search(code):
            continue
        if found.group() not in _ORDINARY_WORDS or _is_cuda_library_part(code, found):
            yield (
                find_cuda_line(code, found.start()),
                f"{found.group()} is not allowed: {_explain_cuda_word(found)}.",
            )


def _explain_cuda_word(found: re.Match[str]) -> str:
    word = found.group()
    pattern = next(
        w
        for w in REFUSED_WORDS
        if re.fullmatch(re.escape(w).replace(r"\*", r"\w*"), word) is not None
    )
    return REFUSED_WORDS[pattern]


def _is_cuda_library_part(code: str, found: re.Match[str]) -> bool:
    """Return whether a common word, such as `pipeline`, names a library's part here."""
    before, after = (
        _read_cuda_letters_before(code, found.start()),
        code[found.end() : found.end() + LOOKBACK_CHARACTERS].lstrip(),
    )
    if found.group() in ("module", "import"):
        line = before.rpartition("\n")[2].strip()
        return line in ("", "export") and re.match(r"[<\w\"]", after) is not None
    return after.startswith("::") or before.endswith(("cuda::", "namespace"))


def _read_cuda_letters_before(code: str, place: int) -> str:
    """Return the last letters before a place, without the spaces between."""
    while place and code[place - 1].isspace():
        place -= 1
    return code[max(0, place - LOOKBACK_CHARACTERS) : place]


def _find_hidden_cuda_text(plain: str, code: str) -> Iterator[tuple[int, str]]:
    """Yield spellings that could hide something from a reader of the text."""
    for pattern, text, why in (
        (r"%:", code, "`%:` is not allowed: write #."),
        (r"<%|%>|:>|<:(?!:[^:>])", code, "signs for brackets are not allowed: write the bracket."),
        (r"##", code, "`##` is not allowed: write the name out."),
        (r"\?\?[=/'()!<>-]", plain, "`??` before a sign is not allowed: it once meant another."),
        (r"\b(?:u8|[uUL])?R\"", code, "a raw string is not allowed: use an ordinary one."),
        (r"\[\s*+\[(?!\s*(?:maybe_unused|nodiscard|likely|unlikely|fallthrough|noreturn)\s*\]\s*\])",
         code, f"this attribute is not allowed: {_NO_OBJECT_FILE}."),
        (r"\\[uU][0-9a-fA-F]", code, "a letter written as a number is not allowed."),
    ):  # fmt: skip
        for found in re.finditer(pattern, text):
            yield find_cuda_line(text, found.start()), why


def _find_unbalanced_cuda_parts(plain: str, code: str) -> Iterator[tuple[int, str]]:
    """Yield comments and braces that could disguise a part of the text."""
    for found in re.finditer(r"^[ \t]*#.*$", code, re.MULTILINE):
        line = plain[found.start() : found.end()]
        if line.rfind("/*") > line.rfind("*/") + 1 and "/*" not in found.group():
            yield (
                find_cuda_line(code, found.start()),
                "a comment in a line with # has to end in it.",
            )
    depth = 0
    for found in re.finditer(r"[{}]", code):
        depth += 1 if found.group() == "{" else -1
        if depth < 0:
            yield find_cuda_line(code, found.start()), "this brace closes nothing."
            return


def _explain_cuda_directive(word: str, line: str, rest: str) -> Iterator[str]:
    """Return what is wrong with a line that begins with #.

    rest  what follows `word` on the line, without comments
    """
    if (
        word == "define"
        and (name := re.match(r"\w+", rest))
        and name[0] in _list_reserved_cuda_names()
    ):
        yield f"#define {name[0]} is not allowed: {_NAME_OF_RUNTIME}."
    if word == "include":
        named = re.fullmatch(
            r'\s*#\s*include\s*(?:<([^>"]*)>|"([^"]*)")\s*(?://.*|/\*.*\*/\s*)?', line
        )
        header = (named[1] or named[2] or "").strip() if named else ""
        if header in HEADERS:
            return
        if header.startswith(("mma", "cuda/", "cooperative_groups", "cuda_fp", "cuda_bf", "cub/")):
            yield f"<{header}> is not allowed: {_list_cuda_header_names(header)}."
        elif header:
            yield f"<{header}> is not allowed: an answer needs <cuda_runtime.h> and <math.h>."
        else:
            yield "this #include is not allowed: write the name of a header, in < >."
    elif word == "pragma":
        if not re.match(rf"\s*#\s*pragma\s+(?:{'|'.join(_PRAGMAS)})\b", line):
            yield "this #pragma is not allowed: `#pragma unroll` is."
    elif word not in _DIRECTIVES and word:
        yield f"#{word} is not allowed."


@cache
def _list_reserved_cuda_names() -> frozenset[str]:
    """Return the names in the text around an answer, and the words of C++."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(_RUNTIME.glob("*.h"))]
    ours = {name for text in texts for name in re.findall(r"\bcuda_on_cpu::(\w+)", text)}
    return frozenset(ours | set(_KEYWORDS.split()))


def _list_cuda_header_names(header: str) -> str:
    if header.startswith("mma"):
        return _NO_TENSOR_CORES
    if header.startswith(("cuda_fp", "cuda_bf")):
        return _NO_HALF_PRECISION
    if header.startswith("cooperative"):
        return _NO_COOPERATIVE_GROUPS
    return "libraries of blocks, warps and copies cannot be had on the CPU: write it with shuffles"
