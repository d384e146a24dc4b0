"""The CUDA file in a notebook: the cells that begin with `%%cuda`."""

import re

from grader.cuda.source import blank_cuda_comments, find_cuda_functions, join_cuda_lines
from grader.submission.notebook_cells import BadNotebook, NotebookAnswer, list_submitted_code_cells

_CUDA_CELL_START = re.compile(
    r"\s*(%%cu(da)?\b|%%(write)?file\s+\S+\.cuh?\s|//\s*cuda\b)", re.IGNORECASE
)
_KERNEL = re.compile(r"\b__global__\b")


def read_submitted_cuda_cells(content: bytes) -> NotebookAnswer:
    """Return the CUDA file in a notebook's file: its cells that begin with `%%cuda`, in order.

    Cells that write a `.cu` file count too. If several cells define the same function, the last one
    counts. A notebook in which no function has a body has an empty answer. Raises `BadNotebook` for
    a file that is no notebook, and if only other cells have a kernel.
    """
    lines: list[str] = []
    where: list[tuple[int, int]] = []
    cells = list_submitted_code_cells(content)
    taken = [(n, text) for n, text in cells if _CUDA_CELL_START.match(text)]
    defined = [
        {f.name for f in find_cuda_functions(blank_cuda_comments(join_cuda_lines(text)))}
        for _, text in taken
    ]
    for i, (number, text) in enumerate(taken):
        if defined[i] and any(defined[i] <= later for later in defined[i + 1 :]):
            continue
        _, *rest = text.lstrip("\n").split("\n")
        before = text.count("\n") - len(rest)  # empty lines above the first
        lines += ["", *rest, ""]
        where += [(number, before + n) for n in range(1, len(rest) + 3)]
    source = "\n".join(lines).rstrip("\n") + "\n"
    if _is_submitted_function_written(source):
        return NotebookAnswer(source, tuple(where))
    for number, text in cells:
        if _KERNEL.search(text) and _is_submitted_function_written(text):
            told = f"Cell {number} has a kernel, but does not begin with a line %%cuda."
            raise BadNotebook(told)
    return NotebookAnswer("", ())


def _is_submitted_function_written(text: str) -> bool:
    """Return whether a function in a text has a body."""
    return any(
        f.body.strip() for f in find_cuda_functions(blank_cuda_comments(join_cuda_lines(text)))
    )
