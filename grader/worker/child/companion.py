"""A program beside a worker: what runs of an answer that is not written in Python.

It is started before the worker is locked, and locks itself before the answer runs. It ends with the
worker, or when the other end of its socket is closed.
"""

import os
import socket
import subprocess

NAME = "GRADER_COMPANION"  # of the variable that tells a worker the descriptor of its socket


def start(program: int | bytes) -> socket.socket:
    """Run a program, given as an open file or as its content; the socket through which it talks."""
    file = program if isinstance(program, int) else opened(program)
    ours, theirs = socket.socketpair()
    try:
        child = subprocess.Popen(
            ["answer", str(theirs.fileno())], executable=f"/proc/self/fd/{file}", env={},
            stdin=subprocess.DEVNULL, pass_fds=[file, theirs.fileno()],
        )  # fmt: skip
    finally:
        theirs.close()
        os.close(file)
    child.returncode = 0  # whoever is left without it waits for it, and nobody else
    return ours


def opened(content: bytes) -> int:
    """A file without a name that has this content."""
    file = os.memfd_create("answer", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(file), "wb") as writer:
        writer.write(content)
    return file
