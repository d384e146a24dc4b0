"""CUDA files as they are graded: from the file, or a notebook, to the report."""

import json
import shutil

import pytest

from grader.core.records import Verdict
from grader.core.translation import Words
from grader.cuda import compiled_answer, compiler
from grader.cuda.translate import translate_cuda_answer, write_cuda_doors
from grader.grading.exercise import Run, grade_answer
from grader.release import notebook_pages
from grader.reporting import as_json
from grader.submission import cuda_cells as cells
from grader.submission.notebook_cells import BadNotebook
from grader.worker.parent import walls
from grader.worker.parent.nursery import Nursery
from tests.conftest import solution
from tests.cuda.kernels import EXERCISE, PARAMETERS

SLUG = EXERCISE.slug
BARRIER = "    __syncthreads();  // everybody"


def compiled(text):
    """The module of a whole answer."""
    return compiled_answer.build_cuda_module(
        text, translate_cuda_answer(text, "answer_0"), EXERCISE, {}
    )


def notebook_of(source: str) -> bytes:
    """Each part of a file between empty lines as a cell, and cells that are none of it between."""
    cells = [f"%%cuda\n{part}" for part in source.split("\n\n// %%\n")]
    cells = [c for cell in cells for c in ("print('scratch')", cell, "# words\n!nvcc --version")]
    return json.dumps({"cells": [{"cell_type": "code", "source": c} for c in cells]}).encode()


def verdicts(path, run):
    found = as_json.convert_exercise_report(grade_answer(EXERCISE, path, run))
    for check in found["checks"]:
        del check["seconds"], check["diagnosis"]
        check["why"] = [x for x in check["why"].splitlines() if "line " not in x]
    return {key: found[key] for key in ("state", "sentence", "score", "checks", "output")}


@pytest.mark.weekly
@pytest.mark.parametrize("broken", [False, True])
def test_a_notebook_gets_the_verdicts_of_the_file(broken, nursery, tmp_path):
    source = solution(SLUG)
    if broken:
        source = source.replace(BARRIER, "    // everybody")
    file, notebook = tmp_path / EXERCISE.file, tmp_path / f"{SLUG}.ipynb"
    file.write_text(source, encoding="utf-8")
    notebook.write_bytes(notebook_of(source))
    run = Run(nursery=nursery, student="s", secret="same", speed=False)
    of_file, of_notebook = verdicts(file, run), verdicts(notebook, run)
    assert of_file == of_notebook
    assert (of_file["score"]["earned"] == 10) is not broken


@pytest.mark.usefixtures("unexplained")
def test_a_report_from_a_notebook_names_the_cell(nursery, tmp_path):
    notebook = tmp_path / f"{SLUG}.ipynb"
    notebook.write_bytes(notebook_of(solution(SLUG).replace(BARRIER, "    // everybody")))
    run = Run(nursery=nursery, student="s", secret="same", speed=False)
    why = next(
        c.why for c in grade_answer(EXERCISE, notebook, run).checks if c.id == "test_tiled_values"
    )
    assert "line 20 of cell 11:" in why.splitlines()[-1]


def test_a_cell_that_writes_a_file_of_cuda_counts():
    text = notebook_of(solution(SLUG)).replace(b"%%cuda", b"%%writefile kernels.cu")
    assert (
        cells.read_submitted_cuda_cells(text).source
        == cells.read_submitted_cuda_cells(notebook_of(solution(SLUG))).source
    )
    with pytest.raises(BadNotebook, match="Cell 8 has a kernel"):
        cells.read_submitted_cuda_cells(text.replace(b"kernels.cu", b"notes.txt"))


def test_a_kernel_in_a_cell_without_cuda_is_told(nursery, tmp_path):
    path = tmp_path / f"{SLUG}.ipynb"
    path.write_bytes(notebook_of(solution(SLUG)).replace(b"%%cuda", b"%% cuda"))
    report = grade_answer(
        EXERCISE, path, Run(nursery=nursery, student="s", secret="s", speed=False)
    )
    sentence = "Cell 8 has a kernel, but does not begin with a line %%cuda."
    assert (report.state, report.sentence) == ("unreadable", sentence)
    assert Words("zh").said(sentence).startswith("第 8 个单元格")


