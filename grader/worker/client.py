"""Calls in the form of Python values: encodes them, asks, decodes what comes back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from grader.worker.child import frames, wire
from grader.worker.faults import NoAnswer, Raised
from grader.worker.text import harmless

CALLABLE = object()  # what `get` answers for a method


@dataclass(frozen=True, slots=True)
class Handle:
    """An object that stays with the submission, and the worker that had it."""

    id: int
    generation: int
    type: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call returned, its graph's number if one was kept, and the arguments it changed."""

    value: Any
    graph: int | None
    modified: tuple[str, ...]


class Client:
    """The operations of `worker.child.room`, over any way of carrying a request to it."""

    def __init__(
        self,
        exchange: Callable[[dict[str, Any]], dict[str, Any]],
        inputs: wire.Arena,
        answers: wire.Arena,
        generation: Callable[[], int],
    ) -> None:
        self._exchange = exchange
        self._inputs = inputs
        self._answers = answers
        self._generation = generation
        self._dropped_calls: list[int] = []
        self._dropped_handles: list[int] = []

    def fresh(self) -> None:
        """Begin a case: what earlier cases were given may be overwritten from here on."""
        self._inputs.rewind()

    def call(self, on: Handle | None, name: str, args: Sequence[Any], kwargs: Mapping[str, Any],
             *, graph: bool) -> Answer:  # fmt: skip
        """Call a function of the module (`on` None), a method, or the object itself (name "")."""
        sent_args = [self._encode(x) for x in args]
        sent_kwargs = {key: self._encode(x) for key, x in kwargs.items()}
        before = _pictures([*enumerate(sent_args), *sent_kwargs.items()], self._inputs)
        target = {"on": self._number(on), "name": name}
        reply = self._ask(
            {"op": "call", **target, "args": sent_args, "kwargs": sent_kwargs, "graph": graph}
        )
        modified = tuple(
            str(label) for label, at, was in before if self._inputs.view[at : at + len(was)] != was
        )
        return Answer(self._decode(reply), _integer(reply.get("call")), modified)

    def get(self, on: Handle | None, name: str) -> Any:
        """The value of an attribute, or `CALLABLE`."""
        reply = self._ask({"op": "get", "on": self._number(on), "name": name})
        return CALLABLE if reply.get("callable") is True else self._decode(reply)

    def set(self, on: Handle | None, name: str, value: Any) -> None:
        """Set an attribute."""
        sent = self._encode(value)
        self._ask({"op": "set", "on": self._number(on), "name": name, "value": sent})

    def backward(self, graph: int, gradients: Sequence[Tensor | None]) -> Any:
        """The gradients of a kept call's inputs, for the gradients of its results."""
        sent = [self._encode(g) for g in gradients]
        return self._decode(self._ask({"op": "backward", "call": graph, "gradients": sent}))

    def drop_call(self, graph: int) -> None:
        """Forget a kept graph, with the next request."""
        self._dropped_calls.append(graph)

    def drop_handle(self, handle: Handle) -> None:
        """Forget an object, with the next request."""
        if handle.generation == self._generation():
            self._dropped_handles.append(handle.id)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        dropped = {"calls": self._dropped_calls, "handles": self._dropped_handles}
        self._dropped_calls, self._dropped_handles = [], []
        reply = self._exchange(request | {"drop": dropped})
        if "error" in reply:
            raise raised(reply["error"])
        return reply

    def _number(self, on: Handle | None) -> int | None:
        return None if on is None else on.id

    def _encode(self, value: Any) -> Any:
        return wire.encode(value, self._inputs, _handle_number)

    def _decode(self, reply: dict[str, Any]) -> Any:
        try:
            value = wire.decode(reply["value"], self._answers, copy=True)
        except (KeyError, frames.WireError) as error:
            raise NoAnswer(f"the worker sent something that is no answer ({error})") from None
        return _with_handles(value, self._generation())


def raised(error: Any) -> Raised:
    """The exception that crossed, or what is left of it if it was not well formed."""
    if not isinstance(error, dict):
        raise NoAnswer("the worker sent something that is no answer (an error of no known form)")
    kind, message = (harmless(str(error.get(key))) for key in ("type", "message"))
    return Raised(kind[:100], message[:2000], _integer(error.get("line")))


def _integer(value: Any) -> int | None:
    return value if type(value) is int else None


def _handle_number(value: Any) -> int:
    if isinstance(value, Handle):
        return value.id
    raise TypeError(f"a {type(value).__name__} cannot be sent to a submission")


def _with_handles(value: Any, generation: int) -> Any:
    match value:
        case wire.Ref():
            return Handle(value.id, generation, harmless(value.type))
        case list() | tuple():
            return type(value)(_with_handles(item, generation) for item in value)
        case dict():
            return {key: _with_handles(item, generation) for key, item in value.items()}
    return value


def _pictures(items: Sequence[tuple[Any, Any]], arena: wire.Arena) -> list[tuple[Any, int, bytes]]:
    """Label, place and present bytes of every array and tensor among the encoded arguments."""
    found: list[tuple[Any, int, bytes]] = []
    for label, item in items:
        if isinstance(item, dict):
            [(kind, content)] = item.items()
            if kind in ("tensor", "array"):
                at = content["at"]
                found.append((label, at, bytes(arena.take(at, content["bytes"]))))
            elif kind in ("list", "tuple"):
                found += _pictures([(label, inner) for inner in content], arena)
            elif kind == "dict":
                found += _pictures([(label, inner) for _, inner in content], arena)
    return found
