"""A learner's way with the wheel alone: a fresh environment, an empty folder, no repository."""

import re
import signal
import site
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

from grader.core.catalog import ROOT
from grader.worker.parent.walls import WALL_NAMES
from tests.wheel.conftest import build_wheel

pytestmark = pytest.mark.weekly
RIGHT = (ROOT / "solutions/ex01_softmax.py").read_text(encoding="utf-8")
WRONG = RIGHT.replace("powers.sum(axis=axis, keepdims=True)", "powers.sum()")
ANSWER = "exercises/ex01_softmax.py"
LOOK = """
import sys
from contextlib import closing
from pathlib import Path
from grader.core.records import Limits, Submission
from grader.doctor import doctor
from grader.worker.parent import walls
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.supervisor import Supervisor

wall = walls.probe_wall(sys.argv[1]).wall
source = '''
def imports(name):
    try:
        __builtins__["__import__"](name)
    except ImportError:
        return False
    return True
'''
answer = Submission(slug="ex01_softmax", path=Path("x.py"), sha256="", source=source)
if wall is not None:
    assert list(doctor._find_doctor_wall_problems(wall)) == []
    with Nursery(wall) as nursery, closing(Supervisor(nursery, answer, Limits())) as worker:
        for name in ("grader", "reference", "reference.ex01_softmax", "torch", "rich"):
            print(name, worker.client().call(None, "imports", [name], {}, graph=False).value)
"""


