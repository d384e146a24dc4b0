"""Restricts by Landlock the files that this process can open (landlock(7), Linux 5.13 and later).

Landlock takes three system calls and no privilege. A rule grants a path, with all files below it,
now or later; Landlock refuses all other files, but open files stay open. Newer kernels refuse TCP,
abstract sockets and signals to other processes as well.
"""

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from . import linux

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1

# Rights, as in <linux/landlock.h>: the first thirteen in ABI 1, one more in each of 2, 3 and 5.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_MAKE_SYM, _REFER, _TRUNCATE, _IOCTL_DEV = 1 << 12, 1 << 13, 1 << 14, 1 << 15
_READ_RIGHTS = _READ_FILE | _READ_DIR
# What a rule on a file may name.
_FILE_RIGHTS = _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
_OWN_FOLDER_RIGHTS = (
    _READ_RIGHTS | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM
    | _REFER | _TRUNCATE
)  # fmt: skip


def read_landlock_version() -> int:
    """Return the version of Landlock in this kernel; 0 if it has none."""
    try:
        return linux.make_system_call(
            _CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION_FLAG)
        )
    except (OSError, AttributeError):
        return 0


def restrict_files_by_landlock(
    *, read: Iterable[str], list_only: Iterable[str], write: Iterable[str],
    devices: Iterable[str], execute: Iterable[str] = (),
) -> None:  # fmt: skip
    """Restrict this process to these files and folders, for good.

    Missing paths are skipped. Paths to execute can also be read. Needs "no new privileges" to be
    set.
    """
    version = read_landlock_version()
    handled = _list_landlock_rights(version)
    attributes = struct.pack("=QQQ", handled, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = linux.make_system_call(
        _CREATE_RULESET, ctypes.c_char_p(attributes), ctypes.c_size_t(size), ctypes.c_uint(0)
    )
    for paths, rights in (
        (read, _READ_RIGHTS),
        (list_only, _READ_DIR),
        (write, _OWN_FOLDER_RIGHTS),
        (devices, _READ_RIGHTS | _WRITE_FILE | _IOCTL_DEV),
        (execute, _READ_RIGHTS | _EXECUTE),
    ):
        for path in paths:
            _allow_landlock_path(ruleset, path, rights & handled)
    linux.make_system_call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    os.close(ruleset)


def _list_landlock_rights(version: int) -> int:
    rights = (1 << 13) - 1
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        rights |= right if version >= since else 0
    return rights


def _allow_landlock_path(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    allowed = rights if Path(path).is_dir() else rights & _FILE_RIGHTS
    rule = struct.pack("=Qi", allowed, place)
    linux.make_system_call(
        _ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), ctypes.c_char_p(rule),
        ctypes.c_uint(0),
    )  # fmt: skip
    os.close(place)
