"""Adapts the commands in a sentence to the folder in which the reader will type them.

Sentences give commands as goals of the Makefile. Where there is no Makefile of ours or no `make`,
and where a learner called the installed command itself, `make hint EX=ex01` becomes
`attention-by-hand hint ex01`, and `SEED=4711` becomes `--seed 4711`. Where the answers lie
elsewhere than usual, commands on an exercise name that place.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from grader.core.installed_copies import is_wheel_installed
from grader.core.this_python import find_own_command

RECORD_FILE = ".attention-by-hand.json"  # in a learner's folder: what `init` wrote there
_GOALS = {"skeletons": "update"} | {
    goal: goal
    for goal in (
        "grade", "bench", "watch", "learn", "hint", "debug", "progress", "show", "drill",
        "interview", "reset", "doctor", "collect", "class", "return", "similar",
    )
}  # fmt: skip
_OPTIONS = {  # variables of the Makefile, and what stands before their value on a command line
    "EX": "", "ARGS": "", "FRESH": "--fresh", "SUBMISSION": "--submission", "DEVICE": "--device",
    "SEED": "--seed", "ISOLATION": "--isolation", "MINUTES": "--minutes", "JOBS": "--jobs",
    "EXERCISES": "--exercises", "COURSE": "--course",
}  # fmt: skip
_CALLED_BY_MAKE = "MAKELEVEL"  # a variable that make gives what it runs
_VALUE = r"""(?:'[^']*'|"[^"]*"|(?:[\w/~.{}-]*[\w/~{}-])?)"""
_COMMAND = re.compile(rf"\bmake ({'|'.join(map(re.escape, _GOALS))})(?![\w-])")
_VARIABLE = re.compile(rf"(?<![\w-])({'|'.join(_OPTIONS)})=({_VALUE})")
_ON_ANSWERS = re.compile(
    rf"\bmake (?:grade|hint|debug|show|reset|watch|drill|progress)(?: [A-Z]+={_VALUE})* EX={_VALUE}"
    rf"(?: [A-Z]+={_VALUE})*"
)
_PLACE = ContextVar("place", default="")  # of the answers; "" where commands look by themselves
_IN_CODE = re.compile(r"`[^`]*`")


@contextmanager
def name_place_in_advice(place: Path, usual: Path) -> Iterator[None]:
    """Let the commands in sentences name the place of the answers, unless it is the usual one."""
    quoted = shlex.quote(str(place))
    known = place == usual or "{" in quoted or "}" in quoted  # which a sentence takes for a name
    before = _PLACE.set("" if known else quoted)
    try:
        yield
    finally:
        _PLACE.reset(before)


def fit_advice(sentence: str) -> str:
    """Return one of our sentences with its commands as they are typed in this folder."""
    if "=" not in sentence and "make " not in sentence:
        return sentence
    if _PLACE.get():
        sentence = _ON_ANSWERS.sub(_add_place_to_command, sentence)
    return sentence if _is_make_at_hand(Path.cwd()) else _replace_commands(sentence)


def fit_quoted_advice(text: str) -> str:
    """Do as `fit_advice`, between backquotes only: the rest may be of a student."""
    return _IN_CODE.sub(lambda found: fit_advice(found[0]), text)


def _is_make_at_hand(folder: Path) -> bool:
    """Return whether the person who reads a sentence works with `make`."""
    if is_wheel_installed() and _CALLED_BY_MAKE not in os.environ:
        return False
    return _is_make_installed() and _has_our_makefile(folder)


@cache
def _is_make_installed() -> bool:
    return shutil.which("make") is not None


@cache
def _has_our_makefile(folder: Path) -> bool:
    """Return whether the Makefile of this folder has the goals that sentences name."""
    try:
        return "\nhint:" in (folder / "Makefile").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _add_place_to_command(found: re.Match[str]) -> str:
    return found[0] if "SUBMISSION=" in found[0] else f"{found[0]} SUBMISSION={_PLACE.get()}"


def _replace_commands(sentence: str) -> str:
    own = find_own_command()
    plain = _COMMAND.sub(lambda found: f"{own} {_GOALS[found[1]]}", sentence)
    return _VARIABLE.sub(_build_advised_option, plain)


def _build_advised_option(found: re.Match[str]) -> str:
    option, value = _OPTIONS[found[1]], found[2]
    if found[1] == "ARGS":
        return value.strip("'\"")
    return option if found[1] == "FRESH" else f"{option} {value}".strip()
