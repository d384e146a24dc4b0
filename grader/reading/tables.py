"""The list of what an answer may use (allowed.toml), and what an exercise takes from it or adds."""

import tomllib
from functools import cache
from pathlib import Path

from grader.records import Exercise

PAGE = "docs/allowed.md"
_LIST = Path(__file__).parent / "allowed.toml"


@cache
def tables() -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    """The names of each module that is open, and of each that an exercise must ask for."""
    with _LIST.open("rb") as file:
        found = tomllib.load(file)
    open_, asked = ({m: frozenset(n) for m, n in found[t].items()} for t in ("modules", "asked"))
    return open_, asked


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
