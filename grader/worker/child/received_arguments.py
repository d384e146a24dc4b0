"""The arguments of calls, as a worker takes them: one sent again is the same object again."""

from collections.abc import Callable, Mapping
from typing import Any

from . import wire
from .arrays import needs_arena_copy, write_to_arena

Find = Callable[[int, str], Any]  # the object of a handle, by its number and its type's name


class ReceivedArguments:
    """Decodes arguments from the arena, and remembers arrays and tensors by their form and place.

    On the CPU they lie in the arena; on a GPU they are copies, taken again from the arena where
    the client has written new numbers to it.
    """

    def __init__(self, arena: wire.Arena, find: Find) -> None:
        self._arena = arena
        self._find = find
        # Encoded and decoded, by form and place.
        self._received: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def forget_all(self) -> None:
        """From now on an argument is a new object, wherever it lies."""
        self._received.clear()

    def decode_value(self, item: Any) -> Any:
        """Return the value of `item`, as a new object."""
        return wire.decode_wire(item, self._arena, untrusted=False, find=self._find)

    def decode_argument(self, item: Any) -> Any:
        """Return the value of `item`; an array or a tensor received before is the same object."""
        match item:
            case {"tensor": {"bytes": int(size)}} | {"array": {"bytes": int(size)}} if size:
                value = self.decode_value(item)
                _, before = self._received.setdefault(_identify_argument(item), (item, value))
                if before is not value and needs_arena_copy(before):
                    before.data.copy_(value)
                return before
            case {"tuple": [*parts]}:
                return tuple(self.decode_argument(part) for part in parts)
        return self.decode_value(item)

    def copy_again(self) -> None:
        """Take the numbers of all copies from the arena again."""
        for item, value in self._received.values():
            if needs_arena_copy(value):
                value.data.copy_(self.decode_value(item))

    def write_back_copies(self, item: Any, value: Any) -> None:
        """Write tensors that are copies back to the arena, as the call left them."""
        match item:
            case {"tensor": dict(form)} if needs_arena_copy(value):
                write_to_arena(form, value, self._arena)
            case {"tuple": [*parts]}:
                for part, one in zip(parts, value, strict=True):
                    self.write_back_copies(part, one)


def _identify_argument(item: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the form and the place of an encoded array or tensor, as a key."""
    [(kind, form)] = item.items()
    return kind, *(tuple(x) if isinstance(x, list) else x for x in form.values())
