"""Chooses the kind of a source, and reads the source by that kind."""

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
from grader.classroom.collecting.upload_times import UploadTimes
from grader.classroom.run.answer_files import is_student_folder
from grader.core import catalog
from grader.core.errors import UserError
from grader.submission.handed_files import clean_submitted_name, is_submitted_zip

SOURCE_KINDS = {
    "repositories": "a folder of clones",
    "nbgrader": "a nbgrader course or exchange",
    "uploads": "uploads to a platform",
}


def choose_collected_source_kind(source: Path, wished: str) -> str:
    """Return the wished kind of a source, or detect it for "auto". Raises `UserError`."""
    shown = clean_submitted_name(str(source))
    if wished not in ("auto", *SOURCE_KINDS):
        close = catalog.suggest_close_name(wished, list(SOURCE_KINDS))
        raise UserError(
            f"There is no kind called {wished!r}: auto, {', '.join(SOURCE_KINDS)}.{close}"
        )
    if not os.path.exists(source):
        raise UserError(f"{shown} is not there: name a folder, or a zip of uploads.")
    if not is_student_folder(source):
        if source.is_file() and is_submitted_zip(source.name) and wished in ("auto", "uploads"):
            return "uploads"
        raise UserError(f"{shown} is neither a folder nor a zip of uploads: name one of these.")
    if wished != "auto":
        return wished
    if clones.find_collected_clones(source):
        return "repositories"
    return "nbgrader" if _is_collected_nbgrader_folder(source) else "uploads"


def _is_collected_nbgrader_folder(source: Path) -> bool:
    names = ("submitted", "inbound")
    if source.name in names or any(is_student_folder(source / name) for name in names):
        return True
    return any(
        (handed.folder / nbgrader_exchange.TIME_STAMP_NAME).exists()
        for handed in nbgrader_exchange.find_collected_assignments(source)
    )


def collect_parcels(
    source: Path,
    kind: str,
    roster: Roster,
    table: Path | None,
    until: datetime | None,
    told: CollectResult,
) -> Iterator[Parcel]:
    """Yield each student's parcel from a source of this kind."""
    match kind:
        case "repositories":
            return repositories.collect_repository_parcels(source, roster, table, until, told)
        case "nbgrader":
            if table is not None:
                raise UserError("nbgrader has times of its own: leave out --times.")
            return nbgrader_exchange.collect_nbgrader_parcels(source, roster, until, told)
        case _:
            known = UploadTimes({})
            if table is not None:
                known, problems = upload_times.read_collected_upload_times(table, roster)
                told.open += problems
            return uploads.collect_upload_parcels(source, roster, known, until, told)
