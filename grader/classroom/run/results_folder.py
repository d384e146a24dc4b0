"""The folder of results: guards it for one run at a time, and records what the last one was."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from grader.core.errors import UserError
from grader.core.result_store import remove_partly_written_files, write_file_whole
from grader.grading.official_grader import SECRET_FILE

RUN_FILE = ".run.json"
STUDENTS, REPORTS = "students", "reports"  # what students may see; all of it, where they may not
PARTS_FOLDER = ".parts"
_LOCK_FILE = ".lock"


class NoResults(Exception):
    """Raised for a folder without results of a class; the message says why, and how to fix it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastClassRun:
    """The request of a run: exercises, submissions and settings."""

    submissions: str
    exercises: tuple[str, ...]
    device: str
    wall: str
    speed: bool
    course: str = ""  # the course's file, if there is one
    shows: str = "open"  # what students may see
    language: str = ""  # of the reports; '' of a run before this was recorded
    finished: bool = False


@contextmanager
def open_class_results(folder: Path) -> Iterator[None]:
    """Open the folder of results for this run alone; make it if there is none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK_FILE).open("w")
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"Another run writes to {folder}: wait until it is done.") from None
        remove_partly_written_files(folder)
        yield


def read_last_class_run(folder: Path) -> LastClassRun:
    """Return the request of the last run into this folder."""
    try:
        found = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
        return LastClassRun(**{**found, "exercises": tuple(found["exercises"])})
    except FileNotFoundError:
        raise NoResults(
            f"{folder} holds no results of a class: `make class OUT={folder}` writes some."
        ) from None
    except (OSError, ValueError, TypeError, KeyError):
        raise NoResults(f"{folder / RUN_FILE} is damaged: delete it, and grade again.") from None


def find_class_report_language(folder: Path) -> str:
    """Return the language of the reports in this folder; '' if it is not known."""
    try:
        return read_last_class_run(folder).language
    except NoResults:
        return ""


def list_class_report_paths(folder: Path, shows: str) -> Path:
    """Return the paths of the full reports."""
    return folder / (STUDENTS if shows == "open" else REPORTS)


def check_class_run_allowed(folder: Path, run: LastClassRun, *, resume: bool) -> None:
    """Raise `UserError` if the last run into this folder forbids this one."""
    if not resume and (folder / RUN_FILE).exists() and not read_last_class_run(folder).finished:
        raise UserError(f"The last run into {folder} was not finished: `--resume` goes on with it.")
    if (folder / RUN_FILE).exists() and read_last_class_run(folder).course and not run.course:
        raise UserError(
            f"{folder} was graded for {read_last_class_run(folder).course}: "
            "name that again (`--course`), or another folder of results."
        )
    if (folder / PARTS_FOLDER).exists() and not (folder / SECRET_FILE).exists():
        raise UserError(
            f"{folder / SECRET_FILE} is gone, from which all inputs were drawn: put it back, or "
            "name another folder to grade everything anew."
        )


def record_begun_class_run(folder: Path, run: LastClassRun) -> None:
    """Record that a run has begun: from now on there is something to resume."""
    _write_class_run(folder, run)


def record_finished_class_run(folder: Path, run: LastClassRun) -> None:
    """Record that a run is finished."""
    _write_class_run(folder, LastClassRun(**{**asdict(run), "finished": True}))


def _write_class_run(folder: Path, run: LastClassRun) -> None:
    write_file_whole(folder / RUN_FILE, json.dumps(asdict(run), indent=2) + "\n")
