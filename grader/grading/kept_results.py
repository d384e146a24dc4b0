"""Keeps what a student's own runs found, and finds it again while nothing has changed.

Each answer has one file in the store, with the digest of all that its verdicts depend on. These
files are the student's own: whoever can write them can write any verdict into them. So they are
shown to that student, and never counted as marks.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from grader.core import catalog
from grader.core.record_types import has_record_declared_types
from grader.core.records import Exercise, ExerciseReport, Speed, Verdict
from grader.core.result_store import ResultStore, write_file_whole
from grader.core.scoring import is_speed_score_due, sum_score_points
from grader.grading.installed_versions import list_grading_versions, read_grading_tf32_setting
from grader.grading.source_digest import digest_grading_code, digest_grading_folders
from grader.reporting import as_json, from_json
from grader.submission import answer_file
from grader.submission.notebook_cells import MAX_FILE_BYTES as MAX_ANSWER_BYTES
from grader.worker.parent import requirements
from grader.worker.parent.faults import may_be_worker_overload
from grader.worker.parent.nursery import THREAD_VARIABLES
from grader.worker.parent.walls import Wall

MAX_FILES = 500  # of a store; the oldest go first
_COMPILERS = ("g++", "nvcc")
_DEVICE_VARIABLES = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult:
    """The verdicts on an answer, and its speed if that was measured."""

    judged: ExerciseReport  # when it was judged as well; its speed is to come, or not to be had
    speed: Speed | None
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KeptResults:
    """A folder of kept results. `terms`: what every result of a run depends on, as its wall."""

    folder: Path
    terms: tuple[str, ...]

    def digest(self, exercise: Exercise, path: Path) -> str:
        """Return the digest of all that the verdicts on the answer at `path` depend on."""
        parts = (
            str(path),
            digest_graded_content(path),
            *self.terms,
            _digest_graded_exercise(exercise),
        )
        return _digest_graded_texts(parts)

    def find(self, exercise: Exercise, path: Path, digest: str) -> KeptResult | None:
        """Return the result with this digest; None if there is none, or if its file is damaged."""
        found = self._store.get(_build_kept_grade_key(exercise, path))
        if found is None or found.get("digest") != digest:
            return None
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            return _read_kept_grade(found, exercise)
        return None

    def keep(self, exercise: Exercise, path: Path, digest: str, result: KeptResult) -> None:
        """Keep a result in the place of an earlier one; where nothing can be written, do not."""
        if not _is_grade_lasting(result.judged):
            self.forget(exercise, path)
            return
        speed = result.speed if result.speed and result.speed.verdict == "scored" else None
        content = {
            "digest": digest,
            "judged": as_json.convert_exercise_report(result.judged),
            "calls": {check.id: sorted(check.calls) for check in result.judged.checks},
            "speed": None if speed is None else as_json.convert_speed_report(speed),
            "versions": dict(result.versions),
        }
        with suppress(OSError):
            write_file_whole(self.folder / ".gitignore", "*\n")
            self._store.put(_build_kept_grade_key(exercise, path), content)
            self._remove_oldest()

    def forget(self, exercise: Exercise, path: Path) -> None:
        """Remove the result on an answer, if there is one."""
        with suppress(OSError):
            self._store.path(_build_kept_grade_key(exercise, path)).unlink(missing_ok=True)

    @property
    def _store(self) -> ResultStore:
        return ResultStore(self.folder)

    def _remove_oldest(self) -> None:
        files = list(self.folder.glob("*/*.json"))
        if len(files) > MAX_FILES:
            files.sort(key=lambda path: path.stat().st_mtime)
            for path in files[:-MAX_FILES]:
                path.unlink(missing_ok=True)


def digest_graded_content(path: Path) -> str:
    """Return the digest of what lies at `path`, also if that is no answer."""
    try:
        content = answer_file.read_submission_bytes(path, MAX_ANSWER_BYTES)
    except answer_file.UnreadableFile as problem:
        return str(problem)
    return hashlib.sha256(content).hexdigest()


def open_kept_results(folder: Path, wall: Wall, device: str, settings: str) -> KeptResults:
    """Return the results in `folder` of runs like this one: same wall, device, machine, versions.

    settings  the course's settings, as text; they must be the same too
    """
    names = [device]
    if device != "cpu":
        import torch

        names += [torch.cuda.get_device_name(), read_grading_tf32_setting()]
    versions = (f"{name} {version}" for name, version in list_grading_versions("").items())
    return KeptResults(
        folder, (wall.name, settings, *names, *versions, *_read_grading_machine_facts())
    )


def _read_grading_machine_facts() -> tuple[str, ...]:
    """Return what tells this machine and its Python from others, where a result depends on it."""
    found = (shutil.which(name) for name in _COMPILERS)
    dates = (f"{path} {Path(path).stat().st_mtime_ns}" if path else "none" for path in found)
    variables = (os.environ.get(name, "") for name in (*THREAD_VARIABLES, *_DEVICE_VARIABLES))
    return (sys.version, *os.uname(), str(os.cpu_count()), *dates, *variables)


def read_grading_moment() -> str:
    """Return the time in ISO 8601, with the offset from UTC."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _build_kept_grade_key(exercise: Exercise, path: Path) -> str:
    return _digest_graded_texts((exercise.slug, os.path.abspath(path)))


