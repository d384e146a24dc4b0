"""Turns a CUDA file into a program of its kernels, and a Python module that asks the program."""

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
from grader.cuda.compiler import CompilationFailure, CompiledProgram
from grader.cuda.kernel_machine import Machine, ProgramSocket
from grader.cuda.sanitizer import Sanitizer
from grader.cuda.translate import TRANSLATION_HEAD
from grader.worker.child import companion
from grader.worker.parent.faults import UnmetRequirement
from grader.worker.parent.walls import PROCESS, Wall

MAX_SHOWN_CHARACTERS = 300  # characters of a line, or of what a compiler says of it
KNOWN_FUNCTIONS = (
    "it knows cudaMalloc, cudaFree, cudaMemcpy, cudaMemset, cudaMemcpyToSymbol, "
    "cudaFuncSetAttribute, and the usual calls for errors, streams, events and the device"
)
CALLS_MODULE = "calls.py"  # of a suite: what it calls, made of the student's functions
_COMPILER_ERROR = re.compile(r"answer_0(?:\.cu)?[:(](\d+)\)?(?::\d+)?: (?:fatal )?error:?\s*(.*)")
_UNDECLARED_NAME = re.compile(r"'(cuda[A-Z]\w*)' (?:was not declared|has not been declared)")
_UNDEFINED_REFERENCE = re.compile(r"undefined reference to [`'](.+?)'")


class NotCpp(Exception):
    """The file does not compile; the message is the student's sentence."""


def build_cuda_module(
    text: str, translated: str, exercise: Exercise, left_out: Mapping[str, str],
    line: Callable[[int], str] = str, *, wall: Wall = PROCESS, on_cuda: bool = False,
) -> tuple[str, bytes]:  # fmt: skip
    """Return the Python module through which a worker calls a file's kernels, and their program.

    translated  the file as C++ for the CPU
    left_out    the functions of the exercise that cannot be called in this file
    line        returns how a message names a line, such as a cell's line in a notebook

    Raises `NotCpp`, and `UnmetRequirement` where there is no compiler.
    """
    try:
        with ThreadPoolExecutor(3) as pool:
            checking = pool.submit(compiler.read_nvcc_complaint, text, wall)
            on_gpu = (
                pool.submit(_build_cuda_for_gpu, text, exercise, left_out, wall)
                if on_cuda
                else None
            )
            called = {
                f"answer_0_{n}": ("answer_0", d)
                for n, d in _list_cuda_declarations(exercise, left_out)
            }
            cpu = compiler.compile_cuda_for_cpu(
                TRANSLATION_HEAD + translate.write_cuda_doors([*called.values()]) + translated, wall
            )
            problem = checking.result() or (cpu if isinstance(cpu, CompilationFailure) else None)
            made = on_gpu.result() if on_gpu and not problem else {}
    except compiler.NoCompiler as needs:
        raise UnmetRequirement(str(needs)) from None
    problem = problem or (made if isinstance(made, CompilationFailure) else None)
    if problem is not None:
        raise NotCpp(
            problem.says if problem.told else _find_first_nvcc_error(problem.says, text, line)
        )
    assert isinstance(cpu, CompiledProgram) and not isinstance(made, CompilationFailure)
    built = _compile_cuda_program(cpu, called) | made
    if line(1) != "1":  # the lines of a notebook
        built["names"] = {str(n): line(n) for n in range(1, text.count("\n") + 2)}
    here = Path(compiler.__file__).parent
    files = (here / "kernel_machine.py", here / "sanitizer.py", exercise.folder / CALLS_MODULE)
    texts = (path.read_text(encoding="utf-8") for path in files)
    end = f"built = {built!r}\nmachine = Machine(built, connect_kernel_machine())\n"
    end += "globals().update(functions(machine, Sanitizer(built)))\n"
    return "\n\n".join([*texts, end]), cpu.content