class Learner:
    """Somebody in a folder of their own, with an environment in which the wheel is installed."""

    def __init__(self, place: Path, python: Path) -> None:
        self.place, self.bin, self.last_said = place, python.parent, ""
        self.environment = {
            "PATH": "/usr/bin:/bin", "HOME": str(place), "LANG": "C.UTF-8", "COLUMNS": "200",
        }  # fmt: skip

    def run(self, *words: str, code: int = 0, folder: str = "attention-by-hand") -> str:
        """What a command prints, which ends with `code`."""
        command = [str(self.bin / "attention-by-hand"), *words]
        if words[0] in ("make", "python"):
            command = [words[0] if words[0] == "make" else str(self.bin / "python"), *words[1:]]
        done = subprocess.run(
            command, cwd=self.place / folder, env=self.environment, text=True, input="",
            capture_output=True,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        assert "Traceback" not in said
        return said

    @contextmanager
    def running(self, *words: str, folder: str = "attention-by-hand") -> Iterator[Any]:
        """A command that runs until Ctrl-C, which comes when the block ends."""
        with subprocess.Popen(
            [str(self.bin / "attention-by-hand"), *words], cwd=self.place / folder, text=True,
            env=self.environment | {"PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE,
        ) as process:  # fmt: skip
            yield process
            process.send_signal(signal.SIGINT)
            self.last_said, _ = process.communicate(timeout=120)
            assert process.returncode == 0

    def install(self, wheel: Path) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install"]
        options = ["--quiet", "--no-deps", "--no-index", "--force-reinstall"]
        subprocess.run([*command, *options, str(wheel)], check=True)

    def write(self, text: str) -> None:
        (self.place / "attention-by-hand" / ANSWER).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def learner(wheel, tmp_path_factory) -> Learner:
    """A learner with nothing but the wheel and what it requires, found where it is already."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    [packages] = environment.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
    learner = Learner(tmp_path_factory.mktemp("empty"), environment / "bin/python")
    learner.install(wheel)
    return learner


@pytest.fixture(scope="module", autouse=True)
def begun(learner) -> str:
    return learner.run("init", folder=".")


def test_the_repository_is_not_in_reach(learner):
    path = learner.run("python", "-c", "import grader; print(grader.__file__)")
    assert path.startswith(str(learner.bin.parent))
    assert not list(learner.bin.parent.rglob("variants.py"))


def test_from_a_wrong_answer_by_a_hint_to_a_pass(learner, begun):
    assert f"`{learner.bin}/attention-by-hand grade ex01`" in begun
    assert "not started yet" in learner.run("grade", "ex01")
    learner.write(WRONG)
    told = learner.run("make", "grade", "EX=ex01")
    assert "✗ " in told and "powers" not in told
    assert "Hint 1 of" in learner.run("hint", "ex01")
    learner.write(RIGHT)
    told = learner.run("make", "grade", "EX=ex01")
    assert "10/10" in told
    assert "make show EX=ex01_softmax" in told
    assert "--solution" not in told + learner.run("hint", "--help")  # there is no solution
    told = learner.run("grade", "ex01", "--fresh")
    assert f"`{learner.bin}/attention-by-hand show ex01_softmax`" in told
    assert not re.search(r"\bmake [a-z]+\b|\b[A-Z]+=", told)


def test_every_other_command_of_a_learner_runs(learner):
    learner.write(RIGHT)
    assert "can be graded here" in learner.run("doctor")
    assert "cat" in learner.run("show", "ex01")
    assert "Every case passed" in learner.run("debug", "ex01")
    assert "ex01_softmax" in learner.run("progress")
    assert "is the skeleton already" in learner.run("reset", "ex02")
    assert "median" in learner.run("bench", "ex03", "--submission", str(ROOT / "solutions")).lower()
    assert "clone the project" in learner.run("drill", "ex01", code=2)
    assert "clone the project" in learner.run("house", code=2)


@pytest.mark.parametrize("words", [("watch", "ex01"), ("interview", "ex01", "-o", "..")])
def test_what_runs_until_ctrl_c_begins_and_ends(learner, words):
    learner.write(RIGHT)
    with learner.running(*words) as process:
        assert any("ex01_softmax" in line for line in process.stdout)


@pytest.mark.parametrize("folder", [".", "attention-by-hand"])
def test_the_page_answers_on_loopback_and_shows_the_lesson(learner, folder):
    """Above the folder too: there the command finds the one that `init` writes by default."""
    with learner.running("learn", "--no-browser", folder=folder) as process:
        found = re.search(r"http://127\.0\.0\.1:\d+/\S+", process.stdout.readline())
        assert found is not None
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        page = opener.open(found[0], timeout=60).read().decode()
    assert "sum to one" in page
    assert "no lesson here" not in page
    answers = "attention-by-hand/exercises" if folder == "." else "exercises"
    assert f"Your answers are in {answers}." in learner.last_said


@pytest.mark.parametrize("wall", WALL_NAMES)
def test_no_answer_imports_the_installed_project(learner, wall):
    found = dict(line.split() for line in learner.run("python", "-c", LOOK, wall).splitlines())
    assert set(found) in (set(), {"grader", "reference", "reference.ex01_softmax", "torch", "rich"})
    assert {name for name, imported in found.items() if imported == "True"} <= {"torch", "rich"}


def test_an_update_to_the_next_wheel_leaves_the_answer(learner, tree):
    learner.write(RIGHT)
    solution = tree / "solutions/ex01_softmax.py"
    text = solution.read_text(encoding="utf-8")
    solution.write_text(text.replace("Other axes may be empty", "Other axes may have length 0"))
    for path in (tree / "pyproject.toml", tree / "grader/__init__.py"):
        path.write_text(path.read_text(encoding="utf-8").replace('"0.1.0"', '"0.2.0"'))
    for old in (tree / "dist").iterdir():
        old.unlink()
    learner.install(build_wheel(tree))
    told = learner.run("update")
    assert (learner.place / "attention-by-hand" / ANSWER).read_text(encoding="utf-8") == RIGHT
    new = learner.place / "attention-by-hand/exercises/ex01_softmax.1.py"
    assert "Other axes may have length 0" in new.read_text(encoding="utf-8")
    assert "+            and may have thousands. Other axes may have length 0" in told
    assert "This was version 0.1.0, and is 0.2.0 now." in told
    assert learner.run("update") == "Nothing is new here.\n"
    assert "10/10" in learner.run("grade", "ex01")
