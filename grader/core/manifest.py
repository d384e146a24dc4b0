"""Declares which entries the TOML files of a suite may have."""

import ast
from collections.abc import Collection
from typing import Any

from grader.core.records import SUFFIXES
from grader.core.toml_file import (
    FLAG,
    POSITIVE,
    TEXT,
    TEXTS,
    WHOLE,
    TomlKind,
    TomlTable,
    TomlTables,
    expect_toml_choice,
    expect_toml_choices,
)

TRACKS = ("core", "further")
ANSWER_KINDS = (  # with which `returns` and `attributes` begin; "?" after one allows None
    "tensor", "array", "bool", "rows", "int", "float", "flag", "str", "object", "none", "any",
)  # fmt: skip


def _is_manifest_signature(value: Any) -> bool:
    try:
        return isinstance(value, str) and len(ast.parse(f"def f{value}: ...").body) == 1
    except (SyntaxError, ValueError):
        return False


def _are_manifest_pairs(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(pair, list) and [type(x) for x in pair] == [str, str] for pair in value
    )


def _is_manifest_answer(value: Any) -> bool:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(x, str) for x in texts):
        return False
    words = [(*text.split(), "", "")[:2] for text in texts]
    return all(
        kind.removesuffix("?") in ANSWER_KINDS and (kind, of) != ("bool", "array")
        for kind, of in words
    )


_NAME = TomlKind("a name of Python's", lambda x: isinstance(x, str) and x.isidentifier())
_SIGNATURE = TomlKind(
    'parameters in brackets, as in "(q, k, v, keep=None)"', _is_manifest_signature
)
_PAIRS = TomlKind(
    "a list of pairs: what is found in the solution, and what comes there", _are_manifest_pairs
)
_WORDS = TomlTable(others=TEXT)
_ANSWERS = TomlTable(
    others=TomlKind(
        "a kind of value (tensor, array, bool tensor, rows, int, float, flag, str, object, none or "
        'any) and its shape, as in "tensor B L"; or a list of such',
        _is_manifest_answer,
    )
)

_FUNCTION = TomlTable(
    entries={
        "name": _NAME, "signature": _SIGNATURE, "shapes": _WORDS, "about": TEXT, "hints": TEXTS,
        "returns": _ANSWERS, "declaration": TEXT,
    },
    needs=("name", "signature", "returns"),
)  # fmt: skip
_CLASS = TomlTable(
    entries={
        "name": _NAME, "signature": _SIGNATURE, "attributes": _ANSWERS, "parameters": _WORDS,
        "about": TEXT, "hints": TEXTS, "methods": TomlTables(_FUNCTION),
    },
    needs=("name", "signature"),
)  # fmt: skip


def build_manifest_table(groups: Collection[str]) -> TomlTable:
    """Return the entries of exercise.toml; one word of `groups` may refuse many names."""
    refused = {
        "groups": expect_toml_choices(groups),
        "names": TEXTS,
        "all_modules_but": TEXTS,
        "cure": TEXT,
    }
    limits = dict.fromkeys(("call_seconds", "exercise_seconds", "memory_gib"), POSITIVE)
    limits["compiles_on_cuda"] = FLAG
    return TomlTable(
        entries={
            "title": TEXT, "order": WHOLE, "track": expect_toml_choice(*TRACKS), "minutes": WHOLE,
            "about": TEXT, "learned": TEXTS, "hints": TomlTable(others=TEXTS),
            "language": expect_toml_choice(*SUFFIXES), "draft": FLAG, "hunts": FLAG,
            "requires": TEXTS, "requires_on_cuda": TEXTS,
            "modules": TEXTS, "preload": TEXTS, "prelude": TEXT,
            "limits": TomlTable(entries=limits), "not_allowed": TomlTable(entries=refused),
            "functions": TomlTables(_FUNCTION), "classes": TomlTables(_CLASS),
            "given": TomlTables(_FUNCTION),
        },
        needs=("title", "order", "track", "minutes", "requires", "not_allowed"),
    )  # fmt: skip


CHINESE_TABLE = TomlTable(
    entries={
        "title": TEXT, "cure": TEXT, "learned": TEXTS, "checks": _WORDS, "speed": _WORDS,
        "said": _WORDS, "variants": _WORDS, "hints": TomlTable(others=TEXTS),
        "mistakes": TomlTable(others=TomlTable(entries={"says": TEXT, "mend": TEXT})),
        "questions": TomlTable(others=TomlTable(entries={"asks": TEXT, "answer": TEXT})),
    }
)  # fmt: skip

DRILLS_TABLE = TomlTable(
    entries={
        "drills": TomlTables(
            TomlTable(
                entries={"mistake": TEXT, "edits": _PAIRS, "alike": TEXTS},
                needs=("mistake", "edits"),
            )
        )
    },
    needs=("drills",),
)
