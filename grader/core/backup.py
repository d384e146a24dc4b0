"""Writes a file where an answer may lie already, which is then kept beside it."""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path


def put(path: Path, text: str, aside: Sequence[Path] = ()) -> list[Path]:
    """Write `text` to `path`, after the files `aside` were moved; where each of them went.

    A moved file gets a name that no answer has (`ex03_sdpa.1.py`). If anything fails, all of them
    are where they were.
    """
    moved: list[tuple[Path, Path]] = []
    try:
        for old in aside:
            new = _free(old)
            old.rename(new)
            moved.append((old, new))
        path.write_text(text, encoding="utf-8")
    except OSError:
        for old, new in moved:
            new.replace(old)
        raise
    return [new for _, new in moved]


def _free(path: Path) -> Path:
    """The first name beside `path` that nothing has."""
    names = (f"{path.stem}.{number}{path.suffix}" for number in itertools.count(1))
    return next(new for name in names if not os.path.lexists(new := path.with_name(name)))
