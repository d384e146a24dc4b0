"""Runs in the reader's process: waits for questions, and forks for each one.

It holds nothing but the standard library and these modules. A fork gets one socket, reads the
question and the text from it, and writes the answer to it.
"""

import gc
import json
import os
import pickle
import resource
import signal
import socket
from contextlib import suppress

from grader.core import allowed_tables
from grader.submission import readers, reading_limits


def serve_submission_reader(number: int) -> None:
    """Answer questions until the other side closes the socket."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel takes away what has ended
    asked = socket.socket(fileno=number)
    allowed_tables.load_allowed_module_tables()  # read once, for all forks
    gc.freeze()
    while True:
        word, sockets, _, _ = socket.recv_fds(asked, 1, 1)
        if not word:
            return
        if os.fork() == 0:
            asked.close()
            _answer_reader_question(socket.socket(fileno=sockets[0]))
            os._exit(0)
        os.close(sockets[0])


def _answer_reader_question(to: socket.socket) -> None:
    """Answer one question. A fork that exceeds its limits ends without an answer."""
    for what, limit in (
        (
            resource.RLIMIT_CPU,
            (reading_limits.READER_CPU_SECONDS, reading_limits.READER_CPU_SECONDS + 1),
        ),
        (resource.RLIMIT_AS, (reading_limits.READER_MEMORY_MIB * 2**20,) * 2),
        (resource.RLIMIT_CORE, (0, 0)),
    ):
        with suppress(ValueError, OSError):  # macOS refuses some of them
            resource.setrlimit(what, limit)
    with to.makefile("rb") as file:
        size = int.from_bytes(file.read(8), "big")
        question, given = pickle.loads(file.read(size))  # of the grader's, not of the student's
        content = file.read()
    try:
        answer = {"found": readers.READERS[question](content, **given)}
    except (MemoryError, RecursionError):
        return
    except Exception as error:  # a hole of ours: told to the grader, whose fault it is
        answer = {"fault": f"{type(error).__name__}: {error}"[:500]}
    to.sendall(json.dumps(answer).encode() + reading_limits.REPLY_END)
