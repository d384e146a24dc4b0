"""A worker dumps all that it can see, on every rung: nothing secret is in it."""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.worker.conftest import MOST

KINDS = ("/dev/null", "socket:", "/memfd:inputs", "/memfd:answers")


@pytest.fixture(scope="module", params=MOST)
def found(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("others")
    (place / "other.py").write_text(f"# the answer of another student: {secrets.token_hex(16)}")
    program = [sys.executable, "-m", "tests.worker.dumps", request.param.name, str(place)]
    environment = os.environ | {"ABH_SECRET": secrets.token_hex(16)}
    ran = subprocess.run(
        program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_no_secret_is_seen(found):
    assert found["seen"] == {"environment": [], "memory": [], "above": []}


def test_the_dumps_are_real(found):
    assert found["mark"]  # what the submission made itself is found in its memory
    assert found["sizes"]["memory"] > 10_000_000
    assert found["sizes"]["environment"] > 1_000


def test_no_descriptor_but_its_own_is_open(found):
    opened = dict(found["descriptors"])
    printed = {opened.pop(1), opened.pop(2)}
    assert len(printed) == 1 and printed.pop().endswith("(deleted)")
    assert {next(k for k in KINDS if name.startswith(k)) for name in opened.values()} == set(KINDS)
    assert len(opened) == len(KINDS)


def test_nothing_of_the_course_is_mapped(found):
    packages = _packages()
    files = [name for name in found["mapped"] if name.startswith("/") and "memfd:" not in name]
    course = [
        name for name in files if name.startswith(str(ROOT)) and not name.startswith(packages)
    ]
    assert course == []


def test_a_locked_worker_opens_python_and_its_packages_only(found):
    if found["wall"] == "process":
        pytest.skip(reason="the weakest wall leaves every file open, and docs/trust.md says so")
    below = tuple(found["read"])
    assert len(found["files"]) > 1_000
    assert [path for path in found["files"] if not path.startswith(below)] == []
    packages = _packages()
    ours = [p for p in found["files"] if p.startswith(str(ROOT)) and not p.startswith(packages)]
    assert ours == []


def _packages() -> tuple[str, ...]:
    """Where Python's own files and packages lie, which may be below the course (.venv)."""
    return tuple({str(Path(p)) for p in (sys.prefix, sys.base_prefix)})
