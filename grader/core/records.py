"""The records that travel between the parts of the grader. They import other records only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from grader.core.diagnosis_records import Diagnosis
from grader.core.mark_records import CourseMark


class Verdict(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    BLOCKED = "blocked"  # a check that it needs did not pass
    NOT_RUN = "not_run"  # nothing could be asked (no CUDA, no timing)
    GRADER_FAULT = "grader_fault"  # an exception on our side: no score


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a submission: seconds of the parent's clock, GiB of address space."""

    call_seconds: float = 10.0
    exercise_seconds: float = 60.0
    memory_gib: float = 4.0
    compiles_on_cuda: bool = False  # on CUDA it may start a C compiler and ptxas, as Triton does


# What an answer looks like: "tensor ... Lq D", or a tuple of these, nested as the answer is.
Shape = str
Returns = Mapping[str, "Shape | tuple[Shape, ...]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredFunction:
    """A function or a method that the student writes, as the manifest declares it."""

    name: str
    signature: str
    shapes: Mapping[str, str] = field(default_factory=dict)
    returns: Returns = field(default_factory=dict)
    about: str = ""  # what docs/exercises.md says of it
    hints: tuple[str, ...] = ()
    declaration: str = ""  # in the language of the exercise, where that is not Python


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredClass:
    """A class that the student writes."""

    name: str
    signature: str
    methods: Mapping[str, DeclaredFunction]
    attributes: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)  # their names, and what they are
    about: str = ""
    hints: tuple[str, ...] = ()


