"""What an answer becomes for a GPU, and what compute-sanitizer says of it: all that needs no GPU.

The words of compute-sanitizer here are written in the form that its manual gives them.
"""

import base64
import subprocess
import zlib
from functools import cache
from types import ModuleType

import pytest

from grader.core.translation import Words
from grader.cuda import compiler, gpu
from grader.cuda.kernel_machine import Machine
from grader.cuda.sanitizer import Sanitizer, SanitizerNotRun, parse_cuda_sanitizer_finding
from grader.judging.case import StudentFault
from grader.judging.student import Student
from grader.worker.parent.in_process import call_without_wall
from tests.conftest import solution
from tests.cuda.kernels import EXERCISE, compiled

DECLARED = [f.declaration for f in EXERCISE.functions.values()]

OUTSIDE = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at tiled(float *, int)+0x160 in /tmp/grader-x/answer_0.cu:26
=========     by thread (3,0,0) in block (1,0,0)
=========     Access to 0x7f5c1a000404 is out of bounds
=========     and is 5 bytes after the nearest allocation at 0x7f5c1a000000 of size 1,024 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main [0x1754] in program
=========
========= Invalid __global__ read of size 4 bytes
=========     at tiled(float *, int)+0x160 in /tmp/grader-x/answer_0.cu:99
========= ERROR SUMMARY: 2 errors
"""
OLDER = """========= COMPUTE-SANITIZER
========= Invalid __shared__ read of size 16 bytes
=========     at 0x160 in answer_0.cu:31:tiled(float *, int)
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x00000401 is misaligned
=========
========= ERROR SUMMARY: 1 error
"""
RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at load(float *, int)+0x500 in answer_0.cu:12
=========     and Read access at tiled(float *, int)+0x340 in answer_0.cu:40 [8844 hazards]
=========     and Read access at tiled(float *, int)+0x350 in answer_0.cu:40 [12 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
WARNED = RACE.replace("Error: ", "Warning: ").replace(
    "(1 error, 0 warnings)", "(0 errors, 1 warning)"
)
BARRIER = """========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at tiled(float *, int)+0xb0 in /tmp/grader-x/answer_0.cu:20
=========     by thread (33,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 16 errors
"""
NO_LINE = """========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp.
=========     at tiled(float *, int)+0xb0
=========
========= ERROR SUMMARY: 1 error
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
NO_RACE = (
    "========= COMPUTE-SANITIZER\n"
    "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
)
FOUND = {
    OUTSIDE: ("OutOfBounds", 26, "Invalid __global__ write of size 4 bytes, {line 26}\n"
              "by thread (3,0,0) in block (1,0,0)"),
    OLDER: ("Misaligned", 31, "Invalid __shared__ read of size 16 bytes, {line 31}\n"
            "by thread (0,0,0) in block (0,0,0)"),
    RACE: ("Race", 12, "Race reported between Write access, {line 12}, {line 40}"),
    WARNED: ("Race", 12, "Race reported between Write access, {line 12}, {line 40}"),
    BARRIER: ("Barrier", 20, "Barrier error detected. Divergent thread(s) in block., {line 20}\n"
              "by thread (33,0,0) in block (0,0,0)"),
    NO_LINE: ("Barrier", 0, "Barrier error detected. Divergent thread(s) in warp."),
}  # fmt: skip


@pytest.mark.parametrize("said", FOUND)
def test_a_finding_has_its_kind_its_line_and_its_words(said):
    kind, line, more = FOUND[said]
    found = parse_cuda_sanitizer_finding(said)
    assert found is not None
    says, _, rest = found[2].partition("\n")
    assert (found[0], found[1], rest) == (kind, line, more)
    told = f"{kind}: {says}  [tiled_attention()]"
    assert Words("zh").said(told) != told


@pytest.mark.parametrize("said", [CLEAN, NO_RACE])
def test_where_nothing_is_found_nothing_is_said(said):
    assert parse_cuda_sanitizer_finding(said) is None


NO_ANSWER = ["", "========= COMPUTE-SANITIZER\n========= Error: No supported devices\n",
             "========= Internal Sanitizer Error\n", "========= ERROR SUMMARY: 3 errors\n"]  # fmt: skip


@pytest.mark.parametrize("said", NO_ANSWER)
def test_a_tool_that_did_not_run_says_nothing_of_the_answer(said):
    with pytest.raises(SanitizerNotRun):
        parse_cuda_sanitizer_finding(said)


def with_tool(folder, script):
    """A sanitizer whose tool is a shell script."""
    tool = folder / "compute-sanitizer"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    program = base64.b64encode(zlib.compress(b"#!/bin/sh\necho ran $*\n")).decode()
    return Sanitizer({"sanitizer": str(tool), "program": program})


def test_the_program_is_run_under_the_tool_with_its_arguments(tmp_path):
    asked = with_tool(tmp_path, 'echo "$@" > "$0.said"; shift 6; "$@" > "$0.ran"; cat "$0.words"')
    (tmp_path / "compute-sanitizer.words").write_text(RACE)
    found = asked.ask("racecheck", "tiled_attention", (30, 1.5))
    assert found is not None
    assert found[:2] == ("Race", 12)
    said = (tmp_path / "compute-sanitizer.said").read_text()
    assert said.startswith("--tool racecheck --report-api-errors no --print-limit 1 /")
    assert (tmp_path / "compute-sanitizer.ran").read_text() == "ran tiled_attention 30 1.5\n"


def test_where_there_is_no_tool_or_it_may_not_start_nothing_is_asked(tmp_path):
    for sanitizer in (Sanitizer({}), with_tool(tmp_path, "exit 1")):
        with pytest.raises(SanitizerNotRun):
            sanitizer.ask("memcheck", "tiled_attention", (1,))
    closed = with_tool(tmp_path, f"cat <<'END'\n{CLEAN}END")
    (tmp_path / "compute-sanitizer").chmod(0o644)
    with pytest.raises(SanitizerNotRun):
        closed.ask("memcheck", "tiled_attention", (1,))


@cache
def solution_alone():
    """The module of the solution, compiled without the mistakes."""
    return compiled({"": solution(EXERCISE.slug)})[""]


def student_with(sanitizer):
    """The solution, asked through a sanitizer."""
    machine = solution_alone().tiled_attention.args[0]
    calls = {}
    exec((EXERCISE.folder / "calls.py").read_text(encoding="utf-8"), calls)
    module = ModuleType(EXERCISE.slug)
    module.__dict__.update(calls["functions"](machine, sanitizer))
    assert isinstance(machine, Machine)
    return Student(EXERCISE, call_without_wall(module, ""))


def test_a_finding_reaches_the_student_as_the_reports_of_the_machine_do(tmp_path):
    ask = ("tiled_attention", "racecheck", (2, 65, 33, 17), True)
    assert student_with(Sanitizer({})).sanitized(*ask) == 0
    assert student_with(with_tool(tmp_path, f"cat <<'END'\n{CLEAN}END")).sanitized(*ask) == 1
    with pytest.raises(StudentFault) as told:
        student_with(with_tool(tmp_path, f"cat <<'END'\n{RACE}END")).sanitized(*ask)
    first, second, *_ = str(told.value).splitlines()
    assert first.startswith("Race: compute-sanitizer finds a race in shared memory  [sanitized(")
    assert second == "Race reported between Write access, line 12, line 40"


def test_both_texts_for_a_gpu_compile():
    if compiler.find_nvcc() is None:
        pytest.skip("needs nvcc: pip install nvidia-cuda-nvcc")
    text = solution(EXERCISE.slug) + "\nint main() { return 0; }\n"
    texts = gpu.write_cuda_library(text, DECLARED), gpu.write_cuda_program(text, DECLARED)
    made = compiler.compile_cuda_for_gpu(*texts, "sm_90")
    assert not isinstance(made, compiler.CompilationFailure), made
    assert all(part.startswith(b"\x7fELF") for part in made)


def test_a_program_without_a_gpu_ends_with_a_word(tmp_path):
    if compiler.find_nvcc() is None:
        pytest.skip("needs nvcc: pip install nvidia-cuda-nvcc")
    text = solution(EXERCISE.slug)
    made = compiler.compile_cuda_for_gpu(
        gpu.write_cuda_library(text, DECLARED), gpu.write_cuda_program(text, DECLARED), "sm_90"
    )
    assert not isinstance(made, compiler.CompilationFailure)
    program = tmp_path / "program"
    program.write_bytes(made[1])
    program.chmod(0o755)
    for arguments in ([], ["tiled_attention", "1"], ["no_such", *["1"] * 10]):
        assert subprocess.run([program, *arguments], check=False).returncode == 2
