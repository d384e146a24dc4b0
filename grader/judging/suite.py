"""Runs a suite's checks with pytest, in this process, and returns the verdicts."""

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from grader import sealed, tables
from grader.catalog import SUITES
from grader.judging import importing
from grader.judging.case import GraderFault
from grader.judging.check import Check, Mistake, SpeedCase, Variant, marks
from grader.judging.judge import Judge
from grader.judging.plugin import NAME
from grader.records import CheckResult, Exercise


class BrokenSuite(GraderFault, tables.BadFile):
    """A file of a suite that is not there or cannot be imported."""


_FINE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


def ask(
    exercise: Exercise, judge: Judge, only: frozenset[str] = frozenset()
) -> tuple[CheckResult, ...]:
    """The verdicts of a suite's checks; of all, or of `only` these and those that they need."""
    # Nothing but our own plugins and our own ini file: no autoload, no conftest, no cache.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    torch.set_num_threads(1)  # inputs are small: more threads only wait for each other
    importing.reach(exercise)
    files = [str(_file(exercise, "test_*.py"))]  # of none pytest would take what lies where we are
    if only:
        files = [f"{files[0]}::{name}" for name in _with_needs(exercise, only)]
    options = ["-c", str(SUITES / "pytest.ini"), "--rootdir", str(SUITES), "--noconftest"]
    unused = ("terminal", "logging", "faulthandler", "unraisableexception", "threadexception")
    quiet = [f"-pno:{name}" for name in unused] + ["--capture=no"]
    plugin = _Named(judge)
    code = pytest.main([*options, *quiet, *files], plugins=[plugin])
    if code == pytest.ExitCode.INTERRUPTED and not judge.errors:
        raise KeyboardInterrupt
    if judge.errors or code not in _FINE:
        problems = "; ".join(judge.errors) or f"pytest ended with {code!r}"
        raise GraderFault(f"the suite of {exercise.slug} cannot be run: {problems}")
    return judge.results()


def _with_needs(exercise: Exercise, names: frozenset[str]) -> list[str]:
    """These checks and what they need, in the order of the suite."""
    known = {check.id: check for check in checks(exercise)}
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += known[name].needs
    return [name for name in known if name in found]


def checks(exercise: Exercise) -> list[Check]:
    """The checks that a suite declares, without asking them."""
    return marks(_module(exercise, "test_*.py"), Check)


def functions(exercise: Exercise) -> list[Any]:
    """The functions of a suite's checks themselves, in their order."""
    things = vars(_module(exercise, "test_*.py")).values()
    return [t for t in things if isinstance(getattr(t, "__mark__", None), Check)]


def tests(exercise: Exercise) -> set[str]:
    """Whatever pytest takes for a test in a suite, be it a check or not."""
    return {name for name in vars(_module(exercise, "test_*.py")) if name.startswith("test_")}


def speed_case(exercise: Exercise) -> SpeedCase | None:
    """The speed case of an exercise, if it has one."""
    if not list(exercise.folder.glob("bench_*.py")):
        return None
    cases = marks(_module(exercise, "bench_*.py"), SpeedCase)
    if len(cases) != 1:
        raise GraderFault(f"{exercise.slug} has a bench with {len(cases)} @speed, not one")
    return cases[0]


def mistakes(exercise: Exercise) -> list[Mistake]:
    """The catalogue of named wrong answers of an exercise; a sealed bundle has none."""
    if sealed.is_sealed():
        return []
    return marks(_module(exercise, "mistakes.py"), Mistake)


def variants(exercise: Exercise) -> list[Variant]:
    """The right answers written otherwise."""
    return marks(_module(exercise, "variants.py"), Variant)


def _module(exercise: Exercise, pattern: str) -> ModuleType:
    path = _file(exercise, pattern)
    try:
        return importing.module(exercise, path.stem)
    except (Exception, SystemExit) as error:  # an author's code may raise anything
        problem = f"{path} cannot be imported ({type(error).__name__}: {error}). Mend it."
        raise BrokenSuite(problem) from error


def _file(exercise: Exercise, pattern: str) -> Path:
    found = list(exercise.folder.glob(pattern))
    if len(found) != 1:
        raise BrokenSuite(f"{exercise.folder} needs one {pattern}. Write it, or make it one file.")
    return found[0]


class _Named:
    """Registers the judge under the name that the fixtures look for."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.option.tbstyle = "value"  # nobody reads a traceback here, and drawing one takes long
        config.pluginmanager.register(self._judge, NAME)
