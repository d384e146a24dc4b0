"""From a CUDA file to what a worker is given: a program of its kernels, and what asks it."""

import base64
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from grader.core.records import Exercise
from grader.cuda import compiler, gpu, translate
from grader.cuda.compiler import Failed, Program
from grader.cuda.kernel_machine import Asked, Machine
from grader.cuda.sanitizer import Sanitizer
from grader.cuda.translate import HEAD
from grader.worker.child import companion
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


class NotCpp(Exception):
    """The file does not compile; the message is the student's sentence."""


def module(
    text: str, translated: str, exercise: Exercise, left_out: Mapping[str, str],
    line: Callable[[int], str] = str, *, wall: Wall = PROCESS, on_cuda: bool = False,
) -> tuple[str, bytes]:  # fmt: skip
    """The Python module through which a worker asks a file's kernels, and their program.

    translated  the file as C++ for the CPU
    left_out    the functions of the exercise that cannot be called in it
    line        what the writer calls a line

    Raises `NotCpp`, and `NotHere` where there is no compiler.
    """
    try:
        with ThreadPoolExecutor(3) as pool:
            checking = pool.submit(compiler.checked, text, wall)
            on_gpu = pool.submit(_for_gpu, text, exercise, left_out, wall) if on_cuda else None
            called = {f"answer_0_{n}": ("answer_0", d) for n, d in _declared(exercise, left_out)}
            cpu = compiler.for_cpu(HEAD + translate.doors([*called.values()]) + translated, wall)
            problem = checking.result() or (cpu if isinstance(cpu, Failed) else None)
            made = on_gpu.result() if on_gpu and not problem else {}
    except compiler.NoCompiler as needs:
        raise NotHere(str(needs)) from None
    problem = problem or (made if isinstance(made, Failed) else None)
    if problem is not None:
        raise NotCpp(problem.says if problem.told else _sentence(problem.says, text, line))
    assert isinstance(cpu, Program) and not isinstance(made, Failed)
    built = _built(cpu, called) | made
    if line(1) != "1":  # the lines of a notebook
        built["names"] = {str(n): line(n) for n in range(1, text.count("\n") + 2)}
    here = Path(compiler.__file__).parent
    files = (here / "kernel_machine.py", here / "sanitizer.py", exercise.folder / CALLS)
    texts = (path.read_text(encoding="utf-8") for path in files)
    end = f"built = {built!r}\nmachine = Machine(built, from_worker())\n"
    end += "globals().update(functions(machine, Sanitizer(built)))\n"
    return "\n\n".join([*texts, end]), cpu.content


def modules(
    texts: Mapping[str, str], exercise: Exercise, only: Mapping[str, str]
) -> dict[str, ModuleType]:
    """Files of ours as modules in this process, by name: all in one program.

    only  by name, the one function in which a file differs from the first
    """
    numbers = {name: f"answer_{i}" for i, name in enumerate(texts)}
    parts, called = [], {}
    for name, text in texts.items():
        functions = [only[name]] if name in only else list(exercise.functions)
        for f in functions:
            called[f"{numbers[name]}_{f}"] = numbers[name], exercise.functions[f].declaration
        parts.append(translate.translated(text, numbers[name]))
    source = HEAD + "\n".join([translate.doors([*called.values()]), *parts])
    try:
        program = compiler.for_cpu(source, quick=True)
    except compiler.NoCompiler as needs:
        raise NotHere(str(needs)) from None
    if isinstance(program, Failed):
        raise ValueError(f"a file of {exercise.slug} does not compile: {program.says}")
    machine = Machine(_built(program, called), Asked(companion.start(program.content)))
    calls: dict[str, Any] = {}
    exec((exercise.folder / CALLS).read_text(encoding="utf-8"), calls)
    made = {}
    for name, number in numbers.items():
        made[name] = ModuleType(exercise.slug)
        made[name].__dict__.update(calls["functions"](machine.other(number), Sanitizer({})))
    return made


def _declared(exercise: Exercise, left_out: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each function that can be called, and how it is declared."""
    return [(f.name, f.declaration) for f in exercise.functions.values() if f.name not in left_out]


def _built(cpu: Program, called: Iterable[str]) -> dict[str, Any]:
    return {"calls": list(called), "places": cpu.places, "lines": cpu.lines}


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode() if content else ""


def _for_gpu(
    text: str, exercise: Exercise, left_out: Mapping[str, str], wall: Wall
) -> dict[str, Any] | Failed:
    """What a worker is given for the GPU: a library, and where it can be checked, a program."""
    declared = [d for _, d in _declared(exercise, left_out)]
    tool = compiler.sanitizer()
    program = gpu.program(text, declared) if tool else ""
    made = compiler.for_gpu(gpu.library(text, declared), program, gpu.architecture(), wall)
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