SUFFIXES = {"python": ".py", "cuda": ".cu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One exercise: its manifest and the folder of its suite."""

    slug: str
    home: Path  # the tree that it is part of: ours, or a pack
    folder: Path  # of its suite
    title: str
    order: int
    track: str  # "core" or "further", which no total has; a draft is of neither, but of "draft"
    minutes: int
    requires: tuple[str, ...]  # packages beyond the core that a worker must find
    limits: Limits
    functions: Mapping[str, DeclaredFunction]
    classes: Mapping[str, DeclaredClass]
    not_allowed: tuple[str, ...]
    not_allowed_text: tuple[str, ...]  # the same for people: a group is one entry
    refused: tuple[str, ...]  # in the worker: "aten::<operator>", full names, "<function>/aten::*"
    cure: str  # what to do instead of what is not allowed
    only: tuple[str, ...] = ()  # the modules that may be imported, if not all that are open
    modules: tuple[str, ...] = ()  # that may be imported besides those open to every exercise
    # Modules slow to import, which workers find imported. PyTorch itself imports symbolic_shapes at
    # the first operator on the device meta.
    preload: tuple[str, ...] = ()
    prelude: str = ""  # Python that a worker runs before the submission
    about: str = ""  # what holds for all of it
    learned: tuple[str, ...] = ()  # what a student knows who has passed it, in sentences
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of checks that need others
    language: str = "python"  # of the answers; or "cuda"
    given: Mapping[str, DeclaredFunction] = field(default_factory=dict)  # besides: about a name
    hunts: bool = False  # an answer to it has an answer to another exercise in it
    requires_on_cuda: tuple[str, ...] | None = None  # instead of `requires`, in a run on CUDA
    draft: bool = False  # its author is not done: graded, and left out of every total

    @property
    def suffix(self) -> str:
        """Return the suffix of answer files that are no notebooks."""
        return SUFFIXES[self.language]

    @property
    def file(self) -> str:
        """Return the name of an answer file."""
        return f"{self.slug}{self.suffix}"

    @property
    def solution(self) -> Path:
        """Return the path of the solution, which a course may be handed out without."""
        return self.home / "solutions" / self.file

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name that the student writes, functions first."""
        return (*self.functions, *self.classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One file of a student's, read and never run."""

    slug: str
    path: Path
    sha256: str
    source: str  # of a notebook: what was taken from its cells
    lines: tuple[tuple[int, int], ...] = ()  # of a notebook: of each line its cell, and there
    problems: Mapping[str, str] = field(default_factory=dict)  # why a name of it cannot be read
    theirs: bool = False  # what was read, and is run with the built-in names of an answer
    program: bytes = b""  # what runs beside the worker, where `source` only asks it


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The verdict on one check, with the sentence the student reads."""

    id: str
    says: str
    verdict: Verdict
    points: int
    why: str = ""  # the failure, the block, or why it was not run
    where: str = ""  # the case that failed
    diagnosis: Diagnosis | None = None
    calls: frozenset[str] = frozenset()  # the student's names that it called
    hard: frozenset[tuple[str, str]] = frozenset()  # of these the name, and a hard kind of input
    line: int = 0  # of the student's file to which a failure points; 0 if it is not known
    seconds: float = 0.0

    @property
    def earned(self) -> int:
        return self.points if self.verdict is Verdict.PASSED else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value, with the interval in which 95 of 100 resamples lie."""

    low: float
    middle: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedMeasurement:
    """Seconds or bytes of three parties: zero (the slow one), reference and student, in this order.

    `position` is the student's place on a scale: 0 at the zero, 1 at 1.2 times the reference.
    `ratio` is the student's value divided by the reference's.
    """

    unit: str  # "s" or "bytes"
    typical: tuple[float, float, float]
    position: Interval
    ratio: Interval
    rounds: tuple[tuple[float, ...], ...]
    device: Mapping[str, str | float] = field(default_factory=dict)  # what it ran on


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The verdict on the speed of one exercise."""

    says: str
    verdict: str  # scored, inconclusive, failed, not_run
    points: int
    why: str = ""  # what the verdict means; of a scored one, what is worth a look
    earned: int = 0
    fraction: float | None = None
    measured: SpeedMeasurement | None = None

    @property
    def counts(self) -> bool:
        """Return whether the points of this speed are part of what could be earned in this run."""
        return self.verdict in ("scored", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Points earned, points that could be earned in this run, and points that were not run."""

    earned: int
    possible: int
    not_run: int

    @property
    def worth(self) -> int:
        """Return the possible points of all checks, including those not run."""
        return self.possible + self.not_run

    def __add__(self, other: "Score") -> "Score":
        earned, possible = self.earned + other.earned, self.possible + other.possible
        return Score(earned=earned, possible=possible, not_run=self.not_run + other.not_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExerciseReport:
    """The report on one exercise. `score` is None after a grader fault."""

    slug: str
    title: str
    track: str
    path: str
    sha256: str
    state: str  # graded, not_started, missing, unreadable, refused, fault, received; grading
    sentence: str  # what the state means for the student; when graded only that it came late
    score: Score | None
    checks: tuple[CheckResult, ...]
    speed: Speed | None
    output: str = ""  # what the submission printed, capped
    seconds: float = 0.0
    kept_since: str = ""  # of a report that an earlier run kept: when it was made, in ISO 8601
    kept_seed: str = ""  # and the seed of its inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One grading run."""

    student: str
    seed_id: str
    seed: str | None  # only in a student's own run
    device: str
    isolation: str
    versions: Mapping[str, str]
    exercises: tuple[ExerciseReport, ...]
    seconds: float
    mark: CourseMark | None = None  # what counts, in a course

    @property
    def core(self) -> tuple[ExerciseReport, ...]:
        return tuple(e for e in self.exercises if e.track == "core")

    @property
    def further(self) -> tuple[ExerciseReport, ...]:
        return tuple(e for e in self.exercises if e.track != "core")

    @property
    def score(self) -> Score:
        """The core track's total; an exercise with a grader fault is left out of it."""
        scores = (e.score for e in self.core if e.score is not None)
        return sum(scores, Score(earned=0, possible=0, not_run=0))

    @property
    def faulted(self) -> bool:
        return any(e.score is None for e in self.exercises)
