"""Keeps a learner's progress in a file beside the answers: attempts, first pass, hints.

The file belongs to the learner: it is never sent and never graded. It is read with limits, and a
damaged file counts as empty and is kept under another name.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from grader.core import backup
from grader.core.catalog import ROOT
from grader.core.records import ExerciseReport
from grader.submission.answer_file import UnreadableFile, read_submission_bytes

PROGRESS_FILE = ".progress"
MAX_BYTES = 200_000
MAX_COUNT = 1_000_000
_DIGEST, _DAY = r"[0-9a-f]{0,64}", r"(\d{4}-\d\d-\d\d)?"
_TEXT_FORMS = {"sha256": _DIGEST, "graded": _DIGEST, "passed": _DAY}


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedExercise:
    """What a learner did on one exercise."""

    sha256: str = ""  # of the answer at the last hint
    given: Mapping[str, int] = field(default_factory=dict)  # by name, the level of the last hint
    hints: int = 0  # taken in all
    graded: str = ""  # the sha256 of the answer that was graded last
    attempts: int = 0  # graded answers that differ from the one before
    passed: str = ""  # the day of the first pass
    needed: int = 0  # attempts until the first pass


@dataclass(frozen=True, slots=True)
class LearnerProgress:
    """The entries of a progress file, by exercise, and whether the file is damaged."""

    exercises: Mapping[str, LearnedExercise]
    damaged: bool = False

    def about(self, slug: str) -> LearnedExercise:
        """Return the entry of an exercise; an empty one if there is none."""
        return self.exercises.get(slug, LearnedExercise())


def find_progress_file(place: Path) -> Path:
    """Return the file beside the answers in `place`, a folder or one answer."""
    return (place if place.is_dir() else place.parent) / PROGRESS_FILE


def read_learner_progress(place: Path) -> LearnerProgress:
    """Read the progress; no entries if the file is missing or damaged."""
    path = find_progress_file(place)
    if not os.path.lexists(path):
        return LearnerProgress({})
    try:
        entries = json.loads(read_submission_bytes(path, MAX_BYTES))
    except (UnreadableFile, ValueError, RecursionError):
        return LearnerProgress({}, damaged=True)
    if not isinstance(entries, dict):
        return LearnerProgress({}, damaged=True)
    return LearnerProgress({slug: _read_learned_exercise(entry) for slug, entry in entries.items()})


def write_learner_progress(place: Path, slug: str, entry: LearnedExercise) -> bool:
    """Write the entry of an exercise; return whether the file could be written."""
    path, before = find_progress_file(place), read_learner_progress(place)
    entries = {name: asdict(one) for name, one in {**before.exercises, slug: entry}.items()}
    new = path.with_name(f"{PROGRESS_FILE}.{os.getpid()}")
    try:
        new.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
        if before.damaged and not path.is_dir():
            backup.move_aside(path)
        new.replace(path)  # nobody ever sees half of it
    except OSError:
        with suppress(OSError):
            new.unlink()
        return False
    return True


def record_attempt(place: Path, report: ExerciseReport, *, passed: bool) -> LearnedExercise:
    """Count a graded answer unlike the one before, and the first pass; return the entry."""
    entry = read_learner_progress(place).about(report.slug)
    if not _is_attempt(place, report) or (report.sha256 == entry.graded and entry.passed):
        return entry
    attempts = entry.attempts + (report.sha256 != entry.graded)
    after = replace(entry, graded=report.sha256, attempts=min(attempts, MAX_COUNT))
    if passed and not entry.passed:
        after = replace(after, passed=time.strftime("%Y-%m-%d"), needed=after.attempts)
    if after != entry:
        write_learner_progress(place, report.slug, after)
    return after


def _is_attempt(place: Path, report: ExerciseReport) -> bool:
    """Return whether a report is on an answer of a learner's own, which was begun."""
    folder = find_progress_file(place).parent.resolve()
    return bool(report.sha256) and report.state == "graded" and folder != ROOT / "solutions"


def _read_learned_exercise(entry: object) -> LearnedExercise:
    """Return what fits of an entry that anybody may have written."""
    fitting = dict(_list_fitting_entries(entry)) if isinstance(entry, dict) else {}
    return LearnedExercise(**fitting)


def _list_fitting_entries(entry: Mapping[Any, object]) -> Iterator[tuple[str, Any]]:
    for name in ("hints", "attempts", "needed"):
        if _is_progress_count(number := entry.get(name)):
            yield name, number
    for name, form in _TEXT_FORMS.items():
        if isinstance(text := entry.get(name), str) and re.fullmatch(form, text, re.ASCII):
            yield name, text
    given = entry.get("given")
    if isinstance(given, dict):
        yield (
            "given",
            {n: k for n, k in given.items() if n.isidentifier() and _is_progress_count(k)},
        )


def _is_progress_count(value: object) -> bool:
    return type(value) is int and 0 < value <= MAX_COUNT
