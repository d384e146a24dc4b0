"""Turns CUDA C++ into C++ for `runtime/`, whose machine runs kernels on the CPU.

Almost all of the language is C++ already, and macros and functions of the runtime do for the rest.
What is rewritten here is what C++ cannot parse: `kernel<<<grid, block>>>(...)` becomes a call, and
`extern __shared__ float tile[];` a pointer to the machine's dynamic shared memory. Every line keeps
its number, so compilers and the machine speak of the student's lines.
"""

import re
from collections.abc import Iterator, Sequence

from grader.cuda.source import bare, closing, joined, opening, split

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(?:include|pragma)\b[^\n]*", re.MULTILINE)
_LINKAGE = re.compile(r'extern\s*"\s*"')
_DYNAMIC = re.compile(r"\bextern\s+__shared__\s+((?:(?!__shared__)[^;\[\]])*+)\[\s*+\]\s*+;")
_ALIGNED = re.compile(r"\b(?:__align__|alignas)\s*\([^()]*\)")
_BEHIND = re.compile(r"([;{}]\s*+)((?:(?!__shared__)\w++\s++)++)__shared__\b")
_STATIC = re.compile(r"(?:\bstatic\s+)?\b__shared__\s+((?:(?!__shared__)[^;={])*+);")
_STRUCT = re.compile(
    r"(?:\bstatic\s+)?\b__shared__\s+((?:struct|union|class)\b)\s*+(\w*+)"
    r"(?:(?!__shared__)[^;={(])*+\{"
)
_CALLEE = re.compile(r"[\w:]*\w\s*$")

MAX_NAME = 200  # letters of a name, and of what stands in its <>
HEAD = '#include "warp.h"\n'  # what a file of translated answers begins with


def translated(text: str, name: str) -> str:
    """One answer as C++, in a namespace called `name`, which is also its file's in messages."""
    body = joined(text)
    for step in (_without_includes, _without_linkage, _in_order, _dynamic, _structs, _static):
        body = step(body)
    body = _launches(body)
    return f'namespace {name} {{ namespace {{\n#line 1 "{name}"\n{body}\n}} }}\n'


def _without_includes(text: str) -> str:
    code = bare(text)
    return _replaced(text, [(m.start(), m.end(), "") for m in _INCLUDE.finditer(code)])


def _without_linkage(text: str) -> str:
    """Two answers in one file may not both have a C function of the same name."""
    found = []
    for m in _LINKAGE.finditer(bare(text)):
        block = re.compile(r"\s*\{").match(text, m.end())
        found.append((m.start(), m.end(), 'extern "C++"' if block else ""))
    return _replaced(text, found)


def _dynamic(text: str) -> str:
    found = []
    for m in _DYNAMIC.finditer(bare(text)):
        kind, name, _ = _declared(_ALIGNED.sub(" ", m[1]))
        if not (kind and name):
            continue  # the compiler will say so
        place = "(cuda_on_cpu::dynamic_bytes + cuda_on_cpu::MARGIN)"
        pointer = f"{kind}* const {name} = ({kind}*){place};"
        found.append((m.start(), m.end(), pointer))
    return _replaced(text, found)


def _in_order(text: str) -> str:
    """`float __shared__ tile[32];` is `__shared__ float tile[32];`."""
    found = []
    for m in _BEHIND.finditer(bare(text)):
        if m[2].split()[0] not in ("extern", "static"):
            found.append((m.start(2), m.end(), f"__shared__ {m[2]}"))
    return _replaced(text, found)


def _structs(text: str) -> str:
    """`__shared__ struct { ... } tile;` becomes a struct with a name, and a variable of it."""
    code = bare(text)
    found = []
    for number, m in enumerate(_STRUCT.finditer(code)):
        name = m[2] or f"shared_struct_{number}"
        end = closing(code, m.end() - 1)
        found.append((m.start(), m.end() - 1, f"{m[1]} {name} "))
        found.append((end + 1, end + 1, f"; __shared__ {name} "))
    return _replaced(text, found)


def _static(text: str) -> str:
    """`__shared__ float tile[32][33];` becomes a reference, so that every access is seen."""
    found = []
    for m in _STATIC.finditer(bare(text)):
        first, *others = split(text[m.start(1) : m.end(1)])
        kind, name, size = _declared(first)
        if not (kind and name):
            continue  # the compiler will say so
        parts = [(name, size), *(_declared(other)[1:] for other in others)]
        new = " ".join(
            f"static struct alignas(64) {{ {kind} {name}{size}; }} {name}_;"
            f' auto& {name} = *cuda_on_cpu::shared_variable(&{name}_.{name}, "{name}", __LINE__);'
            for name, size in parts
            if name
        )
        found.append((m.start(), m.end(), new))
    return _replaced(text, found)


