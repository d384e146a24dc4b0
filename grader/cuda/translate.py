"""Turns CUDA C++ into C++ for `runtime/`, whose machine runs kernels on the CPU.

Almost all of the language is C++ already, and macros and functions of the runtime do for the rest.
What is rewritten here is what C++ cannot parse: `kernel<<<grid, block>>>(...)` becomes a call, and
`extern __shared__ float tile[];` a pointer to the machine's dynamic shared memory. Every line keeps
its number, so compilers and the machine speak of the student's lines.
"""

import re
from collections.abc import Iterator, Sequence

from grader.cuda.source import bare, closing, joined

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(?:include|pragma)\b[^\n]*", re.MULTILINE)
_LINKAGE = re.compile(r'extern\s*"\s*"')
_DYNAMIC = re.compile(r"\bextern\s+__shared__\s+([^;\[\]]*?)\b(\w+)\s*\[\s*\]\s*;")
_ALIGNED = re.compile(r"\b(?:__align__|alignas)\s*\([^()]*\)")
_STATIC = re.compile(r"(?:\bstatic\s+)?\b__shared__\s+([^;={]*);")
_STRUCT = re.compile(r"(?:\bstatic\s+)?\b__shared__\s+((?:struct|union|class)\b)\s*(\w*)[^;={(]*\{")
_DECLARATOR = re.compile(r"(.*?[\w>)*&])\s*\b(\w+)\s*((?:\[.*\]\s*)*)", re.DOTALL)
_CALLEE = re.compile(r"[\w:]*\w\s*$")

HEAD = '#include "warp.h"\n'  # what a file of translated answers begins with


def translated(text: str, name: str, declarations: Sequence[str]) -> str:
    """One answer as C++, in a namespace called `name`, which is also its file's in messages.

    declarations  of the functions of the answer that are to be called from outside, such as
                  "void scale(float* x, int n)"; each becomes `name_scale` with C linkage
    """
    text = joined(text)
    body = _launches(_static(_structs(_dynamic(_without_linkage(_without_includes(text))))))
    doors = "\n".join(_door(declaration, name) for declaration in declarations)
    return (
        f'namespace {name} {{ namespace {{\n#line 1 "{name}"\n{body}\n}} }}\n'
        f'#line 1 "doors"\n{doors}\n'
    )


def _without_includes(text: str) -> str:
    code = bare(text)
    return _replaced(text, [(m.start(), m.end(), "") for m in _INCLUDE.finditer(code)])


def _without_linkage(text: str) -> str:
    """Two answers in one file may not both have a C function of the same name."""
    found = []
    for m in _LINKAGE.finditer(bare(text)):
        block = re.compile(r"\s*\{").match(text, m.end())
        found.append((m.start(), m.end(), "inline namespace linkage" if block else ""))
    return _replaced(text, found)


def _dynamic(text: str) -> str:
    found = []
    for m in _DYNAMIC.finditer(bare(text)):
        kind = " ".join(_ALIGNED.sub(" ", m[1]).split())
        pointer = f"{kind}* const {m[2]} = ({kind}*)cuda_on_cpu::dynamic_memory;"
        found.append((m.start(), m.end(), pointer))
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
        first, *others = _declarators(text[m.start(1) : m.end(1)])
        named = _DECLARATOR.fullmatch(first)
        if named is None:
            continue  # the compiler will say so
        rest = [_DECLARATOR.fullmatch(f"x {other}") for other in others]
        parts = [(named[2], named[3]), *((r[2], r[3]) for r in rest if r)]
        kind = " ".join(named[1].split())
        new = " ".join(
            f"static struct alignas(64) {{ {kind} {name}{' '.join(size.split())}; }} {name}_;"
            f' auto& {name} = *cuda_on_cpu::shared_variable(&{name}_.{name}, "{name}", __LINE__);'
            for name, size in parts
        )
        found.append((m.start(), m.end(), new))
    return _replaced(text, found)


def _declarators(text: str) -> list[str]:
    """What stands between the commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _launches(text: str) -> str:
    code = bare(text)
    changes: list[tuple[int, int, str]] = []
    for found in re.finditer("<<<", code):
        start, middle = _callee(code, found.start()), code.find(">>>", found.end())
        call = re.compile(r">>>\s*(?=\()").match(code, middle) if middle >= 0 else None
        if call is None:
            continue  # the compiler will say so
        end = closing(code, call.end())
        kernel = text[start : found.start()].strip()
        name = re.sub(r"[^\w:<>, ]", "", kernel)
        head = f'cuda_on_cpu::launch(__LINE__, "{name}", cuda_on_cpu::shape('
        changes.append((start, found.end(), head))
        changes.append((call.start(), call.end(), f"), [=] {{ {kernel}"))
        changes.append((end + 1, end + 1, "; })"))
    return _replaced(text, changes)


def _callee(code: str, end: int) -> int:
    """Where the name of a kernel begins that ends, with its template arguments, at `end`."""
    place = len(code[:end].rstrip())
    if place and code[place - 1] == ">":
        depth = 0
        while place:
            place -= 1
            depth += (code[place] == ">") - (code[place] == "<")
            if depth == 0:
                break
    found = _CALLEE.search(code, max(0, place - 200), place)
    return found.start() if found else place


def _replaced(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    """The text with parts replaced; where a part had several lines, so has its replacement."""

    def parts() -> Iterator[str]:
        at = 0
        for start, end, new in changes:
            yield text[at:start]
            yield new + "\n" * (text.count("\n", start, end) - new.count("\n"))
            at = end
        yield text[at:]

    return "".join(parts())


def _door(declaration: str, name: str) -> str:
    """The function through which Python calls one of an answer."""
    function, parameters = parsed(declaration)
    names = ", ".join(re.findall(r"(\w+)$", p)[0] for p in parameters)
    return (
        f'extern "C" int {name}_{function}({", ".join(parameters)}) '
        f"{{ return cuda_on_cpu::guard([&] {{ {name}::{function}({names}); }}); }}"
    )


def parsed(declaration: str) -> tuple[str, tuple[str, ...]]:
    """The name and the parameters of a C declaration."""
    front, _, rest = declaration.partition("(")
    parameters = tuple(" ".join(p.split()) for p in rest.rstrip(" );").split(","))
    return front.split()[-1], parameters
