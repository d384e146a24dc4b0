"""Imports the modules of a suite, in our tree or in a pack."""

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType

from grader.core.catalog import ROOT
from grader.core.records import Exercise


def import_judging_suite(exercise: Exercise, name: str) -> ModuleType:
    """Import the module called `name` of an exercise's suite."""
    make_suite_pack_importable(exercise)
    return importlib.import_module(f"grader.suites.{exercise.slug}.{name}")


def make_suite_pack_importable(exercise: Exercise) -> None:
    """Make the suite and the oracle of a pack's exercise importable as our own are."""
    if exercise.home != ROOT:
        _extend_suite_paths(exercise.home)


@cache
def _extend_suite_paths(home: Path) -> None:
    for package, folder in (("grader.suites", "suites"), ("reference", "reference")):
        importlib.import_module(package).__path__.append(str(home / folder))
