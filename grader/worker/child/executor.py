"""The room in which a submission lives: its module, the objects it made, the graphs it keeps."""

import json
import linecache
import secrets
import sys
import traceback
from collections.abc import Iterable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch

from . import builtin_names, frames, wire
from .arrays import lies_apart, put_back
from .chain import Chain
from .dispatch_guard import Rules, refuse
from .prelude import prepare

FILENAME = "<submission>"
MAX_MESSAGE = 2000
OF_VALUE = ", a ValueError"  # behind the name of a class that is derived from it


class Held:
    """A tensor or an array of an answer that stays here, in a form that has a handle."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Room:
    """Answers requests. A request and its reply are headers of `wire`:

    {"op": "prepare", "prelude"}                             -> {"value": what it needs, or ""}
    {"op": "load", "slug", "source", "refuse", "theirs"}     -> {"value": None}
    {"op": "told", "name"}                                   -> {"value": what the prelude keeps}
    {"op": "ping"}                                           -> {"value": None}
    {"op": "call", "on", "name", "args", "kwargs", "graph", "no_grad"?}
                                                             -> {"value", "call"?, "lists"?}
    {"op": "get", "on", "name"}                              -> {"value"} or {"callable": True}
    {"op": "set", "on", "name", "value"}                     -> {"value": None}
    {"op": "backward", "call", "gradients"}                  -> {"value": [gradient | None, ...]}
    {"op": "chain", "name", "chain", "kwargs"}               -> {"value": the digest of a `Chain`}

    `on` is a handle, or None for the module itself; `name` is an attribute, dotted if need be, or
    "" for the object itself. With `graph` the autograd graph of the call is kept for `backward`,
    whose gradients are those of the tensor inputs that require one, in their order. A call may
    carry {"lists": [label, ...]}, the positions and names of arguments to send back as it leaves
    them: arrays and tensors lie in shared memory, where a change is seen, and lists do not. With
    {"watch": true} a tensor on a GPU is copied back after the call, so that a change of it is seen
    as well. Every request may carry {"drop": {"handles": [...], "calls": [...]}}, and an "id",
    which its reply has too. An array or a tensor of exactly the same form and place as an earlier
    argument is the same object, with what now lies there; a call with {"forget": true} begins anew.
    Of a call with {"hold": true} the tensors and arrays do not cross: each comes back as a handle,
    which can be given to later calls, and whose "value" is what the tensor then holds. An exception
    of the submission's is {"error": {"type", "message", "line"}}, with the line in the submission,
    if any.
    """

    def __init__(self, inputs: wire.Arena, answers: wire.Arena) -> None:
        self.inputs = inputs
        self.answers = answers
        self.module = ModuleType("submission")
        self.prelude = ModuleType("prelude")
        self.rules = Rules()
        self.handles: dict[int, Any] = {}
        self._given: dict[str, Any] = {}  # the arrays and tensors of earlier calls, by their form
        self._numbers: dict[int, int] = {}  # of the handles, by the id of their object
        self.calls: dict[int, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
        # Not from zero: the number of an object or a call means nothing in another worker's room.
        self._next = secrets.randbits(48)
        self.device_lost = False  # a GPU answers nothing more in this process

    def bind(self, module: ModuleType, prelude: str = "") -> None:
        """Use a module that is already loaded, after its prelude."""
        self.module = module
        self.prelude = prepare(prelude)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request. Whatever the submission raises becomes an error reply."""
        self.answers.rewind()
        self._drop(request.get("drop", {}))
        number = {"id": request["id"]} if "id" in request else {}
        try:
            reply: dict[str, Any] = getattr(self, f"_{request['op']}")(request)
            frames.frame(number | reply)  # too long a reply is an error as well
        except frames.WireError as problem:
            unsent = frames.WireError(f"the answer cannot be sent: {problem}")
            reply = {"error": describe(unsent)}
        except BaseException as error:  # SystemExit and KeyboardInterrupt are the submission's too
            reply = {"error": describe(error)}
            self.device_lost = _device_is_lost()
        return number | reply

    def _prepare(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.prelude = prepare(request["prelude"])
        return {"value": getattr(self.prelude, "needs", "")}

    def _told(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"value": self._export(getattr(self.prelude, request["name"]))}

    def _load(self, request: Mapping[str, Any]) -> dict[str, Any]:
        source: str = request["source"]
        self.rules = refuse(request.get("refuse", ()))
        self.module = ModuleType(request["slug"])
        self.module.__file__ = f"{request['slug']}.py"
        sys.modules[request["slug"]] = self.module
        linecache.cache[FILENAME] = (len(source), None, source.splitlines(True), FILENAME)
        if request.get("theirs"):
            self.module.__dict__["__builtins__"] = builtin_names.allowed(request["slug"])
        exec(compile(source, FILENAME, "exec"), self.module.__dict__)
        return {"value": None}

    def _ping(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"value": None}

    def _call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request.get("forget"):
            self._given.clear()
        args = [self._argument(item) for item in request["args"]]
        kwargs = {name: self._argument(item) for name, item in request["kwargs"].items()}
        # In the grader's own process a forward pass of its autograd has switched gradients off.
        with torch.set_grad_enabled(not request.get("no_grad")):
            result = self.rules.call(self._target(request), *args, **kwargs)
        if request.get("watch"):
            for item, value in zip([*request["args"], *request["kwargs"].values()],
                                   [*args, *kwargs.values()], strict=True):  # fmt: skip
                self._put_back(item, value)
        reply = {"value": self._export(_held(result) if request.get("hold") else result)}
        if labels := request.get("lists"):
            given = {str(i): x for i, x in enumerate(args)} | kwargs
            reply["lists"] = self._export([given[label] for label in labels])
        if request["graph"]:
            found = [x for x in _tensors([args, kwargs]) if x.requires_grad]
            leaves = list({id(x): x for x in found}.values())
            self.calls[self._new_id()] = leaves, list(_tensors(result))
            reply["call"] = self._next
        return reply

    def _get(self, request: Mapping[str, Any]) -> dict[str, Any]:
        value = self._target(request)
        plain = isinstance(value, torch.Tensor) or not callable(value)
        return {"value": self._export(value)} if plain else {"callable": True}

    def _set(self, request: Mapping[str, Any]) -> dict[str, Any]:
        *path, name = request["name"].split(".")
        setattr(self._target({"on": request["on"], "name": ".".join(path)}), name,
                self._value(request["value"]))  # fmt: skip
        return {"value": None}

    @torch.enable_grad()  # in the grader's own process, its backward pass has switched it off
    def _backward(self, request: Mapping[str, Any]) -> dict[str, Any]:
        leaves, results = self.calls[request["call"]]
        gradients = [self._value(item) for item in request["gradients"]]
        for leaf in leaves:
            leaf.grad = None
        # The gradient of sum(x * g) is g; handed over as such, g makes torch import sympy first.
        sums = [
            (x * g).sum().double()
            for x, g in zip(results, gradients, strict=True)
            if g is not None and x.requires_grad
        ]
        if sums:
            torch.stack(sums).sum().backward(retain_graph=True)  # type: ignore[no-untyped-call]
        return {"value": self._export([leaf.grad for leaf in leaves])}

    def _chain(self, request: Mapping[str, Any]) -> dict[str, Any]:
        kwargs = {name: self._value(item) for name, item in request["kwargs"].items()}
        target = self._target({"on": None, "name": request["name"]})
        chain = Chain(**request["chain"] | {"shape": tuple(request["chain"]["shape"])})
        with torch.no_grad():
            return {"value": self._export(chain.run(partial(self.rules.call, target), **kwargs))}

    def _target(self, request: Mapping[str, Any]) -> Any:
        target = self.module if request["on"] is None else self.handles[request["on"]]
        for part in filter(None, request["name"].split(".")):
            target = getattr(target, part)
        return target

    def _argument(self, item: Any) -> Any:
        """The value of an argument; the object of before, if it is given again."""
        match item:
            case {"tensor": {"bytes": int(size)}} | {"array": {"bytes": int(size)}} if size:
                form, value = json.dumps(item), self._value(item)
                before = self._given.setdefault(form, value)
                if before is not value and lies_apart(before):
                    before.data.copy_(value)
                return before
            case {"tuple": [*parts]}:
                return tuple(self._argument(part) for part in parts)
        return self._value(item)

    def _put_back(self, item: Any, value: Any) -> None:
        """Show the grader what a call has left in the tensors that are copies."""
        match item:
            case {"tensor": dict(form)} if lies_apart(value):
                put_back(form, value, self.inputs)
            case {"tuple": [*parts]}:
                for part, one in zip(parts, value, strict=True):
                    self._put_back(part, one)

    def _value(self, item: Any) -> Any:
        return _resolve(wire.decode(item, self.inputs, untrusted=False), self.handles)

    def _export(self, value: Any) -> Any:
        return wire.encode(value, self.answers, self._keep, dense=True)

    def _keep(self, thing: Any) -> int:
        """The handle of an object; the same object has the same handle."""
        if id(thing) not in self._numbers:
            self._numbers[id(thing)] = self._new_id()
            self.handles[self._next] = thing
        return self._numbers[id(thing)]

    def _new_id(self) -> int:
        self._next += 1
        return self._next

    def _drop(self, drop: Mapping[str, list[int]]) -> None:
        for number in drop.get("handles", ()):
            thing = self.handles.pop(number, None)
            self._numbers.pop(id(thing), None)
        for number in drop.get("calls", ()):
            self.calls.pop(number, None)


def _device_is_lost() -> bool:
    """Whether the GPU answers nothing more in this process, as after an illegal access."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as it crosses: its type's name, its message, its last line in the submission."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == FILENAME]
    line = frames[-1].lineno if frames else None
    if isinstance(error, SyntaxError) and error.filename == FILENAME:
        line = error.lineno
    try:
        message = str(error)[:MAX_MESSAGE]
    except BaseException:  # a submission's own exception class may raise even here
        message = ""
    name = type(error).__name__[:100]
    if isinstance(error, ValueError) and type(error) is not ValueError:
        name += OF_VALUE  # as good as one to who asks for it
    return {"type": name, "message": message, "line": line}


def _tensors(value: Any) -> "list[torch.Tensor]":
    """Every tensor in nested lists, tuples and dicts, in order."""
    match value:
        case torch.Tensor():
            return [value]
        case list() | tuple():
            return [x for item in value for x in _tensors(item)]
        case dict():
            return [x for item in value.values() for x in _tensors(item)]
    return []


def _held(value: Any) -> Any:
    """An answer with a `Held` in the place of each tensor and array."""
    match value:
        case torch.Tensor() | np.ndarray():
            return Held(value)
        case list() | tuple():
            return _like(value, map(_held, value))
    return value


def _like(value: "list[Any] | tuple[Any, ...]", items: Iterable[Any]) -> Any:
    """Items in a list or a tuple, which is plain where that was a named tuple."""
    return list(items) if isinstance(value, list) else tuple(items)


def _resolve(value: Any, handles: Mapping[int, Any]) -> Any:
    """Put the objects themselves in the place of their numbers."""
    match value:
        case wire.Ref():
            thing = handles[value.id]
            return thing.value if isinstance(thing, Held) else thing
        case list() | tuple():
            return _like(value, (_resolve(item, handles) for item in value))
        case dict():
            return {key: _resolve(item, handles) for key, item in value.items()}
    return value
