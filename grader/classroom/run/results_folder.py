"""The folder of results: one run at a time, and what the last one was about."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from grader.classroom.run.result_store import sweep, write
from grader.core.errors import UserError
from grader.grading.official_grader import SECRET_FILE

RUN = ".run.json"
STUDENTS, REPORTS = "students", "reports"  # what students may see; all of it, where they may not
PARTS = ".parts"
_LOCK = ".lock"


class NoResults(Exception):
    """A folder that holds no results of a class; the message is a sentence with the cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """What a run was asked for."""

    submissions: str
    exercises: tuple[str, ...]
    device: str
    wall: str
    speed: bool
    course: str = ""  # the course's file, if there is one
    shows: str = "open"  # what students may see
    finished: bool = False


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """The folder of results, made if need be, for this run alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK).open("w")
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"Another run writes to {folder}: wait until it is done.") from None
        sweep(folder)
        yield


def last_run(folder: Path) -> LastRun:
    """What the last run into this folder was asked for."""
    try:
        found = json.loads((folder / RUN).read_text(encoding="utf-8"))
        return LastRun(**{**found, "exercises": tuple(found["exercises"])})
    except FileNotFoundError:
        raise NoResults(
            f"{folder} holds no results of a class: `grader class SUBMISSIONS -o {folder}` "
            "writes some."
        ) from None
    except (OSError, ValueError, TypeError, KeyError):
        raise NoResults(f"{folder / RUN} is damaged: delete it, and grade again.") from None


def full_reports(folder: Path, shows: str) -> Path:
    """Where the reports lie that have everything."""
    return folder / (STUDENTS if shows == "open" else REPORTS)


def begin(folder: Path, run: LastRun, *, resume: bool) -> None:
    """Write down what this run is asked for. A run that was not finished is not begun again."""
    if not resume and (folder / RUN).exists() and not last_run(folder).finished:
        raise UserError(f"The last run into {folder} was not finished: `--resume` goes on with it.")
    if (folder / RUN).exists() and last_run(folder).course and not run.course:
        raise UserError(
            f"{folder} was graded for {last_run(folder).course}: name that again (`--course`), or "
            "another folder of results."
        )
    if (folder / PARTS).exists() and not (folder / SECRET_FILE).exists():
        raise UserError(
            f"{folder / SECRET_FILE} is gone, from which all inputs were drawn: put it back, or "
            "name another folder to grade everything anew."
        )
    _write(folder, run)


def finish(folder: Path, run: LastRun) -> None:
    """Write down that a run is finished."""
    _write(folder, LastRun(**{**asdict(run), "finished": True}))


def _write(folder: Path, run: LastRun) -> None:
    write(folder / RUN, json.dumps(asdict(run), indent=2) + "\n")
