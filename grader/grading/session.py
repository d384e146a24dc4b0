"""Grades several exercises in one run."""

import hashlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from grader.core import sealed_bundle
from grader.core.records import Exercise, ExerciseReport, Report
from grader.core.scoring import add_speed_to_score, is_speed_score_due, remove_speed_from_score
from grader.grading.installed_versions import list_grading_versions, read_grading_tf32_setting
from grader.grading.judge_together import (
    RunTerms,
    build_grading_run,
    count_grading_processes,
    grade_answers_together,
)
from grader.grading.kept_results import KeptResult, KeptResults, read_grading_moment
from grader.submission import answer_file
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.walls import PROCESS, Wall, hide_grader_from_workers

if TYPE_CHECKING:
    from grader.grading.exercise import Run

OWN_SEED = "own"  # of a learner's runs that show no seed and keep no result
Progress = Callable[[str, float], None]


def show_no_grading_progress(doing: str, share: float) -> None:
    """Show nothing."""


def grade_all_exercises(
    exercises: Sequence[Exercise],
    place: Path,
    *,
    student: str = "me",
    seed: str | None = None,
    device: str = "cpu",
    wall: Wall = PROCESS,
    speed: bool = True,
    progress: Progress = show_no_grading_progress,
) -> Report:
    """Grade `exercises`, whose answers lie in `place`, behind `wall`, and return the report.

    `progress` is told what is being done, and what share of the exercises is finished (0 to 1).
    """
    with Session(
        exercises=exercises, place=place, student=student, seed=seed, device=device, wall=wall,
        speed=speed,
    ) as session:  # fmt: skip
        session.judge(progress)
        return session.time(progress)


def judge_own_answer(
    exercise: Exercise, place: Path, *, wall: Wall = PROCESS, kept: KeptResults | None = None
) -> ExerciseReport:
    """Judge one answer of a learner, without its speed; or return what an earlier run kept of it.

    Without `kept` the same inputs are drawn each time, so that an unchanged file fails alike.
    """
    with Session(
        exercises=[exercise], place=place, wall=wall, speed=False, kept=kept,
        seed=OWN_SEED if kept is None else None,
    ) as session:  # fmt: skip
        [report] = session.judge().exercises
        return report


