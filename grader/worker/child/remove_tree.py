"""Removes the folder of a submission, however its tree is built."""

import os
import secrets
from pathlib import Path


def remove_worker_folder(folder: Path) -> None:
    """Remove `folder` with all its content. Links are removed, not followed.

    Folders inside folders are moved up before they are emptied, so that none lies too deep.
    """
    try:
        if folder.is_symlink():  # the submission put a link in the folder's place
            folder.unlink()
            return
        waiting, emptied = [folder], list[Path]()
        while waiting:
            place = waiting.pop()
            emptied.append(place)
            os.chmod(place, 0o700)
            for path in _remove_worker_files(place):
                waiting.append(path if place == folder else _move_worker_folder_up(path, folder))
        for place in reversed(emptied):
            place.rmdir()
    except OSError:  # the rest stays; no other worker reads it
        return


def _remove_worker_files(place: Path) -> list[Path]:
    """Remove the files of a folder and return the folders in it."""
    inner = []
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                inner.append(Path(entry.path))
            else:
                os.unlink(entry.path)
    return inner


def _move_worker_folder_up(path: Path, folder: Path) -> Path:
    os.chmod(path, 0o700)  # a folder that may not be written to cannot be moved
    return path.rename(folder / f".{secrets.token_hex(8)}")