def _declared(text: str) -> tuple[str, str, str]:
    """Type, name and sizes of what a declaration such as "float tile[32][33]" declares."""
    front, bracket, sizes = text.partition("[")
    words = re.split(r"(\w+)\s*$", " ".join(front.split())[-MAX_NAME:])
    if len(words) != 3:
        return "", "", ""
    name = words[1]
    return " ".join(front.split())[: -len(name)].strip(), name, " ".join((bracket + sizes).split())


def _launches(text: str) -> str:
    code = bare(text)
    changes: list[tuple[int, int, str]] = []
    middle = 0
    for found in re.finditer("<<<", code):
        if middle < found.end():
            middle = code.find(">>>", found.end())
        if middle < 0:
            break  # the compiler will say so
        start = _callee(code, found.start())
        call = re.compile(r">>>\s*(?=\()").match(code, middle)
        if call is None:
            continue  # the compiler will say so
        kernel = text[start : found.start()].strip()
        name = re.sub(r"[^\w:<>, ]", "", kernel)
        head = f'cuda_on_cpu::launch(__LINE__, "{name}", cuda_on_cpu::shape('
        body = f"), [=](auto... cuda_on_cpu_given) {{ {kernel}(cuda_on_cpu_given...); }})"
        changes.append((start, found.end(), head))
        changes.append((call.start(), call.end(), body))
    return _replaced(text, changes)


def _callee(code: str, end: int) -> int:
    """Where the name of a kernel begins that ends, with its template arguments, at `end`."""
    place = end
    while place and code[place - 1].isspace():
        place -= 1
    if place and code[place - 1] == ">":
        depth, least = 0, max(0, place - MAX_NAME)
        while place > least:
            place -= 1
            depth += (code[place] == ">") - (code[place] == "<")
            if depth == 0:
                break
    if place and code[place - 1] in ")]":  # one of several, chosen here
        place = opening(code, place - 1)
    found = _CALLEE.search(code, max(0, place - MAX_NAME), place)
    return found.start() if found else place


def _replaced(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    """The text with parts replaced; where a part had several lines, so has its replacement.

    Of parts that overlap, as no compiler would take them, the first is replaced.
    """

    def parts() -> Iterator[str]:
        at = 0
        for start, end, new in sorted(changes, key=lambda change: change[:2]):
            if start < at:
                continue
            yield text[at:start]
            yield new + "\n" * (text.count("\n", start, end) - new.count("\n"))
            at = end
        yield text[at:]

    return "".join(parts())


def doors(called: Sequence[tuple[str, str]]) -> str:
    """The function through which the machine calls answers: each as (its name, a declaration).

    It calls one by its place in this list, with the addresses of its arrays and its numbers. It
    stands before the answers, whose macros do not reach it there.
    """
    names = "".join(
        f"namespace {name} {{ namespace {{ {declaration.rstrip('; ')}; }} }}\n"
        for name, declaration in called
    )
    cases = "\n".join(f"case {i}: {_call(*one)}" for i, one in enumerate(called))
    return (
        f'#line 1 "doors"\n{names}extern "C" int cuda_on_cpu_call'
        "(unsigned which, void* const* arrays, const double* numbers) {\n"
        f"switch (which) {{\n{cases}\n}}\nreturn -1;\n}}\n"
    )


def _call(name: str, declaration: str) -> str:
    function, parameters = parsed(declaration)
    types = [re.sub(r"\w+$", "", p).strip() for p in parameters]
    arrays = [i for i, t in enumerate(types) if t.endswith("*")]
    numbers = [i for i in range(len(types)) if i not in arrays]
    given = ", ".join(
        f"({t})arrays[{arrays.index(i)}]" if i in arrays else f"({t})numbers[{numbers.index(i)}]"
        for i, t in enumerate(types)
    )
    return f"return cuda_on_cpu::guard([&] {{ {name}::{function}({given}); }});"


def parsed(declaration: str) -> tuple[str, tuple[str, ...]]:
    """The name and the parameters of a C declaration."""
    front, _, rest = declaration.partition("(")
    parameters = tuple(" ".join(p.split()) for p in rest.rstrip(" );").split(","))
    return front.split()[-1], parameters
