"""Replaces the reference while a suite is recorded, and records the reference's answers."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from grader.judging.case_codec import (
    CannotPack,
    digest_case_call,
    pack_case_value,
    sample_case_call,
)
from grader.judging.draw import Draw
from grader.judging.recorded_cases import REFERENCE_PACKAGE

Json = Any


class SealedRecorder:
    """The tape on which a suite is recorded, case by case."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.values: set[str] = set()  # names of objects' attributes that are values, not methods
        self.check_of: dict[str, str] = {}
        self.unstorable: dict[
            str, str
        ] = {}  # by check, the type of the value that cannot be stored
        self.cases: dict[str, Any] = {}
        self._seed: tuple[str, ...] = ()
        self._case, self._depth, self._objects = "", 0, 0

    def rewind(self, seed: tuple[str, ...]) -> None:
        """Empty the tape, to record the suite with another answer."""
        self.cases, self._seed = {}, seed

    def begin(self, case: str, check: str) -> str:
        self._case, self._objects = case, 0
        torch.manual_seed(0)  # a module of the reference draws its first weights from PyTorch
        self.check_of[case] = check
        self.cases[case] = {"draws": [], "answers": []}
        return ""

    def draws(self, case: str) -> Any:
        return _RecordedDraw(self, Draw(*self._seed, case))

    def record_draw(self, what: str, value: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Record a drawn value, and return it."""
        self._append_to_tape("draws", what, value, args, kwargs)
        return value

    def record_call(
        self, what: str, real: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """Record a call, but no calls inside it, and return the reference's answer."""
        self._depth += 1
        try:
            plain = [_unwrap_sealed_value(x) for x in args]
            value = real(*plain, **{name: _unwrap_sealed_value(x) for name, x in kwargs.items()})
        finally:
            self._depth -= 1
        return value if self._depth else self._append_to_tape("answers", what, value, args, kwargs)

    def record_attribute(self, thing: Any, what: str, name: str) -> Any:
        """Return an attribute of a reference's object; record the attribute if it is a value."""
        value = getattr(thing, name)
        if callable(value) and not _is_object_to_seal(value):
            return RecordedFunction(self, f"{what}.{name}", value)
        if self._depth:
            return value
        self.values.add(f"{type(thing).__name__}.{name}")
        return self._append_to_tape("answers", f"{what}.{name}", value, (), {})

    def _append_to_tape(self, kind: str, what: str, value: Any, args: Any, kwargs: Any) -> Any:
        given = value
        if _is_object_to_seal(value):
            name, self._objects = type(value).__name__, self._objects + 1
            packed: Json = ["object", name, self._objects]
            given = RecordedObject(self, value, f"{name}#{self._objects}")
        else:
            try:
                packed = pack_case_value(value, self.tensors)
            except CannotPack as kind_of_it:
                self.unstorable[self.check_of[self._case]] = str(kind_of_it)
                packed = None
        # A call of an object depends on the calls before it.
        in_order = kind == "draws" or "#" in what or given is not value
        entry = [
            digest_case_call(what, args, kwargs),
            sample_case_call(args, kwargs),
            int(in_order),
            packed,
        ]
        self.cases[self._case][kind].append(entry)
        return given


class RecordedModule(ModuleType):
    """A module of the reference whose functions record their calls."""

    def __init__(self, recorder: SealedRecorder, real: ModuleType) -> None:
        super().__init__(real.__name__)
        self._recorder, self._real = recorder, real
        self.__path__ = getattr(real, "__path__", [])

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        if name == "Expected" or isinstance(value, ModuleType) or not callable(value):
            return value
        return RecordedFunction(self._recorder, f"{self.__name__}.{name}", value)


class RecordedFunction:
    """A recorded function or class of the reference, or a method of a reference's object."""

    def __init__(self, recorder: SealedRecorder, what: str, real: Callable[..., Any]) -> None:
        self._recorder, self._what, self.real = recorder, what, real

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._recorder.record_call(self._what, self.real, args, kwargs)


class RecordedObject:
    """A recorded object of the reference."""

    def __init__(self, recorder: SealedRecorder, real: Any, what: str) -> None:
        for name, value in {"_recorder": recorder, "real": real, "_what": what}.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        return self._recorder.record_attribute(self.real, self._what, name)

    def __setattr__(self, name: str, value: Any) -> None:
        def put(value: Any) -> None:
            setattr(self.real, name, value)

        self._recorder.record_call(f"{self._what}.{name}=", put, (value,), {})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._recorder.record_call(self._what, self.real, args, kwargs)


class _RecordedDraw:
    """A `Draw` whose values are recorded."""

    def __init__(self, recorder: SealedRecorder, draw: Draw) -> None:
        self._recorder, self._draw = recorder, draw

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._draw, name)
        return lambda *args, **kwargs: self._recorder.record_draw(
            f"draw.{name}", method(*args, **kwargs), args, kwargs
        )


def _is_object_to_seal(value: Any) -> bool:
    """Return whether a value is an object of a class that the reference defines."""
    kind = type(value)
    return kind.__module__.partition(".")[0] == REFERENCE_PACKAGE and not issubclass(kind, tuple)


def _unwrap_sealed_value(value: Any) -> Any:
    """Return the reference's own value in the place of a recorded one."""
    match value:
        case RecordedFunction() | RecordedObject():
            return value.real
        case tuple() if type(value) is tuple:
            return tuple(_unwrap_sealed_value(item) for item in value)
        case list():
            return [_unwrap_sealed_value(item) for item in value]
        case Mapping() if type(value) is dict:
            return {name: _unwrap_sealed_value(item) for name, item in value.items()}
    return value
