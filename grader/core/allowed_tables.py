"""Reads the list of what an answer may use (allowed.toml), and what an exercise takes or adds."""

import tomllib
from functools import cache
from pathlib import Path

from grader.core.records import Exercise

PAGE = "docs/allowed.md"
_LIST_PATH = Path(__file__).parent / "allowed.toml"


@cache
def _read_list() -> dict[str, dict[str, frozenset[str]]]:
    with _LIST_PATH.open("rb") as file:
        found = tomllib.load(file)
    return {part: {m: frozenset(n) for m, n in names.items()} for part, names in found.items()}


def module_tables() -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    """Return the names of each open module, and of each module that an exercise must ask for."""
    return _read_list()["modules"], _read_list()["asked"]


def listed_operators() -> tuple[list[str], list[str]]:
    """Return names whose PyTorch operators run, and tensor methods whose operators do not."""
    named = {
        f"linalg_{name}" if module == "torch.linalg" else name
        for modules in module_tables()
        for module, names in modules.items()
        if is_within(module, "torch")
        for name in names
    }
    return sorted(named | underlying_operators()), sorted(_read_list()["operators"]["without"])


def underlying_operators() -> frozenset[str]:
    """Return operators through which PyTorch runs the listed ones."""
    return _read_list()["operators"]["beside"]


def importable_modules(exercise: Exercise) -> dict[str, frozenset[str]]:
    """Return the modules that an answer to an exercise may import, each with its names."""
    open_, asked = module_tables()
    if exercise.only:
        tops = {*exercise.only, "__future__"}
        found = {m: n for m, n in open_.items() if m.partition(".")[0] in tops}
    else:
        found = dict(open_)
    found |= {m: asked[m] for m in exercise.modules if m in asked}
    refused = [name for name in exercise.not_allowed if name.endswith(".*")]
    return {m: n for m, n in found.items() if not any(is_within(m, r[:-2]) for r in refused)}


def is_within(name: str, front: str) -> bool:
    """Return whether a dotted name equals `front` or lies in it."""
    return name == front or name.startswith(front + ".")