def build_own_cuda_modules(
    texts: Mapping[str, str], exercise: Exercise, only: Mapping[str, str]
) -> dict[str, ModuleType]:
    """Return our own files as modules of this process, by name, compiled into one program.

    only  for a file that differs from the first in one function: that function, by the file's name
    """
    numbers = {name: f"answer_{i}" for i, name in enumerate(texts)}
    parts, called = [], {}
    for name, text in texts.items():
        functions = [only[name]] if name in only else list(exercise.functions)
        for f in functions:
            called[f"{numbers[name]}_{f}"] = numbers[name], exercise.functions[f].declaration
        parts.append(translate.translate_cuda_answer(text, numbers[name]))
    source = TRANSLATION_HEAD + "\n".join([translate.write_cuda_doors([*called.values()]), *parts])
    try:
        program = compiler.compile_cuda_for_cpu(source, quick=True)
    except compiler.NoCompiler as needs:
        raise UnmetRequirement(str(needs)) from None
    if isinstance(program, CompilationFailure):
        raise ValueError(f"a file of {exercise.slug} does not compile: {program.says}")
    machine = Machine(
        _compile_cuda_program(program, called),
        ProgramSocket(companion.start_companion_of_worker(program.content)),
    )
    calls: dict[str, Any] = {}
    exec((exercise.folder / CALLS_MODULE).read_text(encoding="utf-8"), calls)
    made = {}
    for name, number in numbers.items():
        made[name] = ModuleType(exercise.slug)
        made[name].__dict__.update(calls["functions"](machine.other(number), Sanitizer({})))
    return made


def _list_cuda_declarations(
    exercise: Exercise, left_out: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return each function that can be called, and its declaration."""
    return [(f.name, f.declaration) for f in exercise.functions.values() if f.name not in left_out]


def _compile_cuda_program(cpu: CompiledProgram, called: Iterable[str]) -> dict[str, Any]:
    return {"calls": list(called), "places": cpu.places, "lines": cpu.lines}


def _pack_cuda_program(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode() if content else ""


def _build_cuda_for_gpu(
    text: str, exercise: Exercise, left_out: Mapping[str, str], wall: Wall
) -> dict[str, Any] | CompilationFailure:
    """Return what a worker receives for the GPU: a library and, if it can be checked, a program."""
    declared = [d for _, d in _list_cuda_declarations(exercise, left_out)]
    tool = compiler.find_cuda_sanitizer()
    program = gpu.write_cuda_program(text, declared) if tool else ""
    made = compiler.compile_cuda_for_gpu(
        gpu.write_cuda_library(text, declared), program, gpu.find_cuda_architecture(), wall
    )
    if isinstance(made, CompilationFailure):
        return made
    return {
        "gpu": _pack_cuda_program(made[0]),
        "program": _pack_cuda_program(made[1]),
        "sanitizer": tool,
    }


def _find_first_nvcc_error(says: str, text: str, line: Callable[[int], str]) -> str:
    """Return the first error of a compiler, with the student's line."""
    lines = text.split("\n")
    if missing := _UNDEFINED_REFERENCE.search(says):
        name = re.sub(r"^.*::|\(.*$", "", missing[1])[:MAX_SHOWN_CHARACTERS]
        return f"{name} is declared, or called, and defined nowhere in the file."
    for found in _COMPILER_ERROR.finditer(says):
        number, what = int(found[1]), " ".join(found[2].split())[:MAX_SHOWN_CHARACTERS]
        if 0 < number <= len(lines):
            if unknown := _UNDECLARED_NAME.search(what):
                why = (
                    f"the machine that runs kernels on the CPU does not know it; {KNOWN_FUNCTIONS}"
                )
                return f"Line {line(number)}: {unknown[1]} is not allowed: {why}."
            there = lines[number - 1].strip()[:MAX_SHOWN_CHARACTERS]
            return f"Line {line(number)} does not compile ({what}): {there}"
    parts = [part.strip() for part in says.splitlines() if part.strip()]
    errors = [part for part in parts if "error" in part.lower()]
    first = next(iter(errors or parts), "no reason given")
    return f"The file does not compile: {first[:MAX_SHOWN_CHARACTERS]}"
