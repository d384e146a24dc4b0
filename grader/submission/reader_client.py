"""Sends students' texts to the reader, a separate process, and receives what the reader finds.

Starting the reader costs some 100 ms, once; a fork of it answers each question, with limits on
time, memory and the length of the answer. The answer is JSON, and this side checks only the parts
that it uses: the text may be hostile, but the code that reads the text is ours.
"""

import atexit
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

from grader.submission import reading_limits
from grader.worker.parent.faults import NurseryFailed
from grader.worker.parent.harmless_text import clean_worker_text

ROOT = Path(__file__).resolve().parent.parent.parent
MAX_WAIT_SECONDS = (
    120.0  # seconds of the clock for one text: the reader's own limit counts its processor's
)
_SERVER_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from grader.submission import reader_server; reader_server.serve_submission_reader(int(sys.argv[2]))"  # noqa: E501


_SENTENCES = {"bad", "unreadable", "refused"}


class UnreadableContent(Exception):
    """A text that cannot be read within the limits; the message is the student's sentence."""


LIMITS_EXCEEDED = (
    f"The file cannot be read within {reading_limits.READER_CPU_SECONDS} seconds and "
    f"{reading_limits.READER_MEMORY_MIB} MiB: "
    "write it shorter, with less in one line or one pair of brackets."
)


def ask_submission_reader(question: str, content: bytes | str, **given: Any) -> Any:
    """Return what a reader finds in `content`.

    question  a key of `readers.READERS`
    given     further arguments for the function at that key

    Raises `UnreadableContent` if the reader exceeds its limits, and `NurseryFailed` if no reader
    answers.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogatepass")  # JSON may have half a letter
    with _connect_to_reader_fork() as reader:
        reader.settimeout(MAX_WAIT_SECONDS)
        try:
            head = pickle.dumps((question, given))
            reader.sendall(len(head).to_bytes(8, "big") + head + content)
            reader.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has ended before it had read everything: there is no answer either
        answer = _receive_reader_reply(reader)
    if not answer:
        raise UnreadableContent(LIMITS_EXCEEDED)
    found = json.loads(answer)
    if "fault" in found:
        raise NurseryFailed(f"the reader stopped: {found['fault']}")
    return _clean_reader_sentences(found["found"])


def _clean_reader_sentences(found: Any) -> Any:
    """Return a reply whose sentences, which quote the text that was read, are harmless to print."""
    if not isinstance(found, dict):
        return found
    told: dict[str, Any] = {k: clean_worker_text(found[k]) for k in _SENTENCES & found.keys()}
    problems = found.get("problems")
    if isinstance(problems, dict):
        told["problems"] = {name: clean_worker_text(why) for name, why in problems.items()}
    return found | told


def _receive_reader_reply(reader: socket.socket) -> bytes:
    """Return the whole reply; empty if it ends early or is too long."""
    parts, size = [], 0
    try:
        while part := reader.recv(1 << 16):
            parts.append(part)
            size += len(part)
            if size > reading_limits.MAX_REPLY_BYTES:
                return b""
    except OSError:
        return b""
    answer = b"".join(parts)
    return answer[:-1] if answer.endswith(reading_limits.REPLY_END) else b""


def _connect_to_reader_fork() -> socket.socket:
    """Return a socket to a fork of the reader; a reader that has ended is started again."""
    for _ in range(2):
        server = _open_reader_socket(os.getpid())
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                with _LOCK:
                    socket.send_fds(server, [b"?"], [theirs.fileno()])
            except OSError:
                ours.close()
                _open_reader_socket.cache_clear()
                continue
        return ours
    raise NurseryFailed("the reader of submissions cannot be started")


_LOCK = threading.Lock()


@cache
def _open_reader_socket(process: int) -> socket.socket:
    """Return the socket of this process's reader; a fork of this process has one of its own."""
    ours, theirs = socket.socketpair()
    with theirs:
        started = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _SERVER_CODE, str(ROOT), str(theirs.fileno())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={}, cwd="/", pass_fds=[theirs.fileno()], start_new_session=True,
        )  # fmt: skip

    def end() -> None:
        ours.close()
        if process == os.getpid():
            started.kill()  # it holds nothing
            started.wait()

    atexit.register(end)
    return ours
