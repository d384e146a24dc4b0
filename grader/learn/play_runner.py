"""Computes pictures by the reference, and by an answer that runs behind its wall."""

import math
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from grader.core.records import Exercise
from grader.judging import suite_imports
from grader.judging.case import CURRENT_CASE, Case, StudentFault
from grader.judging.playing import Bars, Blocks, Control, Grid, Picture, Value
from grader.judging.student import Student
from grader.practice.show.recorded_answers import run_answer_to_show
from grader.practice.show.sentence import CannotShow
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.walls import Wall

CLOSE = 1e-4  # of numbers that are drawn; a wrong function differs by more


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The pictures of a function, or why there are none."""

    pictures: tuple[Picture, ...] = ()
    problem: str = ""


def list_controls(exercise: Exercise) -> tuple[Control, ...]:
    controls: tuple[Control, ...] = _import_play(exercise).CONTROLS
    return controls


def play_reference(exercise: Exercise, values: Mapping[str, Value]) -> Played:
    play = _import_play(exercise)
    with torch.no_grad():
        return Played(pictures=tuple(play.draw(play.RIGHT, **values)))


class AnswerPlayer:
    """Draws pictures with one answer at a time, in a worker that is kept for the next picture.

    Tabs call from several threads; a lock lets one thread draw at a time.
    """

    def __init__(self, place: Path, wall: Wall) -> None:
        self._place, self._wall = place, wall
        self._lock = threading.Lock()
        self._nursery: Nursery | None = None
        self._open = ExitStack()
        self._student: Student | None = None
        self._running: tuple[str, str] = ("", "")  # the slug and the digest of the running answer

    def play(self, exercise: Exercise, digest: str, values: Mapping[str, Value]) -> Played:
        """Return the pictures that the answer computes."""
        with self._lock:
            try:
                student = self._start(exercise, digest)
                student.begin_case()
                CURRENT_CASE.set(Case())
                with torch.no_grad():
                    return Played(pictures=tuple(_import_play(exercise).draw(student, **values)))
            except (CannotShow, StudentFault) as problem:
                self._stop()
                return Played(problem=str(problem))

    def close(self) -> None:
        """End the worker and the process that forks workers."""
        with self._lock:
            self._stop()
            if self._nursery is not None:
                self._nursery.close()

    def _start(self, exercise: Exercise, digest: str) -> Student:
        if self._student is not None and self._running == (exercise.slug, digest):
            return self._student
        self._stop()
        if self._nursery is None:
            self._nursery = Nursery(self._wall)
        self._student = self._open.enter_context(
            run_answer_to_show(exercise, self._place, self._nursery)
        )
        self._running = exercise.slug, digest
        return self._student

    def _stop(self) -> None:
        self._student = None
        self._open.close()


def measure_picture_difference(right: Played, yours: Played) -> float:
    """Return the largest difference of two sets of pictures; infinite if their forms differ."""
    if len(right.pictures) != len(yours.pictures):
        return math.inf
    pairs = zip(right.pictures, yours.pictures, strict=True)
    return max((_compare_pictures(a, b) for a, b in pairs), default=0.0)


def _compare_pictures(a: Picture, b: Picture) -> float:
    match a, b:
        case Bars(), Bars():
            return _compare_picture_numbers(a.values, b.values)
        case Grid(), Grid():
            flat = [[x for row in one.values for x in row] for one in (a, b)]
            return _compare_picture_numbers(*flat)
        case Blocks(), Blocks():
            places = [[x for b in one.blocks for x in (b.row, b.column)] for one in (a, b)]
            return _compare_picture_numbers(*places)
    return 0.0 if type(a) is type(b) else math.inf


def _compare_picture_numbers(a: Any, b: Any) -> float:
    if len(a) != len(b) or any((x is None) != (y is None) for x, y in zip(a, b, strict=True)):
        return math.inf
    apart = [abs(x - y) for x, y in zip(a, b, strict=True) if x is not None]
    return max((d if math.isfinite(d) else math.inf for d in apart), default=0.0)


def _import_play(exercise: Exercise) -> Any:
    return suite_imports.import_judging_suite(exercise, "play")
