"""The command `mechanical`: its options, its table and its rows in docs/evidence.md."""

import re
from collections.abc import Sequence

from rich.console import Console

from grader.authoring import evidence
from grader.authoring.changed import list_exercises_to_prove
from grader.authoring.mechanical_table import (
    COLUMNS,
    MechanicalOptions,
    MechanicalRow,
    build_mechanical_evidence,
    is_mechanical_proof_whole,
    run_mechanical_changes,
)
from grader.core.catalog import ROOT
from grader.core.records import Exercise


def parse_mechanical_options(
    inputs: int, variants: int, shard: str, trials: bool, processes: int
) -> MechanicalOptions:
    """Parse the options of the command. Raise `ValueError` if the shard is wrong."""
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", shard or "1/1")
    if found is None or int(found[1]) > int(found[2]):
        raise ValueError(f"{shard!r} is no shard: write SHARD=1/4 for the first of four.")
    return MechanicalOptions(
        inputs=inputs, variants=variants, shard=(int(found[1]), int(found[2])), trials=trials,
        processes=processes,
    )  # fmt: skip


def print_mechanical(
    exercises: Sequence[Exercise],
    terms: MechanicalOptions,
    changed_only: bool,
    write: bool,
    console: Console,
) -> bool:
    """Run the changes, which prints the table; return True if all are caught or equivalent.

    write   write the rows of the table into docs/evidence.md
    """
    if changed_only:
        exercises = list_exercises_to_prove(exercises, ROOT)
        console.print(f"Changed: {', '.join(e.slug for e in exercises) or 'no exercise'}.")
    keep = _write_mechanical_row if write else lambda row: None
    found = run_mechanical_changes(exercises, terms, console, keep)
    if not found and not changed_only:
        console.print("Nothing was asked: only solutions in Python are changed, and no bug hunts.")
        return False
    return is_mechanical_proof_whole(found)


def _write_mechanical_row(row: MechanicalRow) -> None:
    cells = build_mechanical_evidence(row)
    evidence.write_evidence_rows("mechanical", COLUMNS, [cells], sums=COLUMNS[1:])
