"""Finds the options of pytest-benchmark among the words on the command line of `bench`."""

import argparse
import importlib.util
from collections.abc import Sequence
from typing import Any

from pytest_benchmark.plugin import pytest_addoption

from grader.core.catalog import suggest_close_name
from grader.core.errors import UserError
from grader.core.this_python import build_pip_install_command


class BadOption(UserError):
    """Raised for an option that cannot be used; the message says why, and how to fix it."""


class _Options(argparse.ArgumentParser):
    """Takes pytest-benchmark's options as pytest would."""

    def __init__(self) -> None:
        super().__init__(prog="bench", add_help=False, allow_abbrev=False)

    def getgroup(self, *_: Any) -> "_Options":
        return self

    def addoption(self, *names: str, **settings: Any) -> None:
        self.add_argument(*names, **settings)

    def error(self, message: str) -> Any:
        raise BadOption(f"{message[:1].upper()}{message[1:].rstrip(chr(46))}.")


def split_benchmark_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that are no options, and pytest-benchmark's options with their values."""
    parser = _Options()
    pytest_addoption(parser)  # type: ignore[no-untyped-call]
    try:
        known, names = parser.parse_known_args(words)
    except argparse.ArgumentTypeError as problem:
        raise BadOption(f"{problem}.") from None
    for name in names:
        if name.startswith("-"):
            every = [option for action in parser._actions for option in action.option_strings]
            close = suggest_close_name(name.partition("=")[0], every)
            raise BadOption(f"{name} is no option of bench, and none of pytest-benchmark's.{close}")
    if known.benchmark_histogram and importlib.util.find_spec("pygal") is None:
        cure = build_pip_install_command("pygal", "pygaljs")
        raise BadOption(f"--benchmark-histogram draws with pygal: {cure}")
    rest = list(names)
    options = []
    for word in words:
        if rest and word == rest[0]:
            rest.pop(0)
        else:
            options.append(word)
    return names, options