def _digest_graded_texts(texts: tuple[str, ...]) -> str:
    lengths = "".join(f"{len(text)}:{text}" for text in texts)
    return hashlib.sha256(lengths.encode("utf-8", "surrogateescape")).hexdigest()


def _digest_graded_exercise(exercise: Exercise) -> str:
    """Return the digest of an exercise, its suite, its solution, and of all code that grades it.

    For a bug hunt the digest covers every exercise: any suite may judge its answer.
    """
    others = catalog.list_catalog_exercises() if exercise.hunts else (exercise,)
    lacking = requirements.find_unmet_worker_requirement(
        (*exercise.requires, *(exercise.requires_on_cuda or ()))
    )
    code = [
        f"{digest_grading_code(other.slug)} {digest_graded_content(other.solution)}"
        for other in others
    ]
    slugs = sorted(
        other.slug for other in catalog.list_catalog_exercises()
    )  # none of them can be imported
    texts = (repr(exercise), digest_grading_folders("grader/grading"), lacking, *code, *slugs)
    return _digest_graded_texts(texts)


def _read_kept_grade(found: Mapping[str, Any], exercise: Exercise) -> KeptResult:
    """Read a result. Raises `ValueError`, among others, for a text of another origin."""
    judged = from_json.parse_exercise_report(found["judged"], exercise.track)
    called = {name: frozenset(names) for name, names in found["calls"].items()}
    judged = replace(judged, checks=tuple(replace(c, calls=called[c.id]) for c in judged.checks))
    speed = None if found["speed"] is None else from_json.parse_speed_report(found["speed"])
    result = KeptResult(judged=judged, speed=speed, versions=found["versions"])
    if not has_record_declared_types(result) or not _does_kept_grade_add(result, exercise):
        raise ValueError("no result of ours")
    datetime.fromisoformat(judged.kept_since)
    return result


def _does_kept_grade_add(result: KeptResult, exercise: Exercise) -> bool:
    judged, speed = result.judged, result.speed
    return (
        judged.slug == exercise.slug
        and judged.score == sum_score_points(judged.checks, judged.speed)
        and (speed is None or (is_speed_score_due(judged) and 0 <= speed.earned <= speed.points))
    )


def _is_grade_lasting(report: ExerciseReport) -> bool:
    """Return whether a later run of the same file would find the same.

    A result that a fault of the grader, a missing requirement or a busy machine may have caused
    does not last.
    """
    if report.score is None or may_be_worker_overload(report.sentence):
        return False
    if any(c.verdict is Verdict.FAILED and may_be_worker_overload(c.why) for c in report.checks):
        return False
    return any(c.verdict is not Verdict.NOT_RUN for c in report.checks)
