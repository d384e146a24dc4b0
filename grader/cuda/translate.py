"""Translates CUDA C++ into C++ for `runtime/`, whose machine runs kernels on the CPU.

Almost all of the language is C++ already, and macros and functions of the runtime do for the rest.
What is rewritten here is what C++ cannot parse: `kernel<<<grid, block>>>(...)` becomes a call, and
`extern __shared__ float tile[];` a pointer to the machine's dynamic shared memory. Every line keeps
its number, so compilers and the machine speak of the student's lines.
"""

import re
from collections.abc import Iterator, Sequence

from grader.cuda.source import (
    blank_cuda_comments,
    find_closing_cuda_bracket,
    find_opening_cuda_bracket,
    join_cuda_lines,
    split_cuda_at_commas,
)

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(?:include|pragma)\b[^\n]*", re.MULTILINE)
_LINKAGE = re.compile(r'extern\s*"\s*"')
_DYNAMIC_SHARED = re.compile(r"\bextern\s+__shared__\s+((?:(?!__shared__)[^;\[\]])*+)\[\s*+\]\s*+;")
_ALIGNMENT = re.compile(r"\b(?:__align__|alignas)\s*\([^()]*\)")
_QUALIFIER_BEHIND_TYPE = re.compile(r"([;{}]\s*+)((?:(?!__shared__)\w++\s++)++)__shared__\b")
_STATIC_SHARED = re.compile(r"(?:\bstatic\s+)?\b__shared__\s+((?:(?!__shared__)[^;={])*+);")
_SHARED_STRUCT = re.compile(
    r"(?:\bstatic\s+)?\b__shared__\s+((?:struct|union|class)\b)\s*+(\w*+)"
    r"(?:(?!__shared__)[^;={(])*+\{"
)
_CALLEE_NAME = re.compile(r"[\w:]*\w\s*$")

MAX_NAME_CHARACTERS = 200  # letters of a name, and of what stands in its <>
TRANSLATION_HEAD = '#include "warp.h"\n'  # what a file of translated answers begins with


def translate_cuda_answer(text: str, name: str) -> str:
    """Return one answer as C++, in a namespace `name`, which also names its file in messages."""
    body = join_cuda_lines(text)
    for step in (
        _remove_cuda_includes,
        _remove_cuda_linkage,
        _order_cuda_qualifiers,
        _translate_dynamic_cuda_memory,
        _name_shared_cuda_structs,
        _translate_static_cuda_memory,
    ):
        body = step(body)
    body = _translate_kernel_launches(body)
    return f'namespace {name} {{ namespace {{\n#line 1 "{name}"\n{body}\n}} }}\n'


def _remove_cuda_includes(text: str) -> str:
    code = blank_cuda_comments(text)
    return _replace_cuda_parts(text, [(m.start(), m.end(), "") for m in _INCLUDE.finditer(code)])


def _remove_cuda_linkage(text: str) -> str:
    """Remove extern "C": two answers of one program may have a function of the same name."""
    found = []
    for m in _LINKAGE.finditer(blank_cuda_comments(text)):
        block = re.compile(r"\s*\{").match(text, m.end())
        found.append((m.start(), m.end(), 'extern "C++"' if block else ""))
    return _replace_cuda_parts(text, found)


def _translate_dynamic_cuda_memory(text: str) -> str:
    found = []
    for m in _DYNAMIC_SHARED.finditer(blank_cuda_comments(text)):
        kind, name, _ = _split_cuda_declaration(_ALIGNMENT.sub(" ", m[1]))
        if not (kind and name):
            continue  # the compiler will say so
        place = "(cuda_on_cpu::dynamic_bytes + cuda_on_cpu::MARGIN)"
        pointer = f"{kind}* const {name} = ({kind}*){place};"
        found.append((m.start(), m.end(), pointer))
    return _replace_cuda_parts(text, found)


def _order_cuda_qualifiers(text: str) -> str:
    """Rewrite `float __shared__ tile[32];` as `__shared__ float tile[32];`."""
    found = []
    for m in _QUALIFIER_BEHIND_TYPE.finditer(blank_cuda_comments(text)):
        if m[2].split()[0] not in ("extern", "static"):
            found.append((m.start(2), m.end(), f"__shared__ {m[2]}"))
    return _replace_cuda_parts(text, found)


def _name_shared_cuda_structs(text: str) -> str:
    """Rewrite `__shared__ struct { ... } tile;` as a named struct and a variable of it."""
    code = blank_cuda_comments(text)
    found = []
    for number, m in enumerate(_SHARED_STRUCT.finditer(code)):
        name = m[2] or f"shared_struct_{number}"
        end = find_closing_cuda_bracket(code, m.end() - 1)
        found.append((m.start(), m.end() - 1, f"{m[1]} {name} "))
        found.append((end + 1, end + 1, f"; __shared__ {name} "))
    return _replace_cuda_parts(text, found)


