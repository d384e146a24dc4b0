"""Calls in the form of Python values: encodes them, asks, decodes what comes back."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from grader.worker.child import frames, wire
from grader.worker.child.chain import Chain
from grader.worker.faults import NoAnswer, Raised
from grader.worker.given import Given, Places
from grader.worker.harmless_text import harmless

CALLABLE = object()  # what `get` answers for a method
MAX_MESSAGE = 2000  # characters of an exception's message
MAX_LINE = 1_000_000  # a file of at most that many bytes has no more lines

Request = dict[str, Any]
Reply = dict[str, Any]
T = TypeVar("T")


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
    """The operations of `worker.child.room`, over any way of carrying a request to it.

    Nothing that comes back is believed: it is a value of the form that was asked for, the
    `Raised` of the submission, or `NoAnswer`. After that `reject` is called, to end a worker
    whose next reply might belong to this request. With `watch` an answer says which arguments the
    call has changed, which takes a copy of them.
    """

    def __init__(
        self,
        exchange: Callable[[Request], Reply],
        inputs: wire.Arena,
        answers: wire.Arena,
        generation: Callable[[], int],
        reject: Callable[[], object] = lambda: None,
        *,
        watch: bool = True,
    ) -> None:
        self._exchange = exchange
        self._inputs = inputs
        self._answers = answers
        self._generation = generation
        self._reject = reject
        self._dropped_calls: list[int] = []
        self._dropped_handles: list[int] = []
        self._watch = watch
        self._places: Places = {}
        self._forget = False

    def fresh(self) -> None:
        """Begin a case: what earlier cases were given may be overwritten from here on."""
        self._inputs.rewind()
        self._places.clear()
        self._forget = True

    def call(self, on: Handle | None, name: str, args: Sequence[Any], kwargs: Mapping[str, Any],
             *, graph: bool, hold: bool = False) -> Answer:  # fmt: skip
        """Call a function of the module (`on` None), a method, or the object itself (name "").

        The call is made under `torch.no_grad()` if this one is, unless its graph is wanted. With
        `hold` a handle comes back for each tensor and array, which stays where it is.
        """
        given = Given(self._inputs, self._places, _handle_number, watch=self._watch)
        sent = {
            "args": [given.encode(x, str(i)) for i, x in enumerate(args)],
            "kwargs": {key: given.encode(x, key) for key, x in kwargs.items()},
        }
        request = {"op": "call", "on": _number_of(on), "name": name, **sent, "graph": graph}
        if given.lists:
            request["lists"] = list(given.lists)
        if not (graph or torch.is_grad_enabled()):
            request["no_grad"] = True
        if hold:
            request["hold"] = True
        if self._watch:
            request["watch"] = True
        if self._forget:
            request["forget"], self._forget = True, False

        def read(reply: Reply) -> tuple[Any, int | None]:
            if given.lists:
                given.lists_after(reply.pop("lists", None))
            if not graph:
                return self._value(reply), None
            number = _natural(reply.pop("call", None))
            if number is None:
                raise frames.WireError("a call without its number")
            return self._value(reply), number

        value, number = self._ask(request, read)
        return Answer(value, number, given.modified())

    def ping(self) -> None:
        """Return once the worker has nothing left to do but to wait."""
        self._ask({"op": "ping"}, self._value)

    def chain(self, name: str, chain: Chain, kwargs: Mapping[str, Any]) -> Any:
        """The digest of a chain of calls to a function of the module."""
        sent = {key: wire.encode(x, self._inputs, _handle_number) for key, x in kwargs.items()}
        request = {"op": "chain", "name": name, "chain": asdict(chain), "kwargs": sent}
        return self._ask(request, self._value)

    def told(self, name: str) -> Any:
        """What the prelude of the exercise keeps under this name."""
        return self._ask({"op": "told", "name": name}, self._value)

    def get(self, on: Handle | None, name: str) -> Any:
        """The value of an attribute, or `CALLABLE`."""
        request = {"op": "get", "on": _number_of(on), "name": name}
        return self._ask(
            request, lambda reply: CALLABLE if reply == {"callable": True} else self._value(reply)
        )

    def set(self, on: Handle | None, name: str, value: Any) -> None:
        """Set an attribute."""
        sent = wire.encode(value, self._inputs, _handle_number)
        request = {"op": "set", "on": _number_of(on), "name": name, "value": sent}
        self._ask(request, self._value)

    def backward(self, graph: int, gradients: Sequence[Tensor | None]) -> Any:
        """The gradients of a kept call's inputs, for the gradients of its results."""
        # The graph saw tensors at their places, where later calls may have left other numbers.
        given = Given(self._inputs, self._places, _handle_number, watch=True)
        for tensor, _ in list(self._places.values()):
            given.encode(tensor, "")
        sent = [wire.encode(g, self._inputs, _handle_number) for g in gradients]
        return self._ask({"op": "backward", "call": graph, "gradients": sent}, self._value)

    def drop_call(self, graph: int) -> None:
        """Forget a kept graph, with the next request."""
        self._dropped_calls.append(graph)

    def drop_handle(self, handle: Handle) -> None:
        """Forget an object, with the next request."""
        if handle.generation == self._generation():
            self._dropped_handles.append(handle.id)

    def _ask(self, request: Request, read: Callable[[Reply], T]) -> T:
        """What `read` makes of the reply to this request and to no other."""
        dropped = {"calls": self._dropped_calls, "handles": self._dropped_handles}
        self._dropped_calls, self._dropped_handles = [], []
        # Drawn, not counted: a reply written before the request was there cannot have it.
        number = secrets.token_hex(8)
        reply = self._exchange(request | {"drop": dropped, "id": number})
        try:
            if reply.pop("id", None) != number:
                raise frames.WireError("a reply to another request")
            if reply.keys() == {"error"}:
                raise _raised(reply["error"])
            return read(reply)
        except frames.WireError as error:
            self._reject()
            raise _no_answer(error) from None

    def _value(self, reply: Reply) -> Any:
        if reply.keys() != {"value"}:
            raise frames.WireError("a reply of no known form")
        value = wire.decode(reply["value"], self._answers, untrusted=True)
        return _with_handles(value, self._generation())


def raised(error: Any) -> Raised:
    """The exception that crossed."""
    try:
        return _raised(error)
    except frames.WireError as problem:
        raise _no_answer(problem) from None


def _raised(error: Any) -> Raised:
    match error:
        case {"type": str(kind), "message": str(message), "line": line} if len(error) == 3:
            number = _natural(line)
            number = number if number is not None and number <= MAX_LINE else None
            return Raised(_name(kind), harmless(message[:MAX_MESSAGE]), number)
    raise frames.WireError("an error of no known form")


def _no_answer(why: frames.WireError) -> NoAnswer:
    return NoAnswer(f"the worker sent something that is no answer ({why})")


def _name(text: str) -> str:
    """The name of a type, in one line."""
    return " ".join(harmless(text[: wire.MAX_NAME]).split())


def _natural(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 1 << 63 else None


def _number_of(on: Handle | None) -> int | None:
    return None if on is None else on.id


def _handle_number(value: Any) -> int:
    if isinstance(value, Handle):
        return value.id
    raise TypeError(f"a {type(value).__name__} cannot be sent to a submission")


def _with_handles(value: Any, generation: int) -> Any:
    match value:
        case wire.Ref():
            return Handle(value.id, generation, _name(value.type))
        case list() | tuple():
            return type(value)(_with_handles(item, generation) for item in value)
        case dict():
            return {key: _with_handles(item, generation) for key, item in value.items()}
    return value