def test_the_released_notebook_is_not_started_yet(nursery, tmp_path):
    from grader.submission.solution_text import has_solution_region, remove_solutions

    built = notebook_pages.build_released_notebook(EXERCISE, Words("en"))
    for cell in built.cells:
        if has_solution_region(cell.source):
            cell.source = remove_solutions(cell.source).strip()
    path = tmp_path / f"{SLUG}.ipynb"
    path.write_text(notebook_pages.write_released_notebook(built), encoding="utf-8")
    run = Run(nursery=nursery, student="s", secret="s", speed=False)
    assert grade_answer(EXERCISE, path, run).state == "not_started"


def test_what_does_not_compile_is_told_with_its_line(graded):
    text = f'\nextern "C" void naive_attention({PARAMETERS}) {{\n  int x = nothing;\n}}\n'
    report = graded(SLUG, text)
    assert report.state == "unreadable"
    assert report.sentence.startswith("Line 4 does not compile (")
    assert "nothing" in report.sentence
    assert report.sentence.endswith("int x = nothing;")


def test_what_the_machine_does_not_know_is_told_by_name(graded):
    call = "  cudaDeviceReset();\n  const int threads = 128;"
    report = graded(SLUG, solution(SLUG).replace("  const int threads = 128;", call))
    number = solution(SLUG)[: solution(SLUG).index("  const int threads = 128;")].count("\n") + 1
    why = "the machine that runs kernels on the CPU does not know it"
    assert report.sentence.startswith(f"Line {number}: cudaDeviceReset is not allowed: {why}; ")
    assert "it knows cudaMalloc" in report.sentence
    assert Words("zh").said(report.sentence).startswith(f"第 {number} 行")
    assert "knows" not in Words("zh").said(report.sentence)


def test_what_is_not_allowed_is_told_with_its_line(graded):
    report = graded(SLUG, f'{solution(SLUG)}\nvoid f() {{ asm("nop"); }}\n')
    assert report.state == "refused"
    assert "assembly (PTX) cannot run on the CPU" in report.sentence
    assert report.score.earned == 0


@pytest.mark.usefixtures("unexplained")
def test_one_kernel_can_be_graded_without_the_other(graded):
    source = solution(SLUG)
    cut = source[: source.index('extern "C" void tiled_attention')]
    report = graded(SLUG, cut)
    by_id = {c.id: c for c in report.checks}
    assert by_id["test_naive_causal"].verdict is Verdict.PASSED
    assert by_id["test_tiled_values"].why.startswith("There is no tiled_attention in the file.")


