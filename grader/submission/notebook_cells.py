"""Reads the answer in a notebook: those definitions in its code cells that an exercise asks for.

A notebook is a scratchpad too: it holds timings, plots, calls that failed, a cell that was copied.
None of that is part of the answer. The answer is the functions and classes that the exercise asks
for, and whatever binds or changes the names which these use, in the order of the notebook. Imports
come first where that overrides nothing. So no mark depends on outputs or on what the kernel
remembers. A cell that is not Python costs the tasks that it defines and no other.
"""

import ast
import json
import re
import symtable
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from grader.submission.bindings import is_method_call_submitted, list_submission_bindings
from grader.submission.line_names import unify_submission_line_ends

MAX_FILE_BYTES = 200_000_000  # pictures and long outputs may be in it
_PYTHON_CELL_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")  # the cell below them is Python
_MAGIC = re.compile(r"^([ \t]*+)[%!?].*$|^([ \t]*+)[\w.]++\?{1,2}[ \t]*+$", re.MULTILINE)
_ASSIGNED_MAGIC = re.compile(r"^([ \t]*+\w[\w, ]*+=[ \t]*+)[%!].*$", re.MULTILINE)  # files = !ls
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_BINDING_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.With, ast.For, ast.Expr)
_DAMAGED_NOTEBOOK = "The notebook is damaged: open it in Jupyter and save it again."


class BadNotebook(Exception):
    """A notebook without an answer that can be read; the message is the student's sentence."""


@dataclass(frozen=True)
class _Unit:
    """One statement at the top level of a cell."""

    cell: int  # counted from 1, as a reader counts them
    line: int  # its first, within the cell
    text: str
    node: ast.stmt
    uses: frozenset[str]  # the global names that it needs, now or when it is called

    @cached_property
    def binds(self) -> frozenset[str]:
        return frozenset(list_submission_bindings(self.node))

    @property
    def is_import(self) -> bool:
        return isinstance(self.node, _IMPORTS)

    @property
    def is_future(self) -> bool:
        """Return whether this import changes how later code is parsed."""
        return isinstance(self.node, ast.ImportFrom) and self.node.module == "__future__"

    @property
    def is_tool(self) -> bool:
        """Return whether this statement imports our own `check`, which is no part of an answer."""
        return isinstance(self.node, ast.ImportFrom) and self.node.module == "grader.notebook"

    @cached_property
    def is_stub(self) -> bool:
        """Return whether this statement only says that nothing is written yet."""
        return _is_submitted_stub(self.node)


@dataclass(frozen=True, slots=True)
class NotebookAnswer:
    """The source that was taken, and for each of its lines the cell and the line in that cell.

    `problems` holds, for each missing name, the cell that may define it and why that is not Python.
    """

    source: str
    lines: tuple[tuple[int, int], ...]
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Unread:
    """A cell that is not Python."""

    text: str
    says: str

    def may_define(self, name: str) -> bool:
        return (
            re.search(rf"(?m)^[ \t]*+((def|class)[ \t]++{name}\b|{name}[ \t]*+=)", self.text)
            is not None
        )


def read_submitted_notebook(content: bytes, names: Sequence[str]) -> NotebookAnswer:
    """Return the answer in a notebook's file to an exercise that asks for `names`.

    Raises `BadNotebook` for a file that is no notebook, and if no cell that defines one of
    `names` is Python. An untouched notebook has an empty answer.
    """
    units, unread = _parse_submitted_cells(list_submitted_code_cells(content))
    taken = _select_submitted_units(units, names)
    written = {name for unit in taken if not unit.is_stub for name in unit.binds}
    problems = {
        name: cell.says
        for cell in reversed(unread)
        for name in names
        if name not in written and cell.may_define(name)
    }
    if not written.intersection(names):
        if problems:
            raise BadNotebook(next(iter(problems.values())))
        return NotebookAnswer("", ())
    lines, where = [], []
    for unit in _move_submitted_imports_first(taken):
        text = unit.text.split("\n")
        lines += [*text, "", ""]
        where += [(unit.cell, unit.line + n) for n in range(len(text) + 2)]
    return NotebookAnswer("\n".join(lines).rstrip() + "\n", tuple(where), problems)


def _move_submitted_imports_first(taken: Sequence[_Unit]) -> list[_Unit]:
    """Return units in order, but imports first, and none before what it overrides."""
    place: dict[_Unit, int] = {}  # 0: the future, 1: imports, 2: the rest
    overridden: set[str] = set()
    for unit in taken:
        early = unit.is_import and not unit.binds & overridden
        place[unit] = 0 if unit.is_future else 1 if early else 2
        overridden |= set() if unit.is_import else unit.binds
    return sorted(taken, key=place.__getitem__)  # a stable sort


