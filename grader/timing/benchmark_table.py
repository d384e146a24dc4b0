"""Lets pytest-benchmark show, store and compare the recorded rounds.

pytest-benchmark can neither interleave nor extend rounds, so each party becomes a benchmark test of
the same bench function, whose timer replays the recorded times.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from pytest_benchmark.session import PerformanceRegression

from grader.core.catalog import SUITES_FOLDER, find_catalog_suite
from grader.core.records import Speed, SpeedMeasurement
from grader.judging.draw import Draw
from grader.timing.statistics import PARTIES


def print_benchmark_table(speeds: Mapping[str, Speed], options: Sequence[str]) -> int:
    """Run pytest-benchmark with `options` over the speeds by slug; return pytest's exit code."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    seconds = {
        slug: s.measured
        for slug, s in speeds.items()
        if s.measured is not None and s.measured.unit == "s"
    }
    files = [str(path) for slug in seconds for path in find_catalog_suite(slug).glob("bench_*.py")]
    if not files:
        return 0
    settings = {"addopts": "", "python_files": "bench_*.py", "python_functions": "bench_*"}
    ours = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    ours += [
        "-c",
        str(SUITES_FOLDER / "pytest.ini"),
        "--rootdir",
        str(SUITES_FOLDER),
        "--noconftest",
    ]
    ours += ["--import-mode=importlib", "-p", "no:cacheprovider", "-p", "pytest_benchmark.plugin"]
    try:  # the files first: a bare --benchmark-compare takes what follows it
        return int(pytest.main([*ours, "-q", "--no-header", *files, *options], [_Replay(seconds)]))
    except PerformanceRegression as slower:  # of --benchmark-compare-fail
        print(slower)
        return int(pytest.ExitCode.TESTS_FAILED)


class _Clock:
    """A timer whose readings are `seconds` apart, in turn."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self._steps = iter([step for s in seconds for step in (0.0, s)])
        self._now = 0.0

    def __call__(self) -> float:
        self._now += next(self._steps, 0.0)
        return self._now


class _Race:
    """The argument of a bench function here: it replays recorded rounds and runs none."""

    device = "cpu"

    def __init__(self, benchmark: Any, rounds: int) -> None:
        self.draw = Draw("replay")
        self._benchmark = benchmark
        self._rounds = rounds

    def each(self, prepare: Callable[[Any], Any]) -> dict[Any, Any]:
        return {}

    def __iter__(self) -> Iterator[Draw]:
        self._benchmark.pedantic(lambda: None, rounds=self._rounds)
        return iter(())


class _Replay:
    """The pytest plugin that gives bench functions their `race`."""

    def __init__(self, measured: Mapping[str, SpeedMeasurement]) -> None:
        self._measured = measured

    @pytest.fixture(params=PARTIES)
    def race(self, request: pytest.FixtureRequest, benchmark: Any) -> _Race:
        return _Race(benchmark, len(self._measured[request.path.parent.name].rounds))

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        for item in items:
            slug, party = item.path.parent.name, item.callspec.params["race"]
            times = [row[PARTIES.index(party)] for row in self._measured[slug].rounds]
            item.add_marker(pytest.mark.benchmark(group=slug, timer=_Clock(times)))
