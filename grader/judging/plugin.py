"""The pytest plugin of the suites: the fixtures `student`, `draw` and `device`.

Under `make grade` a `Judge` is already there. Started by hand, `python -m pytest
grader/suites/ex01_softmax` grades `exercises/` in a worker.
"""

import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from grader.core import catalog
from grader.core.records import Exercise
from grader.judging import drills, recorded_cases, suite_imports
from grader.judging.case import CURRENT_CASE, Case
from grader.judging.draw import Draw
from grader.judging.judge import Judge
from grader.judging.marks import find_check_case
from grader.judging.student import Student
from grader.judging.suite_runner import JUDGE_PLUGIN_NAME
from grader.submission import admission, answer_file
from grader.worker.parent import requirements


class PytestJudge(Judge):
    """A judge whose cases pytest collects and runs."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        self.errors += [
            f"{item.nodeid} has no @check" for item in items if find_check_case(item) is None
        ]
        self._register_cases(
            [case for item in items if (case := find_check_case(item)) is not None]
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        case = find_check_case(item)
        if why := "it has no @check" if case is None else self._reason_to_skip(case):
            pytest.skip(reason=why)
        CURRENT_CASE.set(Case())
        self.student.begin_case()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Function, call: pytest.CallInfo[None]
    ) -> "object":
        report = yield
        case = find_check_case(item)
        if case is not None and call.when == "call":
            error = None if call.excinfo is None else call.excinfo.value
            self._record_outcome(self._tallies[case.check.id], case, error)
        return report


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("grader")
    group.addoption("--submission", default="exercises", help="a folder of answers, or one file")
    group.addoption("--device", default="cpu", help="cpu or cuda")
    group.addoption("--seed", default="", help="repeat the draws of an earlier run")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.has_plugin(JUDGE_PLUGIN_NAME):
        return
    exercise = _find_judged_exercise(config)
    if exercise is None:
        raise pytest.UsageError("name one suite: python -m pytest grader/suites/ex01_softmax")
    suite_imports.make_suite_pack_importable(exercise)
    on_cuda = config.getoption("--device").startswith("cuda")
    if lacking := requirements.find_unmet_worker_requirement(
        requirements.list_worker_requirements(exercise, on_cuda=on_cuda)
    ):
        raise pytest.UsageError(f"{exercise.slug} {lacking}")
    seed = config.getoption("--seed") or secrets.token_hex(8)
    path = answer_file.locate_submission(Path(config.getoption("--submission")), exercise.slug)
    try:
        answer = answer_file.read_submission(
            path, exercise.slug, catalog.list_catalog_names(exercise)
        )
    except answer_file.UnreadableFile as error:
        raise pytest.UsageError(str(error)) from None
    exercise = drills.lend_judged_hunt(exercise, answer.source)
    client, problems = _start_judged_worker(config, exercise, answer)
    student = Student(exercise, client, problems, answer)
    device = config.getoption("--device")
    judge = PytestJudge(
        student, (seed, exercise.slug), device, recorded_cases.load_judging_tape(exercise.slug)
    )
    config.pluginmanager.register(judge, JUDGE_PLUGIN_NAME)


def _start_judged_worker(config: pytest.Config, exercise: Exercise, answer: Any) -> Any:
    from grader.worker.parent.nursery import Nursery
    from grader.worker.parent.supervisor import Supervisor

    try:
        admitted = admission.admit_submission(answer, exercise)
    except admission.NotGraded as problem:
        raise pytest.UsageError(str(problem)) from None
    nursery = Nursery()
    worker = Supervisor(
        nursery, admitted.runs, exercise.limits, refuse=exercise.refused, preload=exercise.preload,
        prelude=exercise.prelude, on_cuda=config.getoption("--device").startswith("cuda"),
    )  # fmt: skip
    config.add_cleanup(nursery.close)
    config.add_cleanup(worker.close)
    return worker.client(), admitted.problems


def _find_judged_exercise(config: pytest.Config) -> Exercise | None:
    """Find the exercise whose suite the command line names."""
    folders = {Path(arg.split("::")[0]).resolve() for arg in config.args}
    found = [
        e
        for e in catalog.list_catalog_exercises()
        if any(f.is_relative_to(e.folder) for f in folders)
    ]
    return found[0] if len(found) == 1 else None


def pytest_make_parametrize_id(config: pytest.Config, val: object) -> str | None:
    """Name a case so that a person can read it."""
    if isinstance(val, torch.dtype):
        return str(val).removeprefix("torch.")
    if isinstance(val, type) and issubclass(val, np.generic):
        return val.__name__
    if isinstance(val, tuple):
        return "x".join(str(n) for n in val) or "scalar"
    return None


def _find_registered_judge(request: pytest.FixtureRequest) -> Judge:
    judge = request.config.pluginmanager.get_plugin(JUDGE_PLUGIN_NAME)
    assert isinstance(judge, Judge)
    return judge


@pytest.fixture
def student(request: pytest.FixtureRequest) -> Student:
    """Return the student's module."""
    return _find_registered_judge(request).student


@pytest.fixture
def device(request: pytest.FixtureRequest) -> torch.device:
    """Return the device on which this run makes its calls."""
    return torch.device(_find_registered_judge(request).device)


@pytest.fixture
def draw(request: pytest.FixtureRequest) -> Draw:
    """Return the draws of fresh inputs for a test."""
    return _find_registered_judge(request).draw_for(request.node.name)
