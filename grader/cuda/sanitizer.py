"""Runs an answer under NVIDIA's compute-sanitizer in a worker, and reads the findings.

From version 11 on, the tool prints lines like these:

    ========= Invalid __global__ write of size 4 bytes
    =========     at f(float *, int)+0x160 in /tmp/x/answer_0.cu:6
    =========     by thread (0,0,0) in block (0,0,0)
    =========     Access to 0x7f6a2bc00001 is misaligned
    ========= ERROR SUMMARY: 2 errors
    ========= Error: Race reported between Write access at f(float *)+0x500 in answer_0.cu:57
    =========     and Read access at f(float *)+0x340 in answer_0.cu:58 [8844 hazards]
    ========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
    ========= Barrier error detected. Divergent thread(s) in block.
"""

import base64
import os
import re
import subprocess
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

SANITIZER_SECONDS = 15.0
_FINDING_START = re.compile(
    r"^========= (?:Error: |Warning: )?"
    r"(Invalid __|Race reported|Barrier error|Uninitialized __)(.*)$",
    re.MULTILINE,
)
_SUMMARY_LINE = re.compile(r"^========= (?:ERROR|RACECHECK) SUMMARY: (\d+) ", re.MULTILINE)
_LINE_IN_ANSWER = re.compile(r"answer_0\.cu:(\d+)")
_THREAD_AND_BLOCK = re.compile(r"by thread \([\d,]+\) in block \([\d,]+\)")
_FINDING_KINDS = {  # by the first words: the kind, and the sentence
    "Invalid __": ("OutOfBounds", "compute-sanitizer finds an access outside of every array"),
    "Race reported": ("Race", "compute-sanitizer finds a race in shared memory"),
    "Barrier error": (
        "Barrier", "compute-sanitizer finds a barrier that some threads do not reach",
    ),
    "Uninitialized __": (
        "Uninitialized", "compute-sanitizer finds a read of what nothing has written",
    ),
}  # fmt: skip
_MISALIGNED_ADDRESS = (
    "compute-sanitizer finds an address that is not a multiple of what its type needs"
)


class SanitizerNotRun(LookupError):
    """Raised if compute-sanitizer is missing, or cannot run here."""


class Sanitizer:
    """The program of an answer, and the tool under which it runs.

    built  {"sanitizer": its path, "program": the program as text}; empty without compute-sanitizer
    """

    def __init__(self, built: Mapping[str, Any]) -> None:
        self._tool = built.get("sanitizer", "")
        self._program = built.get("program", "")

    def ask(self, tool: str, name: str, arguments: Sequence[float]) -> tuple[str, int, str] | None:
        """Return the first finding on `name(arguments)`: kind, line and words; or None.

        tool       memcheck, racecheck or synccheck
        arguments  for each parameter a number; for an array, its length

        Raises `SanitizerNotRun`.
        """
        if not (self._tool and self._program):
            raise SanitizerNotRun
        command = [self._tool, "--tool", tool, "--report-api-errors", "no", "--print-limit", "1"]
        handle, path = tempfile.mkstemp()
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(zlib.decompress(base64.b64decode(self._program)))
            os.chmod(path, 0o700)
            done = subprocess.run(
                [*command, path, name, *map(str, arguments)], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SANITIZER_SECONDS,
                check=False,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            raise SanitizerNotRun from None
        finally:
            os.unlink(path)
        return parse_cuda_sanitizer_finding(done.stdout.decode("utf-8", "replace"))


def parse_cuda_sanitizer_finding(said: str) -> tuple[str, int, str] | None:
    """Return the first finding in the tool's output; None if there is none.

    Raises `SanitizerNotRun` if the output shows that the tool has not run.
    """
    start = _FINDING_START.search(said)
    if start is None:
        if any(number == "0" for number in _SUMMARY_LINE.findall(said)):
            return None
        raise SanitizerNotRun
    rest = said[start.start() :].split("\n")
    parts = [rest[0]]
    for line in rest[1:]:
        if not re.match(r"=========\s{2,}\S", line) or "backtrace" in line:
            break
        parts.append(line)
    about = "\n".join(parts)
    kind, says = _FINDING_KINDS[start[1]]
    if "is misaligned" in about:
        kind, says = "Misaligned", _MISALIGNED_ADDRESS
    lines = list(dict.fromkeys(int(number) for number in _LINE_IN_ANSWER.findall(about)))
    what = (start[1] + start[2]).partition(" at ")[0]
    more = [what + "".join(f", {{line {number}}}" for number in lines)]
    more += [who[0] for who in [_THREAD_AND_BLOCK.search(about)] if who]
    return kind, lines[0] if lines else 0, "\n".join([says, *more])
