"""Grades one exercise of one submission, from the file to its report."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from grader.core import scoring
from grader.core.errors import GraderFault
from grader.core.records import CheckResult, Exercise, ExerciseReport, Speed, Submission, Verdict
from grader.diagnosis import failed_checks
from grader.grading import ungraded
from grader.judging import drills, recorded_cases, suite_runner
from grader.judging.judge import NEEDS_CUDA, Judge
from grader.judging.student import Student
from grader.submission import admission, answer_file
from grader.submission.admission import AdmittedSubmission, NotGraded
from grader.timing.contest import Contest
from grader.timing.speed import fail_speed_timing, measure_speed, skip_speed_timing
from grader.worker.parent import requirements
from grader.worker.parent.faults import LoadFailed, UnmetRequirement, WorkerFault
from grader.worker.parent.harmless_text import clean_worker_text
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.supervisor import Supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The settings that all exercises of one grading run share."""

    nursery: Nursery
    student: str
    secret: str
    own: bool = True  # a student's own run, whose seed is printed
    device: str = "cpu"
    speed: bool = True  # measure the speed of what is right
    later: bool = False  # not at once: `timed` does it
    explain: bool = True  # name mistakes, stages and lines of what failed
    progress: Callable[[str, float], None] = lambda doing, share: None
    verdicts: Callable[[Sequence[CheckResult]], None] = lambda checks: None  # known so far
    first: frozenset[str] = frozenset()  # checks that run before all others
    before_case: Callable[[], None] = lambda: None  # may raise to end the run between two cases

    @property
    def on_cuda(self) -> bool:
        return self.device.startswith("cuda")

    def draw_seed(self, answer: Submission) -> tuple[str, ...]:
        """Return the seed from which the inputs of an exercise are drawn.

        In a student's own run this is the printed seed, so that a mended file gets the same inputs
        again. In official grading it includes the file, so that the report on one attempt tells
        nothing about the inputs of the next.
        """
        if self.own:
            return self.secret, answer.slug
        return self.secret, self.student, answer.sha256, answer.slug


def grade_answer(
    exercise: Exercise, place: Path, run: Run, problem: NotGraded | None = None
) -> ExerciseReport:
    """Grade one exercise: read, admit, judge, time, score. Return a report whatever the file holds.

    problem  why there is nothing to read, if that is known beforehand
    """
    started = time.monotonic()
    path = answer_file.locate_submission(place, exercise.slug)
    run.progress(f"grading {exercise.slug}", 0.0)
    answer: Submission | None = None
    judged = JudgedAnswer()
    speed: Speed | None = None
    try:
        recorded_cases.load_judging_tape(exercise.slug)  # a damaged sealed bundle comes first
        answer = _read_graded_answer(exercise, path, run, problem)
        admitted = _admit_graded_answer(exercise, answer, run)
        judged = _judge_graded_answer(admitted, run)
        speed = _time_graded_answer(exercise, answer, judged.checks, run)
    except NotGraded as why:
        checks = ungraded.list_ungraded_checks(
            exercise, str(why), on_cuda=run.on_cuda, line=why.line
        )
        judged = JudgedAnswer(why.state, str(why), checks)
        speed = _grade_untimed_answer(exercise, str(why), run)
    except UnmetRequirement as needs:
        judged = JudgedAnswer(checks=ungraded.list_ungradable_checks(exercise, str(needs)))
        if answer is not None:
            speed = _time_graded_answer(exercise, answer, judged.checks, run)
    except Exception as error:  # a hole of ours: it must not cost the exercises after this one
        judged = JudgedAnswer("fault", ungraded.describe_grading_fault(error))
    return _build_graded_report(exercise, path, answer, judged, speed, started)


@dataclass(frozen=True, slots=True)
class AdmittedAnswer:
    """An answer that may be run: what a worker is given, and the exercise that it answers."""

    exercise: Exercise  # of a bug hunt, with the hunt that was drawn
    answer: Submission
    given: AdmittedSubmission


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """The verdicts on an answer, or why there are none, and what the answer printed."""

    state: str = "graded"
    sentence: str = ""
    checks: tuple[CheckResult, ...] = ()
    printed: str = ""


