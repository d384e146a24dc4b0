"""On a machine with the core packages alone a command works, or says in a sentence what it needs."""

import re
import subprocess
import tomllib
import venv
from importlib import metadata
from pathlib import Path

import pytest

from grader.core.catalog import ROOT

pytestmark = pytest.mark.weekly  # half a minute


def name_of(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0]


def list_needed(names: list[str]) -> dict[str, metadata.Distribution]:
    """The installed distributions of these names, and what they need in turn."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # of another system, or of a GPU
            continue
        waiting += [name_of(r) for r in found[name].requires or () if "extra ==" not in r]
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """plain("house") -> what the command prints and its exit status, with the core packages alone."""
    place = tmp_path_factory.mktemp("plain") / "venv"
    venv.create(place, with_pip=False)
    [site] = place.glob("lib/python*/site-packages")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name_of(r).lower() for one in project["optional-dependencies"].values() for r in one}
    core = list_needed(list(map(name_of, project["dependencies"])))
    core.pop("triton", None)  # a build of torch for CUDA brings it
    assert not core.keys() & extras - {"setuptools"}  # torch needs it
    for one in core.values():
        for top in {Path(str(file)).parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(one.locate_file(top))

    def run(*arguments: object) -> tuple[str, int]:
        done = subprocess.run(
            [place / "bin/python", "-m", "grader", *map(str, arguments)], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stdout, done.stdout
        return done.stdout, done.returncode

    return run


def test_the_house_says_which_suites_it_cannot_check(plain):
    said, status = plain("house")
    *unchecked, last = said.splitlines()
    assert status == 0, said
    assert last == "What was checked is in order."
    assert [line.partition(":")[0] for line in unchecked] == ["ex14_triton"]
    assert "It needs triton, which is not installed here" in unchecked[0]


@pytest.mark.parametrize(
    "command, says",
    [
        ("release ex01 -o {out}", "nbgrader is not installed: "),
        ("similar {out}", "Comparing needs copydetect: "),
        ("learn ex01 --no-browser", "run `make learn`, which installs them."),
        ("show ex01 --submission solutions -o {out}/x.png", "Pictures need matplotlib: "),
        ("diff {out}", "traitlets is not installed: "),
        ("mutants ex14", "needs triton, which is not installed here: "),
    ],
)
def test_a_command_that_needs_more_says_what(plain, tmp_path, command, says):
    said, status = plain(*(part.format(out=tmp_path) for part in command.split()))
    assert (status, says in said) == (2, True), said
