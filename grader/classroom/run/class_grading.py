"""Grades a class from its folder of submissions to its folder of results."""

import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.course.settings import NO_COURSE, CourseSettings
from grader.classroom.run import (
    adjust,
    gather_answers,
    results_folder,
    submission_times,
)
from grader.classroom.run.class_progress import ClassProgress
from grader.classroom.run.class_run import ClassRun
from grader.classroom.run.grade_task import GradeTerms
from grader.classroom.run.grade_work import EnvironmentMismatch
from grader.classroom.run.lanes import Lanes, LocalLanes
from grader.classroom.run.late_students import LatenessReport
from grader.classroom.run.results_folder import PARTS_FOLDER, STUDENTS, LastClassRun
from grader.classroom.run.write_results import WrittenResults
from grader.core.errors import UserError
from grader.core.records import Exercise
from grader.core.result_store import ResultStore
from grader.core.this_python import build_pip_install_command
from grader.core.translation import Words
from grader.grading import source_digest
from grader.grading.installed_versions import list_grading_versions
from grader.grading.official_grader import BadGradingSecret, load_grading_secret
from grader.grading.session import digest_grading_seed
from grader.reporting.class_summary import ClassSummary
from grader.submission.handed_files import clean_submitted_name
from grader.worker.parent.walls import NoSuchWall


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRequest:
    """The request for a class run."""

    submissions: Path
    results: Path
    exercises: Sequence[Exercise]
    device: str
    wall: str  # "locked" or "contained"
    speed: bool
    jobs: int
    cluster: str | None  # the address of a Dask scheduler
    words: Words
    course: CourseSettings = NO_COURSE

    @property
    def as_run(self) -> LastClassRun:
        slugs = tuple(exercise.slug for exercise in self.exercises)
        return LastClassRun(
            submissions=os.fspath(self.submissions.resolve()), exercises=slugs, device=self.device,
            wall=self.wall, speed=self.speed, shows=self.course.shows,
            course="" if self.course.path is None else str(self.course.path),
            language=self.words.language,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassGraded:
    """The outcome of a class run."""

    summary: ClassSummary
    graded: int  # answers that were judged or timed by this run
    remarks: tuple[str, ...]  # sentences about what belongs to no student

    @property
    def faults(self) -> int:
        """Return the answers on which the grader itself failed."""
        return sum(figures.faults for figures in (*self.summary.core, *self.summary.further))


def grade_class(asked: ClassRequest, progress: ClassProgress, *, resume: bool) -> ClassGraded:
    """Grade a class, and write the results. Raises `UserError` with a sentence."""
    _check_class_places(asked)
    with results_folder.open_class_results(asked.results), explain_class_errors():
        entries, remarks = gather_answers.list_class_students(asked.submissions)
        names = [gather_answers.name_student_of_entry(entry) for entry in entries]
        adjustments, unused = adjust.read_class_adjustments(asked.results, names, asked.exercises)
        lates, of_nobody = read_class_lateness(asked, names)
        results_folder.check_class_run_allowed(asked.results, asked.as_run, resume=resume)

        def record_begun() -> None:
            results_folder.record_begun_class_run(asked.results, asked.as_run)

        with begin_class_run(asked, entries, record_begun) as run:
            run.judge(progress)
            if asked.speed:
                run.time(progress)
        _warn_of_alike_students(run)
        written = WrittenResults(
            folder=asked.results, words=asked.words, speed=asked.speed, adjustments=adjustments,
            lates=lates,
        )  # fmt: skip
        record_begun()  # reports are changed, even if nothing was graded
        summary = written.write(run, title=asked.submissions.resolve().name)
        results_folder.record_finished_class_run(asked.results, asked.as_run)
    left = [
        f"{clean_submitted_name(os.fspath(p))} is of an earlier run: nobody of that name is in "
        "the class now."
        for p in list_abandoned_student_folders(asked.results, run)
    ]
    return ClassGraded(
        summary=summary,
        graded=run.graded,
        remarks=(*remarks, *unused, *of_nobody, *left, *_explain_zero_totals(summary)),
    )


def _explain_zero_totals(summary: ClassSummary) -> Iterator[str]:
    """Yield why every total is 0 if no exercise counts, as of a pack alone."""
    if not summary.core:
        yield (
            "Every total is 0, because no exercise of this run counts: give those of the further "
            "track a `weight` in course.toml."
        )


def read_class_lateness(
    asked: ClassRequest, students: Sequence[str]
) -> tuple[LatenessReport, list[str]]:
    """Return lateness by student, and warnings about unknown students."""
    if not asked.course.deadlines:
        return LatenessReport(course=asked.course), []
    found, unused = submission_times.read_class_submission_times(asked.submissions, students)
    lates = LatenessReport(course=asked.course, times=found)
    return lates, [*unused, *lates.for_nobody(students)]


def _check_class_places(asked: ClassRequest) -> None:
    """Raise `UserError` if results would lie among what was handed in."""
    submissions, results = asked.submissions.resolve(), asked.results.resolve()
    if results.is_relative_to(submissions):
        raise UserError(
            f"{asked.results} lies in {asked.submissions}: name another folder of results."
        )


def _warn_of_alike_students(run: ClassRun) -> None:
    """Warn about students' names that look identical."""
    read = defaultdict(list)
    for row in run.rows:
        name = unicodedata.normalize("NFKC", row.student).casefold()
        read["".join(name.split())].append(row)
    for rows in read.values():
        for row in rows if len(rows) > 1 else ():
            remark = f"{len(rows)} names in the class read like {row.student!r}."
            run.remarks.setdefault(row.folder, []).append(remark)


def begin_class_run(
    asked: ClassRequest, entries: Sequence[Path], begun: Callable[[], None] = lambda: None
) -> ClassRun:
    """Return a run over the students of `entries`, with the secret and the store of its results.

    begun  called when there is something to grade and the processes or machines for it are there
    """
    secret = load_grading_secret(asked.results)
    terms = GradeTerms(
        seed_id=digest_grading_seed(secret),
        device=asked.device,
        wall=asked.wall,
        versions=list_grading_versions("off"),
    )

    def start() -> Lanes:
        lanes = _choose_class_lanes(asked, terms, secret)
        begun()
        return lanes

    return ClassRun(
        entries=entries, exercises=asked.exercises, terms=terms,
        store=ResultStore(asked.results / PARTS_FOLDER), start=start,
    )  # fmt: skip


def _choose_class_lanes(asked: ClassRequest, terms: GradeTerms, secret: str) -> Lanes:
    if asked.cluster is None:
        return LocalLanes(asked.jobs, secret)
    try:
        from grader.classroom.run.cluster import Cluster
    except ModuleNotFoundError as error:
        cure = build_pip_install_command("distributed", "cryptography")
        raise UserError(f"{error.name} is not installed: `{cure}`.") from None
    cluster = Cluster(asked.cluster, secret, asked.device)
    try:
        codes = {e.slug: source_digest.digest_grading_code(e.slug) for e in asked.exercises}
        cluster.check(terms, codes, asked.speed)
    except BaseException:
        cluster.close(at_once=True)
        raise
    return cluster


@contextmanager
def explain_class_errors() -> Iterator[None]:
    """Turn a fatal error into `UserError`, saying that results are kept."""
    try:
        yield
    except (gather_answers.NoClassFound, BadGradingSecret, results_folder.NoResults) as problem:
        raise UserError(str(problem)) from None
    except CancelledError:
        raise UserError("The cluster went away. What was graded is kept: `--resume`.") from None
    except (EnvironmentMismatch, NoSuchWall) as problem:
        raise UserError(
            f"A process does not grade as this one would: {problem}. What was graded is kept: "
            "`--resume`."
        ) from None
    except OSError as error:
        raise UserError(
            f"{error.filename or 'A file'}: {error.strerror}. What was graded is kept: `--resume`."
        ) from None


def list_abandoned_student_folders(results: Path, run: ClassRun) -> list[Path]:
    """Return the folders of students who were graded before and are not in the class now."""
    students, now = results / STUDENTS, {row.folder for row in run.rows}
    found = students.iterdir() if students.is_dir() else ()
    return sorted(path for path in found if path.is_dir() and path.name not in now)
