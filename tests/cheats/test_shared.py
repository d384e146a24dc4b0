"""A process that grades many cheats sees each harm, and says of which cheat it is."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cheats import reaper
from tests.cheats.cheat import HERE, Cheat, all_cheats
from tests.cheats.outcomes import Harm
from tests.cheats.room import Room
from tests.cheats.shared import GradingProcess, NotAsItWas

CHEATS = {cheat.name: cheat for cheat in all_cheats()}
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and a subreaper")

# A command that runs what it is told to, and then says that it did.
OBEYS = """
import os, signal, socket, sys, time
sock = socket.socket(fileno=int(sys.argv[1]))
if os.fork() == 0: time.sleep(600)
sock.sendall(b"{}\\n")
for line in sock.makefile():
    exec(eval(line))
    sock.sendall(b'{"done": true}\\n')
os.kill(0, signal.SIGTERM)
"""
DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(600)
    os._exit(0)
os.wait()
"""


def served(folder: Path, *orders: str) -> list[dict]:
    """What the reaper says of a command when it is ready, after every order, and at the end."""
    reaper = [sys.executable, str(HERE / "reaper.py"), "serve", str(folder / "log")]
    lines = [json.dumps({"seconds": 2, "request": order}) + "\n" for order in orders]
    done = subprocess.run(
        [*reaper, sys.executable, "-c", OBEYS], input="".join(lines), text=True,
        stdout=subprocess.PIPE, check=True, start_new_session=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


@linux
def test_a_daemon_is_told_of_the_order_that_left_it(tmp_path):
    _, *after, _ = served(tmp_path, "pass", DAEMON, "pass")
    assert [len(a["left"]) for a in after] == [0, 1, 0]
    assert all(a["done"] and a["ended"] is None for a in after)


@linux
def test_a_process_that_ends_while_processes_are_listed_is_left_out(monkeypatch):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setattr(os, "listdir", lambda path: [str(ended.pid), "self", str(os.getpid())])
    assert [process.pid for process in reaper._processes()] == [os.getpid()]


@pytest.mark.parametrize(
    "order, ended",
    [
        ("raise SystemExit(3)", 3),
        ("os.abort()", -6),
        ("os.kill(os.getpid(), signal.SIGSTOP)", "stopped"),
        ("while True: pass", "hung"),
    ],
)
def test_how_a_command_ended_is_said_of_the_order_that_ended_it(tmp_path, order, ended):
    _, before, after = served(tmp_path, "pass", order)
    assert before["ended"] is None
    assert after["ended"] == ended and "done" not in after


def answer(folder: Path, text: str, **changes) -> Cheat:
    """A cheat of our own."""
    file = folder / "answer.py"
    file.write_text(f"import os\n\n{text}\n", encoding="utf-8")
    files = {"ex01_softmax.py": file}
    return replace(CHEATS["loops_endlessly"], name="ours", files=files, **changes)


@pytest.fixture(scope="module")
def room():
    """The room of `process`, in which some parts of the grader are weaker."""
    room = Room()
    for file, strong, weak in WEAKER:
        path = room.path / "course/grader/worker" / file
        text = path.read_text("utf-8")
        assert text.count(strong) == 1
        path.write_text(text.replace(strong, weak), encoding="utf-8")
    return room


@pytest.fixture(scope="module")
def process(room):
    """A process behind the weakest wall."""
    process = GradingProcess("process", room)
    yield process
    process.spoilt = True  # by what is done to it here
    process.close()


WEAKER = [
    (
        "parent/harmless_text.py",
        r'_RUNNER_COMMAND.sub(r"\g<0> ", _CONTROL_CODES.sub("", text))',
        "text",
    ),
    ("child/fork_server.py", "process_tree.kill_process_tree(pid, set(workers) - {pid})", "set()"),
    ("child/remove_tree.py", "folder.is_symlink()", "False"),
]


@linux
@pytest.mark.parametrize(
    "name, harms",
    [
        ("answers_nan", set()),
        ("prints_workflow_commands", {Harm.COMMANDS}),
        ("outlives_in_its_own_session", {Harm.PROCESSES}),
        ("links_its_folder_to_the_course", {Harm.CHANGES}),
    ],
)
def test_what_a_cheat_does_where_the_grader_is_weaker_is_seen(process, name, harms):
    assert process.grade(CHEATS[name]).harms.keys() == harms


@pytest.mark.parametrize(
    "text, harms",
    [
        ("", set()),
        ("open('@OUTSIDE@/x', 'w')", {Harm.FILES}),
        ("open('@COURSE@/../tmp/x', 'w')", {Harm.FILES}),
        ("print('got away: everything')", {Harm.BOASTS}),
        ("print('::error::x', file=open('@COURSE@/../log', 'a'))", {Harm.COMMANDS}),
        ("os.unlink('@COURSE@/Makefile')", {Harm.CHANGES}),
        ("os.chmod('@COURSE@/pyproject.toml', 0o777)", {Harm.CHANGES}),
        (
            "path = '@COURSE@/pyproject.toml'\n"
            "text, times = open(path).read(), os.stat(path)\n"
            "open(path, 'w').write(text.swapcase())\n"
            "os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))",
            {Harm.CHANGES},
        ),
        ("os.unlink('@COURSE@/../submissions/ex99_witness.py')", {Harm.CHANGES, Harm.WITNESS}),
    ],
)
def test_what_a_cheat_does_to_the_machine_is_seen(room, process, tmp_path, text, harms):
    found = process.grade(answer(tmp_path, text)).harms
    assert found.keys() == harms
    for place in ("outside/x", "tmp/x"):
        (room.path / place).unlink(missing_ok=True)


def test_points_are_seen_where_none_are_due(process):
    honest = CHEATS["claims_a_shape_beyond_its_bytes"]
    assert process.grade(honest).harms == {}
    assert process.grade(replace(honest, earns=1)).harms.keys() == {Harm.EARNS}


def test_what_no_cheat_was_seen_to_do_is_found_at_the_end():
    room = Room()
    process = GradingProcess("process", room)
    assert process.grade(CHEATS["answers_nan"]).harms == {}
    (room.path / "outside/x").touch()
    with pytest.raises(NotAsItWas, match="x"):
        process.close()
