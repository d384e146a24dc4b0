"""From a CUDA file to what a worker is given: a Python module with the compiled kernels in it."""

import base64
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from grader.cuda import compiler, gpu, outline
from grader.cuda.allowed import refusals
from grader.cuda.compiler import Failed, Library
from grader.cuda.machine import Machine
from grader.cuda.sanitizer import Sanitizer
from grader.cuda.translate import HEAD, translated
from grader.records import Exercise
from grader.worker.faults import NotHere
from grader.worker.walls import PROCESS, Wall

MAX_SHOWN = 300  # characters of a line, or of what a compiler says of it
KNOWN = (
    "it knows cudaMalloc, cudaFree, cudaMemcpy, cudaMemset, cudaMemcpyToSymbol, "
    "cudaFuncSetAttribute, and the usual calls for errors, streams, events and the device"
)
CALLS = "calls.py"  # of a suite: what it calls, made of the student's functions
_ERROR = re.compile(r"answer_0(?:\.cu)?[:(](\d+)\)?(?::\d+)?: (?:fatal )?error:?\s*(.*)")
_UNKNOWN = re.compile(r"'(cuda[A-Z]\w*)' (?:was not declared|has not been declared)")
_UNDEFINED = re.compile(r"undefined reference to [`'](.+?)'")


class Refused(Exception):
    """The file uses what is not allowed; the message is the student's sentence."""


class NotCpp(Exception):
    """The file does not compile; the message is the student's sentence."""


def module(
    text: str, exercise: Exercise, line: Callable[[int], str] = str, *, wall: Wall = PROCESS,
    on_cuda: bool = False,
) -> str:  # fmt: skip
    """The Python module that runs a file's kernels, for a worker.

    line  what the writer calls a line

    Raises `Refused`, `NotCpp`, and `NotHere` where there is no compiler.
    """
    if refused := refusals(text, line):
        raise Refused(refused[0])
    left_out = outline.problems(text, exercise)
    try:
        with ThreadPoolExecutor(3) as pool:
            checking = pool.submit(compiler.checked, text, wall)
            on_gpu = pool.submit(_for_gpu, text, exercise, left_out, wall) if on_cuda else None
            source = translated(text, "answer_0", _declarations(exercise, left_out))
            cpu = compiler.for_cpu(HEAD + source, wall)
            problem = checking.result() or (cpu if isinstance(cpu, Failed) else None)
            made = on_gpu.result() if on_gpu and not problem else {}
    except compiler.NoCompiler as needs:
        raise NotHere(str(needs)) from None
    problem = problem or (made if isinstance(made, Failed) else None)
    if problem is not None:
        raise NotCpp(_sentence(problem.says, text, line))
    assert isinstance(cpu, Library) and not isinstance(made, Failed)
    built = _built(cpu) | made
    if line(1) != "1":  # the lines of a notebook
        built["names"] = {str(n): line(n) for n in range(1, text.count("\n") + 2)}
    here = Path(compiler.__file__).parent
    files = (here / "machine.py", here / "sanitizer.py", exercise.folder / CALLS)
    texts = (path.read_text(encoding="utf-8") for path in files)
    end = f"built = {built!r}\nglobals().update(functions(Machine(built), Sanitizer(built)))\n"
    return "\n\n".join([*texts, end])


def modules(
    texts: Mapping[str, str], exercise: Exercise, only: Mapping[str, str]
) -> dict[str, ModuleType]:
    """Files of ours as modules in this process, by name: all in one library.

    only  by name, the one function in which a file differs from the first
    """
    numbers = {name: f"answer_{i}" for i, name in enumerate(texts)}
    parts = []
    for name, text in texts.items():
        functions = [only[name]] if name in only else list(exercise.functions)
        wanted = [exercise.functions[f].declaration for f in functions]
        parts.append(translated(text, numbers[name], wanted))
    try:
        library = compiler.for_cpu(HEAD + "\n".join(parts), quick=True)
    except compiler.NoCompiler as needs:
        raise NotHere(str(needs)) from None
    if isinstance(library, Failed):
        raise ValueError(f"a file of {exercise.slug} does not compile: {library.says}")
    machine = Machine(_built(library))
    calls: dict[str, Any] = {}
    exec((exercise.folder / CALLS).read_text(encoding="utf-8"), calls)
    made = {}
    for name, number in numbers.items():
        made[name] = ModuleType(exercise.slug)
        made[name].__dict__.update(calls["functions"](machine.other(number), Sanitizer({})))
    return made


def _declarations(exercise: Exercise, left_out: Mapping[str, str]) -> Sequence[str]:
    return [f.declaration for f in exercise.functions.values() if f.name not in left_out]


def _built(cpu: Library) -> dict[str, Any]:
    return {"cpu": _packed(cpu.content), "places": cpu.places, "lines": cpu.lines}


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode() if content else ""


def _for_gpu(
    text: str, exercise: Exercise, left_out: Mapping[str, str], wall: Wall
) -> dict[str, Any] | Failed:
    """What a worker is given for the GPU: a library, and where it can be checked, a program."""
    declared = _declarations(exercise, left_out)
    tool = compiler.sanitizer()
    program = gpu.program(text, declared) if tool else ""
    made = compiler.for_gpu(gpu.library(text, declared), program, wall)
    if isinstance(made, Failed):
        return made
    return {"gpu": _packed(made[0]), "program": _packed(made[1]), "sanitizer": tool}


def _sentence(says: str, text: str, line: Callable[[int], str]) -> str:
    """The first error of a compiler, with the student's line."""
    lines = text.split("\n")
    if missing := _UNDEFINED.search(says):
        name = re.sub(r"^.*::|\(.*$", "", missing[1])[:MAX_SHOWN]
        return f"{name} is declared, or called, and defined nowhere in the file."
    for found in _ERROR.finditer(says):
        number, what = int(found[1]), " ".join(found[2].split())[:MAX_SHOWN]
        if 0 < number <= len(lines):
            if unknown := _UNKNOWN.search(what):
                why = f"the machine that runs kernels on the CPU does not know it; {KNOWN}"
                return f"Line {line(number)}: {unknown[1]} is not allowed: {why}."
            there = lines[number - 1].strip()[:MAX_SHOWN]
            return f"Line {line(number)} does not compile ({what}): {there}"
    parts = [part.strip() for part in says.splitlines() if part.strip()]
    errors = [part for part in parts if "error" in part.lower()]
    first = next(iter(errors or parts), "no reason given")
    return f"The file does not compile: {first[:MAX_SHOWN]}"
