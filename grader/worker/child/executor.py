"""Runs requests on a submission: holds its module, the objects it made, the graphs of its calls."""

import io
import linecache
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from types import ModuleType
from typing import Any

import torch

from . import builtin_names, frames, tracing, wire
from .arrays import ArenaFull
from .chain import Chain
from .dispatch_guard import Rules, refuse_worker_names
from .exact_types import make_worker_tensor_plain
from .held_tensors import HeldObject, hold_worker_tensors
from .kept_graphs import KeptGraphs
from .object_handles import ObjectHandles
from .prelude import run_worker_prelude
from .raised import FILENAME, describe_worker_error
from .received_arguments import ReceivedArguments

_SWITCH_LEFT = (
    "the call left the recording of gradients switched {}. Write `with torch.no_grad():`, which"
    " puts it back where an error is raised, too"
)


class Executor:
    """Answers requests. A request and its reply are headers of `wire`:

    {"op": "prepare", "prelude"}                             -> {"value": its `needs`, or ""}
    {"op": "load", "slug", "source", "refuse"?, "theirs"?}   -> {"value": None}
    {"op": "told", "name"}                                   -> {"value": what it keeps or returns}
    {"op": "ping"}                                           -> {"value": None}
    {"op": "call", "on", "name", "args", "kwargs", "graph", "no_grad"?}
                                                             -> {"value", "call"?, "lists"?}
    {"op": "get", "on", "names"}                             -> {"value": [...], "callable": [...]}
    {"op": "set", "on", "name", "value"}                     -> {"value": None}
    {"op": "backward", "call", "gradients"}                  -> {"value": [gradient | None, ...]}
    {"op": "chain", "name", "chain", "kwargs"}               -> {"value": the digest of a `Chain`}

    `on` is a handle, or None for the module itself; `name` is an attribute, dotted if need be, or
    "" for the object itself. With `graph` the autograd graph of the call is kept for `backward`,
    whose gradients are those of the tensor inputs that require one, in their order. A call may
    carry {"lists": [label, ...]}, the positions and names of list arguments to send back after the
    call: the grader sees changes of arrays and tensors in shared memory, but not of lists. With
    {"watch": true} a tensor on a GPU is copied back after the call, so that its changes show too.
    Every request may carry {"drop": {"handles": [...], "calls": [...]}}, and an "id", which its
    reply repeats. An array or a tensor of exactly the same form and place as an earlier argument is
    the same object, with the numbers now at that place (a copy on a GPU takes them again before a
    `backward`); {"forget": true} ends this before the call.
    After a call with {"hold": true} tensors and arrays stay here: each crosses as a handle, which
    later calls can take; a `get` of its "value" returns what the tensor then holds. With
    {"trace": true} the reply, an error too, has the values that each statement computes (see
    `tracing`), for a diagnosis. `told` returns a variable of the prelude; if that is a function,
    what it returns.

    A reply to `get` has the values of the names before the first that raises; if the very first
    raises, the exception. A callable value, such as a method, stays here: "callable" lists its
    place among the values.

    An exception of the submission crosses as {"error": {"type", "message", "line"}}, with the line
    in the submission, if any.

    Code of the answer runs under the rules of its function (see `Rules`): in the call, in its
    backward pass, and where attributes of what it returned are asked for or set, or it is dropped.
    So what it returns is sent before the rules end, too.
    """

    def __init__(self, inputs: wire.Arena, answers: wire.Arena) -> None:
        self.inputs = inputs
        self.answers = answers
        self.module = ModuleType("submission")
        self.prelude = ModuleType("prelude")
        self.rules = Rules()
        self.handles = ObjectHandles()
        self.received = ReceivedArguments(inputs, partial(_find_object, self.handles))
        self.graphs = KeptGraphs()
        self._running = ""  # the function under whose rules code of the answer ran last
        self._recorded: tracing.Recorded = []  # by the last call that was traced
        self._files = {FILENAME}  # of the answer's code
        self.device_lost = False  # this process has lost the GPU, as after an illegal access
        self.in_own_process = True  # else Ctrl-C is that of the grader's user

    def bind(self, module: ModuleType, prelude: str = "") -> None:
        """Run the prelude, and use a module that is already loaded."""
        self.module = module
        self._files = tracing.list_code_files(module)
        self.prelude = run_worker_prelude(prelude)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run one request and return its reply; the submission's exception is an error reply."""
        self.answers.rewind()
        self._drop_objects(request.get("drop", {}))
        try:
            reply: dict[str, Any] = getattr(self, f"_{request['op']}")(request)
        except frames.WireError as problem:
            return self.refuse_reply(request, problem)
        except BaseException as error:  # SystemExit and KeyboardInterrupt are the submission's too
            if isinstance(error, KeyboardInterrupt) and not self.in_own_process:
                raise
            with self.rules.hold(self._running):  # its class may have a `__str__` of its own
                reply = {"error": self.describe_error(error)}
            reply |= self._export_trace(request)
            self.device_lost = _has_worker_lost_gpu()
        return _copy_request_id(request) | reply

    def refuse_reply(self, request: Mapping[str, Any], problem: Exception) -> dict[str, Any]:
        """Return the reply to a request whose own reply cannot be sent, because of `problem`."""
        if isinstance(problem, frames.WireError):
            problem = frames.WireError(f"the answer cannot be sent: {problem}")
        return _copy_request_id(request) | {"error": self.describe_error(problem)}

    def describe_error(self, error: BaseException) -> dict[str, Any]:
        """Return the description of an exception for its reply."""
        return describe_worker_error(error)

    def _prepare(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.prelude = run_worker_prelude(request["prelude"])
        return {"value": getattr(self.prelude, "needs", "")}

    def _told(self, request: Mapping[str, Any]) -> dict[str, Any]:
        value = getattr(self.prelude, request["name"])
        return {"value": self._export(value() if callable(value) else value)}

    def _load(self, request: Mapping[str, Any]) -> dict[str, Any]:
        source: str = request["source"]
        if "refuse" in request:  # a changed text, in a diagnosis, has the rules of the first
            self.rules = refuse_worker_names(request["refuse"])
        self.module = ModuleType(request["slug"])
        self.module.__file__ = f"{request['slug']}.py"
        sys.modules[request["slug"]] = self.module
        linecache.cache[FILENAME] = (len(source), None, [*io.StringIO(source)], FILENAME)
        if request.get("theirs"):
            self.module.__dict__["__builtins__"] = builtin_names.list_worker_builtins(
                request["slug"]
            )
        exec(compile(source, FILENAME, "exec"), self.module.__dict__)
        return {"value": None}

    def _ping(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"value": None}

    def _call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._recorded = []
        if request.get("forget"):
            self.received.forget_all()
        args = [self.received.decode_argument(item) for item in request["args"]]
        kwargs = {
            name: self.received.decode_argument(item) for name, item in request["kwargs"].items()
        }
        function = request["name"] if request["on"] is None else self._find_maker(request)
        with self._hold_rules(function):
            result = self._call_target(request, args, kwargs)
            sent = hold_worker_tensors(result) if request.get("hold") else result
            reply = {"value": self._export(sent, function)}
            if labels := request.get("lists"):
                given = {str(i): x for i, x in enumerate(args)} | kwargs
                reply["lists"] = self._export([given[label] for label in labels], function)
            if request["graph"]:
                reply["call"] = self.graphs.keep_graph([args, kwargs], result, function)
        if request.get("watch"):
            for item, value in zip([*request["args"], *request["kwargs"].values()],
                                   [*args, *kwargs.values()], strict=True):  # fmt: skip
                self.received.write_back_copies(item, value)
        return reply | self._export_trace(request)

    def _call_target(self, request: Mapping[str, Any], args: Any, kwargs: Any) -> Any:
        recording = not request.get("no_grad")
        # In the grader's own process a forward pass of its autograd has switched gradients off.
        with torch.set_grad_enabled(recording):
            call = partial(self._find_target(request), *args, **kwargs)
            try:
                if request.get("trace"):
                    return tracing.record_worker_call(call, self._files, self._recorded)
                return call()
            finally:
                if torch.is_grad_enabled() is not recording:
                    raise RuntimeError(_SWITCH_LEFT.format("off" if recording else "on"))

    def _get(self, request: Mapping[str, Any]) -> dict[str, Any]:
        values: list[Any] = []
        function = self._find_maker(request)
        with self._hold_rules(function):
            for name in request["names"]:
                try:
                    values.append(self._find_target({"on": request["on"], "name": name}))
                except BaseException:  # whatever a property raises
                    if not values:
                        raise
                    break
            methods = [
                place
                for place, value in enumerate(values)
                if callable(value) and not issubclass(type(value), torch.Tensor)
            ]
            for place in methods:
                values[place] = None
            return {"value": self._export(values, function), "callable": methods}

    def _set(self, request: Mapping[str, Any]) -> dict[str, Any]:
        *path, name = request["name"].split(".")
        value = self.received.decode_value(request["value"])
        with self._hold_rules(self._find_maker(request)):
            target = self._find_target({"on": request["on"], "name": ".".join(path)})
            setattr(target, name, value)
        return {"value": None}

    @torch.enable_grad()  # in the grader's own process, its backward pass has switched it off
    def _backward(self, request: Mapping[str, Any]) -> dict[str, Any]:
        graph = self.graphs[request["call"]]
        self.received.copy_again()  # what lies in the arena itself was written there again
        gradients = [self.received.decode_value(item) for item in request["gradients"]]
        total = graph.sum_results(gradients)
        with self._hold_rules(graph.function):
            return {"value": self._export(graph.find_gradients(total), graph.function)}

    def _chain(self, request: Mapping[str, Any]) -> dict[str, Any]:
        kwargs = {
            name: self.received.decode_value(item) for name, item in request["kwargs"].items()
        }
        name = request["name"]
        chain = Chain(**request["chain"] | {"shape": tuple(request["chain"]["shape"])})

        def call(*args: Any, **kwargs: Any) -> torch.Tensor:
            with self._hold_rules(name):
                target = self._find_target({"on": None, "name": name})
                return make_worker_tensor_plain(target(*args, **kwargs))

        with torch.no_grad():
            return {"value": self._export(chain.run(call, **kwargs))}

    def _hold_rules(self, function: str) -> AbstractContextManager[object]:
        self._running = function
        return self.rules.hold(function)

    def _find_maker(self, request: Mapping[str, Any]) -> str:
        return "" if request["on"] is None else self.handles.find_maker(request["on"])

    def _find_target(self, request: Mapping[str, Any]) -> Any:
        target = self.module if request["on"] is None else self.handles[request["on"]]
        for part in filter(None, request["name"].split(".")):
            target = getattr(target, part)
        return target

    def _export(self, value: Any, function: str = "") -> Any:
        number = partial(self.handles.number_object, self.rules, function)
        return wire.encode_wire(value, self.answers, number, dense=True)

    def _export_trace(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a reply has beside the value or the error, if a call was to be traced."""
        if not request.get("trace"):
            return {}
        try:
            return {"trace": self._export(self._recorded)}
        except (ArenaFull, frames.WireError):
            return {"trace": []}

    def _drop_objects(self, drop: Mapping[str, list[int]]) -> None:
        self.handles.drop_objects(self.rules, drop.get("handles", ()))
        self.graphs.drop_graphs(self.rules, drop.get("calls", ()))


def _find_object(handles: ObjectHandles, number: int, name: str) -> Any:
    thing = handles[number]
    return thing.value if type(thing) is HeldObject else thing


def _copy_request_id(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": request["id"]} if "id" in request else {}


def _has_worker_lost_gpu() -> bool:
    """Return whether this process has lost the GPU, as after an illegal access."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
