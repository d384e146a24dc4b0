"""The answer in a notebook: the definitions in its code cells that an exercise asks for.

A notebook is a scratchpad too: it holds timings, plots, calls that failed, a cell that was copied.
None of that is part of the answer. Taken are the functions and classes that the exercise names, and
the imports, definitions and assignments which these use, in the order of the notebook, imports
first. So no mark depends on the order of cells, on outputs, or on what the kernel remembers.
"""

import ast
import json
import re
import symtable
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

MAX_BYTES = 200_000_000  # pictures and long outputs may be in it
_WRAPPING = ("%%time", "%%timeit", "%%capture", "%%prun")  # the cell below them is Python
_MAGIC = re.compile(r"^(\s*)[%!?].*$|^(\s*)[\w.]+\?{1,2}\s*$", re.MULTILINE)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_DAMAGED = "The notebook is damaged: open it in Jupyter and save it again."


class BadNotebook(Exception):
    """A notebook without an answer that can be read; the message is the student's sentence."""


@dataclass(frozen=True)
class _Unit:
    """One statement at the top level of a cell, or several that share a line."""

    cell: int  # counted from 1, as a reader counts them
    line: int  # its first, within the cell
    text: str
    nodes: tuple[ast.stmt, ...]
    uses: frozenset[str]  # the global names that it needs, now or when it is called

    @cached_property
    def binds(self) -> frozenset[str]:
        return frozenset(name for node in self.nodes for name in _bound(node))

    @property
    def is_import(self) -> bool:
        return all(isinstance(node, _IMPORTS) for node in self.nodes)

    @property
    def is_future(self) -> bool:
        """Whether it changes how the code after it is read."""
        return any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in self.nodes)

    @cached_property
    def is_stub(self) -> bool:
        """Whether it only says that nothing is written yet."""
        return all(map(_only_raises, self.nodes))


@dataclass(frozen=True, slots=True)
class Answer:
    """The source that was taken, and for each of its lines the cell and the line there."""

    source: str
    lines: tuple[tuple[int, int], ...]


def answer(content: bytes, names: Sequence[str]) -> Answer:
    """The answer in a notebook's file to an exercise that asks for `names`.

    Raises `BadNotebook` for a file that is no notebook, and where a name is missing while a cell
    cannot be read as Python. An untouched notebook has an empty answer.
    """
    units, unread = _units(list(_code(_notebook(content))))
    taken = _taken(units, names)
    written = {name for unit in taken if not unit.is_stub for name in unit.binds}
    if unread and not written.issuperset(names):
        raise BadNotebook(unread[0])
    if not written.intersection(names):
        return Answer("", ())
    taken.sort(key=lambda unit: not unit.is_import)  # a stable sort: imports first
    lines, where = [], []
    for unit in sorted(taken, key=lambda unit: not unit.is_future):
        text = unit.text.split("\n")
        lines += [*text, "", ""]
        where += [(unit.cell, unit.line + n) for n in range(len(text) + 2)]
    return Answer("\n".join(lines).rstrip() + "\n", tuple(where))


def definitions(content: bytes, names: Sequence[str]) -> dict[str, list[str]]:
    """By name, the text of each definition of `names` in a notebook's file, stubs among them."""
    units, _ = _units(list(_code(_notebook(content))))
    found: dict[str, list[str]] = {}
    for unit in units:
        for name in unit.binds & set(names):
            found.setdefault(name, []).append(unit.text)
    return found


