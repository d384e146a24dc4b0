"""What a grader that is asked to end, or is killed, leaves: nothing once the next one begins."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader.worker.parent import traces
from grader.worker.parent.control_group import ControlGroup
from tests.conftest import ROOT

ANSWER = "import time\n\ndef softmax(x, dim=-1):\n    time.sleep(600)\n"


@pytest.fixture
def grading(tmp_path):
    """A command that grades, in the middle of it, and where its temporary files are."""
    answers, folder = tmp_path / "answers", tmp_path / "temporary"
    answers.mkdir(), folder.mkdir()
    (answers / "ex01_softmax.py").write_text(ANSWER, encoding="utf-8")
    command = [sys.executable, "-m", "grader", "grade", "ex01", "--submission", str(answers),
               "--isolation", "process", "--fresh"]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"TMPDIR": str(folder)}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
        # Where the tests run under nohup, it would be deaf to this as well.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )  # fmt: skip
    until(lambda: any(folder.glob("grader-*/worker-*")))
    yield process, folder
    process.kill()
    process.wait()


def until(happened, seconds=120):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def groups_of(pid):
    found = []
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        root = Path("/sys/fs/cgroup") / controllers / path.lstrip("/")
        found += [
            group for place in (root, *root.parents) for group in place.glob(f"grader-*-{pid}-*")
        ]
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_is_asked_to_end_leaves_nothing(grading, number):
    process, folder = grading
    groups = groups_of(process.pid)
    process.send_signal(number)
    assert process.wait(60) != 0
    until(lambda: not list(folder.iterdir()))
    assert not any(group.exists() for group in groups)


def test_what_a_killed_one_leaves_goes_when_the_next_begins(grading, monkeypatch):
    process, folder = grading
    (folder / f"{next(folder.glob('grader-*')).name}x").mkdir()  # that of its compiler, say
    groups = groups_of(process.pid)
    assert bool(groups) == bool(ControlGroup.where_possible().groups)
    process.kill()
    process.wait()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    traces.sweep_worker_folders.__wrapped__()
    until(lambda: not list(folder.iterdir()))
    ControlGroup.where_possible().close()
    assert not any(group.exists() for group in groups)


def test_what_belongs_to_another_stays(tmp_path, monkeypatch):
    living = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = traces._read_start_ticks(living.pid)
    own = traces.build_worker_trace_prefix()
    namespace = own.split("-")[1]
    stays = [
        f"{own}abc", "grader-notes", "grader-1-2-3", "mine",
        f"grader-{namespace}-{living.pid}-{started}-abc", f"grader-1-{living.pid}-1-abc",
    ]  # fmt: skip
    goes = [
        f"grader-{namespace}-{living.pid}-{started + 1}-abc",
        f"grader-{namespace}-4194305-7-abc",
    ]
    for name in (*stays, *goes):
        (tmp_path / name / "inside").mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    traces.sweep_worker_folders.__wrapped__()
    living.communicate(b"\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(stays)
