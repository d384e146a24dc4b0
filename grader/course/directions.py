"""Who may import whom: read from the sources, which are not run."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from grader.catalog import SUITES
from grader.reading import outline

OURS = ("grader", "reference", "solutions", "exercises", "tests")


def against(root: Path) -> Iterator[str]:
    """Imports that go against the direction in which the house depends."""
    rooms = ("grader", "reference", "solutions")
    for path in sorted(path for room in rooms for path in (root / room).glob("**/*.py")):
        parts = path.relative_to(root).parts
        for module in imported(path, parts):
            if (law := _law(parts, module)) is not None:
                yield f"{'/'.join(parts)} imports {module}. {law}"


def imported(path: Path, parts: tuple[str, ...]) -> Iterator[str]:
    """Every module that a file imports, relative ones made absolute; of what is no Python, none."""
    package = list(parts[:-1])
    try:
        tree = outline.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, outline.NotPython):
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
    if module.startswith("grader.cli") and here != "grader.__main__.py":
        return "Nothing imports the command line: move what is shared out of it."
    if here == "grader.records.py" and top in OURS:
        return "records imports nothing of ours."
    if parts[0] == "grader" and top in OURS and top != "grader":
        allowed = here.startswith("grader.judging.") and module.startswith("reference.expected")
        return None if allowed else "The grader names no reference, solution, exercise or test."
    if parts[0] == "grader" and module.startswith("grader.suites."):
        return "The grader names no suite: find it through the catalog."
    return None


def _slugs() -> tuple[str, ...]:
    return tuple(path.parent.name for path in SUITES.glob("*/exercise.toml"))
