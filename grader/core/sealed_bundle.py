"""Whether this is a sealed bundle, which has stored cases in the place of the reference."""

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from grader.core.catalog import ROOT

STORED_CASES_FOLDER = (
    "stored"  # of a bundle: a file of cases for each exercise, and what is said of them all
)
ABOUT, EXPECTED = "release.json", "expected.py"
SEALED_PAGE_NAME = "SEALED.md"  # what the bundle says of itself; the whole project has none
USAGE_EXIT_CODE = 2  # the exit status
STORED_CASES_PREFIX = "stored-"  # how a seed begins that stands for stored cases


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFacts:
    """The facts about all stored cases of a bundle."""

    seed: str  # which cases they are
    modules: tuple[str, ...]  # of the reference: nothing but their names is known here


@cache
def read_core_bundle_facts(root: Path = ROOT) -> BundleFacts | None:
    """Return the facts about stored cases; None if the project is whole."""
    path, name = root / STORED_CASES_FOLDER / ABOUT, ABOUT
    if not (path.is_file() or (root / SEALED_PAGE_NAME).is_file()):
        return None
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = BundleFacts(seed=str(told["seed"]), modules=tuple(map(str, told["modules"])))
        name = EXPECTED
        path.with_name(name).read_bytes()
    except (OSError, ValueError, KeyError, TypeError):
        print(
            f"{STORED_CASES_FOLDER}/{name} cannot be read: unpack the bundle again.\n"
            f"{STORED_CASES_FOLDER}/{name} 无法读取：请重新解压。",
            file=sys.stderr,
        )
        raise SystemExit(USAGE_EXIT_CODE) from None
    return found


def is_core_sealed() -> bool:
    return read_core_bundle_facts() is not None
