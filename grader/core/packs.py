"""Packs: folders of exercises beside ours, kept wherever their owner likes.

A pack is laid out as our own tree is, for the exercises that it brings:

    suites/<slug>/     the manifest, the checks, the mistakes and all that lies in grader/suites
    solutions/         <slug>.py
    reference/         <slug>.py, the oracle; imported as reference.<slug>
    exercises/ docs/   what `make skeletons` writes

An environment variable lists the packs, so that every process of a run knows the same ones.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from grader.core.errors import UserError

PACKS_VARIABLE = "GRADER_EXERCISES"


class BadPack(UserError):
    """A folder that is no pack; the message says why, and how to fix it."""


def list_packs_in_use() -> tuple[Path, ...]:
    """Return the folders of the packs that are in use. Raises `BadPack`."""
    named = os.environ.get(PACKS_VARIABLE, "").split(os.pathsep)
    return tuple(dict.fromkeys(_resolve_pack_folder(Path(name)) for name in named if name))


def add_packs_to_environment(paths: Iterable[Path]) -> None:
    """Add packs to those in use, for this process and those that it starts."""
    folders = [_resolve_pack_folder(path) for path in paths]
    known = dict.fromkeys(map(str, (*list_packs_in_use(), *folders)))
    os.environ[PACKS_VARIABLE] = os.pathsep.join(known)


def _resolve_pack_folder(path: Path) -> Path:
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
