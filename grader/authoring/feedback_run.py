"""Judges and diagnoses wrong answers in child processes, and classes what the reports say."""

import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch

from grader.authoring.feedback_answers import (
    WrongAnswer,
    list_changed_answers,
    list_paired_answers,
)
from grader.authoring.feedback_class import (
    FalseName,
    FeedbackClass,
    classify_feedback,
    is_line_pinned,
    list_named_groups,
    list_pinned_lines,
)
from grader.authoring.feedback_truth import NameTruth
from grader.authoring.feedback_written import list_written_answers
from grader.authoring.process_limits import (
    EndlessCode,
    lift_memory_limit_of_proof,
    limit_memory_of_proof,
    limit_seconds_of_proof,
)
from grader.authoring.processes import READY, JobKind
from grader.core import catalog
from grader.core.errors import GraderFault, UserError
from grader.core.records import CheckResult, Exercise, Submission, Verdict
from grader.diagnosis import failed_checks, mistake_catalogue
from grader.judging import suite_runner
from grader.judging.author_error import tell_author_errors
from grader.judging.judge import Judge
from grader.judging.student import Student
from grader.worker.parent.in_process import call_without_wall, load_text_without_wall

JUDGING_SECONDS = 30.0  # of the processor, for all checks of an answer
DIAGNOSIS_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackSample:
    """The wrong answers that are made for each exercise."""

    changes: int | None = 60  # mechanical changes; None for all
    pairs: int = 30  # of changes
    written: bool = True
    seed: str = "1"
    inputs: int = 60  # on which a named mistake and an answer are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackJob:
    """Some wrong answers to one exercise, by number."""

    slug: str
    numbers: tuple[int, ...]
    sample: FeedbackSample


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What a report says about one wrong answer."""

    slug: str
    id: str
    says: str
    mistakes: int
    kind: FeedbackClass | None = None  # None if nothing was classed
    skipped: str = ""  # why
    named: tuple[str, ...] = ()
    false: tuple[FalseName, ...] = ()
    lines: tuple[int, ...] = ()  # of the answer, that the report gives
    texts: tuple[str, ...] = ()  # of these lines
    known_lines: bool = False  # whether it is known which lines are wrong
    misplaced: bool = False  # whether that is known, and none of the lines given is wrong
    whys: tuple[str, ...] = ()  # the failed checks, each with the first line of its failure
    judged: float = 0.0  # seconds of the processor
    diagnosed: float = 0.0


def list_feedback_answers(exercise: Exercise, sample: FeedbackSample) -> list[WrongAnswer]:
    """Return the wrong answers of a sample; the same ones at every call."""
    changed = list_changed_answers(exercise, sample.changes, sample.seed)
    paired = list_paired_answers(exercise, sample.pairs, sample.seed)
    return [*changed, *paired, *(list_written_answers(exercise) if sample.written else [])]


class FeedbackTrial:
    """One exercise, whose wrong answers are judged in this process."""

    def __init__(self, exercise: Exercise, truth: NameTruth) -> None:
        torch.set_num_threads(1)
        self._exercise, self._truth = exercise, truth

    def try_answer(self, answer: WrongAnswer) -> Feedback:
        """Judge and diagnose an answer; class the report."""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return self._try_answer(answer)
        except EndlessCode:
            return describe_skipped_answer(self._exercise.slug, answer, "does not end")
        except MemoryError:
            return describe_skipped_answer(self._exercise.slug, answer, "fills the memory")

    def _try_answer(self, answer: WrongAnswer) -> Feedback:
        started = time.process_time()
        try:
            judge, results = self._judge(answer.source)
        except (Exception, SystemExit) as error:  # whatever a wrong file raises when it loads
            why = f"loading it raises {type(error).__name__}: {error}"
            return describe_skipped_answer(self._exercise.slug, answer, why)
        judged = time.process_time() - started
        if why := self._reason_to_skip(answer, judge, results):
            return describe_skipped_answer(self._exercise.slug, answer, why)
        # A report on one answer begins without it.
        mistake_catalogue.bind_mistake_catalogue.cache_clear()
        started = time.process_time()
        with limit_seconds_of_proof(DIAGNOSIS_SECONDS):
            checks = failed_checks.diagnose_failed_checks(self._exercise, results, judge)
        diagnosed = time.process_time() - started
        kind, false = classify_feedback(answer, checks, self._truth)
        groups, lines = list_named_groups(checks), sorted(list_pinned_lines(checks))
        return Feedback(
            slug=self._exercise.slug, id=answer.id, says=answer.says, mistakes=answer.mistakes,
            kind=kind, named=tuple(_join_mistake_ids(g.ids, g.together) for g in groups),
            false=false, lines=tuple(lines), texts=tuple(_read_answer_lines(answer.source, lines)),
            known_lines=bool(answer.lines), misplaced=_is_misplaced(answer, lines),
            whys=tuple(_describe_failures(checks)), judged=judged, diagnosed=diagnosed,
        )  # fmt: skip

    def _judge(self, source: str) -> tuple[Judge, tuple[CheckResult, ...]]:
        limit_memory_of_proof(self._exercise.limits.memory_gib)
        try:
            with limit_seconds_of_proof(JUDGING_SECONDS):
                module = load_text_without_wall(
                    source, self._exercise.slug, self._exercise.prelude, as_worker=True
                )
                client = call_without_wall(module, self._exercise.prelude, source=source)
                student = Student(self._exercise, client, answer=self._submission(source))
                judge = Judge(student, ("feedback", self._exercise.slug))
                return judge, suite_runner.run_suite_checks(self._exercise, judge)
        finally:
            lift_memory_limit_of_proof()

    def _submission(self, source: str) -> Submission:
        """Return the record by which a fault knows its line."""
        path = Path(self._exercise.file)
        return Submission(slug=self._exercise.slug, path=path, sha256="", source=source)

    def _reason_to_skip(
        self, answer: WrongAnswer, judge: Judge, results: tuple[CheckResult, ...]
    ) -> str:
        """Say why a report is not classed: no check fails, or one of a pair changes nothing."""
        if any(f.fault.kind == EndlessCode.__name__ for f in judge.failures):
            return "does not end"
        if any(c.verdict is Verdict.GRADER_FAULT for c in results):
            return "a check has a fault of its own"
        if not judge.failures:
            return "no check fails"
        for part in answer.parts:
            if not self._judge(part)[0].failures:
                return "no check fails on one of the two changes alone"
        return ""


def describe_skipped_answer(slug: str, answer: WrongAnswer, why: str) -> Feedback:
    """Return the record of an answer whose report is not classed."""
    return Feedback(
        slug=slug, id=answer.id, says=answer.says, mistakes=answer.mistakes, skipped=why
    )


def _join_mistake_ids(ids: tuple[str, ...], together: bool) -> str:
    return (" and " if together else " or ").join(ids)


def _read_answer_lines(source: str, numbers: Sequence[int]) -> Iterator[str]:
    text = source.splitlines()
    return (text[n - 1].strip() for n in numbers if n <= len(text))


def _is_misplaced(answer: WrongAnswer, lines: Sequence[int]) -> bool:
    return bool(lines and answer.lines) and not is_line_pinned(answer, lines)


def _describe_failures(checks: tuple[CheckResult, ...]) -> Iterator[str]:
    for c in checks:
        if c.verdict is Verdict.FAILED:
            yield f"{c.id}[{c.where}]: {c.why.partition(chr(10))[0]}"


def _run_feedback_job(pipe: Connection, job: FeedbackJob) -> None:
    """Send READY, then what each report says, to the parent process."""
    try:
        exercise = catalog.find_catalog_exercise(job.slug)
        with tell_author_errors(exercise):
            answers = list_feedback_answers(exercise, job.sample)
            trials = suite_runner.list_suite_trials(exercise)
            tried = FeedbackTrial(exercise, NameTruth(exercise, trials, job.sample.inputs))
        pipe.send(READY)
        for number in job.numbers:
            pipe.send(tried.try_answer(answers[number]))
    except UserError as problem:  # before `GraderFault`: a broken suite is both
        pipe.send(UserError(str(problem)))
    except GraderFault as fault:
        pipe.send(str(fault))
    except Exception:  # sent, or the parent would take it for an answer that ends the process
        pipe.send(traceback.format_exc())


def _describe_dead_answer(job: FeedbackJob, number: int, code: int | None) -> Feedback:
    answer = list_feedback_answers(catalog.find_catalog_exercise(job.slug), job.sample)[number]
    return describe_skipped_answer(job.slug, answer, f"ends the process ({code})")


FEEDBACK_JOBS = JobKind(run=_run_feedback_job, died=_describe_dead_answer)
