"""Follows a page of docs, in the folder that it is started in: writes its files, runs its commands.

    python following.py PAGE  ->  JSON: [[command, what the page says, what came, exit status], ...]

The commands of the grader run in copies of this process, which has imported what they need, so that
each starts from the files as they are and none has to import torch again.
"""

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_BLOCK = re.compile(
    r"^`(?P<name>[\w./]+)`\n\n```\w+\n(?P<text>.*?)^```$|^```console\n(?P<console>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_READY = (
    "torch",
    "grader.cli.app",
    "grader.authoring.project_rules",
    "grader.authoring.proof_table",
)


def follow(page: str) -> Iterator[tuple[str, str, str, int]]:
    for block in _BLOCK.finditer(page):
        if block["name"]:
            Path(block["name"]).write_text(block["text"], encoding="utf-8")
            continue
        for step in re.split(r"^\$ ", block["console"], flags=re.MULTILINE)[1:]:
            command, _, says = step.partition("\n")
            yield command, says, *run(command)


def run(command: str) -> tuple[str, int]:
    """What a command prints, both streams together, and its exit status."""
    if not command.startswith("python -m grader "):
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr, done.returncode
    with tempfile.TemporaryFile() as printed:
        if (child := os.fork()) == 0:
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            sys.argv = ["grader", *command.split()[3:]]
            try:
                sys.modules["grader.cli.app"].run_command_line()
            except SystemExit as end:
                sys.stdout.flush()
                os._exit(end.code or 0)
            finally:
                os._exit(70)  # a traceback of ours, which must not be followed by more of the page
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed.seek(0)
        return printed.read().decode(), status


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    for module in _READY:
        importlib.import_module(module)
    run("python -m grader skeletons")  # docs/exercises.md is about what there is
    steps = list(follow(Path(sys.argv[1]).read_text(encoding="utf-8")))
    print(json.dumps(steps))
