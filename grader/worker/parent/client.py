"""Sends calls to a worker: encodes Python values, sends requests, decodes replies."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from grader.worker.child import frames, wire
from grader.worker.child.chain import Chain
from grader.worker.parent.faults import AnswerRaised, NoAnswer
from grader.worker.parent.given import Places, SentArguments, write_places_again
from grader.worker.parent.harmless_text import clean_worker_text

CALLABLE_ATTRIBUTE = object()  # what `get` returns for a method
MAX_MESSAGE = 2000  # characters of an exception's message
MAX_LINE_NUMBER = 1_000_000  # a file has at most a million bytes, and so no more lines

Request = dict[str, Any]
Reply = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ObjectHandle:
    """The number of an object in a worker, with the generation of that worker."""

    id: int
    generation: int
    type: str


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """A call's value, the number of its autograd graph if kept, and the changed arguments."""

    value: Any
    graph: int | None
    modified: tuple[str, ...]


class ChangeableText(Protocol):
    """The text of an answer in Python, in whose place others can run."""

    @property
    def source(self) -> str:
        """Return the text that was loaded."""

    def change(self) -> AbstractContextManager[Callable[[str], bool]]:
        """Return a context in which other texts can be loaded; at its end `source` is loaded again.

        The context gives a function that loads a text and returns whether it could be loaded. The
        function raises `WorkerFault` if the worker has ended; after that nothing can be loaded.
        """


class Client:
    """The operations of `worker.child.executor`; `exchange` carries each request there.

    No reply is trusted: either it decodes to a value of the form requested, or the client raises
    `AnswerRaised` (the submission raised) or `NoAnswer`. Before `NoAnswer` it calls `reject`, to
    end a worker whose next reply might belong to this request. With `watch` an answer names the
    arguments that the call has changed; the client keeps copies for that.
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
        count_seconds: Callable[[], float] = lambda: 0.0,
        text: ChangeableText | None = None,
    ) -> None:
        self._exchange = exchange
        self._inputs = inputs
        self._answers = answers
        self._generation = generation
        self._reject = reject
        self._dropped_calls: list[int] = []
        self._dropped_handles: list[int] = []
        self._watch = watch
        self.count_seconds = count_seconds  # that a worker has used; in this process none has
        self.text = text  # None if it is not known, or no Python: what is called is a module
        self._places: Places = {}
        self._given: dict[int, SentArguments] = {}  # by the number of the call's graph
        self._forget = False
        self._trace: Callable[[Any], None] | None = None

    @contextmanager
    def trace_calls(self, receive: Callable[[Any], None]) -> Iterator[None]:
        """Have the worker record what each statement computes; `receive` gets each call's record.

        For a diagnosis: no judged call is traced. A record is only what the worker claims.
        """
        self._trace = receive
        try:
            yield
        finally:
            self._trace = None

    def fresh(self) -> None:
        """Begin a case; from here on its inputs may overwrite those of earlier cases."""
        self._inputs.rewind()
        self._places.clear()
        self._given.clear()
        self._forget = True

    def call(self, on: ObjectHandle | None, name: str, args: Sequence[Any],
             kwargs: Mapping[str, Any],
             *, graph: bool, hold: bool = False) -> WorkerAnswer:  # fmt: skip
        """Call a function of the module (`on` None), a method, or the object itself (name "").

        The worker calls under `torch.no_grad()` if the caller is under it and `graph` is False.
        With `hold` tensors and arrays stay in the worker, and the value has a handle for each.
        """
        given = SentArguments(
            self._inputs, self._places, _require_wire_handle_id, watch=self._watch
        )
        sent = {
            "args": [given.encode(x, str(i)) for i, x in enumerate(args)],
            "kwargs": {key: given.encode(x, key) for key, x in kwargs.items()},
        }
        request = {
            "op": "call",
            "on": _read_wire_handle_id(on),
            "name": name,
            **sent,
            "graph": graph,
        }
        if given.lists:
            request["lists"] = list(given.lists)
        flags = {
            "no_grad": not (graph or torch.is_grad_enabled()), "hold": hold, "watch": self._watch,
            "forget": self._forget, "trace": self._trace is not None,
        }  # fmt: skip
        request |= dict.fromkeys((name for name, wanted in flags.items() if wanted), True)
        self._forget = False

        def read(reply: Reply) -> tuple[Any, int | None]:
            if given.lists:
                given.compare_lists(reply.pop("lists", None))
            if not graph:
                return self._decode(reply), None
            number = _read_positive_wire_number(reply.pop("call", None))
            if number is None:
                raise frames.WireError("a call without its number")
            return self._decode(reply), number

        value, number = self._send_request(request, read)
        if number is not None:
            self._given[number] = given
        return WorkerAnswer(value, number, given.modified_labels())

    def ping(self) -> None:
        """Wait until the worker is idle."""
        self._send_request({"op": "ping"}, self._decode)

    def chain(self, name: str, chain: Chain, kwargs: Mapping[str, Any]) -> Any:
        """Return the digest of a chain of calls to a function of the module."""
        sent = {
            key: wire.encode_wire(x, self._inputs, _require_wire_handle_id)
            for key, x in kwargs.items()
        }
        request = {"op": "chain", "name": name, "chain": asdict(chain), "kwargs": sent}
        return self._send_request(request, self._decode)

    def told(self, name: str) -> Any:
        """Return the variable of this name in the prelude; of a function, what it returns."""
        return self._send_request({"op": "told", "name": name}, self._decode)

    def get(self, on: ObjectHandle | None, name: str) -> Any:
        """Return the value of an attribute, or `CALLABLE_ATTRIBUTE`."""
        return self.get_first(on, [name])[0]

    def get_first(self, on: ObjectHandle | None, names: Sequence[str]) -> list[Any]:
        """Return the values of these attributes up to one that raises, but of one at least."""

        def read(reply: Reply) -> list[Any]:
            methods, values = reply.pop("callable", None), self._decode(reply)
            if not isinstance(values, list) or not 0 < len(values) <= len(names):
                raise frames.WireError("values that fit no names")
            if not isinstance(methods, list):
                raise frames.WireError("a reply of no known form")
            for place in methods:
                if type(place) is not int or not 0 <= place < len(values):
                    raise frames.WireError("a method that has no name")
                values[place] = CALLABLE_ATTRIBUTE
            return values

        request = {"op": "get", "on": _read_wire_handle_id(on), "names": list(names)}
        return self._send_request(request, read)

    def set(self, on: ObjectHandle | None, name: str, value: Any) -> None:
        """Set an attribute."""
        sent = wire.encode_wire(value, self._inputs, _require_wire_handle_id)
        request = {"op": "set", "on": _read_wire_handle_id(on), "name": name, "value": sent}
        self._send_request(request, self._decode)

    def backward(self, graph: int, gradients: Sequence[Tensor | None]) -> Any:
        """Return the gradients of a kept call's inputs, given the gradients of its results."""
        # Later calls may have overwritten the tensors of the graph, which lie in shared memory.
        # Write again what was sent last, and then what was sent with the call of the graph.
        write_places_again(self._inputs, self._places)
        if given := self._given.get(graph):
            given.write_again()
        sent = [wire.encode_wire(g, self._inputs, _require_wire_handle_id) for g in gradients]
        request = {"op": "backward", "call": graph, "gradients": sent}
        return self._send_request(request, self._decode)

    def drop_call(self, graph: int) -> None:
        """Have the worker free, with the next request, an autograd graph that it keeps."""
        self._given.pop(graph, None)
        self._dropped_calls.append(graph)

    def drop_handle(self, handle: ObjectHandle) -> None:
        """Have the worker free, with the next request, an object that it keeps."""
        if handle.generation == self._generation():
            self._dropped_handles.append(handle.id)

    def _send_request(self, request: Request, read: Callable[[Reply], T]) -> T:
        """Send a request, check that the reply has its id, and return `read(reply)`."""
        dropped = {"calls": self._dropped_calls, "handles": self._dropped_handles}
        self._dropped_calls, self._dropped_handles = [], []
        # Random, not a count: a reply written before the request cannot have this id.
        number = secrets.token_hex(8)
        reply = self._exchange(request | {"drop": dropped, "id": number})
        try:
            if reply.pop("id", None) != number:
                raise frames.WireError("a reply to another request")
            if self._trace is not None and request.get("trace"):
                self._trace(self._decode({"value": reply.pop("trace", None)}))
            if reply.keys() == {"error"}:
                raise _decode_worker_error(reply["error"])
            return read(reply)
        except frames.WireError as error:
            self._reject()
            raise _build_worker_reply_fault(error) from None

    def _decode(self, reply: Reply) -> Any:
        if reply.keys() != {"value"}:
            raise frames.WireError("a reply of no known form")
        generation = self._generation()
        return wire.decode_wire(
            reply["value"], self._answers, untrusted=True,
            find=lambda number, name: ObjectHandle(
                number, generation, _clean_worker_type_name(name)
            ),
        )  # fmt: skip


