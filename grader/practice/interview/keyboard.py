"""Reads what is typed, line by line, with a limit to the wait."""

import os
import select
import sys
import termios
import time

_MAX_BYTES_READ = 65536


class Keyboard:
    """The lines of the standard input, which may be no terminal, and may be closed."""

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = sys.stdin.fileno() if sys.stdin is not None else -1
        self._descriptor = descriptor
        self._bytes = b""
        self.closed = descriptor < 0

    def line(self, seconds: float) -> str | None:
        """Return the next line without its end; None if no line came within `seconds`.

        Ctrl-D ends a line as Enter does. If the input has ended, sleep for `seconds`.
        """
        if b"\n" not in self._bytes:
            if self.closed:
                time.sleep(seconds)
                return None
            self._read_input(seconds)
        line, end, rest = self._bytes.partition(b"\n")
        if not end:
            return None
        self._bytes = rest
        return line.decode("utf-8", "replace").rstrip("\r")

    def text(self) -> str:
        """Return the lines up to an empty one, or to the end of the input."""
        lines: list[str] = []
        while True:
            line = self.line(1.0)
            if line is None and not self.closed:
                continue
            if not (line or "").strip():
                return "\n".join(lines)
            lines.append(line or "")

    def forget(self) -> None:
        """Drop what was typed on a terminal before a question was asked."""
        if not self.closed and os.isatty(self._descriptor):
            self._bytes = b""
            termios.tcflush(self._descriptor, termios.TCIFLUSH)

    def _read_input(self, seconds: float) -> None:
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return
        try:
            new = os.read(self._descriptor, _MAX_BYTES_READ)
        except OSError:  # the terminal is gone
            new, self.closed = b"", True
        else:
            self.closed = not new and not os.isatty(self._descriptor)
        ends = not new and (self._bytes or not self.closed)
        self._bytes += b"\n" if ends else new
