"""Imports what lies in the folder of a suite, in our tree or in a pack."""

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType

from grader.core.catalog import ROOT
from grader.core.records import Exercise


def module(exercise: Exercise, name: str) -> ModuleType:
    """The module called `name` of an exercise's suite."""
    reach(exercise)
    return importlib.import_module(f"grader.suites.{exercise.slug}.{name}")


def reach(exercise: Exercise) -> None:
    """Let the suite of a pack's exercise, and its oracle, be imported as ours are."""
    if exercise.home != ROOT:
        _extend_import_paths(exercise.home)


@cache
def _extend_import_paths(home: Path) -> None:
    for package, folder in (("grader.suites", "suites"), ("reference", "reference")):
        importlib.import_module(package).__path__.append(str(home / folder))
