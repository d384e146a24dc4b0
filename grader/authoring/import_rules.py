"""Who may import whom: read from the sources, which are not run."""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from grader.core.catalog import SUITES
from grader.submission import python_outline

OURS = ("grader", "reference", "solutions", "exercises", "tests")
# The folders of the grader, floor by floor: a module imports from its own folder and from below.
FLOORS = (
    ("core",), ("worker",), ("cuda",), ("submission",), ("doctor",), ("judging", "reporting"),
    ("timing",), ("suites",), ("grading",), ("gpu_check",), ("authoring",),
    ("classroom", "practice"), ("release",), ("cli",), ("__main__", "notebook"),
)  # fmt: skip
_FLOOR = {folder: number for number, floor in enumerate(FLOORS) for folder in floor}


def against(root: Path) -> Iterator[str]:
    """Yield a sentence for each import that breaks a law, each circle and each namesake."""
    rooms = ("grader", "reference", "solutions")
    graph: dict[str, set[str]] = defaultdict(set)
    for path in sorted(path for room in rooms for path in (root / room).glob("**/*.py")):
        parts = path.relative_to(root).parts
        for module in imported(path, parts):
            graph[_module(parts)].add(module)
            if (law := _law(parts, module)) is not None:
                yield f"{'/'.join(parts)} imports {module}. {law}"
    yield from _circles(graph)
    yield from _namesakes(root)


def imported(path: Path, parts: tuple[str, ...]) -> Iterator[str]:
    """Every module that a file imports, relative ones made absolute; of what is no Python, none."""
    package = list(parts[:-1])
    try:
        tree = python_outline.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, python_outline.NotPython):
        return  # another law has to do with that
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            front = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*front, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _law(parts: tuple[str, ...], module: str) -> str | None:
    """The law that this import breaks, with its cure; None if it breaks none."""
    top = module.split(".")[0]
    here = ".".join(parts)
    if parts[0] == "solutions" and top in (*OURS, *_slugs()):
        return "A solution stands alone: import what a student may."
    if parts[0] == "reference" and top not in (
        "reference",
        "numpy",
        "torch",
        *sys.stdlib_module_names,
    ):
        return "The reference knows numpy and torch only: move what it needs into it."
    if here.startswith("grader.worker.child."):
        if top in OURS and not module.startswith("grader.worker.child"):
            return "The worker's side has nothing of ours: move what it needs into the child."
        return None
    if here.startswith("grader.suites."):
        own = ".".join(parts[:3])
        if top in OURS and not module.startswith(("reference", "grader.judging", own)):
            return "A suite knows the reference, the words of grader.judging, and itself."
        return None
    if here == "grader.core.records.py" and top in OURS:
        return "records imports nothing of ours."
    if parts[0] == "grader" and top in OURS and top != "grader":
        allowed = here.startswith("grader.judging.") and module.startswith("reference.expected")
        return None if allowed else "The grader names no reference, solution, exercise or test."
    if parts[0] == "grader" and module.startswith("grader.suites."):
        return "The grader names no suite: find it through the catalog."
    return _climb(parts, module) if top == "grader" == parts[0] else None


def _climb(parts: tuple[str, ...], module: str) -> str | None:
    """The law against an import from a floor above, or from beside on the same floor."""
    here, there = Path(parts[1]).stem, [*module.split("."), ""][1]
    if here == there or here not in _FLOOR or there not in _FLOOR:
        return None
    if _FLOOR[there] < _FLOOR[here]:
        return None
    return f"grader/{here} stands below grader/{there}, or beside it: move what both need down."


def _module(parts: tuple[str, ...]) -> str:
    """The name under which a file is imported."""
    names = [*parts[:-1], Path(parts[-1]).stem]
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def _circles(graph: Mapping[str, set[str]]) -> Iterator[str]:
    """Modules that import each other, be it by way of others; each circle is told once."""
    told: set[str] = set()
    for start in sorted(graph):
        below = _reached(graph, start)
        if start in below and start not in told:
            circle = sorted(m for m in below if start in _reached(graph, m))
            told.update(circle)
            names = ", ".join(circle)
            yield f"{names} import each other. Move what both need into a module of its own."


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """All modules that are imported from here on."""
    found: set[str] = set()
    new = [start]
    while new:
        for name in graph.get(new.pop(), ()):
            module = name if name in graph else name.rpartition(".")[0]
            if module in graph and module not in found:
                found.add(module)
                new.append(module)
    return found


def _namesakes(root: Path) -> Iterator[str]:
    """Modules of the grader that have the same name in two folders."""
    places = defaultdict(list)
    for path in sorted((root / "grader").glob("**/*.py")):
        place = path.relative_to(root)
        if place.parts[1] != "suites" and path.stem not in ("__init__", "__main__"):
            places[path.stem].append(str(place))
    for found in places.values():
        if len(found) > 1:
            yield f"{' and '.join(found)} have the same name. Name each by what it holds."


def _slugs() -> tuple[str, ...]:
    return tuple(path.parent.name for path in SUITES.glob("*/exercise.toml"))
