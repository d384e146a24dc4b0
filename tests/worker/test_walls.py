"""The ladder: what each wall refuses, how one is chosen, and what is said where one does not work."""

import os
import re
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from grader.worker.child import seccomp
from grader.worker.child.process_tree import list_descendant_processes
from grader.worker.child.remove_tree import remove_worker_folder
from grader.worker.parent import bubblewrap, faults, walls
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.readable_paths import VisiblePaths
from tests.worker.asking import call, worker
from tests.worker.conftest import OUTER, WALLS

SOURCE = """
import ctypes, mmap, os, resource, signal, socket, threading, time

def attempt(code, **names):
    exec(code, globals() | names)

def parents():
    return [os.getpid(), os.getppid()]

def daemon(path):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(path, "w") as file:
                file.write(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
    time.sleep(0.3)

def crowd():
    for _ in range(300):
        if os.fork() == 0:
            time.sleep(600)
    time.sleep(600)

def threads():
    return len([t.start() for t in [threading.Thread(target=print) for _ in range(8)]])

def write(name, text):
    with open(name, "w") as file:
        file.write(text)
    return open(name).read()
"""
KEYCTL = 250 if os.uname().machine == "x86_64" else 219
CLONE, MBIND = (56, 237) if os.uname().machine == "x86_64" else (220, 235)
CDLL = "ctypes.CDLL(None, use_errno=True)"

REFUSED = {
    "read a file of the course": "open(outside).read()",
    "write beside it": "open(outside + '.new', 'w')",
    "write to /tmp": "open('/tmp/abh-wall-test', 'w')",
    "write to shared memory": "open('/dev/shm/abh-wall-test', 'w')",
    "list the root": "os.listdir('/')",
    "list the processes": "os.listdir('/proc')",
    "read the parent's environment": "open(f'/proc/{os.getppid()}/environ').read()",
    "change a file's mode": "os.chmod(outside, 0)",
    "change a file's times": "os.utime(outside)",
    "change a file's owner": "os.chown(outside, os.getuid(), os.getgid())",
    "cut a file off": "os.truncate(outside, 0)",
    "link to a file": "os.link(outside, 'here')",
    "open a socket": "socket.socket()",
    "open a local socket": "socket.socket(socket.AF_UNIX)",
    "open a pair of sockets": "socket.socketpair()",
    "fork": "os._exit(0) if os.fork() == 0 else None",
    "run a program": "os.execv('/bin/true', ['true'])",
    "signal its parent": "os.kill(os.getppid(), 0)",
    "signal a thread of its parent": f"if {CDLL}.tgkill(os.getppid(), os.getppid(), 0): raise OSError",
    "open a descriptor for a process": "os.pidfd_open(os.getppid())",
    "limit its parent": "resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0))",
    "trace its parent": f"if {CDLL}.ptrace(16, os.getppid(), 0, 0): raise OSError",
    "unshare namespaces": f"if {CDLL}.unshare(0x10000000): raise OSError",
    "outlive its nursery": f"if {CDLL}.prctl(1, 0, 0, 0, 0): raise OSError",
    "raise its own limits": "resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))",
    "become more important": "os.nice(-5)",
    "choose its processors": "os.sched_setaffinity(0, [0])",
    "make memory that is not counted": "os.memfd_create('x')",
    "make memory that outlives it": f"if {CDLL}.shmget(0, 4096, 0o1600) < 0: raise OSError",
    "make a queue that outlives it": f"if {CDLL}.msgget(0, 0o1600) < 0: raise OSError",
    "make a semaphore that outlives it": f"if {CDLL}.semget(0, 1, 0o1600) < 0: raise OSError",
    "clone into namespaces": f"if {CDLL}.syscall({CLONE}, 0x10000000, 0, 0, 0, 0) < 0: raise OSError",
    "give pages to a pipe": f"if {CDLL}.vmsplice(1, 0, 0, 0) < 0: raise OSError",
    "bind its memory": f"if {CDLL}.syscall({MBIND}, 0, 0, 0, 0, 0, 0) < 0: raise OSError",
    "use a key ring": f"if {CDLL}.syscall({KEYCTL}, 0, -3, 0) < 0: raise OSError",
    "set up an io_uring": f"if {CDLL}.syscall(425, 1, 0) < 0: raise OSError",
    "call what is newer than the list": f"if {CDLL}.syscall(460) < 0: raise OSError",
}  # fmt: skip
REFUSED_EVERYWHERE = {
    "read the parent's environment", "trace its parent",  # no capabilities, not dumpable
    "raise its own limits", "become more important",
    "unshare namespaces", "clone into namespaces", "make memory that outlives it",
    "make a queue that outlives it", "make a semaphore that outlives it",
    "set up an io_uring", "call what is newer than the list",  # not in every kernel
}  # fmt: skip


