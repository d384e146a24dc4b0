"""Compares what a CUDA file defines with the manifest: missing, not written, or not as declared."""

import re
from collections.abc import Mapping

from grader.core.catalog import suggest_close_name
from grader.core.records import Exercise
from grader.cuda.source import (
    FunctionText,
    blank_cuda_comments,
    find_closing_cuda_bracket,
    find_cuda_functions,
    join_cuda_lines,
)
from grader.cuda.translate import parse_cuda_declaration

KERNEL_SUFFIX = "_kernel"
MAX_COMPARED_FUNCTIONS = (
    20  # times that a function is declared, defined or called: in more it is not looked for
)
_EXTERN_C = r'extern\s*" "'  # as `bare` leaves it


def compare_cuda_with_manifest(text: str, exercise: Exercise) -> dict[str, str]:
    """Return a sentence for each declared function that is missing or not as declared."""
    plain = join_cuda_lines(text)
    code = blank_cuda_comments(plain)
    defined = {f.name: f for f in find_cuda_functions(code)}
    found = {}
    for name, function in exercise.functions.items():
        if name not in defined:
            hint = suggest_close_name(name, defined)
            found[name] = f"There is no {name} in the file.{hint}"
        elif unwritten := _find_empty_kernel_body(name, defined):
            task = _read_kernel_task(plain, unwritten)
            found[name] = f"{unwritten.name} is not written yet{f': {task}' if task else '.'}"
        elif not _fits_cuda_declaration(
            defined[name].parameters, parse_cuda_declaration(function.declaration)[1]
        ):
            given = ", ".join(defined[name].parameters)
            wanted = ", ".join(parse_cuda_declaration(function.declaration)[1])
            found[name] = f"{name} takes ({given}), but should take ({wanted})."
        elif not _has_cuda_c_linkage(name, code):
            found[name] = f'{name} has no C linkage: write extern "C" before it.'
    return found


def _has_cuda_c_linkage(name: str, code: str) -> bool:
    """Return whether the function, or a declaration of it, is extern "C", also by a macro."""
    macros = re.findall(rf"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+{_EXTERN_C}", code, re.MULTILINE)
    opening = re.compile(
        "|".join([_EXTERN_C, *(rf"\b{m}\b" for m in set(macros[:MAX_COMPARED_FUNCTIONS]))])
    )
    places = [m.start() for m in re.finditer(rf"\b{name}\s*\(", code)]
    if any(
        opening.search(re.split(r"[;{}()#]", code[:place])[-1])
        for place in places[:MAX_COMPARED_FUNCTIONS]
    ):
        return True
    blocks = (m.end() - 1 for m in re.finditer(rf"(?:{opening.pattern})\s*\{{", code))
    return any(
        b < place < find_closing_cuda_bracket(code, b)
        for b in blocks
        for place in places[:MAX_COMPARED_FUNCTIONS]
    )


def _find_empty_kernel_body(name: str, defined: Mapping[str, FunctionText]) -> FunctionText | None:
    """Return the kernel of this name or else its function, whichever body is empty, or None."""
    parts = (defined.get(name + KERNEL_SUFFIX), defined[name])
    return next((part for part in parts if part and not part.body.strip()), None)


def _read_kernel_task(text: str, function: FunctionText) -> str:
    """Return the first sentence of the comment above a function."""
    lines = text.split("\n")[: function.line - 1]
    while lines and not lines[-1].lstrip().startswith("//"):
        if not lines[-1].strip() or lines[-1].strip()[-1] in ";}":
            return ""
        lines.pop()  # the beginning of a declaration in several lines
    while lines[-2:-1] and lines[-2].lstrip().startswith("//"):
        lines.pop()
    return lines[-1].strip().lstrip("/ ") if lines else ""


def _fits_cuda_declaration(given: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return len(given) == len(wanted) and all(map(_have_same_cuda_types, given, wanted))


def _have_same_cuda_types(given: str, wanted: str) -> bool:
    one, other = _read_cuda_parameter_type(given), _read_cuda_parameter_type(wanted)
    return one == other or (other == "int" and one in ("bool", "long long", "int64_t", "size_t"))


def _read_cuda_parameter_type(parameter: str) -> str:
    """Return the type of a parameter, without its name and without what changes no call."""
    words = re.findall(r"\w+|\*|&|\[|\]", parameter)
    words = [w for w in words if not w.startswith("__restrict")]
    stars = "*" * sum(w in ("*", "[") for w in words)
    names = [w for w in words if w not in ("*", "[", "]")]
    constant = "const " if "const" in names and stars else ""
    names = [w for w in names if w != "const"]
    return constant + " ".join(names[:-1] if len(names) > 1 else names) + stars


def list_cuda_function_lines(text: str) -> dict[str, int]:
    """Return the line of each function of the file."""
    return {f.name: f.line for f in find_cuda_functions(blank_cuda_comments(join_cuda_lines(text)))}
