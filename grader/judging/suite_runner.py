"""Collects a suite's checks with pytest, runs them in this process, returns the verdicts."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from grader.core import sealed_bundle, toml_file
from grader.core.catalog import SUITES_FOLDER
from grader.core.errors import GraderFault
from grader.core.records import CheckResult, Exercise
from grader.judging import suite_imports
from grader.judging.judge import Judge
from grader.judging.marks import (
    Check,
    CheckCase,
    Mistake,
    SpeedCase,
    Trial,
    Variant,
    find_check_case,
    list_check_marks,
)

JUDGE_PLUGIN_NAME = "judge"


class BrokenSuite(GraderFault, toml_file.BadFile):
    """Raised for a file of a suite that is missing or cannot be imported."""


def run_suite_checks(
    exercise: Exercise, judge: Judge, only: frozenset[str] = frozenset(),
    decided: Callable[[Sequence[CheckResult]], None] = lambda results: None,
    first: frozenset[str] = frozenset(), known: frozenset[str] = frozenset(),
) -> tuple[CheckResult, ...]:  # fmt: skip
    """Run a suite's checks, or `only` these and the checks they need; return the verdicts.

    decided  is called with the verdicts known so far, whenever there is one more, and at the end
    first    checks that run before all others but those that they need
    known    checks that are known to pass, and are not run
    """
    torch.set_num_threads(1)  # inputs are small: more threads only wait for each other
    cases = select_suite_cases(exercise, only)
    here = first & {case.check.id for case in cases if not judge.is_replayed}
    ahead = _add_needed_suite_checks(exercise, here) if here else ()
    judge.run(cases, decided, frozenset(ahead), known)
    if judge.errors:
        raise GraderFault(_describe_broken_suite(exercise, judge.errors))
    decided(judge.results())
    return judge.results()


def select_suite_cases(exercise: Exercise, only: frozenset[str]) -> tuple[CheckCase, ...]:
    """Return the cases of `only` these checks and of the checks they need; all if none is named."""
    if not only:
        return list_suite_cases(exercise)
    names = _add_needed_suite_checks(exercise, only)
    return tuple(case for case in list_suite_cases(exercise) if case.check.id in names)


def list_suite_cases(exercise: Exercise) -> tuple[CheckCase, ...]:
    """Return every case of a suite's checks in order; pytest collects them once per process."""
    if exercise.folder not in _CASES_BY_FOLDER:
        suite_imports.make_suite_pack_importable(exercise)
        _CASES_BY_FOLDER[exercise.folder] = _collect_suite_cases(exercise)
    return _CASES_BY_FOLDER[exercise.folder]


_CASES_BY_FOLDER: dict[Path, tuple[CheckCase, ...]] = {}


def _collect_suite_cases(exercise: Exercise) -> tuple[CheckCase, ...]:
    # Nothing but our own plugins and our own ini file: no autoload, no conftest, no cache.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    # Without a file, pytest would collect the working directory.
    file = str(_find_suite_file(exercise, "test_*.py"))
    options = [
        "-c",
        str(SUITES_FOLDER / "pytest.ini"),
        "--rootdir",
        str(SUITES_FOLDER),
        "--noconftest",
    ]
    unused = ("terminal", "logging", "faulthandler", "unraisableexception", "threadexception")
    quiet = [f"-pno:{name}" for name in unused] + ["--capture=no", "--collect-only"]
    collector = _Collector()
    code = pytest.main([*options, *quiet, file], plugins=[collector])
    if code == pytest.ExitCode.INTERRUPTED and not collector.errors:
        raise KeyboardInterrupt
    if collector.errors or code is not pytest.ExitCode.OK:
        problems = collector.errors or [f"pytest ended with {code!r}"]
        raise GraderFault(_describe_broken_suite(exercise, problems))
    return tuple(collector.cases)


def _describe_broken_suite(exercise: Exercise, problems: Sequence[str]) -> str:
    return f"the suite of {exercise.slug} cannot be run: {'; '.join(problems)}"


def _add_needed_suite_checks(exercise: Exercise, names: frozenset[str]) -> list[str]:
    """Return the named checks and the checks they need, in the order of the suite."""
    known = {check.id: check for check in list_suite_checks(exercise)}
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += known[name].needs
    return [name for name in known if name in found]