def _translate_static_cuda_memory(text: str) -> str:
    """Rewrite `__shared__ float tile[32][33];` as a reference, so that each access is seen."""
    found = []
    for m in _STATIC_SHARED.finditer(blank_cuda_comments(text)):
        first, *others = split_cuda_at_commas(text[m.start(1) : m.end(1)])
        kind, name, size = _split_cuda_declaration(first)
        if not (kind and name):
            continue  # the compiler will say so
        parts = [(name, size), *(_split_cuda_declaration(other)[1:] for other in others)]
        new = " ".join(
            f"static struct alignas(64) {{ {kind} {name}{size}; }} {name}_;"
            f' auto& {name} = *cuda_on_cpu::shared_variable(&{name}_.{name}, "{name}", __LINE__);'
            for name, size in parts
            if name
        )
        found.append((m.start(), m.end(), new))
    return _replace_cuda_parts(text, found)


def _split_cuda_declaration(text: str) -> tuple[str, str, str]:
    """Return type, name and sizes of a declaration such as "float tile[32][33]"."""
    front, bracket, sizes = text.partition("[")
    words = re.split(r"(\w+)\s*$", " ".join(front.split())[-MAX_NAME_CHARACTERS:])
    if len(words) != 3:
        return "", "", ""
    name = words[1]
    return " ".join(front.split())[: -len(name)].strip(), name, " ".join((bracket + sizes).split())


def _translate_kernel_launches(text: str) -> str:
    code = blank_cuda_comments(text)
    changes: list[tuple[int, int, str]] = []
    middle = 0
    for found in re.finditer("<<<", code):
        if middle < found.end():
            middle = code.find(">>>", found.end())
        if middle < 0:
            break  # the compiler will say so
        start = _find_kernel_name_start(code, found.start())
        call = re.compile(r">>>\s*(?=\()").match(code, middle)
        if call is None:
            continue  # the compiler will say so
        kernel = text[start : found.start()].strip()
        name = re.sub(r"[^\w:<>, ]", "", kernel)
        head = f'cuda_on_cpu::launch(__LINE__, "{name}", cuda_on_cpu::shape('
        body = f"), [=](auto... cuda_on_cpu_given) {{ {kernel}(cuda_on_cpu_given...); }})"
        changes.append((start, found.end(), head))
        changes.append((call.start(), call.end(), body))
    return _replace_cuda_parts(text, changes)


def _find_kernel_name_start(code: str, end: int) -> int:
    """Return where the name of a kernel begins that ends, with template arguments, at `end`."""
    place = end
    while place and code[place - 1].isspace():
        place -= 1
    if place and code[place - 1] == ">":
        depth, least = 0, max(0, place - MAX_NAME_CHARACTERS)
        while place > least:
            place -= 1
            depth += (code[place] == ">") - (code[place] == "<")
            if depth == 0:
                break
    if place and code[place - 1] in ")]":  # one of several, chosen here
        place = find_opening_cuda_bracket(code, place - 1)
    found = _CALLEE_NAME.search(code, max(0, place - MAX_NAME_CHARACTERS), place)
    return found.start() if found else place


def _replace_cuda_parts(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    """Return the text with parts replaced; each part keeps its number of lines.

    If parts overlap (no compiler would accept that), only the first is replaced.
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


def write_cuda_doors(called: Sequence[tuple[str, str]]) -> str:
    """Return the C++ function through which the machine calls answers.

    called  (name, declaration) of each answer's function

    The C++ function is given a function's place in `called`, the addresses of the arrays and the
    numbers, and calls that function. It stands before the answers: their macros cannot change it.
    """
    names = "".join(
        f"namespace {name} {{ namespace {{ {declaration.rstrip('; ')}; }} }}\n"
        for name, declaration in called
    )
    cases = "\n".join(f"case {i}: {_write_cuda_door_call(*one)}" for i, one in enumerate(called))
    return (
        f'#line 1 "doors"\n{names}extern "C" int cuda_on_cpu_call'
        "(unsigned which, void* const* arrays, const double* numbers) {\n"
        f"switch (which) {{\n{cases}\n}}\nreturn -1;\n}}\n"
    )


def _write_cuda_door_call(name: str, declaration: str) -> str:
    function, parameters = parse_cuda_declaration(declaration)
    types = [re.sub(r"\w+$", "", p).strip() for p in parameters]
    arrays = [i for i, t in enumerate(types) if t.endswith("*")]
    numbers = [i for i in range(len(types)) if i not in arrays]
    given = ", ".join(
        f"({t})arrays[{arrays.index(i)}]" if i in arrays else f"({t})numbers[{numbers.index(i)}]"
        for i, t in enumerate(types)
    )
    return f"return cuda_on_cpu::guard([&] {{ {name}::{function}({given}); }});"


def parse_cuda_declaration(declaration: str) -> tuple[str, tuple[str, ...]]:
    """Return the name and the parameters of a C declaration."""
    front, _, rest = declaration.partition("(")
    parameters = tuple(" ".join(p.split()) for p in rest.rstrip(" );").split(","))
    return front.split()[-1], parameters
