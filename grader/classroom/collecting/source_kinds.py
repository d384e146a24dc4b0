"""The kinds of source, and which of them lies at a place."""

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from grader.classroom.collecting import (
    clones,
    nbgrader_exchange,
    repositories,
    upload_times,
    uploads,
)
from grader.classroom.collecting.roster import Roster
from grader.classroom.collecting.source_files import CollectResult, Parcel
from grader.classroom.collecting.upload_times import Times
from grader.classroom.run.answer_files import is_folder
from grader.core import catalog
from grader.core.errors import UserError
from grader.submission.handed_files import is_zip, printable

KINDS = {
    "repositories": "a folder of clones",
    "nbgrader": "a nbgrader course or exchange",
    "uploads": "uploads to a platform",
}


def kind(source: Path, wished: str) -> str:
    """What lies at `source`, or what it is wished to be. Raises `UserError`."""
    shown = printable(str(source))
    if wished not in ("auto", *KINDS):
        close = catalog.did_you_mean(wished, list(KINDS))
        raise UserError(f"There is no kind called {wished!r}: auto, {', '.join(KINDS)}.{close}")
    if not os.path.exists(source):
        raise UserError(f"{shown} is not there: name a folder, or a zip of uploads.")
    if not is_folder(source):
        if source.is_file() and is_zip(source.name) and wished in ("auto", "uploads"):
            return "uploads"
        raise UserError(f"{shown} is neither a folder nor a zip of uploads: name one of these.")
    if wished != "auto":
        return wished
    if clones.clones(source):
        return "repositories"
    return "nbgrader" if _is_nbgraders(source) else "uploads"


def _is_nbgraders(source: Path) -> bool:
    names = ("submitted", "inbound")
    if source.name in names or any(is_folder(source / name) for name in names):
        return True
    return any(
        (handed.folder / nbgrader_exchange.STAMP).exists()
        for handed in nbgrader_exchange.handings(source)
    )


def parcels(
    source: Path,
    kind: str,
    roster: Roster,
    table: Path | None,
    until: datetime | None,
    told: CollectResult,
) -> Iterator[Parcel]:
    """What a source of this kind holds of each student."""
    match kind:
        case "repositories":
            return repositories.read(source, roster, table, until, told)
        case "nbgrader":
            if table is not None:
                raise UserError("nbgrader has times of its own: leave out --times.")
            return nbgrader_exchange.read(source, roster, until, told)
        case _:
            known = Times({})
            if table is not None:
                known, problems = upload_times.read(table, roster)
                told.open += problems
            return uploads.read(source, roster, known, until, told)
