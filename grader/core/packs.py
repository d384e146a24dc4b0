"""Packs: folders of exercises beside ours, kept wherever their owner likes.

A pack is laid out as our own tree is, for the exercises that it brings:

    suites/<slug>/     the manifest, the checks, the mistakes and all that lies in grader/suites
    solutions/         <slug>.py
    reference/         <slug>.py, the oracle; imported as reference.<slug>
    exercises/ docs/   what `make skeletons` writes

The environment names them, so that every process of a run knows the same.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from grader.core.errors import UserError

VARIABLE = "GRADER_EXERCISES"


class BadPack(UserError):
    """A folder that is no pack; the message is a sentence with the cure."""


def packs() -> tuple[Path, ...]:
    """The folders of the packs that are in use. Raises `BadPack`."""
    named = os.environ.get(VARIABLE, "").split(os.pathsep)
    return tuple(dict.fromkeys(_checked(Path(name)) for name in named if name))


def use(paths: Iterable[Path]) -> None:
    """Have this process, and those that it starts, know these packs beside those in use."""
    folders = [_checked(path) for path in paths]
    known = dict.fromkeys(map(str, (*packs(), *folders)))
    os.environ[VARIABLE] = os.pathsep.join(known)


def _checked(path: Path) -> Path:
    cure = "Name the folder above its suites/."
    try:
        folder = path.resolve()
        if not folder.is_dir():
            raise BadPack(f"{path} is no folder of exercises. {cure}")
        if not any(folder.glob("suites/*/exercise.toml")):
            raise BadPack(f"There is no suites/<slug>/exercise.toml in {path}. {cure}")
    except OSError as error:
        raise BadPack(f"{path} cannot be read: {error.strerror}. {cure}") from None
    if os.pathsep in str(folder):
        raise BadPack(f"{folder} has a {os.pathsep!r} in its name. Give it another name.")
    return folder
