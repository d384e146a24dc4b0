"""Numbers the objects that stay in a worker, and remembers which function returned each."""

import secrets
from collections.abc import Iterable
from typing import Any

from .dispatch_guard import Rules


class ObjectHandles:
    """The objects that crossed as handles, by their numbers."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}  # by the id of their object
        self._makers: dict[int, str] = {}  # the function that returned each
        # Not from zero: the number of an object means nothing in another worker's room.
        self._next = secrets.randbits(48)

    def __getitem__(self, number: int) -> Any:
        return self._objects[number]

    def number_object(self, rules: Rules, function: str, thing: Any) -> int:
        """Return the number of an object of `function`; the same object has the same number."""
        if id(thing) not in self._numbers:
            self._next += 1
            self._numbers[id(thing)] = self._next
            self._objects[self._next] = thing
        number = self._numbers[id(thing)]
        if number not in self._makers or rules.has_own(function):
            self._makers[number] = function
        return number

    def find_maker(self, number: int) -> str:
        """Return the function that returned this object; "" if there is none."""
        return self._makers.get(number, "")

    def drop_objects(self, rules: Rules, numbers: Iterable[int]) -> None:
        """Let go of objects, under their rules: a generator that waits in one may then go on."""
        for number in numbers:
            with rules.hold(self._makers.pop(number, "")):
                self._numbers.pop(id(self._objects.pop(number, None)), None)
