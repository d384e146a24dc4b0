"""The log of the case that is being judged: its calls, and what they returned."""

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

_KINDS_OF_NOTHING_THERE = ("NotImplementedError", "NameError", "UnboundLocalError")


class StudentFault(Exception):
    """The student's answer is wrong, or there is none. The message is what the student reads."""

    def __init__(self, message: str, *, kind: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.kind = kind  # the name of the exception that the submission raised
        self.detail = detail  # the message of that exception
        self.differs: ValueDifference | None = None  # if the values are wrong
        self.line = 0  # of the submission at which it raised
        self.uncalled = False  # the function is missing or may not be called
        self.timed_out = False  # no answer came in time, and none would when it is explained
        self.returned = True  # the call, if there was one: it neither raised nor ended otherwise
        self.came: Any = None  # what a call returned that should have raised
        self.raised_by: LastCall | None = None  # the function's call that raised

    @property
    def says_all_itself(self) -> bool:
        """Return whether there is nothing to explain: a function or a name is not there at all."""
        return self.uncalled or self.kind in _KINDS_OF_NOTHING_THERE


class MetaLeftOut(BaseException):
    """Raised by a call with tensors on the device meta, where such calls are left out.

    It is not an `Exception`, so that no script mistakes it for an error of an answer.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDifference:
    """Wrong values, as float64, bool or int: answer, exact values, and where these differ."""

    got: Any
    exact: Any
    wrong: Any  # bool, of the same shape
    subject: str  # the name of the values: "out", "weights", "gradient of q"
    call: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One bound on one measure of the errors of an answer."""

    measure: str  # "largest error", "RMS error", ...
    error: float
    allowed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCall:
    """One call of a function of the student's, and its answer."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    value: Any


@dataclass(slots=True)
class Case:
    """The log of one case."""

    last_call: str = ""
    asked: LastCall | None = None  # the last call of a function; not of a method
    takes_any_form: bool = False  # whether answers of a wrong type, shape or dtype are no fault
    called: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)  # as texts, with the sizes of their arguments
    modified: list[str] = field(default_factory=list)
    hard: set[str] = field(default_factory=set)  # the kinds of hard input that the case announced
    # The rules applied, each after a name of values; None if nobody asks for them.
    rules: list[tuple[str, Rule]] | None = None
    _origins: dict[int, tuple[Any, str, str]] = field(default_factory=dict)
    _learning: dict[int, tuple[Any, str]] = field(default_factory=dict)

    def returned(self, value: Any, name: str, call: str) -> None:
        """Remember that `call` returned `value` under `name`."""
        self._origins[id(value)] = (value, name, call)

    def origin(self, value: Any) -> tuple[str, str]:
        """Return the name and the call behind a value; for a derived value, the last call."""
        _, name, call = self._origins.get(id(value), (None, "out", self.last_call))
        return name, call

    def learns(self, value: Any, name: str) -> None:
        """Remember that a call was given `value`, which requires a gradient, as `name`."""
        self._learning[id(value)] = value, name

    def name_learning(self, value: Any, number: int) -> str:
        """Return the parameter that `value` was given for, or else which of the inputs it is."""
        return self._learning.get(id(value), (None, f"input {number}"))[1]


CURRENT_CASE: ContextVar[Case] = ContextVar("case", default=Case())  # noqa: B039 (replaced for each case)


def find_case() -> Case:
    return CURRENT_CASE.get()


def fail_check(problem: str, call: str, *more: str) -> StudentFault:
    """Build a fault in the one grammar: the problem, the call in brackets, further lines below."""
    return StudentFault("\n".join([f"{problem}  [{call}]" if call else problem, *more]))