def _notebook(content: bytes) -> list[Any]:
    """The cells of a notebook's file."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise BadNotebook(_DAMAGED) from None
    if isinstance(found, dict) and isinstance(found.get("worksheets"), list):  # format 3
        found = next((s for s in found["worksheets"] if isinstance(s, dict)), {})
    cells = found.get("cells") if isinstance(found, dict) else None
    if not isinstance(cells, list):
        raise BadNotebook("The file is no notebook: save it from Jupyter as .ipynb.")
    return cells


def _code(cells: Iterable[Any]) -> Iterator[tuple[int, str]]:
    """The number and the text of each cell with code, and of solution cells of another type."""
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict):
            continue
        source = cell.get("source", cell.get("input", ""))
        text = "".join(map(str, source)) if isinstance(source, list) else str(source)
        if cell.get("cell_type") == "code" or _was_code(cell):
            yield number, text.replace("\r\n", "\n").replace("\0", "")


def _was_code(cell: dict[str, Any]) -> bool:
    metadata = cell.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return isinstance(nbgrader, dict) and nbgrader.get("solution") is True


def _units(cells: Sequence[tuple[int, str]]) -> tuple[list[_Unit], list[str]]:
    """The statements of all cells; and sentences about the cells that are not Python."""
    units: list[_Unit] = []
    unread: list[str] = []
    for number, text in cells:
        problem = ""
        for attempt in (text, _without_magics(text)):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    units += list(_of_cell(number, attempt))
                break
            except SyntaxError as error:
                line = (error.text or "").strip()
                where = f"Cell {number} is not valid Python ({error.msg})"
                problem = problem or (f"{where}: {line}" if line else f"{where}.")
            except (RecursionError, MemoryError, ValueError):
                problem = problem or f"Cell {number} is nested too deeply to be read."
        else:
            unread.append(problem)
    return units, unread


def _without_magics(text: str) -> str:
    """A cell without what only IPython understands; its lines keep their numbers."""
    first = text.lstrip().split("\n", 1)[0]
    if first.startswith("%%") and not first.startswith(_WRAPPING):
        return ""
    return _MAGIC.sub(lambda found: f"{found[1] or found[2] or ''}pass", text)


def _of_cell(number: int, text: str) -> Iterator[_Unit]:
    lines = text.split("\n")
    groups: list[list[ast.stmt]] = []
    for node in ast.parse(text).body:
        if groups and _first_line(node) <= (groups[-1][-1].end_lineno or 0):
            groups[-1].append(node)
        else:
            groups.append([node])
    for nodes in groups:
        first, last = _first_line(nodes[0]), nodes[-1].end_lineno
        part = "\n".join(lines[first - 1 : last])
        uses = frozenset(_globals(symtable.symtable(part, "cell", "exec")))
        yield _Unit(number, first, part, tuple(nodes), uses)


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _taken(units: Sequence[_Unit], names: Iterable[str]) -> list[_Unit]:
    """The units that bind `names`, and those that these use, and so on; in their order."""
    written = {name for unit in units if not unit.is_stub for name in unit.binds}
    useful = [u for u in units if not (u.is_stub and u.binds <= written)]
    wanted, known = list(names), set(names)
    taken = {number for number, unit in enumerate(useful) if unit.is_future}
    while wanted:
        name = wanted.pop()
        for number, unit in enumerate(useful):
            if number not in taken and (name in unit.binds or "*" in unit.binds):
                taken.add(number)
                new = (unit.uses | unit.binds) - known
                known |= new
                wanted += new
    return [unit for number, unit in enumerate(useful) if number in taken]


def _bound(node: ast.stmt) -> Iterator[str]:
    """The global names that a statement defines or changes; a mere call has none."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import() | ast.ImportFrom():
            yield from (a.asname or a.name.split(".")[0] for a in node.names)
        case ast.Assign():
            yield from (name for target in node.targets for name in _roots(target))
        case ast.AnnAssign() | ast.AugAssign():
            yield from _roots(node.target)
        case ast.If() | ast.Try():
            inside = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)]
            handlers = node.handlers if isinstance(node, ast.Try) else []
            inside += [n for handler in handlers for n in handler.body]
            yield from (name for n in inside for name in _bound(n))


def _roots(target: ast.expr) -> Iterator[str]:
    """`x` of the targets `x`, `x.y`, `x[0]`, and of each part of `x, y`."""
    match target:
        case ast.Name():
            yield target.id
        case ast.Attribute() | ast.Subscript() | ast.Starred():
            yield from _roots(target.value)
        case ast.Tuple() | ast.List():
            yield from (name for part in target.elts for name in _roots(part))


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    at_top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() if at_top else symbol.is_global():
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals(inner)


def _only_raises(node: ast.stmt) -> bool:
    """Whether a function says only that it is not written; a class, whether all its methods do."""
    if isinstance(node, ast.ClassDef):
        methods = [n for n in node.body if isinstance(n, _FUNCTIONS)]
        return bool(methods) and all(map(_only_raises, methods))
    if not isinstance(node, _FUNCTIONS):
        return False
    *before, last = node.body  # a docstring, super().__init__()
    raises = isinstance(last, ast.Raise) and "NotImplementedError" in ast.dump(last)
    return raises and all(isinstance(n, ast.Expr) for n in before)
