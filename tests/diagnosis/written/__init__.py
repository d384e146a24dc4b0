"""Wrong answers written with nothing but the skeletons in sight, and what is wrong in each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Answer = TypeVar("Answer", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Wrong:
    """Which function or class a wrong answer replaces, and how many mistakes it makes."""

    of: str
    mistakes: int


def wrong(*, of: str, mistakes: int) -> Callable[[Answer], Answer]:
    """Mark a function or class as a wrong answer: `__wrong__` holds its `Wrong`."""

    def mark(answer: Answer) -> Answer:
        answer.__wrong__ = Wrong(of, mistakes)  # type: ignore[attr-defined]
        return answer

    return mark