@pytest.fixture(scope="session", params=WALLS)
def nursery(request):
    with Nursery(request.param) as nursery:
        yield nursery


@pytest.fixture
def client(nursery):
    with worker(nursery, SOURCE) as (client, _):
        yield client


@pytest.fixture
def outside(tmp_path):
    path = tmp_path / "solution.py"
    path.write_text("return softmax")
    tmp_path.chmod(0o777)
    path.chmod(0o666)
    yield path
    for litter in (Path("/tmp/abh-wall-test"), Path("/dev/shm/abh-wall-test")):
        litter.unlink(missing_ok=True)


@pytest.mark.parametrize("what", REFUSED)
def test_a_locked_worker_may_not(nursery, client, outside, what):
    weakest = nursery.wall.name == "process"
    if weakest and what not in REFUSED_EVERYWHERE:  # so that the other two cases mean something
        with pytest.raises(faults.WorkerDied) if what == "run a program" else nullcontext():
            call(client, "attempt", REFUSED[what], outside=str(outside))
        return
    with pytest.raises(
        faults.AnswerRaised, match=r"OSError|PermissionError|FileNotFound|ValueError"
    ):
        call(client, "attempt", REFUSED[what], outside=str(outside))
    assert outside.read_text() == "return softmax"
    assert call(client, "threads") == 8


def test_a_worker_has_a_folder_of_its_own_that_goes_with_it(nursery):
    with worker(nursery, SOURCE) as (client, _):
        assert call(client, "write", "notes.txt", "mine") == "mine"
        before = call(client, "parents")
    with worker(nursery, SOURCE) as (client, _):
        assert call(client, "parents") != before
        with pytest.raises(faults.AnswerRaised, match="FileNotFoundError"):
            call(client, "attempt", "open('notes.txt')")
        call(client, "attempt", "assert os.listdir('.') == []")


@pytest.fixture(scope="module")
def weakest():
    with Nursery() as nursery:
        yield nursery


def test_a_daemon_ends_with_the_worker_that_started_it(weakest, tmp_path):
    with worker(weakest, SOURCE) as (client, _):
        call(client, "daemon", str(tmp_path / "pid"))
        pid = int((tmp_path / "pid").read_text())
        assert _alive(pid)
    _wait_for(lambda: not _alive(pid))


def test_a_crowd_of_processes_is_ended(weakest):
    with worker(weakest, SOURCE, call_seconds=20) as (client, _):
        with pytest.raises(faults.WorkerDied, match="started too many other processes"):
            call(client, "crowd")
        assert call(client, "threads") == 8


def test_a_nursery_that_loses_its_parent_leaves_nothing(tmp_path):
    program = (
        "import sys, time\n"
        "from grader.worker.parent import walls\n"
        "from grader.worker.parent.nursery import Nursery\n"
        "from tests.worker.asking import call, worker\n"
        "from tests.worker.test_walls import SOURCE\n"
        "with worker(Nursery(walls.probe_wall(sys.argv[1]).wall), SOURCE) as (client, _):\n"
        "    call(client, 'write', 'notes.txt', 'mine')\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(600)\n"
    )
    for wall in (param.id for param in OUTER):
        folder = tmp_path / wall
        folder.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-c", program, wall], stdout=subprocess.PIPE, cwd=walls.CHILD_FOLDER.parents[2],
            env=os.environ | {"TMPDIR": str(folder)},
        )  # fmt: skip
        process.stdout.readline()
        pids = list_descendant_processes([process.pid]) - {process.pid}
        assert len(pids) >= 2
        process.kill()
        process.wait()
        _wait_for(lambda pids=pids: not any(map(_alive, pids)))
        _wait_for(lambda folder=folder: not list(folder.iterdir()))


