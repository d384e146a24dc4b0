"""The workflows for GitHub: what they run exists, and a secret is never printed."""

import re

import pytest
import yaml

from grader.core import catalog
from grader.core.catalog import ROOT
from tests.lowest import lowest

WORKFLOWS = [
    *sorted((ROOT / ".github/workflows").glob("*.yml")),
    ROOT / "grader/release/grade.yml",
]
each = pytest.mark.parametrize(
    "path", WORKFLOWS, ids=lambda path: f"{path.parent.name}-{path.name}"
)
GOALS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def steps(path):
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


@each
def test_every_goal_that_is_made_exists(path):
    commands = " && ".join(step.get("run", "") for step in steps(path))
    goals = re.findall(r"\bmake ([a-z-]+)", commands)
    assert goals or ".ci/run" in commands
    assert set(goals) <= GOALS


@each
def test_a_workflow_may_do_no_more_than_read(path):
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


@each
def test_no_expression_stands_in_a_command(path):
    """What is put into a command before a shell reads it can end it and begin another."""
    assert not [step["run"] for step in steps(path) if "${{" in step.get("run", "")]


def test_nothing_runs_every_week_but_the_weekly_workflow():
    weekly = [path.name for path in WORKFLOWS if "cron:" in path.read_text()]
    assert weekly == ["weekly.yml"]


def test_every_exercise_has_its_headroom_measured():
    jobs = yaml.safe_load((ROOT / ".github/workflows/weekly.yml").read_text())["jobs"]
    asked = jobs["headroom"]["strategy"]["matrix"]["exercise"]
    assert [catalog.find_catalog_exercise(name).slug for name in asked] == sorted(
        e.slug for e in catalog.list_catalog_exercises()
    )


def test_what_proves_the_suites_has_what_every_exercise_requires():
    """Triton is among what the project's own tests need, and not in the core."""
    needs = dict(
        re.findall(r"^([a-z-]+): (.*?) ## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )
    goals = ("test", "mutants", "headroom", "mechanical", "diagnose-trial")
    assert {needs[goal] for goal in goals} == {"$(DEV)"}


def test_both_ends_of_every_range_are_installed():
    jobs = yaml.safe_load((ROOT / ".github/workflows/weekly.yml").read_text())["jobs"]
    ends = jobs["versions"]["strategy"]["matrix"]["include"]
    assert [one["end"] for one in ends] == ["lowest", "newest"]
    project = {
        "dependencies": ["b>=2.0", "a"],
        "optional-dependencies": {"x": ["c>=1.5,<3; platform_system == 'Linux'"], "y": ["b>=2.0"]},
    }
    assert list(lowest(project)) == ["b==2.0", "c==1.5"]


def test_what_a_class_hands_out_holds_no_secret():
    [upload] = [
        s
        for s in steps(ROOT / ".github/workflows/grade.yml")
        if "upload-artifact" in s.get("uses", "")
    ]
    assert upload["with"]["include-hidden-files"] is False
