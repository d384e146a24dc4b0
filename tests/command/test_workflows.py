"""The workflows for GitHub: what they run exists, and a secret is never printed."""

import re

import pytest
import yaml

from grader.catalog import ROOT

WORKFLOWS = [
    *sorted((ROOT / ".github/workflows").glob("*.yml")),
    ROOT / "grader/course/grade.yml",
]
each = pytest.mark.parametrize(
    "path", WORKFLOWS, ids=lambda path: f"{path.parent.name}-{path.name}"
)
GOALS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def steps(path):
    [job] = yaml.safe_load(path.read_text())["jobs"].values()
    return job["steps"]


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


def test_what_a_class_hands_out_holds_no_secret():
    [upload] = [s for s in steps(WORKFLOWS[1]) if "upload-artifact" in s.get("uses", "")]
    assert upload["with"]["include-hidden-files"] is False
