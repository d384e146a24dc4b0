"""Plays back the stored cases of a sealed bundle in the place of the reference.

The suites are the same as everywhere else. In a sealed bundle `reference` is a module without
content: calls of it are answered from the tape (the stored answers) of the case that is being
judged, in the order of the calls at release. Draws are answered in the same way. A call is
recognized by its form and a few of its numbers; a call that was not made at release has no answer,
and raises a `GraderFault`.
"""

import importlib
import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from grader.core import sealed_bundle
from grader.core.catalog import ROOT
from grader.core.errors import GraderFault
from grader.core.this_python import build_pip_install_command

REFERENCE_PACKAGE = "reference"  # the package that a sealed bundle does without
CASE_LEFT_OUT = "the sealed bundle has no stored cases for it"


class _Question:
    """A function of the reference, or a method of one of its objects."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return CURRENT_TAPE.get().answer(self._what, *args, **kwargs)


class _Object:
    """An object of the reference, known by a kind and a number."""

    def __init__(self, kind: str, number: int) -> None:
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "_what", f"{kind}#{number}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        what = f"{self._what}.{name}"
        value = f"{self._kind}.{name}" in CURRENT_TAPE.get().values
        return CURRENT_TAPE.get().answer(what) if value else _Question(what)

    def __setattr__(self, name: str, value: Any) -> None:
        CURRENT_TAPE.get().answer(f"{self._what}.{name}=", value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return CURRENT_TAPE.get().answer(self._what, *args, **kwargs)


class _Module(ModuleType):
    """A module of the reference."""

    def __getattr__(self, name: str) -> Any:
        whole = f"{self.__name__}.{name}"
        if name.startswith("__") or whole in _list_judging_references():
            raise AttributeError(name)  # a submodule, which the import system looks for
        return _Question(whole)


class RecordedDraws:
    """The inputs of one case, under the names of `Draw`."""

    def __init__(self, tape: "RecordedTape", drawn: Iterator[Any]) -> None:
        self._tape, self._drawn = tape, drawn

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self._tape.next(self._drawn, f"draw.{name}", args, kwargs)


class RecordedTape:
    """The stored cases of one exercise."""

    def __init__(self, slug: str, root: Path = ROOT) -> None:
        path = root / sealed_bundle.STORED_CASES_FOLDER / f"{slug}.safetensors"
        try:
            from safetensors import SafetensorError, safe_open
        except ImportError:
            cure = build_pip_install_command("safetensors")
            raise GraderFault(f"safetensors is not installed: {cure}") from None
        try:
            with safe_open(path, framework="pt") as file:
                self._tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                told = json.loads(file.metadata()["cases"])
        except (OSError, SafetensorError, ValueError, KeyError, TypeError):
            problem = (
                f"{sealed_bundle.STORED_CASES_FOLDER}/{path.name} cannot be read: unpack "
                "the bundle again"
            )
            raise GraderFault(problem) from None
        self.left_out: dict[str, str] = told["left_out"]  # by check, the reason
        self.values = frozenset(told["values"])  # attributes that are values, and no methods
        self._cases: dict[str, Any] = told["cases"]
        self._answers: Iterator[Any] = iter(())

    def begin(self, case: str, check: str) -> str:
        """Wind to a case; return the reason if the case cannot be run, else an empty string."""
        if check in self.left_out:
            return CASE_LEFT_OUT
        CURRENT_TAPE.set(self)
        self._answers = iter(self._cases.get(case, {}).get("answers", ()))
        return ""

    def draws(self, case: str) -> RecordedDraws:
        """Return the stored inputs of a case."""
        return RecordedDraws(self, iter(self._cases.get(case, {}).get("draws", ())))

    def answer(self, what: str, *args: Any, **kwargs: Any) -> Any:
        """Return the reference's answer at release to the next call of the case."""
        return self.next(self._answers, what, args, kwargs)

    def next(self, tape: Iterator[Any], what: str, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Return the answer on a tape to a call; skip calls on it that are not made here."""
        from grader.judging.case_codec import (  # which need the stand-in
            are_case_samples_alike,
            digest_case_call,
            sample_case_call,
            unpack_case_value,
        )

        form, numbers = digest_case_call(what, args, kwargs), sample_case_call(args, kwargs)
        for wanted, given, in_order, packed in tape:
            if wanted == form and are_case_samples_alike(given, numbers):
                if isinstance(packed, list) and packed[0] == "object":
                    return _Object(*packed[1:])
                return unpack_case_value(packed, self._tensors)
            if in_order:
                break
        raise GraderFault(
            "this answer makes the check ask something for which the sealed bundle has no stored "
            "case; the grader of the course asks it afresh"
        )


CURRENT_TAPE: ContextVar[RecordedTape] = ContextVar("tape")


class _Finder(MetaPathFinder):
    """Finds modules of the reference that no file holds."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if (
            name == f"{REFERENCE_PACKAGE}.expected"
        ):  # the type of an expected value, without answers
            place = ROOT / sealed_bundle.STORED_CASES_FOLDER / sealed_bundle.EXPECTED
            return importlib.util.spec_from_file_location(name, place)
        if name not in _list_judging_references():
            return None
        return ModuleSpec(name, _Loader(), is_package=name == REFERENCE_PACKAGE)


class _Loader(Loader):
    """Makes a module in which every name is a `_Question`."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == REFERENCE_PACKAGE:
            vars(module)["Expected"] = importlib.import_module(
                f"{REFERENCE_PACKAGE}.expected"
            ).Expected


def _list_judging_references() -> Sequence[str]:
    about = sealed_bundle.read_core_bundle_facts()
    return () if about is None else about.modules


@cache
def load_judging_tape(slug: str) -> RecordedTape | None:
    """Load the stored cases of an exercise; None outside of a sealed bundle."""
    return RecordedTape(slug) if sealed_bundle.is_core_sealed() else None


if sealed_bundle.is_core_sealed():
    sys.meta_path.insert(0, _Finder())
