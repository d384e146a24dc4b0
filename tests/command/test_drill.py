"""`grader drill`: what it writes, what it keeps, what it says."""

import pytest
from typer.testing import CliRunner

from grader import cli
from tests.conftest import solution


def drill(*arguments: str):
    options = ["--lang", "en", "--isolation", "process"]
    done = CliRunner().invoke(cli.app, ["drill", *arguments, *options])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def drawn(tmp_path):
    """A folder of answers with a fresh drill in it."""
    assert drill("ex05", "--submission", str(tmp_path), "--seed", "6")[0] == 0
    return tmp_path / "ex17_bug_hunt.py"


def test_a_seed_brings_the_same_drill_back(drawn):
    before = drawn.read_text()
    code, _, _ = drill("ex05", "--submission", str(drawn.parent), "--seed", "6")
    assert (code, drawn.read_text()) == (0, before)


def test_work_is_not_written_over(drawn):
    drawn.write_text(drawn.read_text() + "# my notes\n")
    code, _, said = drill("ex05", "--submission", str(drawn.parent), "--seed", "7")
    assert code == 2
    assert said == (
        "ex17_bug_hunt.py has work of yours in it: `make drill ARGS=--again` keeps it and draws a new one.\n"
    )
    assert drawn.read_text().endswith("# my notes\n")


def test_work_is_kept_beside_a_new_drill(drawn):
    for note in ("# one\n", "# two\n"):
        drawn.write_text(note)
        assert drill("ex05", "--submission", str(drawn.parent), "--again")[0] == 0
    kept = [(drawn.parent / f"ex17_bug_hunt.{n}.py").read_text() for n in (1, 2)]
    assert kept == ["# one\n", "# two\n"]


def test_it_draws_from_what_is_passed(tmp_path):
    (tmp_path / "ex01_softmax.py").write_text(solution("ex01_softmax"))
    (tmp_path / "ex05_causal_mask.py").write_text("# not yet\n")
    code, _, _ = drill("--submission", str(tmp_path), "--seed", "5")
    assert code == 0
    assert 'return "ex01_softmax 5"' in (tmp_path / "ex17_bug_hunt.py").read_text()


NOTHING = "No exercise is passed yet. Name one to draw from: make drill EX=ex05_causal_mask\n"


@pytest.mark.parametrize(
    "arguments, says",
    [
        ([], NOTHING),
        (["ex08"], "Nothing is drawn from ex08_cuda_sdpa: it has no drills.\n"),
        (["ex5"], "There is no exercise called 'ex5'. Did you mean ex05?\n"),
    ],
    ids=["nothing passed", "no drills", "unknown"],
)
def test_what_cannot_be_drawn_gets_a_sentence(tmp_path, arguments, says):
    assert drill(*arguments, "--submission", str(tmp_path)) == (2, "", says)


def test_a_file_is_no_folder_of_answers(tmp_path):
    (tmp_path / "ex01_softmax.py").write_text("")
    code, _, said = drill("ex05", "--submission", str(tmp_path / "ex01_softmax.py"))
    assert code == 2
    assert said.endswith("is no folder: a drill is written into a folder of answers.\n")
