"""The command `mechanical`: what it is asked, and what it prints and writes."""

import re
from collections.abc import Sequence

from rich.console import Console

from grader.authoring import evidence
from grader.authoring.changed import changed
from grader.authoring.mechanical_table import (
    COLUMNS,
    MechanicalOptions,
    cells,
    rows,
    run,
    table,
    whole,
)
from grader.core.catalog import ROOT
from grader.core.records import Exercise


def terms(
    inputs: int, variants: int, shard: str, trials: bool, processes: int
) -> MechanicalOptions:
    """The terms that were typed in. Raises `ValueError` with a sentence."""
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", shard or "1/1")
    if found is None or int(found[1]) > int(found[2]):
        raise ValueError(f"{shard!r} is no shard: write SHARD=1/4 for the first of four.")
    return MechanicalOptions(
        inputs=inputs, variants=variants, shard=(int(found[1]), int(found[2])), trials=trials,
        processes=processes,
    )  # fmt: skip


def show(
    exercises: Sequence[Exercise],
    terms: MechanicalOptions,
    changed_only: bool,
    write: bool,
    console: Console,
) -> bool:
    """Make the changes and print the table; True if every change is caught or equivalent.

    write   write its rows into docs/evidence.md
    """
    if changed_only:
        exercises = changed(exercises, ROOT)
        console.print(f"Changed: {', '.join(e.slug for e in exercises) or 'no exercise'}.")
    found = run(exercises, terms, console)
    if not found and not changed_only:
        console.print("Nothing was asked: only solutions in Python are changed, and no bug hunts.")
        return False
    for line in table(found):
        console.print(line, highlight=False, soft_wrap=True)
    if write:
        evidence.write("mechanical", COLUMNS, [cells(r) for r in rows(found)], sums=COLUMNS[1:])
    return whole(found)
