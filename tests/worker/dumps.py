"""A grader that holds secrets, and a submission that dumps all it can see: what of them is in it.

Run as a process of its own: python -m tests.worker.dumps WALL PLACE; prints one JSON object.
"""

import json
import os
import secrets
import sys
from pathlib import Path

import numpy as np

from grader.worker.parent import walls
from grader.worker.parent.nursery import Nursery
from tests.worker.asking import call, worker

LOOK = r'''
import ctypes, gc, os, sys
import numpy as np

mark = "-".join(["in", "plain", "sight"])

def as_array(parts):
    return np.frombuffer(b"\n".join(parts)[: 250 << 20] or b"\n", np.uint8)

def read(path, size=1 << 22):
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            return file.read(size) or b""
    except (OSError, ValueError) as error:
        return type(error).__name__.encode()

def environment():
    texts = [f"{k}={v}" for k, v in os.environ.items()] + sys.argv + sys.path + list(sys.modules)
    return as_array([read("/proc/self/environ"), read("/proc/self/cmdline"), "\n".join(texts).encode()])

def descriptors():
    found = []
    for fd in range(4096):
        try:
            found.append([fd, os.readlink(f"/proc/self/fd/{fd}")])
        except OSError:
            continue
    return found

def mapped():
    return sorted({line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if len(line.split(None, 5)) > 5})

def memory():
    parts = []
    for line in open("/proc/self/maps"):
        fields = line.split(None, 5)
        name = fields[5].strip() if len(fields) > 5 else ""
        if fields[1].startswith("rw") and not name.startswith(("/", "[v")):
            start, end = (int(x, 16) for x in fields[0].split("-"))
            if end - start < 128 << 20:
                parts.append(ctypes.string_at(start, end - start))
    return as_array(parts)

def above():
    """What the processes above this one show of themselves."""
    parts, pid = [], os.getppid()
    for _ in range(6):
        for name in ("environ", "cmdline", "maps", "mem", "auxv", "stack", "io"):
            parts.append(read(f"/proc/{pid}/{name}"))
        for link in ("cwd", "root", "exe"):
            try:
                parts.append(os.readlink(f"/proc/{pid}/{link}").encode())
            except OSError:
                continue
        try:
            parts += [os.readlink(f"/proc/{pid}/fd/{fd}").encode() for fd in os.listdir(f"/proc/{pid}/fd")]
            parts += [read(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            pass
        status = read(f"/proc/{pid}/status").decode("utf-8", "replace")
        lines = [line.split()[1] for line in status.splitlines() if line.startswith("PPid")]
        if not lines or lines[0] == "0":
            break
        pid = int(lines[0])
    return as_array(parts)

def files(starts):
    """Every file that can be opened, from these places on."""
    waiting, opened, seen = list(starts), [], set()
    while waiting and len(opened) < 400_000:
        place = waiting.pop()
        if os.path.realpath(place) in seen:
            continue
        seen.add(os.path.realpath(place))
        try:
            entries = list(os.scandir(place))
        except OSError:
            entries = []
            if read(place, 1) not in (b"PermissionError", b"FileNotFoundError", b"OSError", b"IsADirectoryError") and not os.path.isdir(place):
                opened.append(place)
        for entry in entries:
            if entry.is_dir():
                waiting.append(entry.path)
            elif entry.is_file():
                try:
                    os.close(os.open(entry.path, os.O_RDONLY | os.O_NONBLOCK))
                    opened.append(entry.path)
                except OSError:
                    continue
    return as_array([path.encode("utf-8", "replace") for path in opened])
'''


def main(name: str, place: str) -> None:
    """What a worker behind the wall sees of what is secret here."""
    walls.hide_grader_from_workers()  # as a grading run does
    seed = secrets.token_hex(16)
    expected = np.random.default_rng(7).standard_normal(64)
    needles = {
        "seed": seed.encode(),
        "environment": os.environ["ABH_SECRET"].encode(),
        "expected values": expected.tobytes()[8:40],
        "other submission": (Path(place) / "other.py").read_bytes(),
    }
    wall = walls.choose_wall(name)
    with Nursery(wall) as nursery, worker(nursery, LOOK, call_seconds=60) as (client, _):
        dumps = {dump: call(client, dump).tobytes() for dump in ("environment", "memory", "above")}
        guesses = [
            "/",
            "/proc",
            "/tmp",
            "/home",
            "/etc",
            "/dev/shm",
            place,
            str(walls.CHILD_FOLDER.parents[2]),
        ]
        known = (
            wall.files["read"] if wall.files else []
        )  # without the lock it is every file there is
        reach = call(client, "files", [*guesses, *known]).tobytes() if known else b""
        found = {
            "wall": wall.name,
            "seen": {d: [n for n, needle in needles.items() if needle in data] for d, data in dumps.items()},
            "sizes": {d: len(data) for d, data in dumps.items()},
            "mark": b"in-plain-sight" in dumps["memory"],
            "descriptors": call(client, "descriptors"),
            "mapped": call(client, "mapped"),
            "files": reach.decode().splitlines(),
            "read": known,
        }  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
