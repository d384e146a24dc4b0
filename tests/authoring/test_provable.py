"""The commands that prove say what they could not ask, and never that nothing is all right."""

import pytest
from typer.testing import CliRunner

from grader.cli.app import app
from grader.worker.parent import requirements

LACKING = "needs triton, which is not installed here"


@pytest.fixture
def no_triton(monkeypatch):
    monkeypatch.setattr(
        requirements, "read_worker_version", lambda name: "" if name == "triton" else "9"
    )


def said(*arguments):
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.output


@pytest.mark.parametrize("command", ["mutants", "headroom", "mechanical", "diagnose-trial"])
def test_where_nothing_could_be_asked_the_command_fails(no_triton, command):
    code, output = said(command, "ex14")
    assert code == 2
    assert output.count(LACKING) == 1
    assert "Nothing was asked" in output


def test_what_can_be_asked_is_asked_and_the_rest_is_named(no_triton):
    code, output = said("headroom", "ex14", "ex01", "--seeds", "1", "--no-variants")
    assert code == 0
    assert f"ex14_triton: {LACKING}" in output
    assert "ex01_softmax" in output
    assert " run, 0 rejected" in output


@pytest.mark.parametrize("name", ["ex15", "ex17"])
def test_a_solution_that_is_not_changed_is_said_to_be_so(name):
    code, output = said("mechanical", name)
    assert code == 1
    assert "Nothing was asked" in output
