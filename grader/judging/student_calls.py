"""Calls of a student's functions, and the objects of a student's classes, across the wire."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from grader.core.records import DeclaredClass, DeclaredFunction
from grader.judging import contract, describe
from grader.judging.case import LastCall, MetaLeftOut, StudentFault, fail_check, find_case
from grader.judging.door import Connection
from grader.judging.gradients import (
    GradientExchange,
    RemoteFunction,
    detach_judged_answer,
    iterate_judged_tensors,
    replace_judged_tensors,
)
from grader.judging.held import HeldTensor, hold_judged_tensors
from grader.worker.parent.client import CALLABLE_ATTRIBUTE, ObjectHandle, WorkerAnswer

_UNDECLARED = DeclaredFunction(name="", signature="()")


class StudentObject:
    """An object of a student's class; its attributes and methods stay in the worker."""

    def __init__(
        self,
        door: "Connection",
        handle: ObjectHandle,
        declared: DeclaredClass,
        text: str,
        sizes: contract.Sizes,
    ) -> None:
        fields = {"_door": door, "_handle": handle, "_declared": declared, "_text": text}
        fields["_sizes"] = sizes  # for the letters in the shapes of attributes
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        weakref.finalize(self, door.client.drop_handle, handle).atexit = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._declared.methods:
            method = self._declared.methods[name]
            return StudentCall(self._door, self, name, method, f"{self._text}.{name}")
        text, found = f"{self._text}.{name}", (self._declared.name, name)
        if found in self._door.methods:
            return StudentCall(self._door, self, name, _UNDECLARED, text)
        value, inherited = self.read(name), callable(getattr(torch.nn.Module, name, None))
        if value is CALLABLE_ATTRIBUTE:
            if inherited:  # need not be read of the next object
                self._door.methods.add(found)
            return StudentCall(self._door, self, name, _UNDECLARED, text)
        if inherited:
            raise fail_check(
                f"{text} is {describe.describe_value(value)}, but should be a method", ""
            )
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        text = f"{self._text}.{name} = {describe.describe_value(value)}"
        client, owner = self._door.client, self._declared.name
        self._door.guard(owner, text, client.set, self._handle, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        forward = self._declared.methods.get("forward", _UNDECLARED)
        return StudentCall(self._door, self, "", forward, self._text)(*args, **kwargs)

    def read(self, name: str) -> Any:
        """Read the attribute `name`, which may be dotted: `read("w_q.weight.grad")`."""
        return next(self.read_each([name]))

    def read_each(self, names: Iterable[str]) -> Iterator[Any]:
        """Read attributes with one request; what is wrong with one is raised when it is reached."""
        names = list(names)
        values: list[Any] = []
        for i, name in enumerate(names):
            text, owner = f"{self._text}.{name}", self._declared.name
            if values:
                self._door.log_call(owner, text)
            else:
                ask = self._door.client.get_first
                values = self._door.guard(owner, text, ask, self._handle, names[i:])
            value = values.pop(0)
            if wanted := self._declared.attributes.get(name):
                contract.judge_attribute_form(value, wanted, name, self._sizes, text)
            find_case().returned(value, name, text)
            yield value

    def __repr__(self) -> str:
        return str(self._text)


class StudentCall:
    """A function or a method, ready to be called."""

    def __init__(
        self,
        door: Connection,
        on: StudentObject | None,
        name: str,
        declared: DeclaredFunction,
        text: str,
    ) -> None:
        self._door = door
        self._on = on
        self._name = name
        self._declared = declared
        self._text = text

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        owner = self._called_name(args)
        text = describe.describe_call(self._text, args, kwargs)
        tensors = list(iterate_judged_tensors([args, kwargs]))
        if self._door.leaves_out_meta and any(x.is_meta for x in tensors):
            raise MetaLeftOut
        leaves = list({id(x): x for x in tensors if x.requires_grad}.values())
        with_graph = bool(leaves) and torch.is_grad_enabled()

        if with_graph:
            for name, x in self._name_arguments(args, kwargs):
                if isinstance(x, Tensor) and x.requires_grad:
                    find_case().learns(x, name)

        def ask() -> WorkerAnswer:
            sent = [_as_judged_handle(x) for x in args]
            named = {key: _as_judged_handle(x) for key, x in kwargs.items()}
            client = self._door.client
            answer: WorkerAnswer = self._door.guard(
                owner,
                text,
                client.call,
                _as_judged_handle(self._on),
                self._name,
                sent,
                named,
                graph=with_graph,
            )
            find_case().modified.extend(self._argument_name(m) for m in answer.modified)
            return answer

        try:
            value = (
                self._call_with_graph(ask, leaves, owner, text)
                if with_graph
                else detach_judged_answer(ask().value)
            )
        except StudentFault as fault:
            if self._on is None:
                fault.raised_by = LastCall(name=self._name, args=args, kwargs=kwargs, value=None)
            raise
        if self._on is None:
            find_case().asked = LastCall(name=self._name, args=args, kwargs=kwargs, value=value)
        if self._declared is not _UNDECLARED and not find_case().takes_any_form:
            contract.judge_answer_form(value, self._declared, args, kwargs, text)
        return value

    def devices(self, *args: Any, **kwargs: Any) -> tuple[torch.device, ...]:
        """Return the device of each tensor that a call returns.

        Tensors on the device `meta` have no numbers and do not cross the wire; their device does.
        So it can be seen on any machine whether the answer heeds a given `device`.
        """
        if self._door.leaves_out_meta:
            return (torch.device("meta"),)
        text = describe.describe_call(self._text, args, kwargs)
        client, guard, owner = self._door.client, self._door.guard, self._called_name(args)
        sent = [_as_judged_handle(x) for x in args]
        answer: WorkerAnswer = guard(
            owner, text, client.call, _as_judged_handle(self._on), self._name, sent, kwargs,
            graph=False,
        )  # fmt: skip
        value = answer.value
        parts = value if isinstance(value, tuple | list) else [value]
        found = [
            guard(owner, text, client.get, x, "device") if isinstance(x, ObjectHandle) else x.device
            for x in parts
            if isinstance(x, ObjectHandle | Tensor)
        ]
        if not all(isinstance(device, torch.device) for device in found):
            raise fail_check("the call returned something else than tensors", text)
        return tuple(found)

    def held(self, *args: Any, **kwargs: Any) -> Any:
        """Return a call's answer with a `HeldTensor` for each tensor and array, kept in the worker.

        Later calls can then take the very tensors that an earlier call returned; whether they
        change those tensors can be seen.
        """
        text = describe.describe_call(self._text, args, kwargs)
        client, guard, owner = self._door.client, self._door.guard, self._called_name(args)
        sent = [_as_judged_handle(x) for x in args]
        named = {key: _as_judged_handle(x) for key, x in kwargs.items()}
        answer: WorkerAnswer = guard(
            owner, text, client.call, _as_judged_handle(self._on), self._name, sent, named,
            graph=False, hold=True,
        )  # fmt: skip
        return hold_judged_tensors(answer.value, client, partial(guard, owner, text))

    def _called_name(self, args: Sequence[Any]) -> str:
        """Return the name of the student's that is called."""
        return self._text.split("(")[0]

    def _call_with_graph(
        self, ask: Callable[[], WorkerAnswer], leaves: list[Tensor], owner: str, text: str
    ) -> Any:
        def backward(graph: int, gradients: Sequence[Tensor | None]) -> Any:
            client = self._door.client
            return self._door.guard(owner, text, client.backward, graph, gradients)

        exchange = GradientExchange(ask, backward, self._door.client.drop_call)
        results = RemoteFunction.apply(exchange, *leaves)  # type: ignore[no-untyped-call]
        outputs = iter(results if isinstance(results, tuple) else (results,))
        return replace_judged_tensors(exchange.value, outputs)

    def _name_arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        names = contract.list_judged_parameters(self._declared.signature)
        yield from zip(names, args, strict=False)
        yield from kwargs.items()

    def _argument_name(self, modified: str) -> str:
        """Return the name of the argument at a position."""
        names = contract.list_judged_parameters(self._declared.signature)
        if modified.isdigit() and names:
            return names[min(int(modified), len(names) - 1)]  # the last name may be `*args`
        return modified


class StudentCallAbout(StudentCall):
    """A function that takes the name of one of the student's functions as its first argument."""

    def _called_name(self, args: Sequence[Any]) -> str:
        return str(args[0])


class StudentConstructor:
    """A class of the student's, ready to be called."""

    def __init__(self, door: Connection, declared: DeclaredClass) -> None:
        self._door = door
        self._declared = declared

    def __call__(self, *args: Any, **kwargs: Any) -> StudentObject:
        name = self._declared.name
        text = describe.describe_call(name, args, kwargs)
        client = self._door.client
        answer: WorkerAnswer = self._door.guard(
            name, text, client.call, None, name, args, kwargs, graph=False
        )
        if not isinstance(answer.value, ObjectHandle):
            problem = f"{name} is {describe.describe_kind(answer.value)}, but should be an object"
            raise fail_check(problem, text)
        sizes = contract.read_judged_sizes(self._declared.signature, args, kwargs)
        return StudentObject(self._door, answer.value, self._declared, text, sizes)


def _as_judged_handle(value: Any) -> Any:
    match value:
        case StudentObject() | HeldTensor():
            return value._handle
        case list() | tuple() if any(isinstance(item, HeldTensor) for item in value):
            return type(value)(_as_judged_handle(item) for item in value)
    return value
