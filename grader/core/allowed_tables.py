"""The list of what an answer may use (allowed.toml), and what an exercise takes from it or adds."""

import tomllib
from functools import cache
from pathlib import Path

from grader.core.records import Exercise

PAGE = "docs/allowed.md"
_LIST = Path(__file__).parent / "allowed.toml"


@cache
def _read() -> dict[str, dict[str, frozenset[str]]]:
    with _LIST.open("rb") as file:
        found = tomllib.load(file)
    return {part: {m: frozenset(n) for m, n in names.items()} for part, names in found.items()}


def tables() -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    """The names of each module that is open, and of each that an exercise must ask for."""
    return _read()["modules"], _read()["asked"]


def operators() -> tuple[list[str], list[str]]:
    """Names for which operators of PyTorch run, and methods of a tensor for which they do not."""
    named = {
        f"linalg_{name}" if module == "torch.linalg" else name
        for modules in tables()
        for module, names in modules.items()
        if within(module, "torch")
        for name in names
    }
    return sorted(named | beside()), sorted(_read()["operators"]["without"])


def beside() -> frozenset[str]:
    """Operators that run besides, through which PyTorch runs those."""
    return _read()["operators"]["beside"]


def modules(exercise: Exercise) -> dict[str, frozenset[str]]:
    """The modules that an answer to an exercise may import, each with its names."""
    open_, asked = tables()
    if exercise.only:
        tops = {*exercise.only, "__future__"}
        found = {m: n for m, n in open_.items() if m.partition(".")[0] in tops}
    else:
        found = dict(open_)
    found |= {m: asked[m] for m in exercise.modules if m in asked}
    refused = [name for name in exercise.not_allowed if name.endswith(".*")]
    return {m: n for m, n in found.items() if not any(within(m, r[:-2]) for r in refused)}


def within(name: str, front: str) -> bool:
    """Whether a dotted name is another one, or in it."""
    return name == front or name.startswith(front + ".")
