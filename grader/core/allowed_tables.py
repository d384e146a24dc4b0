"""Reads the list of what an answer may use (allowed.toml), and what an exercise takes or adds."""

import tomllib
from collections.abc import Collection
from functools import cache
from pathlib import Path

from grader.core.records import Exercise

ALLOWED_PAGE_PATH = "docs/allowed.md"
_LIST_PATH = Path(__file__).parent / "allowed.toml"


@cache
def _load_allowed_toml() -> dict[str, dict[str, frozenset[str]]]:
    with _LIST_PATH.open("rb") as file:
        found = tomllib.load(file)
    return {part: {m: frozenset(n) for m, n in names.items()} for part, names in found.items()}


def load_allowed_module_tables() -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    """Return the names of each open module, and of each module that an exercise must ask for."""
    return _load_allowed_toml()["modules"], _load_allowed_toml()["asked"]


def load_allowed_operators() -> tuple[list[str], list[str]]:
    """Return names whose operators a worker allows, and methods whose operators it refuses."""
    named = {
        f"linalg_{name}" if module == "torch.linalg" else name
        for modules in load_allowed_module_tables()
        for module, names in modules.items()
        if is_within_dotted_name(module, "torch")
        for name in names
    }
    return sorted(named | load_underlying_operators()), sorted(
        _load_allowed_toml()["operators"]["without"]
    )


def load_underlying_operators() -> frozenset[str]:
    """Return operators through which PyTorch runs the listed ones."""
    return _load_allowed_toml()["operators"]["beside"]


def load_importable_modules(exercise: Exercise) -> dict[str, frozenset[str]]:
    """Return the modules that an answer to an exercise may import, each with its names."""
    open_, asked = load_allowed_module_tables()
    if exercise.only:
        tops = {*exercise.only, "__future__"}
        found = {m: n for m, n in open_.items() if m.partition(".")[0] in tops}
    else:
        found = dict(open_)
    found |= {m: asked[m] for m in exercise.modules if m in asked}
    refused = [name for name in exercise.not_allowed if name.endswith(".*")]
    return {
        m: n for m, n in found.items() if not any(is_within_dotted_name(m, r[:-2]) for r in refused)
    }


def list_unlisted_parents(modules: Collection[str]) -> frozenset[str]:
    """Return packages that are not in `modules` but lead to one: torch.nn.utils, to its rnn."""
    parents = {m[:i] for m in modules for i, sign in enumerate(m) if sign == "."}
    return frozenset(parents - set(modules))


def is_within_dotted_name(name: str, front: str) -> bool:
    """Return whether a dotted name equals `front` or lies in it."""
    return name == front or name.startswith(front + ".")
