"""Grades one exercise of one submission, from the file to its report."""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from grader.core.records import CheckResult, Exercise, ExerciseReport, Speed, Submission, Verdict
from grader.core.scoring import LEFT_OUT, TO_COME, score
from grader.judging import diagnosis, drills, recorded_cases, suite_runner
from grader.judging.case import GraderFault
from grader.judging.judge import NEEDS_CUDA, Judge
from grader.judging.marks import Check
from grader.judging.student import Student
from grader.submission import admission, answer_file
from grader.submission.admission import Admitted, NotGraded
from grader.submission.line_names import written_as
from grader.timing.contest import Contest
from grader.timing.speed import failed, measure, not_run
from grader.worker import requirements
from grader.worker.faults import NotHere, NurseryFailed, WorkerFault
from grader.worker.harmless_text import harmless
from grader.worker.nursery import Nursery
from grader.worker.supervisor import LoadFailed, Supervisor

MAX_SENTENCE = 500  # characters about a fault of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the exercises of one grading run have in common."""

    nursery: Nursery
    student: str
    secret: str
    own: bool = True  # a student's own run, whose seed is printed
    device: str = "cpu"
    speed: bool = True  # measure the speed of what is right
    later: bool = False  # not at once: `timed` does it
    progress: Callable[[str, float], None] = lambda doing, share: None

    @property
    def on_cuda(self) -> bool:
        return self.device.startswith("cuda")

    def seed(self, answer: Submission) -> tuple[str, ...]:
        """What the draws of an exercise depend on.

        In a run of one's own that is the printed seed, so that a mended file meets the same inputs
        again. In official grading it is the file as well: what one attempt was told says nothing
        about the inputs of the next.
        """
        if self.own:
            return self.secret, answer.slug
        return self.secret, self.student, answer.sha256, answer.slug


def grade(
    exercise: Exercise, place: Path, run: Run, problem: NotGraded | None = None
) -> ExerciseReport:
    """The report on one exercise; whatever the file is, this returns.

    problem  why there is nothing to read, where that is known beforehand
    """
    started = time.monotonic()
    path = answer_file.locate(place, exercise.slug)
    state, sentence, digest, printed = "graded", "", "", ""
    checks: Sequence[CheckResult]
    speed: Speed | None = None
    run.progress(f"grading {exercise.slug}", 0.0)
    try:
        recorded_cases.tape(exercise.slug)  # where a sealed bundle is damaged, that comes first
        if problem is not None:
            raise problem
        if path.is_symlink() and not run.own:
            raise NotGraded("unreadable", f"{path.name} is a link: hand in the file itself.")
        answer = admission.read(path, exercise)
        digest = answer.sha256
        checks, printed = _judged(exercise, answer, run)
        speed = _speed(exercise, answer, checks, run)
    except NotGraded as why:
        state, sentence = why.state, str(why)
        checks = _unasked(exercise, sentence, run)
        speed = _untimed(exercise, sentence, run)
    except Exception as error:  # a hole of ours: it must not cost the exercises after this one
        state, sentence, checks = "fault", _about_fault(error), ()
    if any(c.verdict is Verdict.GRADER_FAULT for c in checks):
        state = "fault"
    return ExerciseReport(
        slug=exercise.slug,
        title=exercise.title,
        track=exercise.track,
        path=harmless(str(path)),
        sha256=digest,
        state=state,
        sentence=sentence,
        score=None if state == "fault" else score(checks, speed),
        checks=tuple(checks),
        speed=speed,
        output=printed,
        seconds=time.monotonic() - started,
    )


def timed(exercise: Exercise, place: Path, run: Run, report: ExerciseReport) -> ExerciseReport:
    """A report whose values were judged with `later`, with the speed that was to come."""
    started = time.monotonic()
    try:
        answer = admission.read(answer_file.locate(place, exercise.slug), exercise)
        speed = _speed(exercise, answer, report.checks, replace(run, later=False))
    except Exception as error:  # as in `grade`
        return replace(report, state="fault", sentence=_about_fault(error), score=None)
    seconds = report.seconds + time.monotonic() - started
    return replace(report, speed=speed, score=score(report.checks, speed), seconds=seconds)


def _about_fault(error: Exception) -> str:
    """What is told of a fault of ours."""
    if isinstance(error, (GraderFault, NurseryFailed)):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return harmless(f"{type(error).__name__}: {error} ({where})"[:MAX_SENTENCE])


def _judged(
    exercise: Exercise, answer: Submission, run: Run
) -> tuple[tuple[CheckResult, ...], str]:
    """The verdicts, and what the submission printed."""
    exercise = drills.held(exercise, answer.source)
    try:
        admitted = admission.admit(answer, exercise, run.nursery.wall, on_cuda=run.on_cuda)
        if lacking := requirements.lacking(requirements.required(exercise, on_cuda=run.on_cuda)):
            return _not_asked(exercise, lacking), ""
        try:
            return _asked(exercise, answer, admitted, run, again=False)
        except _Disturbed:
            return _asked(exercise, answer, admitted, run, again=True)
    except NotHere as needs:
        return _not_asked(exercise, str(needs)), ""


class _Disturbed(Exception):
    """A process was killed that may not have been killed by the submission: ask again."""


