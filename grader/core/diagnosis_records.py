"""What is known of a wrong answer: its mistake, where it is wrong, and what it lacks."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongPlaces:
    """The places along one axis at which an answer is wrong; the others are right."""

    axis: str  # "batch", "head", "kv_head", "leading", "row" or "key"
    wrong: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedMistake:
    """A mistake of the catalogue, in the student's words, and how to mend it."""

    id: str
    says: str
    mend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The first wrong stage of an attention, with the weights of a small example, row by row."""

    name: str  # "scores", "mask", "weights" or "output"
    factor: float | None = None  # of the scores, if they are right but for it
    got: tuple[tuple[float, ...], ...] = ()
    right: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A property that a right answer has and this one lacks, found by calls, with its numbers."""

    key: str  # of its sentence, which reporting makes
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedLine:
    """The line that computes the first value that no right answer has, or that a change mends."""

    line: int  # of the student's file, or of a cell of a notebook
    name: str = ""  # of the variable, or "return"
    got: tuple[int, ...] = ()  # its shape
    right: tuple[int, ...] | None = None  # the right shape, if it is known
    cell: int = 0  # of a notebook; 0 in a file
    change: str = ""  # the kind of a change there with which the check passes
    text: str = ""  # of the line, where a change is told
    dropped: str = ""  # the argument that the change leaves out


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallExample:
    """The smallest call found that still goes wrong; its values are written out."""

    inputs: tuple[tuple[str, str], ...]  # names and values: ("q", "[[1, 0]]")
    name: str  # of the wrong values: "output"
    got: str
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The diagnosis of a wrong answer: which mistake gives it, and where it is wrong."""

    mistakes: tuple[NamedMistake, ...] = ()  # one; or two
    together: bool = False  # whether both are made; else the answer does not tell which
    places: tuple[WrongPlaces, ...] = ()
    stage: Stage | None = None
    facts: tuple[Fact, ...] = ()  # where no mistake is named, the most basic first
    pinned: PinnedLine | None = None  # in the first failing check that shows it
    example: SmallExample | None = None

    @property
    def link(self) -> str:
        """What stands before the second mistake."""
        return "And: " if self.together else "Or: "
