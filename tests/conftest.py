"""What the project's own tests have in common."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.core import catalog
from grader.core.records import Exercise, ExerciseReport
from grader.diagnosis import failed_checks, time_limit
from grader.worker.parent import requirements
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.walls import PROCESS, Wall
from tests.open_list import opened

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
# In the background a shell lets programs ignore Ctrl-C, and ours would do so after us.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["GRADER_KEPT"] = "/dev/null/kept"  # where nothing can be: no test sees what another kept
# Tests are of a student's own machine, outside of make; those of CI or of make name it themselves.
for name in ("CI", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"):
    os.environ.pop(name, None)
collect_ignore = ["packs"]  # a sample of what others write: its checks are for answers


if config := os.environ.get("COVERAGE_PROCESS_CONFIG"):  # set by `make coverage`
    uncounted = Wall.command

    def counted(wall: Wall, mode: str, argument: str) -> list[str]:
        """Return the command that counts the lines of workers behind *process* too."""
        command = uncounted(wall, mode, argument)
        if wall == PROCESS:
            command[-4:-4] = [str(ROOT / "tests" / "counted_child.py"), config]
        return command

    Wall.command = counted


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


@pytest.fixture
def list_open() -> Iterator[None]:
    """The list of what an answer may use lets everything through: what stands behind it is meant."""
    with opened():
        yield


@pytest.fixture
def repair_seconds() -> float:
    """How long a change that mends an answer is searched: not at all, in most tests."""
    return -1.0


@pytest.fixture
def diagnosis_seconds() -> float:
    """How long a failure is explained: as long as it takes, however busy the machine."""
    return 60.0


def limit_explanations(patch: pytest.MonkeyPatch, seconds: float, repair: float) -> None:
    """Let a failure be explained within so many seconds, and be mended within `repair`."""
    for part in ("DIAGNOSIS", "NAMING", "PLAINEST", "SINGLE", "PAIR"):
        patch.setattr(time_limit, f"{part}_SECONDS", seconds)
    patch.setattr(time_limit, "REPAIR_SECONDS", repair)


@pytest.fixture
def explained(monkeypatch, repair_seconds, diagnosis_seconds) -> None:
    """Let a failure be explained within `repair_seconds` and `diagnosis_seconds`."""
    limit_explanations(monkeypatch, diagnosis_seconds, repair_seconds)


def leave_unexplained(patch: pytest.MonkeyPatch) -> None:
    """Leave failures unexplained: to name a mistake takes seconds, where only verdicts are meant."""
    patch.setattr(failed_checks, "diagnose_failed_checks", lambda exercise, checks, judge: checks)


@pytest.fixture
def unexplained(monkeypatch) -> None:
    """Failures are left unexplained."""
    leave_unexplained(monkeypatch)


@pytest.fixture
def graded(nursery, tmp_path, explained):
    """Grade a text as the answer to an exercise: graded("ex01_softmax", source) -> its report."""
    from grader.grading.exercise import Run, grade_answer

    def run(slug: str, source: str | bytes | None, **changes) -> ExerciseReport:
        exercise: Exercise = catalog.find_catalog_exercise(slug)
        path = tmp_path / exercise.file
        if source is not None:
            path.write_bytes(source if isinstance(source, bytes) else source.encode())
        if changes:
            from dataclasses import replace

            exercise = replace(exercise, limits=replace(exercise.limits, **changes))
        return grade_answer(
            exercise, path, Run(nursery=nursery, student="test", secret="test", speed=False)
        )

    return run


def pytest_runtest_setup(item: pytest.Item) -> None:
    """An exercise is not tested where the packages that it requires are missing."""
    params = getattr(item, "callspec", None)
    exercise = params.params.get("exercise") if params else None
    if isinstance(exercise, Exercise) and (
        lacking := requirements.find_unmet_worker_requirement(
            requirements.list_worker_requirements(exercise, on_cuda=False)
        )
    ):
        pytest.skip(f"{exercise.slug} {lacking}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how long `make test` has taken so far."""
    if started := os.environ.get("MAKE_TEST_STARTED"):
        terminalreporter.write_line(f"make test: {time.time() - int(started):.0f} s so far")


def solution(slug: str) -> str:
    """The text of a solution."""
    return (ROOT / "solutions" / catalog.find_catalog_exercise(slug).file).read_text(
        encoding="utf-8"
    )