def _read_graded_answer(
    exercise: Exercise, path: Path, run: Run, problem: NotGraded | None
) -> Submission:
    """Read the file. Raises `NotGraded` with the sentence for the student."""
    if problem is not None:
        raise problem
    if path.is_symlink() and not run.own:
        raise NotGraded("unreadable", f"{path.name} is a link: hand in the file itself.")
    return admission.read_begun_submission(path, exercise)


def _admit_graded_answer(exercise: Exercise, answer: Submission, run: Run) -> AdmittedAnswer:
    """Compare the answer with the list of allowed names, and compile it if its language needs that.

    Raises `NotGraded`, and `UnmetRequirement` where this machine lacks what the exercise requires.
    """
    exercise = drills.lend_judged_hunt(exercise, answer.source)
    admitted = admission.admit_submission(answer, exercise, run.nursery.wall, on_cuda=run.on_cuda)
    if lacking := requirements.find_unmet_worker_requirement(
        requirements.list_worker_requirements(exercise, on_cuda=run.on_cuda)
    ):
        raise UnmetRequirement(lacking)
    return AdmittedAnswer(exercise, answer, admitted)


def _judge_graded_answer(admitted: AdmittedAnswer, run: Run) -> JudgedAnswer:
    """Run every check of the suite on the answer, in a worker."""
    try:
        return _judge_graded_answer_once(admitted, run, again=False)
    except _DisturbedGrading:
        return _judge_graded_answer_once(admitted, run, again=True)


def _build_graded_report(
    exercise: Exercise, path: Path, answer: Submission | None, judged: JudgedAnswer,
    speed: Speed | None, started: float,
) -> ExerciseReport:  # fmt: skip
    """Add up the points, and return the report on the exercise."""
    faulty = any(check.verdict is Verdict.GRADER_FAULT for check in judged.checks)
    state = "fault" if faulty else judged.state
    return ExerciseReport(
        slug=exercise.slug,
        title=exercise.title,
        track=exercise.track,
        path=clean_worker_text(str(path)),
        sha256="" if answer is None else answer.sha256,
        state=state,
        sentence=judged.sentence,
        score=None if state == "fault" else scoring.sum_score_points(judged.checks, speed),
        checks=judged.checks,
        speed=speed,
        output=judged.printed,
        seconds=time.monotonic() - started,
    )


def grade_answer_speed(
    exercise: Exercise, place: Path, run: Run, report: ExerciseReport
) -> ExerciseReport:
    """Return a report that was judged with `later`, with its speed measured."""
    started = time.monotonic()
    try:
        answer = admission.read_begun_submission(
            answer_file.locate_submission(place, exercise.slug), exercise
        )
        if answer.sha256 != report.sha256:
            return _untimed_report(report, scoring.CHANGED)
        speed = _time_graded_answer(exercise, answer, report.checks, replace(run, later=False))
    except NotGraded:
        return _untimed_report(report, scoring.CHANGED)
    except Exception as error:  # as in `grade`
        return replace(
            report, state="fault", sentence=ungraded.describe_grading_fault(error), score=None
        )
    seconds = report.seconds + time.monotonic() - started
    return replace(scoring.add_speed_to_score(report, speed), seconds=seconds)


def _untimed_report(report: ExerciseReport, why: str) -> ExerciseReport:
    """Return a report whose speed, which was to come, was not measured."""
    speed = report.speed
    return report if speed is None else scoring.add_speed_to_score(report, replace(speed, why=why))


class _DisturbedGrading(Exception):
    """Raised if a process was killed, perhaps not by the submission: grade again."""