def test_without_a_compiler_nothing_is_asked_and_nothing_lost(graded, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    report = graded(SLUG, solution(SLUG))
    assert {c.verdict for c in report.checks} == {Verdict.NOT_RUN}
    assert (
        "needs g++, with which kernels run on the CPU: apt-get install g++" in report.checks[0].why
    )
    assert (report.score.possible, report.score.earned, report.score.not_run) == (0, 0, 15)


HOSTILE = {
    "templates without end": "template <int N> struct A { static constexpr int x = A<N + 1>::x; };"
    " int y = A<0>::x;",
    "a million errors": "x;" * 50_000,
    "braces without end": "{" * 50_000,
    "parentheses without end": "int x = " + "(" * 40_000 + ";",
    "a loop at compile time": "constexpr int f() { int x = 0; while (true) ++x; return x; }"
    " constexpr int y = f();",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_costs_its_own_points_only(name, graded):
    report = graded(SLUG, f"{HOSTILE[name]}\n{solution(SLUG)}")
    assert report.state == "unreadable"
    assert report.score.earned == 0
    assert len(report.sentence) < 1000


@pytest.mark.usefixtures("unexplained")
def test_an_endless_kernel_is_stopped(graded):
    endless = solution(SLUG).replace(
        "  for (int d = 0; d < D; ++d) out[d] = 0.0f;", "  while (true) {}"
    )
    report = graded(SLUG, endless, call_seconds=2.0)
    assert report.checks[0].why.startswith("no answer within 2 s")


@pytest.mark.parametrize("name", ["locked", pytest.param("contained", marks=pytest.mark.weekly)])
def test_behind_a_wall_compilers_and_kernels_work(name, tmp_path):
    tried = walls.probe_wall(name)
    if tried.wall is None:
        pytest.skip(tried.why)
    path = tmp_path / EXERCISE.file
    path.write_text(solution(SLUG), encoding="utf-8")
    with Nursery(tried.wall) as nursery:
        report = grade_answer(
            EXERCISE, path, Run(nursery=nursery, student="s", secret="s", speed=False)
        )
    assert report.sentence == ""
    assert report.score.earned == report.score.possible == 10


def test_behind_a_wall_a_compiler_reads_no_other_file(tmp_path):
    tried = walls.probe_wall("locked")
    if tried.wall is None:
        pytest.skip(tried.why)
    secret = tmp_path / "secret.h"
    secret.write_text(write_cuda_doors([]))
    said = compiler.compile_cuda_for_cpu(f'#include "{secret}"\n', tried.wall)
    assert isinstance(said, compiler.CompilationFailure)
    assert "Permission denied" in said.says
    assert not isinstance(
        compiler.compile_cuda_for_cpu(f'#include "{secret}"\n'), compiler.CompilationFailure
    )


ESCAPES = '#define EX extern\nEX "C" int PyGILState_Ensure();\n'
LEFT_OUT = "__host__ int rows_of(int n);\n"


@pytest.mark.parametrize(
    "declared, call, name",
    [(LEFT_OUT, "rows_of(heads)", "rows_of"), (ESCAPES, "PyGILState_Ensure()", "PyGILState_Ensure")],
)  # fmt: skip
def test_what_is_defined_nowhere_is_not_found_in_the_process_either(declared, call, name):
    text = solution(SLUG).replace(
        "  const int threads = 128;", f"  const int threads = 128; if ({call} < 0) return;"
    )
    includes = "#include <math.h>\n"
    assert text.count(includes) == 1
    with pytest.raises(
        compiled_answer.NotCpp, match=f"^{name} is declared, or called, and defined nowhere"
    ):
        compiled(text.replace(includes, includes + declared))


@pytest.mark.parametrize(
    ("declared", "call", "name"),
    [
        ("long write(int, const void*, unsigned long);", "write(1, q, 4)", "write"),
        ("char* getenv(const char*);", 'getenv("HOME") != nullptr ? 1 : 0', "getenv"),
        ("int strcmp(const char*, const char*);", "strcmp((const char*)q, (char*)k)", "strcmp"),
    ],
)
def test_what_the_machine_does_not_have_is_refused_by_its_name(declared, call, name):
    text = solution(SLUG).replace(
        "  const int threads = 128;", f"  const int threads = 128; if (({call}) < 0) return;"
    )
    includes = "#include <math.h>\n"
    linked = f'{includes}#define EX extern\nEX "C" {declared}\n'
    with pytest.raises(
        compiled_answer.NotCpp, match=f"^{name} is not allowed: a .cu answer may call"
    ):
        compiled(text.replace(includes, linked))


def test_shared_memory_may_be_declared_at_the_top_of_the_file():
    line = "  extern __shared__ __align__(16) float shared[];\n"
    text = solution(SLUG)
    assert text.count(line) == 1
    moved = text.replace(line, "").replace(
        "__device__ float dot(", f"{line}\n__device__ float dot(", 1
    )
    _, program = compiled(moved)
    assert program.startswith(b"\x7fELF")
