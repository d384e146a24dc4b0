"""Whether this is a sealed bundle, which has stored cases in the place of the reference."""

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from grader.core.catalog import ROOT

FOLDER = "stored"  # of a bundle: a file of cases for each exercise, and what is said of them all
ABOUT, EXPECTED = "release.json", "expected.py"
PAGE = "SEALED.md"  # what the bundle says of itself; the whole project has none
USAGE = 2  # the exit status
CASES = "stored-"  # how a seed begins that stands for stored cases


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What holds for all stored cases of a bundle."""

    seed: str  # which cases they are
    modules: tuple[str, ...]  # of the reference: nothing but their names is known here


@cache
def read_bundle_facts(root: Path = ROOT) -> About | None:
    """Return the facts about stored cases; None if the project is whole."""
    path, name = root / FOLDER / ABOUT, ABOUT
    if not (path.is_file() or (root / PAGE).is_file()):
        return None
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = About(seed=str(told["seed"]), modules=tuple(map(str, told["modules"])))
        name = EXPECTED
        path.with_name(name).read_bytes()
    except (OSError, ValueError, KeyError, TypeError):
        print(f"{FOLDER}/{name} cannot be read: unpack the bundle again.", file=sys.stderr)
        raise SystemExit(USAGE) from None
    return found


def is_sealed() -> bool:
    return read_bundle_facts() is not None