def list_submitted_definitions(content: bytes, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the text of each definition of `names` in a notebook's file, stubs included."""
    units, _ = _parse_submitted_cells(list_submitted_code_cells(content))
    found: dict[str, list[str]] = {}
    for unit in units:
        for name in unit.binds & set(names):
            found.setdefault(name, []).append(unit.text)
    return found


def list_submitted_code_cells(content: bytes) -> list[tuple[int, str]]:
    """Return the number and text of each code cell, and of each solution cell of any type.

    Our own cells, which fetch and call `check`, are no part of an answer.
    """
    return list(_list_submitted_cells(parse_submitted_notebook(content)))


def _list_submitted_cells(cells: Iterable[Any]) -> Iterator[tuple[int, str]]:
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or _is_submitted_cell_ours(
            _read_submitted_cell_metadata(cell)
        ):
            continue
        source = cell.get("source", cell.get("input", ""))
        text = "".join(map(str, source)) if isinstance(source, list) else str(source)
        if (
            cell.get("cell_type") == "code"
            or _read_submitted_cell_metadata(cell).get("solution") is True
        ):
            yield number, unify_submission_line_ends(text).replace("\0", "")


def parse_submitted_notebook(content: bytes) -> list[Any]:
    """Return the cells of a notebook's file."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise BadNotebook(_DAMAGED_NOTEBOOK) from None
    if isinstance(found, dict) and isinstance(found.get("worksheets"), list):  # format 3
        found = next((s for s in found["worksheets"] if isinstance(s, dict)), {})
    cells = found.get("cells") if isinstance(found, dict) else None
    if not isinstance(cells, list):
        raise BadNotebook("The file is no notebook: save it from Jupyter as .ipynb.")
    return cells


def _read_submitted_cell_metadata(cell: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of nbgrader in a cell; empty if it is damaged."""
    metadata = cell.get("metadata")
    found = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def _is_submitted_cell_ours(nbgrader: dict[str, Any]) -> bool:
    ours = nbgrader.get("grade_id") == "setup" or nbgrader.get("grade") is True
    return ours and nbgrader.get("solution") is not True


def _parse_submitted_cells(cells: Sequence[tuple[int, str]]) -> tuple[list[_Unit], list[_Unread]]:
    """Return the statements of all cells, and the cells that are not Python."""
    units: list[_Unit] = []
    unread: list[_Unread] = []
    for number, text in cells:
        problem = ""
        for attempt in (text, _remove_submitted_cell_magics(text)):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    units += list(_split_submitted_cell(number, attempt))
                break
            except SyntaxError as error:
                line = (error.text or "").strip()
                where = f"Cell {number} is not valid Python ({error.msg})"
                problem = f"{where}: {line}" if line else f"{where}."
            except (RecursionError, MemoryError, ValueError):
                problem = f"Cell {number} is nested too deeply to be read."
        else:
            unread.append(_Unread(text, problem))
    return units, unread


def _remove_submitted_cell_magics(text: str) -> str:
    """Return a cell without IPython's syntax; its lines keep their numbers."""
    first = text.lstrip().split("\n", 1)[0]
    if first.startswith("%%") and not first.startswith(_PYTHON_CELL_MAGICS):
        return ""
    text = _ASSIGNED_MAGIC.sub(r"\1None", text)
    return _MAGIC.sub(lambda found: f"{found[1] or found[2] or ''}pass", text)


def _split_submitted_cell(number: int, text: str) -> Iterator[_Unit]:
    lines = text.split("\n")
    nodes = ast.parse(text).body
    on_line = Counter(
        n for node in nodes for n in {_find_submitted_first_line(node), node.end_lineno or 0}
    )
    for node in nodes:
        first, last = _find_submitted_first_line(node), node.end_lineno or 0
        part = "\n".join(lines[first - 1 : last])
        if on_line[first] > 1 or on_line[last] > 1:  # it shares a line with another
            part = ast.get_source_segment(text, node) or part
        uses = frozenset(_list_submitted_globals(symtable.symtable(part, "cell", "exec")))
        unit = _Unit(number, first, part, node, uses)
        if not unit.is_tool:
            yield unit


def _find_submitted_first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _select_submitted_units(units: Sequence[_Unit], names: Iterable[str]) -> list[_Unit]:
    """Return the units that bind `names`, and the units that these use, in their order."""
    written = {name for unit in units if not unit.is_stub for name in unit.binds}
    useful = [u for u in units if not (u.is_stub and u.binds <= written)]
    wanted, known = list(names), set(names)
    taken = {number for number, unit in enumerate(useful) if unit.is_future}
    variables = {n for u in useful if isinstance(u.node, _BINDING_STATEMENTS) for n in u.binds}
    while wanted:
        name = wanted.pop()
        for number, unit in enumerate(useful):
            if number not in taken and (
                name in unit.binds
                or "*" in unit.binds
                or (name in variables and is_method_call_submitted(unit.node, {name}))
            ):
                taken.add(number)
                new = (unit.uses | unit.binds) - known
                known |= new
                wanted += new
    return [unit for number, unit in enumerate(useful) if number in taken]


def _list_submitted_globals(table: symtable.SymbolTable) -> Iterator[str]:
    at_top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() if at_top else symbol.is_global():
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _list_submitted_globals(inner)


def _is_submitted_stub(node: ast.stmt) -> bool:
    """Return whether a function only says that it is not written; of a class, all methods."""
    if isinstance(node, ast.ClassDef):
        methods = [n for n in node.body if isinstance(n, _FUNCTIONS)]
        return bool(methods) and all(map(_is_submitted_stub, methods))
    if not isinstance(node, _FUNCTIONS):
        return False
    *before, last = node.body  # a docstring, super().__init__()
    raises = isinstance(last, ast.Raise) and "NotImplementedError" in ast.dump(last)
    return raises and all(isinstance(n, ast.Expr) for n in before)