def list_suite_checks(exercise: Exercise) -> list[Check]:
    """Return the checks that a suite declares, without running them."""
    return list_check_marks(_import_suite_file(exercise, "test_*.py"), Check)


def list_check_functions(exercise: Exercise) -> list[Any]:
    """Return the functions of a suite's checks, in order."""
    things = vars(_import_suite_file(exercise, "test_*.py")).values()
    return [t for t in things if isinstance(getattr(t, "__mark__", None), Check)]


def list_suite_tests(exercise: Exercise) -> set[str]:
    """Return the names that pytest takes for tests in a suite, checks or not."""
    return {
        name for name in vars(_import_suite_file(exercise, "test_*.py")) if name.startswith("test_")
    }


def find_suite_speed_case(exercise: Exercise) -> SpeedCase | None:
    """Return the speed case of an exercise; None if there is none."""
    if not list(exercise.folder.glob("bench_*.py")):
        return None
    cases = list_check_marks(_import_suite_file(exercise, "bench_*.py"), SpeedCase)
    if len(cases) != 1:
        raise GraderFault(f"{exercise.slug} has a bench with {len(cases)} @speed, not one")
    return cases[0]


def list_suite_mistakes(exercise: Exercise) -> list[Mistake]:
    """Return an exercise's catalogue of named wrong answers, task by task.

    It is mistakes.py, or every file of the folder mistakes/. A sealed bundle has none.
    """
    if sealed_bundle.is_core_sealed():
        return []
    files = sorted(path.name for path in exercise.folder.glob("mistakes/[a-z]*.py"))
    modules = [_import_suite_file(exercise, f"mistakes/{name}") for name in files]
    modules = modules or [_import_suite_file(exercise, "mistakes.py")]
    found = [m for module in modules for m in list_check_marks(module, Mistake)]
    once = {id(m): m for m in found}.values()  # a file may build on another's mistake
    tasks = {name: number for number, name in enumerate(exercise.names)}
    return sorted(once, key=lambda m: tasks.get(m.of, len(tasks)))


def list_suite_variants(exercise: Exercise) -> list[Variant]:
    """Return the right answers written otherwise."""
    return list_check_marks(_import_suite_file(exercise, "variants.py"), Variant)


def list_shown_variants(exercise: Exercise) -> list[Variant]:
    """Return two right answers that are shown after a pass, of the name that has the most."""
    if not (exercise.folder / "variants.py").is_file():
        return []
    whole = [v for v in list_suite_variants(exercise) if not v.edits]
    counts = Counter(v.of for v in whole)
    return [v for v in whole if v.of == max(counts, key=counts.__getitem__)][:2]


def list_suite_trials(exercise: Exercise) -> list[Trial]:
    """Return the scripts that tell two answers apart; a pack may have none."""
    if not (exercise.folder / "trials.py").is_file():
        return []
    return list_check_marks(_import_suite_file(exercise, "trials.py"), Trial)


def _import_suite_file(exercise: Exercise, pattern: str) -> ModuleType:
    path = _find_suite_file(exercise, pattern)
    try:
        name = path.relative_to(exercise.folder).with_suffix("")
        return suite_imports.import_judging_suite(exercise, ".".join(name.parts))
    except (Exception, SystemExit) as error:  # an author's code may raise anything
        problem = f"{path} cannot be imported ({type(error).__name__}: {error}). Mend it."
        raise BrokenSuite(problem) from error


def _find_suite_file(exercise: Exercise, pattern: str) -> Path:
    found = list(exercise.folder.glob(pattern))
    if len(found) != 1:
        raise BrokenSuite(f"{exercise.folder} needs one {pattern}. Write it, or make it one file.")
    return found[0]


class _Collector:
    """Keeps the cases that pytest collects, and the errors of what it cannot collect."""

    def __init__(self) -> None:
        self.cases: list[CheckCase] = []
        self.errors: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.register(
            object(), JUDGE_PLUGIN_NAME
        )  # so that no judge of a run by hand is made

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            case = find_check_case(item)
            if case is None:
                self.errors.append(f"{item.nodeid} has no @check")
            else:
                self.cases.append(case)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors.append(str(report.longrepr).strip().splitlines()[-1])
