"""Starts a program beside a worker: an answer that is not written in Python.

The program starts before the worker is locked, and locks itself before the answer runs. The program
ends with the worker, or when the other end of its socket is closed.
"""

import os
import socket
import subprocess

SOCKET_VARIABLE = "GRADER_COMPANION"  # tells a worker the descriptor of its socket


def start_companion_of_worker(program: int | bytes) -> socket.socket:
    """Start a program, an open file or its content, and return the socket to the program."""
    file = program if isinstance(program, int) else open_worker_memory_file(program)
    ours, theirs = socket.socketpair()
    try:
        child = subprocess.Popen(
            ["answer", str(theirs.fileno())], executable=f"/proc/self/fd/{file}", env={},
            stdin=subprocess.DEVNULL, pass_fds=[file, theirs.fileno()],
        )  # fmt: skip
    finally:
        theirs.close()
        os.close(file)
    child.returncode = 0  # Popen must not wait for the child: whoever inherits it does
    return ours


def open_worker_memory_file(content: bytes) -> int:
    """Return a descriptor of a file in memory with this content."""
    file = os.memfd_create("answer", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(file), "wb") as writer:
        writer.write(content)
    return file
