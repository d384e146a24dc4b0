"""The marks of a suite's functions: `@check`, `@speed`, `@mistake`, `@variant`, `@trial`."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: its points, and the checks that must pass before it runs."""

    id: str
    says: str
    points: int
    needs: tuple[str, ...]
    cuda: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCase:
    """One case of a check: the name that pytest gives the case, and the function's parameters."""

    name: str  # "test_values[float32-few queries]"
    check: Check
    function: Callable[..., None]
    params: Mapping[str, Any]


def find_check_case(item: Any) -> CheckCase | None:
    """Return the case that pytest made of a check; None for a test that is no check."""
    function = getattr(item, "function", None)
    mark = getattr(function, "__mark__", None)
    if function is None or not isinstance(mark, Check):
        return None
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return CheckCase(name=item.name, check=mark, function=function, params=params)


@cache
def list_parameters(function: Callable[..., None]) -> tuple[str, ...]:
    """Return the names of the parameters that a case's function takes; read once."""
    return tuple(inspect.signature(function).parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedCase:
    """What is measured for the speed points of an exercise, and how many points that is."""

    says: str
    points: int
    measures: str  # "time" or "memory"
    cuda: bool
    bench: Callable[..., None]  # of a `timing.race.Race`


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A named wrong answer: what the student did, the cure, the check that must detect it."""

    id: str
    of: str
    caught_by: str
    says: str
    mend: str
    null: bool
    answer: Any
    edits: "Edits" = ()  # of the solution's text, in the place of an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A right answer written otherwise."""

    id: str
    of: str
    says: str
    answer: Any
    edits: "Edits" = ()  # of the solution's text, in the place of an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A way to call some of the student's names on random inputs, to tell two answers apart."""

    id: str
    of: tuple[str, ...]
    says: str
    script: Callable[[Any, Any], Any]  # (student, draw) -> values, one after another


Edits = Sequence[tuple[str, str]]  # a text that occurs exactly once, and its replacement


class CannotEdit(Exception):
    """Raised for an edit whose old text does not occur exactly once; the message shows the text."""


def edited(text: str, edits: Edits) -> str:
    """Return a text with edits made, one after another."""
    for old, new in edits:
        if text.count(old) != 1:
            raise CannotEdit(f"{text.count(old)} times in the solution, but should be once: {old}")
        text = text.replace(old, new)
    return text


def check(
    *, points: int, needs: Sequence[Callable[..., Any]] = (), cuda: bool = False
) -> Callable[[F], F]:
    """Mark a check. Its docstring is the sentence that the student reads.

    points   earned if every case that ran passes, else none of them
    needs    checks that must have passed; else this check is blocked
    cuda     whether the check exists only on a CUDA device
    """

    if type(points) is not int:
        raise TypeError(f"points={points!r} is no whole number")

    def mark(function: F) -> F:
        says = read_check_sentence(function)
        names = tuple(f.__name__ for f in needs)
        name = function.__name__
        _attach_check_mark(
            function, Check(id=name, says=says, points=points, needs=names, cuda=cuda)
        )
        return function

    return mark


def speed(*, points: int, measures: str = "time", cuda: bool = False) -> Callable[[F], F]:
    """Mark the speed case of an exercise. Its docstring is the sentence that the student reads.

    points    for being as good as the reference
    measures  "time", or "memory": the peak of a fresh process
    cuda      whether it is timed, and its points are earned, only on a CUDA device
    """

    def mark(function: F) -> F:
        _attach_check_mark(
            function,
            SpeedCase(
                says=read_check_sentence(function), points=points, measures=measures, cuda=cuda,
                bench=function,
            ),
        )  # fmt: skip
        return function

    return mark


def mistake(
    *, of: str, caught_by: Callable[..., Any], null: bool = False, edits: Edits = ()
) -> Callable[[T], T]:
    """Mark a wrong answer. Its docstring says what was done; the second paragraph, the cure.

    of         the student's name that the answer replaces
    caught_by  the check that must fail on the answer
    null       the answer is no attention at all: no check that calls it may pass
    edits      of the solution's text, for an answer that is not Python: then the marked function
               has only a docstring
    """

    def mark(answer: T) -> T:
        says, _, mend = inspect.cleandoc(answer.__doc__ or "").partition("\n\n")
        name = getattr(answer, "__name__", "")
        _attach_check_mark(
            answer,
            Mistake(
                id=name, of=of, caught_by=caught_by.__name__, says=_join_check_sentence(says),
                mend=_join_check_sentence(mend), null=null, answer=answer, edits=edits,
            ),
        )  # fmt: skip
        return answer

    return mark


def variant(*, of: str, edits: Edits = ()) -> Callable[[T], T]:
    """Mark a right answer that is written otherwise, and that must earn all points.

    The answer is graded as a submission, its text in the place of the solution's: it may use numpy
    as np, torch and math, and nothing else of its file. An answer in another language is written as
    `edits` of the solution's text.
    """

    def mark(answer: T) -> T:
        name = getattr(answer, "__name__", "")
        _attach_check_mark(
            answer,
            Variant(id=name, of=of, says=read_check_sentence(answer), answer=answer, edits=edits),
        )
        return answer

    return mark


def trial(*, of: str | Sequence[str]) -> Callable[[F], F]:
    """Mark a script that calls some of the student's functions on random inputs and yields values.

    of  the names of these functions or classes

    Two answers differ if the script yields different values for them on the same draws; the script
    judges nothing. It takes `student` and `draw`, and should try every option and dtype of
    these functions and every kind of size, with `draw.sizes` and `draw.choice`.
    """

    def mark(function: F) -> F:
        names = (of,) if isinstance(of, str) else tuple(of)
        says, name = read_check_sentence(function), function.__name__
        _attach_check_mark(function, Trial(id=name, of=names, says=says, script=function))
        return function

    return mark


def list_check_marks(module: Any, kind: type[T]) -> list[T]:
    """Return every mark of a kind in a module, in the order of the file."""
    things = [thing for thing in vars(module).values() if hasattr(thing, "__dict__")]
    found = [vars(thing).get("__mark__") for thing in things]  # a base class's mark is not its own
    return [mark for mark in found if isinstance(mark, kind)]


def read_check_sentence(thing: Any) -> str:
    """Return the first paragraph of a docstring, on one line."""
    text = inspect.cleandoc(thing.__doc__ or "")
    return _join_check_sentence(text.partition("\n\n")[0])


def _join_check_sentence(text: str) -> str:
    return " ".join(text.split())


def _attach_check_mark(thing: Any, mark: Any) -> None:
    thing.__mark__ = mark