def test_what_was_asked_for_is_taken_or_refused_with_a_cure(monkeypatch):
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: None)
    with pytest.raises(walls.NoSuchWall, match="bubblewrap is not installed"):
        walls.choose_wall("contained")
    assert walls.choose_wall("process") is walls.PROCESS
    assert walls.choose_wall("auto").name in ("locked", "process")


@pytest.mark.parametrize(
    "broken, why",
    [
        ({"landlock": False}, "other files can be read"),
        ({"read": ["/"]}, "other files can be read"),
        ({"read": ["/usr/lib"]}, r"torch/__init__.py cannot be read"),
    ],
)
def test_a_probe_sees_a_wall_with_a_hole(broken, why):
    locked = walls.probe_wall("locked")
    if locked.wall is None:
        pytest.skip(reason=locked.why)
    files = locked.wall.files | broken
    assert re.search(why, walls._probe_built_wall(replace(locked.wall, files=files), "").why)


def test_where_user_namespaces_are_refused_locked_still_works(tmp_path):
    """As in a container: no privilege, and bubblewrap inside it is not allowed to work."""
    if os.geteuid() != 0 or walls.probe_wall("contained").wall is None:
        pytest.skip(reason="it takes root and bubblewrap to build such a place")
    python = [os.path.realpath(sys.executable), "-c"]
    program = (
        f"import sys; sys.path[:0] = {[str(walls.CHILD_FOLDER.parents[2]), *sys.path]!r}\n"
        "from grader.worker.parent import walls\n"
        "print([walls.probe_wall(name).wall is not None for name in walls.WALL_NAMES])"
    )
    place = ["bwrap", "--unshare-user", "--unshare-pid", "--disable-userns", "--cap-drop", "ALL",
             "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run",
             "--bind", str(tmp_path), "/mnt", "--setenv", "TMPDIR", "/mnt"]  # fmt: skip
    ran = subprocess.run([*place, *python, program], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "[True, True, False]", ran.stderr


def test_our_own_packages_are_hidden_where_they_lie_among_others(tmp_path):
    for name in ("numpy/core", "grader/suites", "reference"):
        (tmp_path / "lib/site" / name).mkdir(parents=True)
    (tmp_path / "lib/other.py").write_text("")
    site = tmp_path / "lib/site"
    seen = VisiblePaths(
        read=(str(tmp_path / "lib"), "/usr/lib"),
        hidden=(str(site / "grader"), str(site / "reference")),
        devices=(),
    )
    read, list_only = seen.carve_out_hidden()
    assert set(read) == {"/usr/lib", str(tmp_path / "lib/other.py"), str(site / "numpy")}
    assert set(list_only) == {str(tmp_path / "lib"), str(site)}


HEADERS = {
    "x86_64": (0, Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")),
    "aarch64": (1, Path("/usr/include/asm-generic/unistd.h")),
}


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_those_of_the_kernel_headers(machine):
    column, header = HEADERS[machine]
    if not header.exists():
        pytest.skip(reason=f"{header} is not installed")
    lines = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    theirs = {name: int(number) for name, number in lines}
    ours = {name: numbers[column] for name, numbers in seccomp.REFUSED_CALLS.items()}
    assert ours == {name: theirs.get(name) for name in ours}


def test_a_folder_is_removed_however_it_is_built(tmp_path):
    folder = tmp_path / "worker"
    folder.mkdir()
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "keep").write_text("")
    (folder / "link").symlink_to(victim)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(3000):  # deeper than any path may be long
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    (folder / "closed" / "inner").mkdir(parents=True)
    (folder / "closed").chmod(0)
    remove_worker_folder(folder)
    assert not folder.exists()
    assert (victim / "keep").exists()


def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path):
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "keep").write_text("")
    (tmp_path / "worker").symlink_to(tmp_path / "course")
    remove_worker_folder(tmp_path / "worker")
    assert [p.name for p in tmp_path.rglob("*")] == ["course", "keep"]


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