def decode_worker_exception(error: Any) -> AnswerRaised:
    """Return the exception that a reply describes; raises `NoAnswer` if the form is wrong."""
    try:
        return _decode_worker_error(error)
    except frames.WireError as problem:
        raise _build_worker_reply_fault(problem) from None


def _decode_worker_error(error: Any) -> AnswerRaised:
    match error:
        case {"type": str(kind), "message": str(message), "line": line} if len(error) == 3:
            number = _read_positive_wire_number(line)
            number = number if number is not None and number <= MAX_LINE_NUMBER else None
            return AnswerRaised(
                _clean_worker_type_name(kind), clean_worker_text(message[:MAX_MESSAGE]), number
            )
    raise frames.WireError("an error of no known form")


def _build_worker_reply_fault(why: frames.WireError) -> NoAnswer:
    return NoAnswer(f"the worker sent something that is no answer ({why})")


def _clean_worker_type_name(text: str) -> str:
    """Return the name of a type, cut to its limit, in one line."""
    return " ".join(clean_worker_text(text[: wire.MAX_NAME_CHARACTERS]).split())


def _read_positive_wire_number(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 1 << 63 else None


def _read_wire_handle_id(on: ObjectHandle | None) -> int | None:
    return None if on is None else on.id


def _require_wire_handle_id(value: Any) -> int:
    if isinstance(value, ObjectHandle):
        return value.id
    raise TypeError(f"a {type(value).__name__} cannot be sent to a submission")
