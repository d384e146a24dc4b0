"""Writes a file, and keeps an answer that was there under another name."""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path


def write_with_backup(path: Path, text: str, aside: Sequence[Path] = ()) -> list[Path]:
    """Write `text` to `path` after moving the files `aside`; return where each went.

    A moved file gets a name that no answer has (`ex03_sdpa.1.py`). If anything fails, all files are
    moved back.
    """
    moved: list[tuple[Path, Path]] = []
    try:
        for old in aside:
            new = _find_free_backup_path(old)
            old.rename(new)
            moved.append((old, new))
        path.write_text(text, encoding="utf-8", newline="")
    except OSError:
        for old, new in moved:
            new.replace(old)
        raise
    return [new for _, new in moved]


def move_aside(path: Path) -> Path:
    """Move a file to the first free numbered name beside it; return that name."""
    new = _find_free_backup_path(path)
    path.rename(new)
    return new


def write_beside(path: Path, text: str) -> Path:
    """Write `text` to the first free numbered name beside `path`; return that name."""
    new = _find_free_backup_path(path)
    new.write_text(text, encoding="utf-8", newline="")
    return new


def _find_free_backup_path(path: Path) -> Path:
    """Return the first numbered name beside `path` that no file has."""
    names = (f"{path.stem}.{number}{path.suffix}" for number in itertools.count(1))
    return next(new for name in names if not os.path.lexists(new := path.with_name(name)))