@dataclass(slots=True, kw_only=True)
class Session:
    """A run over several exercises: every answer is judged, and then the right ones are timed.

    kept      where the results of earlier runs lie, if this run may use them
    fresh     keep what this run finds, and use nothing of earlier ones
    together  judge on all processors, if there are enough exercises
    """

    exercises: Sequence[Exercise]
    place: Path
    student: str = "me"
    seed: str | None = None
    device: str = "cpu"
    wall: Wall = PROCESS
    speed: bool = True
    kept: KeptResults | None = None
    fresh: bool = False
    together: bool = False
    _started: float = field(default_factory=time.monotonic, init=False)
    _secret: str = field(init=False)
    _processes: ExitStack = field(default_factory=ExitStack, init=False)
    _run: "Run | None" = field(default=None, init=False)
    _results: dict[str, KeptResult] = field(default_factory=dict, init=False)
    _judged_now: set[str] = field(default_factory=set, init=False)  # slugs
    _digests: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        hide_grader_from_workers()  # it is about to hold the seed and the expected values
        stored = sealed_bundle.read_core_bundle_facts()
        own = self.seed or secrets.token_hex(8)
        self._secret = f"{sealed_bundle.STORED_CASES_PREFIX}{stored.seed}" if stored else own

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()

    def judge(self, progress: Progress = show_no_grading_progress) -> Report:
        """Judge every answer, or find its kept result; no speed is measured."""
        self._find_kept_results()
        anew = [e for e in self.exercises if e.slug not in self._results]
        for exercise, judged in self._judge_each(anew, progress):
            self._keep_judged(exercise, judged)
        return self.report

    def _judge_each(
        self, exercises: Sequence[Exercise], progress: Progress
    ) -> Iterator[tuple[Exercise, ExerciseReport]]:
        """Yield each exercise with its report as they are judged; those before it are done."""
        done = 0

        def judge_here(exercise: Exercise) -> ExerciseReport:
            return self._judge(exercise, _share_grading_progress(progress, done, len(exercises)))

        processes = count_grading_processes(len(exercises)) if self.together else 1
        judged = (
            grade_answers_together(exercises, self._terms(), processes, judge_here)
            if processes > 1
            else ((e, judge_here(e)) for e in exercises)
        )
        for found in judged:
            done += 1
            yield found

    def _terms(self) -> RunTerms:
        return RunTerms(
            place=self.place, wall=self.wall, student=self.student, secret=self._secret,
            device=self.device,
        )  # fmt: skip

    @property
    def untimed(self) -> list[Exercise]:
        """Return the exercises whose answers are right and have not been timed."""
        return [e for e in self.exercises if is_speed_score_due(self._report_on(e))]

    def time(self, progress: Progress = show_no_grading_progress) -> Report:
        """Time the right answers. Everything has been judged."""
        waiting = self.untimed
        for number, exercise in enumerate(waiting):
            self._time_and_keep(exercise, _share_grading_progress(progress, number, len(waiting)))
        return self.report

    def judge_one_again(self, progress: Progress = show_no_grading_progress) -> "Difference | None":
        """Judge one exercise that has a kept result again, chosen at random, with new inputs.

        If the verdicts are different, remove the kept result and return the difference.
        """
        found = [e for e in self.exercises if self._is_worth_judging_again(e)]
        if self.kept is None or not found:
            return None
        exercise = secrets.choice(found)
        path = answer_file.locate_submission(self.place, exercise.slug)
        again = self._judge(exercise, progress)
        if self.kept.digest(exercise, path) != self._digests[exercise.slug]:
            return None  # it was saved meanwhile
        before = self._results[exercise.slug].judged
        if _list_graded_verdicts(before) == _list_graded_verdicts(again):
            return None
        self.kept.forget(exercise, path)
        return Difference(before=before, again=again, seed=self._secret)

    @property
    def report(self) -> Report:
        """Return the report on everything that has been judged."""
        reports = tuple(map(self._report_on, self.exercises))
        seed = _find_session_seed(reports) or self._secret
        return Report(
            student=self.student,
            seed_id=digest_grading_seed(seed),
            seed=seed,
            device=self.device,
            isolation=self.wall.name,
            versions=next((r.versions for r in self._results.values()), {}),
            exercises=reports,
            seconds=time.monotonic() - self._started,
        )

    def _find_kept_results(self) -> None:
        if self.kept is None:
            return
        for exercise in self.exercises:
            path = answer_file.locate_submission(self.place, exercise.slug)
            digest = self._digests[exercise.slug] = self.kept.digest(exercise, path)
            if self.fresh or self.seed:  # whoever names a seed asks for its inputs
                continue
            if (found := self.kept.find(exercise, path, digest)) is not None:
                self._results[exercise.slug] = found

    def _keep_judged(self, exercise: Exercise, report: ExerciseReport) -> None:
        judged = replace(report, kept_since=read_grading_moment(), kept_seed=self._secret)
        self._judged_now.add(exercise.slug)
        self._results[exercise.slug] = KeptResult(
            judged=judged, speed=None, versions=list_grading_versions(read_grading_tf32_setting())
        )
        self._keep_result(exercise)

    def _time_and_keep(self, exercise: Exercise, progress: Progress) -> None:
        from grader.grading.exercise import grade_answer_speed

        result = self._results[exercise.slug]
        timed = grade_answer_speed(exercise, self.place, self._begin_run(progress), result.judged)
        if timed.score is None:  # a fault of ours: what was judged stays kept
            self._results[exercise.slug] = replace(result, judged=timed)
            return
        self._results[exercise.slug] = replace(result, speed=timed.speed)
        self._keep_result(exercise)

    def _judge(self, exercise: Exercise, progress: Progress) -> ExerciseReport:
        run = self._begin_run(progress)
        from grader.grading.exercise import grade_answer

        return grade_answer(exercise, self.place, replace(run, later=True))

    def _begin_run(self, progress: Progress) -> "Run":
        """Return the run's terms; with the first call, start the process that forks workers."""
        if self._run is None:
            nursery = self._processes.enter_context(Nursery(self.wall))
            self._run = build_grading_run(self._terms(), nursery)
        return replace(self._run, progress=progress)

    def _keep_result(self, exercise: Exercise) -> None:
        if self.kept is None:
            return
        path, digest = (
            answer_file.locate_submission(self.place, exercise.slug),
            self._digests[exercise.slug],
        )
        if self.kept.digest(exercise, path) == digest:  # else it was saved during the run
            self.kept.keep(exercise, path, digest, self._results[exercise.slug])

    def _report_on(self, exercise: Exercise) -> ExerciseReport:
        result = self._results[exercise.slug]
        report = result.judged if self.speed else remove_speed_from_score(result.judged)
        if is_speed_score_due(report) and result.speed is not None:
            report = add_speed_to_score(report, result.speed)
        kept = exercise.slug not in self._judged_now
        return report if kept else replace(report, kept_since="", kept_seed="")

    def _is_worth_judging_again(self, exercise: Exercise) -> bool:
        graded = self._results[exercise.slug].judged.state == "graded"
        return graded and exercise.slug not in self._judged_now


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A kept result, and the other verdicts that the same answer got from new inputs."""

    before: ExerciseReport
    again: ExerciseReport
    seed: str  # of the new inputs


def _list_graded_verdicts(report: ExerciseReport) -> tuple[str, dict[str, str]]:
    return report.state, {check.id: check.verdict for check in report.checks}


def _find_session_seed(reports: Sequence[ExerciseReport]) -> str:
    """Return the seed of all inputs if all reports are kept from one run, else ""."""
    seeds = {report.kept_seed for report in reports}
    return seeds.pop() if len(seeds) == 1 else ""


def _share_grading_progress(progress: Progress, number: int, whole: int) -> Progress:
    """Return the progress function of one exercise among several."""
    return lambda doing, share: progress(doing, (number + share) / whole)


def digest_grading_seed(secret: str) -> str:
    """Return a digest that tells two secrets apart and reveals nothing else about them."""
    return hashlib.sha256(secret.encode()).hexdigest()[:16]
