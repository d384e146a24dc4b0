"""Checks which module may import which; reads the sources and does not run them."""

import ast
import sys
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from grader.core.catalog import SUITES_FOLDER

OUR_PACKAGES = ("grader", "reference", "solutions", "exercises", "tests")
# The extra `learn`, with what it brings; nothing else may need it.
PAGE_PACKAGES = ("nicegui", "fastapi", "starlette", "uvicorn", "markdown2", "latex2mathml")
# The folders of the grader, floor by floor: a module imports from its own folder and from below.
FLOORS = (
    ("core",), ("worker",), ("cuda",), ("submission",), ("doctor",), ("judging", "reporting"),
    ("diagnosis", "timing"), ("suites",), ("grading",), ("gpu_check",), ("authoring",),
    ("classroom", "practice"), ("learn", "release"), ("cli",), ("__main__", "notebook"),
)  # fmt: skip
_FLOOR_NUMBERS = {folder: number for number, floor in enumerate(FLOORS) for folder in floor}


def list_broken_import_laws(root: Path) -> Iterator[str]:
    """Yield a sentence for each import that breaks a law, each circle and each namesake."""
    rooms = ("grader", "reference", "solutions")
    graph: dict[str, set[str]] = defaultdict(set)
    for path in sorted(path for room in rooms for path in (root / room).glob("**/*.py")):
        parts = path.relative_to(root).parts
        for module in list_imports_under_law(path, parts):
            graph[_name_module_under_law(parts)].add(module)
            if (law := _find_broken_import_law(parts, module)) is not None:
                yield f"{'/'.join(parts)} imports {module}. {law}"
    yield from _find_circles_against_law(graph)
    yield from _find_namesakes_against_law(root)


def list_imports_under_law(path: Path, parts: tuple[str, ...]) -> Iterator[str]:
    """Yield every absolute module name that a file imports; none if it is not Python."""
    package = list(parts[:-1])
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return  # the law of sources reports that
    for node in _walk_statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            front = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*front, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _walk_statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield every statement of a file, also those within others, but not their expressions."""
    left: deque[ast.AST] = deque(tree.body)
    while left:
        node = left.popleft()
        yield node
        for part in ("body", "handlers", "cases", "orelse", "finalbody"):
            inside = getattr(node, part, [])
            left.extend(inside)


def _find_broken_import_law(parts: tuple[str, ...], module: str) -> str | None:
    """Return the law that an import breaks, with the cure; None if it breaks no law."""
    top = module.split(".")[0]
    here = ".".join(parts)
    if parts[0] == "solutions" and top in (*OUR_PACKAGES, *_list_suites_under_law()):
        return "A solution stands alone: import what a student may."
    if parts[0] == "reference" and top not in (
        "reference",
        "numpy",
        "torch",
        *sys.stdlib_module_names,
    ):
        return "The reference knows numpy and torch only: move what it needs into it."
    if here.startswith("grader.worker.child."):
        if top in OUR_PACKAGES and not module.startswith("grader.worker.child"):
            return "The worker's side has nothing of ours: move what it needs into the child."
        return None
    if here.startswith("grader.suites."):
        own = ".".join(parts[:3])
        if top in OUR_PACKAGES and not module.startswith(("reference", "grader.judging", own)):
            return "A suite knows the reference, the words of grader.judging, and itself."
        return None
    records = (
        "grader.core.records.py",
        "grader.core.diagnosis_records.py",
        "grader.core.mark_records.py",
    )
    if here in records and top in OUR_PACKAGES and "_records" not in module:
        return "Records import nothing of ours but other records."
    if top in PAGE_PACKAGES and not here.startswith("grader.learn."):
        return "Only grader/learn knows the packages of the page: move what needs them there."
    if parts[0] == "grader" and top in OUR_PACKAGES and top != "grader":
        allowed = here.startswith("grader.judging.") and module.startswith("reference.expected")
        return None if allowed else "The grader names no reference, solution, exercise or test."
    if parts[0] == "grader" and module.startswith("grader.suites."):
        return "The grader names no suite: find it through the catalog."
    return _find_broken_floor_law(parts, module) if top == "grader" == parts[0] else None


def _find_broken_floor_law(parts: tuple[str, ...], module: str) -> str | None:
    """Return the law against imports from a higher floor or from another folder of the same one."""
    here, there = Path(parts[1]).stem, [*module.split("."), ""][1]
    if here == there or here not in _FLOOR_NUMBERS or there not in _FLOOR_NUMBERS:
        return None
    if _FLOOR_NUMBERS[there] < _FLOOR_NUMBERS[here]:
        return None
    return f"grader/{here} stands below grader/{there}, or beside it: move what both need down."


def _name_module_under_law(parts: tuple[str, ...]) -> str:
    """Return the name under which a file is imported."""
    names = [*parts[:-1], Path(parts[-1]).stem]
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def _find_circles_against_law(graph: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield a sentence for each circle of modules that import each other."""
    told: set[str] = set()
    for start in sorted(graph):
        below = _find_modules_within_circle(graph, start)
        if start in below and start not in told:
            circle = sorted(m for m in below if start in _find_modules_within_circle(graph, m))
            told.update(circle)
            names = ", ".join(circle)
            yield f"{names} import each other. Move what both need into a module of its own."


def _find_modules_within_circle(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Return all modules that a module imports, directly or through others."""
    found: set[str] = set()
    new = [start]
    while new:
        for name in graph.get(new.pop(), ()):
            module = name if name in graph else name.rpartition(".")[0]
            if module in graph and module not in found:
                found.add(module)
                new.append(module)
    return found


def _find_namesakes_against_law(root: Path) -> Iterator[str]:
    """Yield a sentence for each module name that two folders of the grader have."""
    places = defaultdict(list)
    for path in sorted((root / "grader").glob("**/*.py")):
        place = path.relative_to(root)
        if place.parts[1] != "suites" and path.stem not in ("__init__", "__main__"):
            places[path.stem].append(str(place))
    for found in places.values():
        if len(found) > 1:
            yield f"{' and '.join(found)} have the same name. Name each by what it holds."


def _list_suites_under_law() -> tuple[str, ...]:
    return tuple(path.parent.name for path in SUITES_FOLDER.glob("*/exercise.toml"))
