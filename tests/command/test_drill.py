"""`grader drill`: what it writes, what it keeps, what it says."""

import pytest
from typer.testing import CliRunner

from grader.cli import app, drill_command
from tests.conftest import solution

pytestmark = pytest.mark.usefixtures("one_nursery", "unexplained")


def drill(*arguments: str):
    options = ["--lang", "en", "--isolation", "process"]
    done = CliRunner().invoke(app.app, ["drill", *arguments, *options])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def passed(monkeypatch):
    """Whatever is asked for is passed: nothing is graded."""
    monkeypatch.setattr(
        drill_command, "_find_drill_command_exercise", lambda exercises, *_: exercises[0]
    )


@pytest.fixture
def drawn(tmp_path, passed):
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


def test_nothing_is_kept_of_a_drill_that_nobody_has_touched(drawn):
    assert drill("ex05", "--submission", str(drawn.parent), "--seed", "7")[0] == 0
    assert [p.name for p in drawn.parent.iterdir()] == ["ex17_bug_hunt.py"]


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


def test_it_draws_from_what_is_named_and_passed(tmp_path):
    (tmp_path / "ex05_causal_mask.py").write_text(solution("ex05_causal_mask"))
    assert drill("ex05", "--submission", str(tmp_path), "--seed", "6")[0] == 0
    assert 'return "ex05_causal_mask 6"' in (tmp_path / "ex17_bug_hunt.py").read_text()


HALF = solution("ex05_causal_mask").replace("behind < window", "behind <= window")


@pytest.mark.parametrize("answer", [None, HALF], ids=["not there", "half right"])
def test_the_solution_of_what_is_not_passed_is_not_shown(tmp_path, answer):
    if answer is not None:
        (tmp_path / "ex05_causal_mask.py").write_text(answer)
    assert drill("ex05", "--submission", str(tmp_path)) == (2, "", NOT_PASSED.format(tmp_path))
    assert not (tmp_path / "ex17_bug_hunt.py").exists()


NOT_PASSED = (
    "A drill of ex05_causal_mask shows its solution but for one mistake: pass ex05_causal_mask"
    " first. `make grade EX=ex05_causal_mask SUBMISSION={}` says what is missing.\n"
)
NOTHING = (
    "No exercise with drills is passed as it is now, and a drill shows the solution but for one"
    " mistake: pass one first. `make grade EX=ex01_softmax` says what is missing.\n"
)
NO_DRILLS = "Nothing is drawn from {}: it has no drills. These have: ex01, ex02, ex03, ex04, ex05, "
NO_SEED = "{!r} is no number of a drill: at most 18 digits, or no --seed at all.\n"


@pytest.mark.parametrize(
    "arguments, says",
    [
        ([], NOTHING),
        (["ex15"], NO_DRILLS.format("ex15_cuda_kernel")),
        (["ex17"], NO_DRILLS.format("ex17_bug_hunt")),
        (["ex5"], "There is no exercise called 'ex5'. Did you mean ex05?\n"),
        (["ex05", "--seed", "four"], NO_SEED.format("four")),
        (["ex05", "--seed", "-1"], NO_SEED.format("-1")),
        (["ex05", "--seed", "1.5"], NO_SEED.format("1.5")),
        (["ex05", "--seed", "9" * 19], NO_SEED.format("9" * 19)),
    ],
)
def test_what_cannot_be_drawn_gets_a_sentence(tmp_path, arguments, says):
    code, printed, said = drill(*arguments, "--submission", str(tmp_path))
    assert (code, printed) == (2, "")
    assert said.replace(f" SUBMISSION={tmp_path}", "").startswith(says)
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_file_is_no_folder_of_answers(tmp_path):
    (tmp_path / "ex01_softmax.py").write_text("")
    code, _, said = drill("ex05", "--submission", str(tmp_path / "ex01_softmax.py"))
    assert code == 2
    assert said.endswith("is no folder: a drill is written into a folder of answers.\n")