def _asked(
    exercise: Exercise, answer: Submission, admitted: Admitted, run: Run, *, again: bool
) -> tuple[tuple[CheckResult, ...], str]:
    worker = Supervisor(
        run.nursery, admitted.runs, exercise.limits, on_cuda=run.on_cuda, refuse=exercise.refused,
        preload=exercise.preload, prelude=exercise.prelude,
    )  # fmt: skip
    try:
        with closing(worker), np.errstate(all="ignore"):  # what overflows is judged, not warned of
            _load(worker, exercise, answer, admitted.problems)
            student = Student(exercise, worker.client(), admitted.problems, answer)
            tape = recorded_cases.tape(exercise.slug)
            judge = Judge(student, run.seed(answer), run.device, tape)
            checks = diagnosis.explained(exercise, suite_runner.ask(exercise, judge), judge)
            found = tuple(replace(c, line=_line(c, answer, admitted)) for c in checks)
            return found, worker.output()
    finally:
        if worker.disturbed and not again:  # whatever came of it; the second try stands
            raise _Disturbed


def _line(check: CheckResult, answer: Submission, admitted: Admitted) -> int:
    """The line to which a failure points: where it raised, or what it calls.

    A cell of a notebook has no line in its file.
    """
    if check.verdict is not Verdict.FAILED or answer.lines:
        return 0
    return check.line or admitted.line_of(check.why)


def _load(
    worker: Supervisor, exercise: Exercise, answer: Submission, problems: Mapping[str, str]
) -> None:
    """Run the file once; its own errors concern every check alike."""
    try:
        worker.load()
    except LoadFailed as failed:
        if exercise.language != "python":  # what is loaded is a module of ours
            raise GraderFault(f"what was compiled cannot be loaded: {failed.problem}") from None
        raise NotGraded("unreadable", _about_loading(failed, answer, problems)) from None
    except WorkerFault as problem:
        raise NotGraded("unreadable", f"While the file was loaded, {problem}.") from None


def _about_loading(failed: LoadFailed, answer: Submission, problems: Mapping[str, str]) -> str:
    error, lines = failed.problem, harmless(answer.source).splitlines()
    at = ""
    if error.line is not None and 0 < error.line <= len(lines):
        at = f" (line {written_as(answer.lines, error.line)}: {lines[error.line - 1].strip()})"
    what = f"{error.kind}: {error.message}" if error.message else error.kind
    if error.kind == "EOFError":
        return f"The file waits for somebody to type something{at}: leave that out."
    if error.message in problems.values():
        asks = 'put that under `if __name__ == "__main__":`'
        return f"{error.message} What calls it runs with the file: {asks}."
    if error.kind in ("ModuleNotFoundError", "ImportError"):
        return f"The file cannot be imported: {error.message}{at}. numpy and torch are at hand."
    return f"The file cannot be imported: {what}{at}."


def _unasked(exercise: Exercise, why: str, run: Run) -> tuple[CheckResult, ...]:
    """The checks of a file that cannot be graded: worth their points, and none of them earned."""
    if lacking := requirements.lacking(requirements.required(exercise, on_cuda=run.on_cuda)):
        return _not_asked(exercise, lacking)
    tape = recorded_cases.tape(exercise.slug)
    left_out = {} if tape is None else tape.left_out
    return tuple(
        _without_answer(check, Verdict.NOT_RUN, recorded_cases.LEFT_OUT)
        if check.id in left_out
        else _without_answer(check, Verdict.NOT_RUN, NEEDS_CUDA)
        if check.cuda and not run.on_cuda
        else _without_answer(check, Verdict.BLOCKED, why)
        for check in suite_runner.checks(exercise)
    )


def _not_asked(exercise: Exercise, needs: str) -> tuple[CheckResult, ...]:
    """The checks of an exercise that nobody can be asked here."""
    return tuple(_without_answer(c, Verdict.NOT_RUN, needs) for c in suite_runner.checks(exercise))


def _without_answer(check: Check, verdict: Verdict, why: str) -> CheckResult:
    return CheckResult(id=check.id, says=check.says, points=check.points, verdict=verdict, why=why)


def _speed(
    exercise: Exercise, answer: Submission, checks: Sequence[CheckResult], run: Run
) -> Speed | None:
    """The verdict on the speed of an answer whose values have been judged."""
    case = suite_runner.speed_case(exercise)
    if case is not None and all(c.verdict is Verdict.NOT_RUN for c in checks):
        return not_run(case, checks[0].why)
    wrong = [c for c in checks if c.verdict not in (Verdict.PASSED, Verdict.NOT_RUN)]
    if case is None or wrong or not run.speed:
        return _untimed(exercise, "speed is measured when every check passes", run)
    if run.later:
        return not_run(case, TO_COME if run.on_cuda or not case.cuda else NEEDS_CUDA)
    contest = Contest(
        exercise=exercise, case=case, answer=answer, nursery=run.nursery, seed=run.seed(answer),
        device=run.device if case.cuda else "cpu",
    )  # fmt: skip
    return measure(contest, partial(run.progress, f"timing {exercise.slug}"))


def _untimed(exercise: Exercise, why: str, run: Run) -> Speed | None:
    """The verdict where nothing is measured: not run, or failed for what is wrong besides."""
    case = suite_runner.speed_case(exercise)
    if case is None:
        return None
    if lacking := requirements.lacking(requirements.required(exercise, on_cuda=run.on_cuda)):
        return not_run(case, lacking)
    if case.cuda and not run.on_cuda:
        return not_run(case, NEEDS_CUDA)
    return failed(case, why) if run.speed else not_run(case, LEFT_OUT)
