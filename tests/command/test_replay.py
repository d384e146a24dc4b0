"""`grader replay`: one mark, reproduced."""

import json

import pytest
from typer.testing import CliRunner

from grader.cli import app
from grader.core.catalog import ROOT
from tests.command.here import take_one_nursery
from tests.conftest import leave_unexplained

SOURCE = (ROOT / "solutions/ex01_softmax.py").read_text(encoding="utf-8")
WRONG = SOURCE.replace("dim=dim", "dim=-1")


def grader(*args):
    return CliRunner().invoke(app.app, [*map(str, args), "--isolation", "process"])


@pytest.fixture(scope="module", autouse=True)
def verdicts_alone(nursery):
    """Only verdicts are meant: in the nursery of all tests, and without explanations."""
    with pytest.MonkeyPatch.context() as patch:
        take_one_nursery(patch, nursery)
        leave_unexplained(patch)
        yield


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report on a wrong answer, as JSON."""
    folder = tmp_path_factory.mktemp("graded")
    (folder / "ex01_softmax.py").write_text(WRONG)
    path = folder / "report.json"
    done = grader("grade", "ex01", "ex02", "--submission", folder, "--format", "json", "-o", path)
    assert done.exit_code == 0, done.output
    return path.read_text()


@pytest.fixture
def graded(report, tmp_path):
    """The report in a file of its own; the answer lies where it was graded."""
    path = tmp_path / "report.json"
    path.write_text(report)
    return path


def test_the_same_file_gets_the_same_verdicts(graded):
    verdicts = [c["verdict"] for c in json.loads(graded.read_text())["exercises"][0]["checks"]]
    assert "failed" in verdicts and "passed" in verdicts
    done = grader("replay", graded)
    assert done.exit_code == 0
    assert (
        f"ex01_softmax: the same {len(verdicts)} verdicts, 5 of 10 points without speed."
        in done.output
    )
    assert "ex02_masking: ex02_masking.py is not there." in done.output


def test_another_file_is_seen(graded, tmp_path):
    (tmp_path / "ex01_softmax.py").write_text(SOURCE)
    done = grader("replay", graded, "--submission", tmp_path)
    assert done.exit_code == 1
    assert "is not the file that was graded" in done.output


def test_a_verdict_that_differs_is_told(graded):
    found = json.loads(graded.read_text())
    passed = next(c for c in found["exercises"][0]["checks"] if c["verdict"] == "passed")
    passed["verdict"], passed["earned"] = "failed", 0
    graded.write_text(json.dumps(found))
    done = grader("replay", graded)
    assert done.exit_code == 1
    assert f"{passed['id']} was failed and is passed" in done.output


@pytest.mark.parametrize("secret", [None, "other"])
def test_an_official_report_needs_its_secret(graded, tmp_path, secret):
    found = json.loads(graded.read_text())
    del found["seed"]
    graded.write_text(json.dumps(found))
    if secret is None:
        done = grader("replay", graded)
        assert "This report holds no seed: name the file of the secret (--secret)." in done.output
    else:
        (tmp_path / "secret").write_text(secret)
        done = grader("replay", graded, "--secret", tmp_path / "secret")
        assert "is not the secret that this report was drawn from." in done.output
    assert done.exit_code == 2


@pytest.mark.parametrize("content, says", [("", "This is no JSON."), ("{}", "This is no report")])
def test_what_is_no_report_gets_a_sentence(tmp_path, content, says):
    (tmp_path / "x.json").write_text(content)
    done = grader("replay", tmp_path / "x.json")
    assert (done.exit_code, says in done.output) == (2, True)
    done = grader("replay", tmp_path / "nowhere.json")
    assert (done.exit_code, "cannot be read" in done.output) == (2, True)