def _judge_graded_answer_once(admitted: AdmittedAnswer, run: Run, *, again: bool) -> JudgedAnswer:
    exercise, answer = admitted.exercise, admitted.answer
    worker = Supervisor(
        run.nursery, admitted.given.runs, exercise.limits, on_cuda=run.on_cuda,
        refuse=exercise.refused, preload=exercise.preload, prelude=exercise.prelude,
    )  # fmt: skip
    problems = admitted.given.problems
    try:
        with closing(worker), np.errstate(all="ignore"):  # what overflows is judged, not warned of
            _load_graded_answer(worker, exercise, answer, problems)
            student = Student(exercise, worker.client(), problems, answer)
            tape = recorded_cases.load_judging_tape(exercise.slug)
            judge = Judge(student, run.draw_seed(answer), run.device, tape)
            judge.before_case = run.before_case
            verdicts = suite_runner.run_suite_checks(
                exercise, judge, decided=run.verdicts, first=run.first
            )
            if not run.explain:
                return JudgedAnswer(checks=verdicts)
            printed = worker.output()  # before changed copies of the answer are run as well
            checks = failed_checks.diagnose_failed_checks(exercise, verdicts, judge)
            line_of = partial(_find_graded_failure_line, answer=answer, admitted=admitted.given)
            found = tuple(replace(c, line=line_of(c)) for c in checks)
            return JudgedAnswer(checks=found, printed=printed)
    finally:
        if worker.disturbed and not again:  # whatever came of it; the second try stands
            raise _DisturbedGrading


def _find_graded_failure_line(
    check: CheckResult, answer: Submission, admitted: AdmittedSubmission
) -> int:
    """Return the line of a failure: where an exception was raised, or a function that `why` names.

    Return 0 if there is no such line, and for a notebook, whose cells have no line in its file.
    """
    if check.verdict is not Verdict.FAILED or answer.lines:
        return 0
    return check.line or admitted.line_of(check.why)


def _load_graded_answer(
    worker: Supervisor, exercise: Exercise, answer: Submission, problems: Mapping[str, str]
) -> None:
    """Run the file once; its own errors fail every check alike."""
    try:
        worker.load()
    except LoadFailed as failed:
        if exercise.language != "python":  # what is loaded is a module of ours
            raise GraderFault(f"what was compiled cannot be loaded: {failed.problem}") from None
        raise NotGraded(
            "unreadable", ungraded.describe_ungraded_import(failed, answer, problems),
            line=0 if answer.lines else failed.problem.line or 0,
        ) from None  # fmt: skip
    except WorkerFault as problem:
        at = ungraded.name_ungraded_line(answer, getattr(problem, "line", None))
        raise NotGraded("unreadable", f"While the file was loaded, {problem}{at}.") from None


def _time_graded_answer(
    exercise: Exercise, answer: Submission, checks: Sequence[CheckResult], run: Run
) -> Speed | None:
    """Return the verdict on the speed of an answer whose values have been judged."""
    case = suite_runner.find_suite_speed_case(exercise)
    if case is not None and all(c.verdict is Verdict.NOT_RUN for c in checks):
        return skip_speed_timing(case, checks[0].why)
    wrong = [c for c in checks if c.verdict not in (Verdict.PASSED, Verdict.NOT_RUN)]
    if case is None or wrong or not run.speed:
        return _grade_untimed_answer(exercise, "speed is measured when every check passes", run)
    if run.later:
        return skip_speed_timing(
            case, scoring.SPEED_TO_COME if run.on_cuda or not case.cuda else NEEDS_CUDA
        )
    contest = Contest(
        exercise=exercise, case=case, answer=answer, nursery=run.nursery,
        seed=run.draw_seed(answer), device=run.device if case.cuda else "cpu",
    )  # fmt: skip
    return measure_speed(contest, partial(run.progress, f"timing {exercise.slug}"))


def _grade_untimed_answer(exercise: Exercise, why: str, run: Run) -> Speed | None:
    """Return the verdict when nothing is measured: not run, or failed for another reason."""
    case = suite_runner.find_suite_speed_case(exercise)
    if case is None:
        return None
    if lacking := requirements.find_unmet_worker_requirement(
        requirements.list_worker_requirements(exercise, on_cuda=run.on_cuda)
    ):
        return skip_speed_timing(case, lacking)
    if case.cuda and not run.on_cuda:
        return skip_speed_timing(case, NEEDS_CUDA)
    return (
        fail_speed_timing(case, why)
        if run.speed
        else skip_speed_timing(case, scoring.SPEED_LEFT_OUT)
    )
