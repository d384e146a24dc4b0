"""Declares which entries the TOML files of a suite may have."""

import ast
from collections.abc import Collection
from typing import Any

from grader.core.records import SUFFIXES
from grader.core.toml_file import (
    FLAG,
    POSITIVE,
    TEXT,
    TEXT_OR_TEXTS,
    TEXTS,
    WHOLE,
    Kind,
    Table,
    Tables,
    one_of,
    some_of,
)

TRACKS = ("core", "further")


def _is_signature(value: Any) -> bool:
    try:
        return isinstance(value, str) and len(ast.parse(f"def f{value}: ...").body) == 1
    except (SyntaxError, ValueError):
        return False


def _are_pairs(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(pair, list) and [type(x) for x in pair] == [str, str] for pair in value
    )


_NAME = Kind("a name of Python's", lambda x: isinstance(x, str) and x.isidentifier())
_SIGNATURE = Kind('parameters in brackets, as in "(q, k, v, keep=None)"', _is_signature)
_PAIRS = Kind("a list of pairs: what is found in the solution, and what comes there", _are_pairs)
_WORDS = Table(others=TEXT)

_FUNCTION = Table(
    entries={
        "name": _NAME, "signature": _SIGNATURE, "shapes": _WORDS, "about": TEXT, "hints": TEXTS,
        "returns": Table(others=TEXT_OR_TEXTS), "declaration": TEXT,
    },
    needs=("name", "signature", "returns"),
)  # fmt: skip
_CLASS = Table(
    entries={
        "name": _NAME, "signature": _SIGNATURE, "attributes": _WORDS, "parameters": _WORDS,
        "about": TEXT, "hints": TEXTS, "methods": Tables(_FUNCTION),
    },
    needs=("name", "signature"),
)  # fmt: skip


def exercise_table(groups: Collection[str]) -> Table:
    """Return the entries of exercise.toml; one word of `groups` may refuse many names."""
    refused = {"groups": some_of(groups), "names": TEXTS, "all_modules_but": TEXTS, "cure": TEXT}
    limits = dict.fromkeys(("call_seconds", "exercise_seconds", "memory_gib"), POSITIVE)
    limits["compiles_on_cuda"] = FLAG
    return Table(
        entries={
            "title": TEXT, "order": WHOLE, "track": one_of(*TRACKS), "minutes": WHOLE,
            "about": TEXT, "language": one_of(*SUFFIXES), "draft": FLAG, "hunts": FLAG,
            "requires": TEXTS, "requires_on_cuda": TEXTS,
            "modules": TEXTS, "preload": TEXTS, "prelude": TEXT,
            "limits": Table(entries=limits), "not_allowed": Table(entries=refused),
            "functions": Tables(_FUNCTION), "classes": Tables(_CLASS), "given": Tables(_FUNCTION),
        },
        needs=("title", "order", "track", "minutes", "requires", "not_allowed"),
    )  # fmt: skip


CHINESE = Table(
    entries={
        "title": TEXT, "cure": TEXT, "checks": _WORDS, "speed": _WORDS,
        "hints": Table(others=TEXTS),
        "mistakes": Table(others=Table(entries={"says": TEXT, "mend": TEXT})),
        "questions": Table(others=Table(entries={"asks": TEXT, "answer": TEXT})),
    }
)  # fmt: skip

DRILLS = Table(
    entries={
        "drills": Tables(
            Table(
                entries={"mistake": TEXT, "edits": _PAIRS, "alike": TEXTS},
                needs=("mistake", "edits"),
            )
        )
    },
    needs=("drills",),
)
