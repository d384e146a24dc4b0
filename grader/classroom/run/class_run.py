"""Runs one class: handed-in files become tasks, tasks become kept results.

A result is stored at once, under the digest of all that it depends on. So a run that was ended at
any moment can go on where it stopped, and nothing is graded twice. A fault of the grader and a
speed without a clear verdict are not stored: the next run tries them again.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

from grader.classroom.run.class_progress import ClassProgress
from grader.classroom.run.gather_answers import HandedAnswer, HandedAnswers, gather_student_answers
from grader.classroom.run.grade_task import SPEED, VALUES, ClassTask, GradeTerms
from grader.classroom.run.lanes import Lanes, Result, run_class_tasks
from grader.core.records import Exercise
from grader.core.result_store import ResultStore
from grader.core.scoring import SPEED_TO_COME
from grader.grading import source_digest

LOST_ANSWER = "the process that graded it ended twice before it was done"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressRow:
    """One student, and the task of each answer, without the answers themselves."""

    entry: Path
    student: str
    folder: str  # of the results
    notes: tuple[str, ...]
    tasks: tuple[ClassTask, ...]
    paths: tuple[str, ...]  # where the answers lie, for people


@dataclass(kw_only=True)
class ClassRun:
    """The results of a class so far."""

    entries: Sequence[Path]
    exercises: Sequence[Exercise]
    terms: GradeTerms
    store: ResultStore
    start: Callable[[], Lanes]  # called if there is anything to grade
    rows: list[ProgressRow] = field(default_factory=list)
    graded: int = 0  # tasks that were done by this run
    remarks: dict[str, list[str]] = field(default_factory=dict)  # by folder, of the run itself
    _unkept: dict[str, Result | None] = field(default_factory=dict)  # what is not kept, by key

    @cached_property
    def lanes(self) -> Lanes:
        return self.start()

    def judge(self, progress: ClassProgress) -> None:
        """Judge every answer that has not been judged."""
        progress.begin("judging", len(self.entries) * len(self.exercises))
        self._run_tasks(self._tasks_to_judge(progress), progress)

    def time(self, progress: ClassProgress) -> None:
        """Time every right answer whose speed is graded; run nothing else meanwhile."""
        waiting = [(row, task) for row in self.rows for task in self._tasks_to_time(row)]
        progress.begin("timing", len(waiting))
        self._run_tasks(self._read_contents(waiting, progress), progress)

    def result(self, task: ClassTask) -> Result | None:
        """Return the report on an answer, with its speed if that was timed; None if it was lost."""
        judged = self._kept_result(task)
        if judged is None or not _is_class_timing_due(judged):
            return judged
        return self._kept_result(_plan_class_timing(task, judged)) or judged

    def __enter__(self) -> "ClassRun":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if "lanes" in self.__dict__:
            self.lanes.close(at_once=kind is not None)

    def _kept_result(self, task: ClassTask) -> Result | None:
        key = task.key
        return self._unkept[key] if key in self._unkept else self.store.get(key)

    def _tasks_to_judge(self, progress: ClassProgress) -> Iterator[ClassTask]:
        for entry in self.entries:
            row, contents = _build_class_progress_row(
                gather_student_answers(entry, self.exercises), entry, self.terms
            )
            self.rows.append(row)
            for task, content in zip(row.tasks, contents, strict=True):
                if self.store.get(task.key) is None:
                    yield replace(task, content=content)
                else:
                    progress.advance(kept=True)

    def _tasks_to_time(self, row: ProgressRow) -> Iterator[ClassTask]:
        for task in row.tasks:
            judged = self._kept_result(task)
            if judged is not None and _is_class_timing_due(judged):
                yield task

    def _read_contents(
        self, waiting: Iterable[tuple[ProgressRow, ClassTask]], progress: ClassProgress
    ) -> Iterator[ClassTask]:
        for row, task in waiting:
            judged = self._kept_result(task)
            assert judged is not None
            timing = _plan_class_timing(task, judged)
            if self.store.get(timing.key) is not None:
                progress.advance(kept=True)
                continue
            found, contents = _build_class_progress_row(
                gather_student_answers(row.entry, self.exercises), row.entry, self.terms
            )
            where = row.tasks.index(task)
            if found.tasks[where].key != task.key:
                changed = f"{row.paths[where]} was changed during the run: grade again."
                self.remarks.setdefault(row.folder, []).append(changed)
                progress.advance()
                continue
            yield replace(timing, content=contents[where])

    def _run_tasks(self, tasks: Iterator[ClassTask], progress: ClassProgress) -> None:
        for first in tasks:  # without one, no process is started
            for task, result in run_class_tasks(self.lanes, chain([first], tasks)):
                self.graded += 1
                if result is None or not _is_class_result_certain(result):
                    self._unkept[task.key] = result
                else:
                    self.store.put(task.key, result)
                progress.advance()


def _build_class_progress_row(
    handed: HandedAnswers, entry: Path, terms: GradeTerms
) -> tuple[ProgressRow, list[bytes]]:
    row = ProgressRow(
        entry=entry, student=handed.student, folder=handed.folder, notes=handed.notes,
        tasks=tuple(_plan_class_task(answer, handed.student, terms) for answer in handed.answers),
        paths=tuple(answer.path for answer in handed.answers),
    )  # fmt: skip
    return row, [answer.content for answer in handed.answers]


def _plan_class_task(answer: HandedAnswer, student: str, terms: GradeTerms) -> ClassTask:
    return ClassTask(
        lane=VALUES, terms=terms, code=source_digest.digest_grading_code(answer.slug),
        slug=answer.slug,
        student=student, name=answer.name, sha256=hashlib.sha256(answer.content).hexdigest(),
        state=answer.state, sentence=answer.sentence,
    )  # fmt: skip


def _plan_class_timing(task: ClassTask, judged: dict[str, Any]) -> ClassTask:
    return replace(task, lane=SPEED, judged=judged)


def _is_class_timing_due(result: Result) -> bool:
    return result["speed"] is not None and result["speed"]["why"] == SPEED_TO_COME


def _is_class_result_certain(result: Result) -> bool:
    if result["score"] is None:
        return False
    return result["speed"] is None or result["speed"]["verdict"] != "inconclusive"
